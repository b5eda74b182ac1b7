package riverrun.interop.tools;

import static riverrun.interop.tools.TopicTools.with;

import kafka.admin.ConfigCommand;

import org.apache.kafka.tools.AclCommand;
import org.apache.kafka.tools.ClientMetricsCommand;
import org.apache.kafka.tools.ClusterTool;
import org.apache.kafka.tools.FeatureCommand;

import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.util.List;

/** What an operator sets beside topics: features, brokers, metrics, quotas and credentials. */
final class AdminTools {
    private AdminTools() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("features-changed", AdminTools::features),
                Scenario.of("unregister-broker", AdminTools::unregister),
                Scenario.of("client-metrics", AdminTools::clientMetrics),
                Scenario.of("quotas", AdminTools::quotas),
                Scenario.of("scram-credentials", AdminTools::scram),
                Scenario.of("acls-without-authorizer", AdminTools::acls));
    }

    private static Tool.Output features(Cluster cluster, String... arguments) throws Exception {
        return Tool.run(FeatureCommand.class, with(cluster, arguments));
    }

    private static void features(Cluster cluster) throws Exception {
        features(cluster, "downgrade", "--feature", "streams.version=0", "--dry-run")
                .good()
                .with("streams.version can be downgraded to 0");
        features(cluster, "downgrade", "--feature", "streams.version=0")
                .good()
                .with("streams.version was downgraded to 0");
        features(cluster, "describe")
                .good()
                .withLine("Feature: streams.version\\s.*FinalizedVersionLevel: 0\\s.*");
        features(cluster, "upgrade", "--release-version", "4.3-IV0")
                .good()
                .with("streams.version was upgraded to 1");
        features(cluster, "describe")
                .good()
                .withLine("Feature: streams.version\\s.*FinalizedVersionLevel: 1\\s.*")
                .withLine("Feature: transaction.version\\s.*FinalizedVersionLevel: 2\\s.*")
                .withLine("Feature: group.version\\s.*FinalizedVersionLevel: 1\\s.*");
        features(cluster, "upgrade", "--feature", "transaction.version=3")
                .bad()
                .with("Could not upgrade transaction.version to 3");
        features(cluster, "upgrade", "--feature", "warp.version=1")
                .bad()
                .with("Local controller 1 does not support this feature.");
        features(cluster, "downgrade", "--metadata", "4.2")
                .bad()
                .with("Could not downgrade metadata.version to ");
        features(cluster, "disable", "--feature", "share.version", "--dry-run")
                .good()
                .with("share.version can be disabled");
        features(cluster, "version-mapping", "--release-version", "4.3-IV0")
                .good()
                .withLine("metadata.version=30 \\(4.3-IV0\\)");
        features(cluster, "feature-dependencies", "--feature", "eligible.leader.replicas.version=1")
                .good()
                .with("metadata.version=23");
    }

    private static void unregister(Cluster cluster) throws Exception {
        Tool.run(
                        ClusterTool.class,
                        "unregister",
                        "--bootstrap-server",
                        cluster.bootstrap(),
                        "--id",
                        "99")
                .bad()
                .with("Broker ID 99 is not currently registered");
    }

    private static void clientMetrics(Cluster cluster) throws Exception {
        Tool.run(
                        ClientMetricsCommand.class,
                        with(
                                cluster,
                                "--alter",
                                "--name",
                                "tool-metrics",
                                "--metrics",
                                "org.apache.kafka.producer.",
                                "--interval",
                                "30000",
                                "--match",
                                "client_id=some-client"))
                .good()
                .with("Altered client metrics config for tool-metrics.");
        Tool.run(ClientMetricsCommand.class, with(cluster, "--list"))
                .good()
                .withLine("tool-metrics");
        Tool.run(ClientMetricsCommand.class, with(cluster, "--describe", "--name", "tool-metrics"))
                .good()
                .with("interval.ms=30000")
                .with("match=client_id=some-client");
        Tool.run(ClientMetricsCommand.class, with(cluster, "--delete", "--name", "tool-metrics"))
                .good()
                .with("Deleted client metrics config for tool-metrics.");
        Tool.run(ClientMetricsCommand.class, with(cluster, "--list"))
                .good()
                .without("tool-metrics");
    }

    private static Tool.Output configs(Cluster cluster, String arguments) throws Exception {
        return Tool.run(ConfigCommand.class, with(cluster, arguments.split(" ")));
    }

    private static void quotas(Cluster cluster) throws Exception {
        configs(
                        cluster,
                        "--alter --entity-type users --entity-name alice --entity-type clients"
                                + " --entity-name app --add-config"
                                + " producer_byte_rate=1024,request_percentage=12.5")
                .good()
                .with("Completed updating config for user alice.");
        configs(
                        cluster,
                        "--alter --entity-type users --entity-default --add-config"
                                + " consumer_byte_rate=2048")
                .good();
        configs(
                        cluster,
                        "--alter --entity-type ips --entity-name 10.0.0.1 --add-config"
                                + " connection_creation_rate=7")
                .good();
        configs(cluster, "--describe --entity-type users --entity-type clients")
                .good()
                .withLine(
                        "Quota configs for user-principal 'alice', client-id 'app' are"
                                + " (producer_byte_rate=1024.0, request_percentage=12.5"
                                + "|request_percentage=12.5, producer_byte_rate=1024.0)");
        configs(cluster, "--describe --entity-type users --entity-default")
                .good()
                .with("the default user-principal are consumer_byte_rate=2048.0");
        configs(cluster, "--describe --entity-type ips")
                .good()
                .with("ip '10.0.0.1' are connection_creation_rate=7.0");
        configs(
                        cluster,
                        "--alter --entity-type users --entity-name alice --entity-type clients"
                                + " --entity-name app --delete-config"
                                + " producer_byte_rate,request_percentage")
                .good();
        configs(cluster, "--describe --entity-type users --entity-type clients")
                .good()
                .without("alice");
        configs(
                        cluster,
                        "--alter --entity-type users --entity-name alice --add-config"
                                + " producer_byte_rate=0")
                .bad()
                .with("Quota producer_byte_rate must be greater than 0");
    }

    private static void scram(Cluster cluster) throws Exception {
        configs(
                        cluster,
                        "--alter --entity-type users --entity-name carol --add-config"
                                + " SCRAM-SHA-512=[iterations=8192,password=secret]")
                .good()
                .with("Completed updating config for user carol.");
        configs(cluster, "--describe --entity-type users --entity-name carol")
                .good()
                .with(
                        "SCRAM credential configs for user-principal 'carol' are"
                                + " SCRAM-SHA-512=iterations=8192");
        configs(
                        cluster,
                        "--alter --entity-type users --entity-name carol --delete-config"
                                + " SCRAM-SHA-512")
                .good();
        configs(cluster, "--describe --entity-type users").good().without("carol");
        configs(
                        cluster,
                        "--alter --entity-type users --entity-name carol --delete-config"
                                + " SCRAM-SHA-512")
                .bad()
                .with("Attempt to delete a user credential that does not exist");
    }

    private static void acls(Cluster cluster) throws Exception {
        Tool.run(AclCommand.class, with(cluster, "--list")).with("No Authorizer is configured");
        Tool.run(
                        AclCommand.class,
                        with(
                                cluster,
                                "--add",
                                "--allow-principal",
                                "User:alice",
                                "--operation",
                                "Read",
                                "--topic",
                                "any"))
                .with("No Authorizer is configured");
    }
}
