package riverrun.interop.tools;

import kafka.admin.ConfigCommand;

import org.apache.kafka.tools.DeleteRecordsCommand;
import org.apache.kafka.tools.GetOffsetShell;
import org.apache.kafka.tools.TopicCommand;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** kafka-topics, kafka-configs, kafka-get-offsets and kafka-delete-records. */
final class TopicTools {
    private TopicTools() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("topics", TopicTools::topics),
                Scenario.of("topics-refused", TopicTools::topicsRefused),
                Scenario.of("configs-of-topics", TopicTools::configsOfTopics),
                Scenario.of("configs-of-brokers", TopicTools::configsOfBrokers),
                Scenario.of("configs-of-groups-and-metrics", TopicTools::configsOfOthers),
                Scenario.of("get-offsets", TopicTools::offsets),
                Scenario.of("delete-records", TopicTools::deleteRecords));
    }

    static Tool.Output topics(Cluster cluster, String... arguments) throws Exception {
        return Tool.run(TopicCommand.class, with(cluster, arguments));
    }

    static String[] with(Cluster cluster, String... arguments) {
        String[] all = new String[arguments.length + 2];
        all[0] = "--bootstrap-server";
        all[1] = cluster.bootstrap();
        System.arraycopy(arguments, 0, all, 2, arguments.length);
        return all;
    }

    private static void topics(Cluster cluster) throws Exception {
        topics(
                        cluster,
                        "--create",
                        "--topic",
                        "tool",
                        "--partitions",
                        "3",
                        "--replication-factor",
                        "1",
                        "--config",
                        "retention.ms=60000")
                .good()
                .with("Created topic tool.");
        topics(cluster, "--create", "--topic", "tool", "--if-not-exists").good();
        topics(cluster, "--list").good().withLine("tool");
        topics(cluster, "--describe", "--topic", "tool")
                .good()
                .withLine(
                        "Topic: tool\tTopicId: [\\w-]{22}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: .*retention.ms=60000.*")
                .withLine(
                        "\tTopic: tool\tPartition: 2\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: .*\tLastKnownElr: .*");
        topics(cluster, "--alter", "--topic", "tool", "--partitions", "5").good();
        Check.eventually(
                () ->
                        topics(cluster, "--describe", "--topic", "tool")
                                .text()
                                .contains("PartitionCount: 5"),
                "5");
        topics(cluster, "--describe", "--topics-with-overrides").good().with("Topic: tool");
        Check.equal(
                "",
                topics(cluster, "--describe", "--under-replicated-partitions").good().text(),
                "partitions");
        Check.equal(
                "",
                topics(cluster, "--describe", "--unavailable-partitions").good().text(),
                "partitions");
        topics(cluster, "--delete", "--topic", "tool").good();
        Check.eventually(
                () -> !topics(cluster, "--list").text().lines().toList().contains("tool"),
                "no topic");
    }

    private static void topicsRefused(Cluster cluster) throws Exception {
        topics(cluster, "--create", "--topic", "twice").good();
        topics(cluster, "--create", "--topic", "twice").bad().with("already exists");
        topics(cluster, "--describe", "--topic", "absent").bad().with("does not exist");
        topics(cluster, "--delete", "--topic", "absent").bad();
        topics(cluster, "--create", "--topic", "two", "--replication-factor", "2")
                .bad()
                .with("replication factor");
        topics(cluster, "--create", "--topic", "no-partitions", "--partitions", "0").bad();
        topics(cluster, "--create", "--topic", "odd", "--config", "no.such=1").bad();
    }

    private static Tool.Output configs(Cluster cluster, String... arguments) throws Exception {
        return Tool.run(ConfigCommand.class, with(cluster, arguments));
    }

    private static void configsOfTopics(Cluster cluster) throws Exception {
        cluster.createTopic("configured", 1);
        configs(
                        cluster,
                        "--alter",
                        "--topic",
                        "configured",
                        "--add-config",
                        "retention.ms=1000,cleanup.policy=[compact,delete]")
                .good()
                .with("Completed updating config for topic configured.");
        Check.eventually(
                () ->
                        configs(cluster, "--describe", "--topic", "configured")
                                .good()
                                .text()
                                .contains("cleanup.policy=compact,delete sensitive=false"),
                "cleanup.policy");
        configs(cluster, "--describe", "--topic", "configured", "--all")
                .good()
                .with(
                        "retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000")
                .with(
                        "segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}");
        configs(cluster, "--alter", "--topic", "configured", "--delete-config", "retention.ms")
                .good();
        Check.eventually(
                () ->
                        !configs(cluster, "--describe", "--topic", "configured")
                                .text()
                                .contains("retention.ms"),
                "gone");
        configs(cluster, "--alter", "--topic", "configured", "--add-config", "retention.ms=long")
                .bad();
        configs(cluster, "--alter", "--topic", "configured", "--add-config", "no.such=1").bad();
    }

    private static void configsOfBrokers(Cluster cluster) throws Exception {
        configs(cluster, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
                .good()
                .with("log.segment.bytes=1073741824")
                .with("num.io.threads=8");
        configs(
                        cluster,
                        "--alter",
                        "--entity-type",
                        "brokers",
                        "--entity-default",
                        "--add-config",
                        "log.cleaner.threads=2")
                .good();
        Check.eventually(
                () ->
                        configs(
                                        cluster,
                                        "--describe",
                                        "--entity-type",
                                        "brokers",
                                        "--entity-default")
                                .text()
                                .contains("log.cleaner.threads=2"),
                "log.cleaner.threads=2");
        configs(
                        cluster,
                        "--alter",
                        "--entity-type",
                        "brokers",
                        "--entity-default",
                        "--delete-config",
                        "log.cleaner.threads")
                .good();
        configs(
                        cluster,
                        "--alter",
                        "--entity-type",
                        "brokers",
                        "--entity-name",
                        "1",
                        "--add-config",
                        "node.id=7")
                .bad();
    }

    private static void configsOfOthers(Cluster cluster) throws Exception {
        configs(
                        cluster,
                        "--alter",
                        "--entity-type",
                        "groups",
                        "--entity-name",
                        "some-group",
                        "--add-config",
                        "consumer.session.timeout.ms=50000")
                .good();
        Check.eventually(
                () ->
                        configs(
                                        cluster,
                                        "--describe",
                                        "--entity-type",
                                        "groups",
                                        "--entity-name",
                                        "some-group")
                                .text()
                                .contains("consumer.session.timeout.ms=50000"),
                "the group's session timeout");
        configs(
                        cluster,
                        "--alter",
                        "--entity-type",
                        "client-metrics",
                        "--entity-name",
                        "some-metrics",
                        "--add-config",
                        "interval.ms=60000,metrics=[org.apache.kafka.producer.]")
                .good();
        Check.eventually(
                () ->
                        configs(
                                        cluster,
                                        "--describe",
                                        "--entity-type",
                                        "client-metrics",
                                        "--entity-name",
                                        "some-metrics")
                                .text()
                                .contains("interval.ms=60000"),
                "the interval");
    }

    private static void offsets(Cluster cluster) throws Exception {
        cluster.createTopic("ends", 2);
        ClientTools.produce(cluster, "ends", "a\nb\nc\n");
        var all = Tool.run(GetOffsetShell.class, with(cluster, "--topic", "ends")).good();
        int sum = all.text().lines().mapToInt(line -> Integer.parseInt(line.split(":")[2])).sum();
        Check.equal(3, sum, "sum of the end offsets");
        Check.equal(2L, all.text().lines().count(), "partitions");
        Tool.run(
                        GetOffsetShell.class,
                        with(cluster, "--topic-partitions", "ends:0", "--time", "earliest"))
                .good()
                .withLine("ends:0:0");
        for (String time :
                List.of("-1", "-2", "-3", "-4", "latest", "max-timestamp", "earliest-local")) {
            Tool.run(GetOffsetShell.class, with(cluster, "--topic", "ends", "--time", time)).good();
        }
        Tool.run(
                        GetOffsetShell.class,
                        with(cluster, "--topic", "ends", "--time", "" + System.currentTimeMillis()))
                .good();
        Tool.run(GetOffsetShell.class, with(cluster, "--topic", "absent")).bad();
    }

    private static void deleteRecords(Cluster cluster) throws Exception {
        cluster.createTopic("cut", 1);
        ClientTools.produce(cluster, "cut", "a\nb\nc\nd\n");
        Path file = cluster.dir().resolve("delete-records.json");
        Files.writeString(
                file,
                """
                {"partitions": [{"topic": "cut", "partition": 0, "offset": 3}], "version": 1}
                """);
        Tool.run(DeleteRecordsCommand.class, with(cluster, "--offset-json-file", file.toString()))
                .good()
                .with("partition: cut-0\tlow_watermark: 3");
        Tool.run(GetOffsetShell.class, with(cluster, "--topic", "cut", "--time", "-2"))
                .good()
                .withLine("cut:0:3");
    }
}
