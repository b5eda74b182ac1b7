package riverrun.interop.tools;

import static riverrun.interop.tools.TopicTools.with;

import org.apache.kafka.tools.ConsoleProducer;
import org.apache.kafka.tools.ConsumerPerformance;
import org.apache.kafka.tools.EndToEndLatency;
import org.apache.kafka.tools.ProducerPerformance;
import org.apache.kafka.tools.VerifiableConsumer;
import org.apache.kafka.tools.VerifiableProducer;
import org.apache.kafka.tools.consumer.ConsoleConsumer;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.util.List;

/** The console clients and the performance tools. */
final class ClientTools {
    private ClientTools() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("console-clients", ClientTools::console),
                Scenario.of("console-keys-and-headers", ClientTools::keysAndHeaders),
                Scenario.of("console-compressed", ClientTools::compressed),
                Scenario.of("producer-and-consumer-performance", ClientTools::performance),
                Scenario.of("end-to-end-latency", ClientTools::endToEndLatency),
                Scenario.of("verifiable-clients", ClientTools::verifiable));
    }

    /** Sends lines with the console producer. */
    static Tool.Output produce(Cluster cluster, String topic, String lines, String... more)
            throws Exception {
        String[] arguments = new String[more.length + 2];
        arguments[0] = "--topic";
        arguments[1] = topic;
        System.arraycopy(more, 0, arguments, 2, more.length);
        return Tool.run(lines, ConsoleProducer.class, with(cluster, arguments)).good();
    }

    /** Reads a topic's first records with the console consumer. */
    static Tool.Output consume(Cluster cluster, String topic, int count, String... more)
            throws Exception {
        String[] first = {
            "--topic",
            topic,
            "--from-beginning",
            "--max-messages",
            "" + count,
            "--timeout-ms",
            "20000"
        };
        String[] arguments = new String[first.length + more.length];
        System.arraycopy(first, 0, arguments, 0, first.length);
        System.arraycopy(more, 0, arguments, first.length, more.length);
        return Tool.run(ConsoleConsumer.class, with(cluster, arguments)).good();
    }

    private static void console(Cluster cluster) throws Exception {
        cluster.createTopic("console", 1);
        produce(cluster, "console", "first\nsecond\nthird\n");
        consume(cluster, "console", 3)
                .withLine("first")
                .withLine("third")
                .with("Processed a total of 3 messages");
        Tool.run(
                        ConsoleConsumer.class,
                        with(
                                cluster,
                                "--topic",
                                "console",
                                "--partition",
                                "0",
                                "--offset",
                                "1",
                                "--max-messages",
                                "1",
                                "--timeout-ms",
                                "20000"))
                .good()
                .withLine("second");
        consume(cluster, "console", 3, "--isolation-level", "read_committed").withLine("second");
    }

    private static void keysAndHeaders(Cluster cluster) throws Exception {
        cluster.createTopic("console-keys", 1);
        produce(
                cluster,
                "console-keys",
                "h1:a,h2:b\tk1=v1\nNULL\tk2=NULL\n",
                "--reader-property",
                "parse.key=true",
                "--reader-property",
                "key.separator==",
                "--reader-property",
                "parse.headers=true",
                "--reader-property",
                "null.marker=NULL");
        consume(
                        cluster,
                        "console-keys",
                        2,
                        "--formatter-property",
                        "print.key=true",
                        "--formatter-property",
                        "print.headers=true",
                        "--formatter-property",
                        "print.offset=true",
                        "--formatter-property",
                        "print.partition=true",
                        "--formatter-property",
                        "key.separator=|")
                .withLine("Partition:0\\|Offset:0\\|h1:a,h2:b\\|k1\\|v1")
                .withLine("Partition:0\\|Offset:1\\|NO_HEADERS\\|k2\\|null");
    }

    private static void compressed(Cluster cluster) throws Exception {
        cluster.createTopic("console-compressed", 1);
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
            produce(
                    cluster,
                    "console-compressed",
                    "by " + codec + "\n",
                    "--compression-codec",
                    codec,
                    "--sync");
        }
        consume(cluster, "console-compressed", 4).withLine("by gzip").withLine("by zstd");
    }

    private static void performance(Cluster cluster) throws Exception {
        cluster.createTopic("performance", 3);
        Tool.run(
                        ProducerPerformance.class,
                        with(
                                cluster,
                                "--topic",
                                "performance",
                                "--num-records",
                                "50000",
                                "--record-size",
                                "200",
                                "--throughput",
                                "-1",
                                "--command-property",
                                "acks=all"))
                .good()
                .withLine(
                        "50000 records sent, [0-9.]+ records/sec \\([0-9.]+ MB/sec\\), .*99.9th\\.");
        var consumed =
                Tool.run(
                                ConsumerPerformance.class,
                                with(
                                        cluster,
                                        "--topic",
                                        "performance",
                                        "--num-records",
                                        "50000",
                                        "--timeout",
                                        "20000"))
                        .good();
        String[] fields =
                consumed.text()
                        .lines()
                        .filter(l -> l.matches("\\d{4}-.*"))
                        .findFirst()
                        .orElseThrow()
                        .split(", ");
        Check.equal("50000", fields[4], "records consumed");
    }

    private static void endToEndLatency(Cluster cluster) throws Exception {
        cluster.createTopic("latency", 1);
        Tool.run(
                        EndToEndLatency.class,
                        with(
                                cluster,
                                "--topic",
                                "latency",
                                "--num-records",
                                "100",
                                "--producer-acks",
                                "all",
                                "--record-size",
                                "100"))
                .good()
                .with("Avg latency:");
    }

    private static void verifiable(Cluster cluster) throws Exception {
        cluster.createTopic("verifiable", 2);
        Tool.runApart(
                        VerifiableProducer.class,
                        with(cluster, "--topic", "verifiable", "--max-messages", "100"))
                .good()
                .with("\"name\":\"producer_send_success\"")
                .withLine(".*\"name\":\"tool_data\",\"sent\":100,\"acked\":100,.*");
        Tool.runApart(
                        VerifiableConsumer.class,
                        with(
                                cluster,
                                "--topic",
                                "verifiable",
                                "--group-id",
                                "verifiable",
                                "--max-messages",
                                "100",
                                "--reset-policy",
                                "earliest"))
                .good()
                .with("\"name\":\"partitions_assigned\"")
                .with("\"name\":\"offsets_committed\"")
                .withLine(".*\"name\":\"shutdown_complete\".*");
    }
}
