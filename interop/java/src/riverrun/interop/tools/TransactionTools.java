package riverrun.interop.tools;

import static riverrun.interop.tools.TopicTools.with;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.tools.ProducerPerformance;
import org.apache.kafka.tools.TransactionsCommand;
import org.apache.kafka.tools.consumer.ConsoleConsumer;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.time.Duration;
import java.util.List;

/** kafka-transactions, and tools that have transactions of their own or show them. */
final class TransactionTools {
    private TransactionTools() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("transactions-shown", TransactionTools::shown),
                Scenario.of("transactions-aborted", TransactionTools::aborted),
                Scenario.of("transactions-force-terminated", TransactionTools::terminated),
                Scenario.of("transactions-performance", TransactionTools::performance),
                Scenario.of("transactions-dumped", TransactionTools::dumped));
    }

    private static Tool.Output transactions(Cluster cluster, String... arguments)
            throws Exception {
        return Tool.run(TransactionsCommand.class, with(cluster, arguments));
    }

    /** A producer with an open transaction of one record in partition 0. */
    private static KafkaProducer<byte[], byte[]> open(Cluster cluster, String id, String topic)
            throws Exception {
        cluster.createTopic(topic, 1);
        var producer = cluster.producer("transactional.id", id);
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, 0, null, "open".getBytes(UTF_8))).get();
        return producer;
    }

    private static void shown(Cluster cluster) throws Exception {
        try (var producer = open(cluster, "tool-shown", "tool-transactions")) {
            transactions(cluster, "list")
                    .good()
                    .withLine("TransactionalId\\s+Coordinator\\s+ProducerId\\s+TransactionState\\s*")
                    .withLine("tool-shown\\s+1\\s+\\d+\\s+Ongoing\\s*");
            transactions(cluster, "list", "--transactional-id-pattern", "tool-sh.*")
                    .good()
                    .withLine("tool-shown\\s.*");
            transactions(cluster, "list", "--duration-filter", "3600000")
                    .good()
                    .without("tool-shown");
            transactions(cluster, "describe", "--transactional-id", "tool-shown")
                    .good()
                    .withLine("1\\s+tool-shown\\s+\\d+\\s+\\d+\\s+Ongoing\\s.*tool-transactions-0\\s*");
            transactions(
                            cluster,
                            "describe-producers",
                            "--topic",
                            "tool-transactions",
                            "--partition",
                            "0")
                    .good()
                    .withLine("\\d+\\s+\\d+\\s+-?\\d+\\s+0\\s+\\d+\\s+0\\s*");
            transactions(cluster, "find-hanging", "--broker-id", "1")
                    .good()
                    .without("tool-transactions");
            producer.commitTransaction();
        }
        Check.eventually(
                () ->
                        transactions(cluster, "list")
                                .good()
                                .text()
                                .lines()
                                .anyMatch(l -> l.matches("tool-shown\\s.*CompleteCommit\\s*")),
                "the transaction is complete");
    }

    private static void aborted(Cluster cluster) throws Exception {
        try (var producer = open(cluster, "tool-aborted", "tool-aborted")) {
            transactions(
                            cluster,
                            "abort",
                            "--topic",
                            "tool-aborted",
                            "--partition",
                            "0",
                            "--start-offset",
                            "0")
                    .good();
            transactions(cluster, "describe-producers", "--topic", "tool-aborted", "--partition", "0")
                    .good()
                    .withLine("\\d+\\s+\\d+\\s+-?\\d+\\s+0\\s+\\d+\\s+None\\s*");
            Tool.run(
                            ConsoleConsumer.class,
                            with(
                                    cluster,
                                    "--topic",
                                    "tool-aborted",
                                    "--from-beginning",
                                    "--isolation-level",
                                    "read_committed",
                                    "--timeout-ms",
                                    "2000"))
                    .with("Processed a total of 0 messages");
            producer.close(Duration.ZERO);
        }
    }

    private static void terminated(Cluster cluster) throws Exception {
        try (var producer = open(cluster, "tool-terminated", "tool-terminated")) {
            transactions(
                            cluster,
                            "forceTerminateTransaction",
                            "--transactionalId",
                            "tool-terminated")
                    .good();
            Check.eventually(
                    () ->
                            transactions(cluster, "list")
                                    .good()
                                    .text()
                                    .lines()
                                    .anyMatch(l -> l.matches("tool-terminated\\s.*Empty\\s*")),
                    "the transaction is aborted");
            Check.fails(
                    KafkaException.class,
                    () -> {
                        producer.commitTransaction();
                        return null;
                    });
            producer.close(Duration.ZERO);
        }
    }

    private static void performance(Cluster cluster) throws Exception {
        cluster.createTopic("tool-transactional-load", 2);
        Tool.run(
                        ProducerPerformance.class,
                        with(
                                cluster,
                                "--topic",
                                "tool-transactional-load",
                                "--num-records",
                                "20000",
                                "--record-size",
                                "100",
                                "--throughput",
                                "-1",
                                "--transactional-id",
                                "tool-load",
                                "--transaction-duration-ms",
                                "50"))
                .good()
                .withLine("20000 records sent, .*");
    }

    private static void dumped(Cluster cluster) throws Exception {
        try (var producer = open(cluster, "tool-dumped", "tool-dumped")) {
            producer.commitTransaction();
        }
        DumpTools.dump(
                        DumpTools.files(cluster, "__transaction_state-", ".log"),
                        "--transaction-log-decoder",
                        "--print-data-log")
                .with("transactionalId\":\"tool-dumped\"");
        DumpTools.dump(DumpTools.files(cluster, "tool-dumped-0", ".log"), "--print-data-log")
                .with("endTxnMarker: COMMIT");
        Tool.runApart(
                        ConsoleConsumer.class,
                        with(
                                cluster,
                                "--topic",
                                "__transaction_state",
                                "--from-beginning",
                                "--timeout-ms",
                                "3000",
                                "--formatter",
                                "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"))
                .with("\"transactionalId\":\"tool-dumped\"");
    }
}
