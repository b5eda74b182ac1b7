package riverrun.interop.java;

import static riverrun.interop.java.Produce.bytes;
import static riverrun.interop.java.Produce.text;

import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What a consumer may ask for, without a group's assignment. */
final class Consume {
    private Consume() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("offsets-by-time", Consume::offsetsByTime),
                Scenario.of("beginning-and-end", Consume::beginningAndEnd),
                Scenario.of("manual-commit", Consume::manualCommit),
                Scenario.of("offset-out-of-range", Consume::offsetOutOfRange),
                Scenario.of("small-fetches", Consume::smallFetches),
                Scenario.of("fetch-waits-for-bytes", Consume::fetchWaitsForBytes),
                Scenario.of("read-committed-without-transactions", Consume::readCommitted),
                Scenario.of("pause-and-resume", Consume::pauseAndResume));
    }

    private static void offsetsByTime(Cluster cluster) throws Exception {
        cluster.createTopic("by-time", 2);
        long start = System.currentTimeMillis() - 1_000_000;
        try (var producer = cluster.producer("linger.ms", 5)) {
            for (int i = 0; i < 1000; i++) {
                producer.send(
                        new ProducerRecord<>("by-time", 0, start + i * 10L, null, bytes("" + i)));
            }
        }
        var first = new TopicPartition("by-time", 0);
        var second = new TopicPartition("by-time", 1);
        try (var consumer = cluster.consumer()) {
            for (int i : new int[] {0, 1, 499, 998, 999}) {
                for (int before : new int[] {0, 5, 9}) {
                    long time = start + i * 10L - before;
                    var found = consumer.offsetsForTimes(Map.of(first, time, second, time));
                    Check.equal((long) i, found.get(first).offset(), "offset at " + i);
                    Check.equal(start + i * 10L, found.get(first).timestamp(), "time at " + i);
                    Check.equal(null, found.get(second), "offset in an empty partition");
                }
            }
            var none = consumer.offsetsForTimes(Map.of(first, start + 10_000));
            Check.equal(null, none.get(first), "offset after the last record");
        }
    }

    private static void beginningAndEnd(Cluster cluster) throws Exception {
        cluster.createTopic("ends", 1);
        var partition = new TopicPartition("ends", 0);
        try (var producer = cluster.producer();
                var consumer = cluster.consumer()) {
            Check.equal(
                    Map.of(partition, 0L),
                    consumer.endOffsets(Set.of(partition)),
                    "end of the empty log");
            Produce.send(producer, "ends", 0, 42);
            Check.equal(
                    Map.of(partition, 0L),
                    consumer.beginningOffsets(Set.of(partition)),
                    "beginning");
            Check.equal(Map.of(partition, 42L), consumer.endOffsets(Set.of(partition)), "end");
            consumer.assign(Set.of(partition));
            consumer.seekToEnd(Set.of(partition));
            Check.equal(42L, consumer.position(partition), "position at the end");
            consumer.seek(partition, 40);
            Check.equal(2, Cluster.poll(consumer, 2).size(), "records from offset 40");
        }
    }

    private static void manualCommit(Cluster cluster) throws Exception {
        cluster.createTopic("manual-commit", 2);
        var first = new TopicPartition("manual-commit", 0);
        var second = new TopicPartition("manual-commit", 1);
        try (var producer = cluster.producer()) {
            Produce.send(producer, "manual-commit", 0, 100);
        }
        try (var consumer = cluster.consumer("group.id", "manual-commit")) {
            consumer.assign(Set.of(first, second));
            Check.equal(
                    null,
                    consumer.committed(Set.of(first)).get(first),
                    "nothing is committed at first");
            Cluster.poll(consumer, 100);
            consumer.commitSync(Map.of(first, new OffsetAndMetadata(30, "thirty")));
            Map<TopicPartition, Exception> told = new HashMap<>();
            consumer.commitAsync(
                    Map.of(second, new OffsetAndMetadata(0)),
                    (offsets, error) -> told.put(second, error));
            Check.eventually(
                    () -> {
                        consumer.poll(Duration.ZERO);
                        return told.containsKey(second);
                    },
                    "callback");
            Check.equal(null, told.get(second), "error of the commit");
        }
        try (var consumer = cluster.consumer("group.id", "manual-commit")) {
            var committed = consumer.committed(Set.of(first, second));
            Check.equal(30L, committed.get(first).offset(), "committed offset");
            Check.equal("thirty", committed.get(first).metadata(), "metadata of the commit");
            Check.equal(
                    0L, committed.get(second).offset(), "committed offset of the other partition");
            consumer.assign(Set.of(first, second));
            var records = Cluster.poll(consumer, 70);
            Check.equal(
                    "30", text(records.get(0).value()), "first record after the committed offset");
            consumer.commitSync();
            Check.equal(
                    100L,
                    consumer.committed(Set.of(first)).get(first).offset(),
                    "offset after all");
        }
    }

    private static void offsetOutOfRange(Cluster cluster) throws Exception {
        cluster.createTopic("out-of-range", 1);
        var partition = new TopicPartition("out-of-range", 0);
        try (var producer = cluster.producer()) {
            Produce.send(producer, "out-of-range", 0, 5);
        }
        try (var consumer = cluster.consumer("auto.offset.reset", "none")) {
            consumer.assign(Set.of(partition));
            Check.fails(
                    NoOffsetForPartitionException.class,
                    () -> consumer.poll(Duration.ofSeconds(5)));
            consumer.seek(partition, 6);
            Check.fails(OffsetOutOfRangeException.class, () -> Cluster.poll(consumer, 1));
        }
        try (var consumer = cluster.consumer("auto.offset.reset", "earliest")) {
            consumer.assign(Set.of(partition));
            consumer.seek(partition, 1000);
            Cluster.poll(consumer, 5);
        }
    }

    /** Limits below one batch's size still move the consumer on, one batch at a time. */
    private static void smallFetches(Cluster cluster) throws Exception {
        cluster.createTopic("small-fetches", 3);
        try (var producer = cluster.producer("batch.size", 0)) {
            for (int partition = 0; partition < 3; partition++) {
                Produce.send(producer, "small-fetches", partition, 50);
            }
        }
        cluster.read(
                "small-fetches", 3, 150, "fetch.max.bytes", 10, "max.partition.fetch.bytes", 10);
        cluster.read(
                "small-fetches", 3, 150, "max.partition.fetch.bytes", 300, "max.poll.records", 7);
    }

    private static void fetchWaitsForBytes(Cluster cluster) throws Exception {
        cluster.createTopic("fetch-waits", 1);
        try (var consumer =
                        cluster.consumer("fetch.min.bytes", 1 << 20, "fetch.max.wait.ms", 1500);
                var producer = cluster.producer()) {
            consumer.assign(Set.of(new TopicPartition("fetch-waits", 0)));
            consumer.poll(Duration.ofMillis(300));
            Produce.send(producer, "fetch-waits", 0, 1);
            long start = System.nanoTime();
            Check.equal(1, Cluster.poll(consumer, 1).size(), "records");
            long waitedMs = (System.nanoTime() - start) / 1_000_000;
            Check.that(
                    waitedMs >= 500,
                    "a fetch waits for its bytes; this one took " + waitedMs + " ms");
        }
    }

    private static void readCommitted(Cluster cluster) throws Exception {
        cluster.createTopic("read-committed", 1);
        try (var producer = cluster.producer()) {
            Produce.send(producer, "read-committed", 0, 10);
        }
        cluster.read("read-committed", 1, 10, "isolation.level", "read_committed");
    }

    private static void pauseAndResume(Cluster cluster) throws Exception {
        cluster.createTopic("pause", 2);
        var first = new TopicPartition("pause", 0);
        var second = new TopicPartition("pause", 1);
        try (var producer = cluster.producer();
                var consumer = cluster.consumer()) {
            Produce.send(producer, "pause", 0, 20);
            Produce.send(producer, "pause", 1, 20);
            consumer.assign(Set.of(first, second));
            consumer.pause(Set.of(first));
            for (var record : Cluster.poll(consumer, 20)) {
                Check.equal(1, record.partition(), "partition that is not paused");
            }
            consumer.resume(Set.of(first));
            for (var record : Cluster.poll(consumer, 20)) {
                Check.equal(0, record.partition(), "partition that is resumed");
            }
        }
    }
}
