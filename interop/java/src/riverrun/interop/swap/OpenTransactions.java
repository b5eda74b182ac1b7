package riverrun.interop.swap;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;

import riverrun.interop.Check;
import riverrun.interop.Cluster;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Transactions that one server has begun and the next one ends: one by its own producer, with the
 * offsets of a group in it, and one that a successor of its producer finds and thereby aborts.
 */
final class OpenTransactions implements Part {
    private static final String TOPIC = "swap-open";
    private static final String GROUP = "swap-open";
    private static final TopicPartition PLACE = new TopicPartition(TOPIC, 0);

    private final Cluster cluster;
    private final boolean hasOffsets;
    private final List<String> committed = new ArrayList<>();
    private KafkaProducer<byte[], byte[]> living;
    private KafkaProducer<byte[], byte[]> forsaken;
    private String open;
    private long openOffset;
    private long producerId;

    OpenTransactions(Cluster cluster, boolean hasOffsets) {
        this.cluster = cluster;
        this.hasOffsets = hasOffsets;
    }

    private KafkaProducer<byte[], byte[]> producer(String id) {
        return Clients.patientProducer(
                cluster,
                "transactional.id",
                id,
                "transaction.timeout.ms",
                Clients.TRANSACTION_TIMEOUT_MS);
    }

    private static ProducerRecord<byte[], byte[]> record(String value) {
        return new ProducerRecord<>(TOPIC, 0, null, value.getBytes(UTF_8));
    }

    @Override
    public void write(int turn) throws Exception {
        if (turn == 0) {
            cluster.createTopic(TOPIC, 1);
            living = producer("swap-living");
            living.initTransactions();
        }
        living.beginTransaction();
        living.send(record("whole in turn " + turn)).get();
        living.commitTransaction();
        committed.add("whole in turn " + turn);
        living.beginTransaction();
        living.send(record("dropped in turn " + turn)).get();
        living.abortTransaction();

        open = "begun in turn " + turn;
        living.beginTransaction();
        openOffset = living.send(record(open)).get().offset();
        if (hasOffsets) {
            try (var member = cluster.consumer("group.id", GROUP)) {
                living.sendOffsetsToTransaction(
                        Map.of(PLACE, new OffsetAndMetadata(openOffset)), member.groupMetadata());
            }
        }
        forsaken = producer("swap-forsaken");
        forsaken.initTransactions();
        forsaken.beginTransaction();
        forsaken.send(record("forsaken in turn " + turn)).get();
        try (var admin = cluster.admin()) {
            producerId = describe(admin).producerId();
        }
    }

    private static TransactionDescription describe(Admin admin) throws Exception {
        return admin.describeTransactions(List.of("swap-living"))
                .description("swap-living")
                .get();
    }

    @Override
    public void check(int turn) throws Exception {
        if (open != null) {
            settle(turn);
        }
        List<String> found = new ArrayList<>();
        for (var record : Clients.readAll(cluster, PLACE, "read_committed")) {
            found.add(new String(record.value(), UTF_8));
        }
        Check.equal(committed, found, "committed to " + TOPIC);
    }

    /** What the last server left open is open still, and now ends. */
    private void settle(int turn) throws Exception {
        try (var admin = cluster.admin()) {
            var described = describe(admin);
            Check.equal(TransactionState.ONGOING, described.state(), "the open transaction");
            Check.equal(producerId, described.producerId(), "its producer id");
            Check.that(described.topicPartitions().contains(PLACE), "its partitions");
            Check.equal(openOffset, stableEnd(admin), "the last stable offset");
            Check.equal(
                    2,
                    (int)
                            admin.describeProducers(List.of(PLACE))
                                    .partitionResult(PLACE)
                                    .get()
                                    .activeProducers()
                                    .stream()
                                    .filter(p -> p.currentTransactionStartOffset().isPresent())
                                    .count(),
                    "producers in a transaction");
            living.commitTransaction();
            committed.add(open);
            open = null;
            try (var successor = producer("swap-forsaken")) {
                successor.initTransactions();
            }
            forsaken.close(Duration.ZERO);
            long end = admin.listOffsets(Map.of(PLACE, OffsetSpec.latest())).partitionResult(PLACE)
                    .get().offset();
            Check.eventually(() -> stableEnd(admin) == end, "nothing is open");
            Check.eventually(
                    () ->
                            !hasOffsets
                                    || openOffset
                                    == admin.listConsumerGroupOffsets(GROUP)
                                            .partitionsToOffsetAndMetadata()
                                            .get()
                                            .get(PLACE)
                                            .offset(),
                    "the offset of the transaction is committed");
        }
    }

    private static long stableEnd(Admin admin) throws Exception {
        var options = new ListOffsetsOptions(IsolationLevel.READ_COMMITTED);
        return admin.listOffsets(Map.of(PLACE, OffsetSpec.latest()), options)
                .partitionResult(PLACE)
                .get()
                .offset();
    }
}
