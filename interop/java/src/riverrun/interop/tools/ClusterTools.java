package riverrun.interop.tools;

import static riverrun.interop.tools.TopicTools.with;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.tools.BrokerApiVersionsCommand;
import org.apache.kafka.tools.ClusterTool;
import org.apache.kafka.tools.FeatureCommand;
import org.apache.kafka.tools.LeaderElectionCommand;
import org.apache.kafka.tools.LogDirsCommand;
import org.apache.kafka.tools.MetadataQuorumCommand;
import org.apache.kafka.tools.reassign.ReassignPartitionsCommand;

import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Tools that show the cluster: its nodes, quorum, features, log directories and replicas. */
final class ClusterTools {
    private ClusterTools() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("log-dirs", ClusterTools::logDirs),
                Scenario.of("metadata-quorum", ClusterTools::quorum),
                Scenario.of("features", ClusterTools::features),
                Scenario.of("cluster", ClusterTools::cluster),
                Scenario.of("broker-api-versions", ClusterTools::apiVersions),
                Scenario.of("leader-election", ClusterTools::leaderElection),
                Scenario.of("reassign-partitions", ClusterTools::reassign));
    }

    private static void logDirs(Cluster cluster) throws Exception {
        cluster.createTopic("in-log-dirs", 2);
        Tool.run(LogDirsCommand.class, with(cluster, "--describe", "--topic-list", "in-log-dirs"))
                .good()
                .with("\"broker\":1")
                .with("\"error\":null")
                .with(
                        "{\"partition\":\"in-log-dirs-1\",\"size\":0,\"offsetLag\":0,\"isFuture\":false}");
    }

    private static void quorum(Cluster cluster) throws Exception {
        Tool.run(MetadataQuorumCommand.class, with(cluster, "describe", "--status"))
                .good()
                .withLine("ClusterId: +[\\w-]{22}")
                .withLine("LeaderId: +1")
                .withLine("CurrentVoters: .*\"id\": 1.*");
        Tool.run(MetadataQuorumCommand.class, with(cluster, "describe", "--replication"))
                .good()
                .withLine("NodeId\\s+DirectoryId\\s+LogEndOffset\\s+Lag.*")
                .withLine("1\\s.*\\s0\\s.*Leader\\s*");
    }

    private static void features(Cluster cluster) throws Exception {
        Tool.run(FeatureCommand.class, with(cluster, "describe"))
                .good()
                .withLine(
                        "Feature: metadata.version\\s+SupportedMinVersion: .*FinalizedVersionLevel: 4\\..*")
                .with("Feature: group.version");
    }

    private static void cluster(Cluster cluster) throws Exception {
        Tool.run(ClusterTool.class, "cluster-id", "--bootstrap-server", cluster.bootstrap())
                .good()
                .withLine("Cluster ID: [\\w-]{22}");
        Tool.run(ClusterTool.class, "list-endpoints", "--bootstrap-server", cluster.bootstrap())
                .good()
                .withLine("1\\s+127\\.0\\.0\\.1\\s+.*broker.*");
    }

    private static void apiVersions(Cluster cluster) throws Exception {
        Tool.run(BrokerApiVersionsCommand.class, with(cluster))
                .good()
                .with(cluster.bootstrap() + " (id: 1 rack: null isFenced: false) -> (")
                .with("Produce(0): ")
                .with("ApiVersions(18): 0 to ");
    }

    private static void leaderElection(Cluster cluster) throws Exception {
        cluster.createTopic("elected", 1);
        Tool.run(
                        LeaderElectionCommand.class,
                        with(
                                cluster,
                                "--election-type",
                                "preferred",
                                "--topic",
                                "elected",
                                "--partition",
                                "0"))
                .good()
                .with("Valid replica already elected for partitions elected-0");
    }

    private static void reassign(Cluster cluster) throws Exception {
        cluster.createTopic("reassigned", 1);
        Path topics = cluster.dir().resolve("topics.json");
        Files.writeString(topics, "{\"topics\": [{\"topic\": \"reassigned\"}], \"version\": 1}");
        Tool.run(
                        ReassignPartitionsCommand.class,
                        with(
                                cluster,
                                "--generate",
                                "--broker-list",
                                "1",
                                "--topics-to-move-json-file",
                                topics.toString()))
                .good()
                .with(
                        "{\"topic\":\"reassigned\",\"partition\":0,\"replicas\":[1],\"log_dirs\":[\"any\"]}");
        Path plan = cluster.dir().resolve("plan.json");
        Files.writeString(
                plan,
                """
                {"version": 1, "partitions": [{"topic": "reassigned", "partition": 0, "replicas": [1], "log_dirs": ["any"]}]}
                """);
        Tool.run(
                        ReassignPartitionsCommand.class,
                        with(cluster, "--execute", "--reassignment-json-file", plan.toString()))
                .good()
                .with("Successfully started partition reassignment for reassigned-0");
        Tool.run(
                        ReassignPartitionsCommand.class,
                        with(cluster, "--verify", "--reassignment-json-file", plan.toString()))
                .good()
                .with("Reassignment of partition reassigned-0 is completed.");
        Tool.run(ReassignPartitionsCommand.class, with(cluster, "--list"))
                .good()
                .with("No partition reassignments found.");
        moveToLogDir(cluster, plan);
    }

    /** Asks for the log directory that the partition is in. */
    private static void moveToLogDir(Cluster cluster, Path plan) throws Exception {
        String logDir;
        try (Admin admin = cluster.admin()) {
            logDir =
                    admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).keySet()
                            .iterator()
                            .next();
        }
        Files.writeString(
                plan,
                """
                {"version": 1, "partitions": [{"topic": "reassigned", "partition": 0, "replicas": [1], "log_dirs": ["%s"]}]}
                """
                        .formatted(logDir));
        Tool.run(
                        ReassignPartitionsCommand.class,
                        with(cluster, "--execute", "--reassignment-json-file", plan.toString()))
                .good()
                .with("Successfully started moving log directory to " + logDir)
                .with("for replica reassigned-0 with broker 1");
        Tool.run(
                        ReassignPartitionsCommand.class,
                        with(cluster, "--verify", "--reassignment-json-file", plan.toString()))
                .good()
                .with("Reassignment of replica reassigned-0-1 completed successfully.");
    }
}
