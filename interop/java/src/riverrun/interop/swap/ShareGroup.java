package riverrun.interop.swap;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import riverrun.interop.Check;
import riverrun.interop.Cluster;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A share group, which only Apache Kafka knows: what it has read stays read, although servers in
 * between do not serve such groups.
 */
final class ShareGroup implements Part {
    private static final String TOPIC = "swap-shared";
    private static final String GROUP = "swap-share";
    private static final Optional<GroupType> SHARE = Optional.of(GroupType.SHARE);
    private static final int RECORDS = 20;

    private final Cluster cluster;
    private int written;

    ShareGroup(Cluster cluster) {
        this.cluster = cluster;
    }

    @Override
    public void write(int turn) throws Exception {
        if (turn == 0) {
            cluster.createTopic(TOPIC, 1);
            var group = new ConfigResource(ConfigResource.Type.GROUP, GROUP);
            var earliest =
                    new AlterConfigOp(
                            new ConfigEntry("share.auto.offset.reset", "earliest"),
                            AlterConfigOp.OpType.SET);
            try (Admin admin = cluster.admin()) {
                admin.incrementalAlterConfigs(Map.of(group, List.of(earliest))).all().get();
            }
        }
        try (var producer = Clients.patientProducer(cluster)) {
            for (int i = 0; i < RECORDS; i++, written++) {
                byte[] value = ("" + written).getBytes(UTF_8);
                producer.send(new ProducerRecord<>(TOPIC, 0, null, value));
            }
        }
        if (isServedByKafka(turn)) {
            read(turn);
        }
    }

    /** Kafka has the even turns. */
    private static boolean isServedByKafka(int turn) {
        return turn % 2 == 0;
    }

    /** Takes what has come since the group last read, and nothing that it has read before. */
    private void read(int turn) throws Exception {
        int first = turn == 0 ? 0 : written - 2 * RECORDS;
        int[] next = {first};
        try (var consumer =
                new KafkaShareConsumer<>(
                        cluster.settings("group.id", GROUP),
                        new ByteArrayDeserializer(),
                        new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(TOPIC));
            Check.eventually(
                    () -> {
                        for (var record : consumer.poll(Duration.ofMillis(100))) {
                            int number = Integer.parseInt(new String(record.value(), UTF_8));
                            Check.equal(next[0], number, "the next record of " + GROUP);
                            next[0]++;
                        }
                        consumer.commitSync();
                        return next[0] == written;
                    },
                    GROUP + " reads what it has not read");
        }
    }

    private static boolean isListed(Admin admin) throws Exception {
        return admin.listGroups().all().get().stream()
                .anyMatch(group -> group.groupId().equals(GROUP) && group.type().equals(SHARE));
    }

    @Override
    public void check(int turn) throws Exception {
        try (Admin admin = cluster.admin()) {
            // A coordinator that loads lists what it has loaded.
            Check.eventually(() -> isListed(admin), GROUP + " is listed");
        }
    }
}
