package riverrun.interop.java;

import static riverrun.interop.java.Produce.text;

import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;

/** Share groups: records handed out one by one and acknowledged. */
final class ShareGroups {
    private ShareGroups() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("share-group-shares", ShareGroups::shares),
                Scenario.of("share-group-acknowledges", ShareGroups::acknowledges));
    }

    private static KafkaShareConsumer<byte[], byte[]> consumer(
            Cluster cluster, String group, Object... more) {
        Properties settings = cluster.settings(more);
        settings.put("group.id", group);
        return new KafkaShareConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void startAtEarliest(Cluster cluster, String group) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        var op =
                new AlterConfigOp(
                        new ConfigEntry("share.auto.offset.reset", "earliest"),
                        AlterConfigOp.OpType.SET);
        try (var admin = cluster.admin()) {
            admin.incrementalAlterConfigs(Map.of(resource, List.of(op))).all().get();
        }
    }

    /** Two consumers get every record once between them. */
    private static void shares(Cluster cluster) throws Exception {
        cluster.createTopic("shared", 2);
        startAtEarliest(cluster, "shares");
        try (var producer = cluster.producer();
                var first = consumer(cluster, "shares");
                var second = consumer(cluster, "shares")) {
            Produce.send(producer, "shared", 0, 100);
            Produce.send(producer, "shared", 1, 100);
            first.subscribe(List.of("shared"));
            second.subscribe(List.of("shared"));
            List<String> seen = new ArrayList<>();
            Check.eventually(
                    () -> {
                        for (var consumer : List.of(first, second)) {
                            consumer.poll(Duration.ofMillis(100))
                                    .forEach(r -> seen.add(r.partition() + "-" + r.offset()));
                            consumer.commitSync();
                        }
                        return seen.size() >= 200;
                    },
                    "200 records");
            Check.equal(200, new HashSet<>(seen).size(), "different records");
            Check.equal(200, seen.size(), "records");
        }
    }

    /** A released record comes again, a rejected one does not. */
    private static void acknowledges(Cluster cluster) throws Exception {
        cluster.createTopic("acknowledged", 1);
        startAtEarliest(cluster, "acknowledges");
        try (var producer = cluster.producer();
                var consumer =
                        consumer(
                                cluster,
                                "acknowledges",
                                "share.acknowledgement.mode",
                                "explicit")) {
            Produce.send(producer, "acknowledged", 0, 3);
            consumer.subscribe(List.of("acknowledged"));
            List<ConsumerRecord<byte[], byte[]>> records = poll(consumer, 3);
            consumer.acknowledge(records.get(0), AcknowledgeType.ACCEPT);
            consumer.acknowledge(records.get(1), AcknowledgeType.RELEASE);
            consumer.acknowledge(records.get(2), AcknowledgeType.REJECT);
            Check.that(
                    consumer.commitSync().values().stream().allMatch(error -> error.isEmpty()),
                    "acknowledged");
            var again = poll(consumer, 1);
            Check.equal(Set.of("1"), Set.of(text(again.get(0).value())), "released record");
            Check.equal((short) 2, again.get(0).deliveryCount().get(), "delivery count");
            consumer.acknowledge(again.get(0), AcknowledgeType.ACCEPT);
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> poll(
            KafkaShareConsumer<byte[], byte[]> consumer, int count) throws Exception {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        Check.eventually(
                () -> {
                    consumer.poll(Duration.ofMillis(100)).forEach(records::add);
                    return records.size() >= count;
                },
                count + " records");
        return records;
    }
}
