package riverrun.interop.java;

import static riverrun.interop.java.Produce.bytes;
import static riverrun.interop.java.Produce.texts;

import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Transactional producers and what a consumer sees of them. */
final class Transactions {
    private Transactions() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("transaction-commit-and-abort", Transactions::commitAndAbort),
                Scenario.of("transaction-holds-back-readers", Transactions::holdsBackReaders),
                Scenario.of("transaction-offsets", Transactions::offsets),
                Scenario.of("transaction-fenced-producer", Transactions::fencedProducer),
                Scenario.of("transaction-times-out", Transactions::timesOut),
                Scenario.of("transaction-described", Transactions::described));
    }

    private static KafkaProducer<byte[], byte[]> producer(
            Cluster cluster, String id, Object... more) {
        Object[] settings = new Object[more.length + 2];
        settings[0] = "transactional.id";
        settings[1] = id;
        System.arraycopy(more, 0, settings, 2, more.length);
        return cluster.producer(settings);
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, String value) {
        producer.send(new ProducerRecord<>(topic, bytes(value)));
    }

    private static void commitAndAbort(Cluster cluster) throws Exception {
        cluster.createTopic("transaction", 1);
        try (var producer = producer(cluster, "commit-and-abort")) {
            producer.initTransactions();
            for (String value : List.of("abort-1", "commit-1", "abort-2", "commit-2")) {
                producer.beginTransaction();
                send(producer, "transaction", value);
                producer.flush();
                if (value.startsWith("commit")) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        var committed = cluster.read("transaction", 1, 2, "isolation.level", "read_committed");
        Check.equal(
                List.of("null=commit-1", "null=commit-2"), texts(committed), "committed records");
        Check.equal(2L, committed.get(0).offset(), "offset after an aborted record and its marker");
        Check.equal(4, cluster.read("transaction", 1, 4).size(), "all records");
    }

    private static void holdsBackReaders(Cluster cluster) throws Exception {
        cluster.createTopic("held-back", 1);
        var partition = new TopicPartition("held-back", 0);
        try (var producer = producer(cluster, "holds-back");
                var plain = cluster.producer();
                var consumer = cluster.consumer("isolation.level", "read_committed")) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, "held-back", "open");
            producer.flush();
            send(plain, "held-back", "after");
            plain.flush();
            consumer.assign(List.of(partition));
            Check.equal(
                    0L,
                    consumer.endOffsets(Set.of(partition)).get(partition),
                    "last stable offset");
            Check.equal(
                    0,
                    consumer.poll(Duration.ofMillis(500)).count(),
                    "records while the transaction is open");
            producer.commitTransaction();
            Check.equal(
                    List.of("null=open", "null=after"),
                    texts(Cluster.poll(consumer, 2)),
                    "records");
            Check.equal(
                    3L,
                    consumer.endOffsets(Set.of(partition)).get(partition),
                    "last stable offset");
        }
    }

    private static void offsets(Cluster cluster) throws Exception {
        cluster.createTopic("transaction-offsets", 1);
        var partition = new TopicPartition("transaction-offsets", 0);
        try (var producer = producer(cluster, "offsets");
                var consumer = cluster.consumer("group.id", "transaction-offsets")) {
            consumer.subscribe(List.of("transaction-offsets"));
            Cluster.awaitAssignment(consumer, 1);
            var group = consumer.groupMetadata();
            producer.initTransactions();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(5)), group);
            producer.abortTransaction();
            Check.equal(null, committed(consumer, partition), "offset after the abort");
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(6)), group);
            producer.commitTransaction();
            Check.equal(6L, committed(consumer, partition).offset(), "offset after the commit");
            producer.beginTransaction();
            // Waits until the group has heard that it leaves, which `unsubscribe` does not.
            consumer.close();
            Check.fails(
                    CommitFailedException.class,
                    () -> {
                        producer.sendOffsetsToTransaction(
                                Map.of(partition, new OffsetAndMetadata(7)), group);
                        return null;
                    });
            producer.abortTransaction();
        }
    }

    private static OffsetAndMetadata committed(
            KafkaConsumer<?, ?> consumer, TopicPartition partition) {
        return consumer.committed(Set.of(partition)).get(partition);
    }

    private static void fencedProducer(Cluster cluster) throws Exception {
        cluster.createTopic("fenced", 1);
        try (var first = producer(cluster, "fenced");
                var second = producer(cluster, "fenced")) {
            first.initTransactions();
            first.beginTransaction();
            send(first, "fenced", "by the first");
            first.flush();
            second.initTransactions();
            Check.fails(
                    ProducerFencedException.class,
                    () -> {
                        first.commitTransaction();
                        return null;
                    });
            second.beginTransaction();
            send(second, "fenced", "by the second");
            second.commitTransaction();
        }
        var committed = cluster.read("fenced", 1, 1, "isolation.level", "read_committed");
        Check.equal(List.of("null=by the second"), texts(committed), "committed records");
    }

    private static void timesOut(Cluster cluster) throws Exception {
        cluster.createTopic("transaction-times-out", 1);
        try (var producer = producer(cluster, "too-long", "transaction.timeout.ms", 3_600_000)) {
            var refused =
                    Check.fails(
                            KafkaException.class,
                            () -> {
                                producer.initTransactions();
                                return null;
                            });
            Check.contains(
                    refused.getMessage(), "larger than the maximum value allowed by the broker");
        }
        try (var producer = producer(cluster, "times-out", "transaction.timeout.ms", 1000);
                var admin = cluster.admin()) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, "transaction-times-out", "v");
            producer.flush();
            Check.eventually(
                    () -> {
                        var states = admin.describeTransactions(List.of("times-out")).all().get();
                        return states.get("times-out").state() == TransactionState.COMPLETE_ABORT;
                    },
                    "the coordinator aborts the transaction");
            Check.fails(
                    KafkaException.class,
                    () -> {
                        producer.commitTransaction();
                        return null;
                    });
        }
        cluster.read("transaction-times-out", 1, 0, "isolation.level", "read_committed");
    }

    private static void described(Cluster cluster) throws Exception {
        cluster.createTopic("transaction-described", 1);
        try (var producer = producer(cluster, "described");
                var admin = cluster.admin()) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, "transaction-described", "v");
            producer.flush();
            var state =
                    admin.describeTransactions(List.of("described")).all().get().get("described");
            Check.equal(TransactionState.ONGOING, state.state(), "state");
            Check.equal(
                    Set.of(new TopicPartition("transaction-described", 0)),
                    state.topicPartitions(),
                    "partitions");
            var listed =
                    admin.listTransactions().all().get().stream()
                            .map(l -> l.transactionalId())
                            .toList();
            Check.that(listed.contains("described"), "transactions: " + listed);
            producer.commitTransaction();
            Check.eventually(
                    () ->
                            admin.describeTransactions(List.of("described"))
                                            .all()
                                            .get()
                                            .get("described")
                                            .state()
                                    == TransactionState.COMPLETE_COMMIT,
                    "the transaction is complete");
        }
    }
}
