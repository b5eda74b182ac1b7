package riverrun.interop.swap;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

import riverrun.interop.Check;
import riverrun.interop.Cluster;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Clients that outlast a server's absence. */
final class Clients {
    /**
     * Longer than all that may come between two ends of a swap, so that no coordinator ends what the
     * workload left open for it.
     */
    static final int TRANSACTION_TIMEOUT_MS = 600_000;

    /**
     * Requests are not given up while a server is slow: an InitProducerId that is sent again and
     * overtakes the first would have its producer fenced by itself. A server that ends closes its
     * connections.
     */
    private static final Object[] PATIENCE = {
        "delivery.timeout.ms", 120_000,
        "max.block.ms", 120_000,
        "request.timeout.ms", 60_000,
        "reconnect.backoff.max.ms", 200,
        "linger.ms", 5,
        "compression.type", "lz4",
    };

    private Clients() {}

    /** A producer that waits for a server that is swapped. */
    static KafkaProducer<byte[], byte[]> patientProducer(Cluster cluster, Object... settings) {
        Object[] all = new Object[PATIENCE.length + settings.length];
        System.arraycopy(PATIENCE, 0, all, 0, PATIENCE.length);
        System.arraycopy(settings, 0, all, PATIENCE.length, settings.length);
        return cluster.producer(all);
    }

    /** Every record that a partition has now. */
    static List<ConsumerRecord<byte[], byte[]>> readAll(
            Cluster cluster, TopicPartition partition, String isolation) {
        try (var consumer = cluster.consumer("isolation.level", isolation)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            long deadline = System.nanoTime() + 30_000_000_000L;
            while (consumer.position(partition) < end) {
                Check.that(
                        System.nanoTime() < deadline,
                        partition + " ends at " + end + ", reading at "
                                + consumer.position(partition));
                for (var record : consumer.poll(Duration.ofMillis(100)).records(partition)) {
                    if (record.offset() < end) {
                        records.add(record);
                    }
                }
            }
            return records;
        }
    }
}
