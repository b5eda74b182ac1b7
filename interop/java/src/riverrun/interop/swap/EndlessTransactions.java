package riverrun.interop.swap;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TransactionAbortableException;

import riverrun.interop.Check;
import riverrun.interop.Cluster;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.locks.ReentrantLock;

/**
 * One transaction after the other, whatever becomes of the server: those that were committed are
 * seen whole and once, those that were aborted not at all. Each writes its number to every
 * partition; every third is aborted.
 */
final class EndlessTransactions implements Part {
    private static final String TOPIC = "swap-transactions";
    private static final String ID = "swap-endless";
    private static final int PARTITIONS = 2;
    private static final Set<TransactionState> OVER =
            Set.of(TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT);

    private final Cluster cluster;
    private final TreeSet<Integer> committed = new TreeSet<>();
    /** Begun or being committed: only its producer knows. */
    private int unsettled = -1;
    private volatile Exception failure;
    private volatile boolean ends;
    /** Held while a transaction is open, and by the workload while it rests. */
    private final ReentrantLock turn = new ReentrantLock(true);
    private Thread thread;

    EndlessTransactions(Cluster cluster) {
        this.cluster = cluster;
    }

    @Override
    public void write(int turn) throws Exception {
        if (turn == 0) {
            cluster.createTopic(TOPIC, PARTITIONS, "retention.ms", "-1");
            thread = new Thread(this::run, "endless-transactions");
            thread.setDaemon(true);
            thread.start();
        }
        goOn();
        int before = count();
        Check.eventually(
                () -> failure != null || count() > before + 10, "transactions are committed");
    }

    private synchronized int count() {
        return committed.size();
    }

    private void run() {
        try (var producer =
                Clients.patientProducer(
                        cluster,
                        "transactional.id",
                        ID,
                        "transaction.timeout.ms",
                        Clients.TRANSACTION_TIMEOUT_MS)) {
            producer.initTransactions();
            for (int number = 0; !ends; number++) {
                turn.lock();
                try {
                    synchronized (this) {
                        unsettled = number;
                    }
                    transact(producer, number);
                } finally {
                    turn.unlock();
                }
                Thread.sleep(5);
            }
        } catch (Exception thrown) {
            failure = thrown;
        }
    }

    private void transact(KafkaProducer<byte[], byte[]> producer, int number) {
        producer.beginTransaction();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            byte[] value = ("" + number).getBytes(UTF_8);
            producer.send(new ProducerRecord<>(TOPIC, partition, null, value));
        }
        if (number % 3 == 2) {
            untilSettled(producer::abortTransaction);
            return;
        }
        try {
            producer.flush();
            untilSettled(producer::commitTransaction);
        } catch (TransactionAbortableException aborted) {
            System.err.println("transaction " + number + " has to be aborted: " + aborted);
            untilSettled(producer::abortTransaction);
            return;
        }
        synchronized (this) {
            committed.add(number);
        }
    }

    /** The end of a transaction may be asked for again until it is known. */
    private static void untilSettled(Runnable end) {
        while (true) {
            try {
                end.run();
                return;
            } catch (RetriableException again) {
                System.err.println("ends a transaction again: " + again);
            }
        }
    }

    /** What the coordinator makes of it, which tells who is right. */
    private TransactionDescription described() throws Exception {
        try (var admin = cluster.admin()) {
            return admin.describeTransactions(List.of(ID)).description(ID).get();
        }
    }

    @Override
    public void rest() throws Exception {
        turn.lock();
        Check.eventually(
                () -> failure != null || OVER.contains(described().state()),
                "the last transaction is over");
    }

    private void goOn() {
        if (turn.isHeldByCurrentThread()) {
            turn.unlock();
        }
    }

    @Override
    public void finish() throws Exception {
        ends = true;
        goOn();
        thread.join();
        if (failure == null) {
            unsettled = -1;
        }
    }

    @Override
    public void check(int turn) throws Exception {
        if (failure != null) {
            throw new AssertionError(
                    "transaction " + unsettled + ": " + failure + "; " + described(), failure);
        }
        List<Integer> expected;
        int open;
        synchronized (this) {
            expected = new ArrayList<>(committed);
            open = unsettled;
        }
        for (int partition = 0; partition < PARTITIONS; partition++) {
            var place = new TopicPartition(TOPIC, partition);
            List<Integer> found = new ArrayList<>();
            for (var record : Clients.readAll(cluster, place, "read_committed")) {
                int number = Integer.parseInt(new String(record.value(), UTF_8));
                // Those that come while this looks are for the next check.
                if (ends || number < open) {
                    found.add(number);
                }
            }
            expected.removeIf(number -> !ends && number >= open);
            Check.equal(expected, found, "committed to " + place);
        }
    }
}
