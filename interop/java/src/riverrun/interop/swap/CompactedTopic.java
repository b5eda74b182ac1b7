package riverrun.interop.swap;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

import riverrun.interop.Check;
import riverrun.interop.Cluster;

import java.util.HashMap;
import java.util.Map;

/** A compacted topic: the last value of each key stays, and what was deleted stays away. */
final class CompactedTopic implements Part {
    private static final String TOPIC = "swap-compacted";
    private static final int KEYS = 20;

    private final Cluster cluster;
    private final Map<String, String> latest = new HashMap<>();

    CompactedTopic(Cluster cluster) {
        this.cluster = cluster;
    }

    @Override
    public void write(int turn) throws Exception {
        if (turn == 0) {
            cluster.createTopic(
                    TOPIC,
                    1,
                    "cleanup.policy",
                    "compact",
                    "min.cleanable.dirty.ratio",
                    "0.01",
                    "segment.ms",
                    "500",
                    "delete.retention.ms",
                    "100");
        }
        try (var producer = Clients.patientProducer(cluster)) {
            for (int round = 0; round < 5; round++) {
                for (int key = 0; key < KEYS; key++) {
                    // One key in seven is deleted in the last round of a turn.
                    boolean isDeleted = round == 4 && (key + turn) % 7 == 0;
                    String value = isDeleted ? null : "turn " + turn + ", round " + round;
                    byte[] bytes = value == null ? null : value.getBytes(UTF_8);
                    byte[] name = ("key-" + key).getBytes(UTF_8);
                    producer.send(new ProducerRecord<>(TOPIC, 0, name, bytes)).get();
                    latest.put("key-" + key, value);
                }
            }
        }
    }

    @Override
    public void check(int turn) throws Exception {
        Map<String, String> found = new HashMap<>();
        long last = -1;
        for (var record : Clients.readAll(cluster, new TopicPartition(TOPIC, 0), "read_committed")) {
            Check.that(record.offset() > last, "offsets ascend");
            last = record.offset();
            String value = record.value() == null ? null : new String(record.value(), UTF_8);
            found.put(new String(record.key(), UTF_8), value);
        }
        latest.forEach((key, value) -> Check.equal(value, found.get(key), "the last of " + key));
        Check.that(latest.keySet().containsAll(found.keySet()), "other keys: " + found.keySet());
    }
}
