package riverrun.interop.java;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;

/** Compacted topics: the latest record of each key stays, at its offset. */
final class Compaction {
    private static final String[] COMPACTED = {
        "cleanup.policy", "compact",
        "segment.bytes", "1048576",
        "min.cleanable.dirty.ratio", "0.01",
        "delete.retention.ms", "0",
    };
    private static final int KEYS = 50;
    private static final int ROUNDS = 40;
    private static final byte[] PADDING = new byte[4_000];

    private Compaction() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("compaction", cluster -> compact(cluster, "none")),
                Scenario.of("compaction-zstd", cluster -> compact(cluster, "zstd")),
                Scenario.of("compaction-without-key", Compaction::withoutKey));
    }

    private static void compact(Cluster cluster, String codec) throws Exception {
        String topic = "compacted-" + codec;
        hurry(cluster);
        cluster.createTopic(topic, 1, COMPACTED);
        Map<String, Long> latest = new TreeMap<>();
        try (KafkaProducer<byte[], byte[]> producer =
                cluster.producer("compression.type", codec, "linger.ms", 5)) {
            for (int round = 0; round < ROUNDS; round++) {
                for (int key = 0; key < KEYS; key++) {
                    byte[] value = PADDING.clone();
                    new java.util.Random(round * 1000L + key).nextBytes(value);
                    // Some keys end with a tombstone.
                    boolean isDeleted = round == ROUNDS - 2 && key % 10 == 0;
                    if (round == ROUNDS - 1 && key % 10 == 0) {
                        continue;
                    }
                    String name = "key-" + key;
                    producer.send(
                            new ProducerRecord<>(topic, name.getBytes(), isDeleted ? null : value),
                            (sent, failure) -> {
                                if (failure == null) {
                                    latest.put(name, isDeleted ? -1 : sent.offset());
                                }
                            });
                }
            }
            producer.flush();
            Check.equal(KEYS, latest.size(), "keys");
            // What has been written last leaves the active segment.
            for (int filler = 0; filler < 600; filler++) {
                byte[] value = PADDING.clone();
                new java.util.Random(filler).nextBytes(value);
                producer.send(new ProducerRecord<>(topic, "filler".getBytes(), value));
            }
        }
        latest.values().removeIf(offset -> offset < 0);
        Check.eventually(
                () -> table(cluster, topic).equals(latest), "only the latest records are left");
    }

    /** The offset of the one record of each key; nothing while a key has several. */
    private static Map<String, Long> table(Cluster cluster, String topic) {
        Map<String, Long> table = new TreeMap<>();
        TopicPartition partition = new TopicPartition(topic, 0);
        boolean isUnique = true;
        try (KafkaConsumer<byte[], byte[]> consumer = cluster.consumer()) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record :
                        consumer.poll(Duration.ofMillis(200))) {
                    String key = new String(record.key());
                    if (!key.equals("filler")) {
                        if (record.value() != null) {
                            isUnique &= table.put(key, record.offset()) == null;
                        }
                    }
                }
            }
        }
        return isUnique ? table : new HashMap<>();
    }

    private static void withoutKey(Cluster cluster) throws Exception {
        cluster.createTopic("compacted-keyless", 1, COMPACTED);
        try (KafkaProducer<byte[], byte[]> producer = cluster.producer()) {
            producer.send(new ProducerRecord<>("compacted-keyless", "x".getBytes())).get();
            Check.that(false, "a record without a key is refused");
        } catch (ExecutionException refused) {
            Check.that(
                    refused.getCause() instanceof InvalidRecordException,
                    "an invalid record, not " + refused.getCause());
        }
    }

    /** Lets the cleaner look often. */
    private static void hurry(Cluster cluster) throws Exception {
        ConfigResource all = new ConfigResource(ConfigResource.Type.BROKER, "");
        AlterConfigOp often =
                new AlterConfigOp(
                        new ConfigEntry("log.cleaner.backoff.ms", "100"),
                        AlterConfigOp.OpType.SET);
        try (Admin admin = cluster.admin()) {
            admin.incrementalAlterConfigs(Map.of(all, List.of(often))).all().get();
        }
    }
}
