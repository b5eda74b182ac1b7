package riverrun.interop.swap;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

import riverrun.interop.Check;
import riverrun.interop.Cluster;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;

/**
 * An idempotent producer that never stops, whatever becomes of the server: each number is in the
 * log exactly once, in order, and where its acknowledgement said.
 */
final class EndlessRecords implements Part {
    static final String TOPIC = "swap-endless";
    static final int PARTITIONS = 3;
    private static final int UNACKNOWLEDGED_MAX = 200;

    private final Cluster cluster;
    private final Map<Integer, Map<Long, Integer>> acknowledged = new ConcurrentHashMap<>();
    private final Semaphore room = new Semaphore(UNACKNOWLEDGED_MAX);
    private volatile Exception failure;
    private volatile boolean ends;
    private Thread thread;

    EndlessRecords(Cluster cluster) {
        this.cluster = cluster;
        for (int partition = 0; partition < PARTITIONS; partition++) {
            acknowledged.put(partition, new ConcurrentHashMap<>());
        }
    }

    @Override
    public void write(int turn) throws Exception {
        if (turn == 0) {
            // Segments roll and are flushed now and then, so that recovery has something to do.
            cluster.createTopic(TOPIC, PARTITIONS, "segment.ms", "2000", "retention.ms", "-1");
            thread = new Thread(this::produce, "endless-records");
            thread.setDaemon(true);
            thread.start();
        }
        int before = count();
        Check.eventually(
                () -> failure != null || count() > before + 300, "records are acknowledged");
    }

    private int count() {
        return acknowledged.values().stream().mapToInt(Map::size).sum();
    }

    private void produce() {
        try (KafkaProducer<byte[], byte[]> producer = Clients.patientProducer(cluster)) {
            for (int number = 0; !ends && failure == null; number++) {
                room.acquire();
                int sent = number;
                byte[] value = ("" + sent).getBytes(UTF_8);
                var record = new ProducerRecord<byte[], byte[]>(TOPIC, sent % PARTITIONS, null, value);
                producer.send(
                        record,
                        (metadata, exception) -> {
                            room.release();
                            if (exception == null) {
                                acknowledged.get(metadata.partition()).put(metadata.offset(), sent);
                            } else {
                                failure = exception;
                            }
                        });
                Thread.sleep(1);
            }
        } catch (Exception thrown) {
            failure = thrown;
        }
    }

    @Override
    public void finish() throws Exception {
        ends = true;
        thread.join();
    }

    @Override
    public void check(int turn) throws Exception {
        if (failure != null) {
            throw failure;
        }
        // What is acknowledged from here on is for the next check.
        Map<Integer, Map<Long, Integer>> expected = new HashMap<>();
        acknowledged.forEach((partition, offsets) -> expected.put(partition, Map.copyOf(offsets)));
        for (int partition = 0; partition < PARTITIONS; partition++) {
            Set<Long> seen = new HashSet<>();
            int last = -1;
            var place = new TopicPartition(TOPIC, partition);
            for (var record : Clients.readAll(cluster, place, "read_uncommitted")) {
                int number = Integer.parseInt(new String(record.value(), UTF_8));
                Check.that(number > last, place + ": " + number + " follows " + last);
                last = number;
                Integer told = expected.get(partition).get(record.offset());
                if (told != null) {
                    Check.equal(told, number, place + " at " + record.offset());
                    seen.add(record.offset());
                }
            }
            Check.equal(expected.get(partition).size(), seen.size(), place + " acknowledged");
        }
    }
}
