package riverrun.interop.java;

import org.apache.kafka.common.Node;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.util.List;

/** The cluster as a whole: its nodes, log directories, quorum and features. */
final class AdminCluster {
    private AdminCluster() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("describe-cluster", AdminCluster::describeCluster),
                Scenario.of("describe-log-dirs", AdminCluster::describeLogDirs),
                Scenario.of("describe-quorum", AdminCluster::describeQuorum),
                Scenario.of("describe-features", AdminCluster::describeFeatures),
                Scenario.of("describe-producers", AdminCluster::describeProducers));
    }

    private static void describeCluster(Cluster cluster) throws Exception {
        try (var admin = cluster.admin()) {
            var described = admin.describeCluster();
            Check.equal(22, described.clusterId().get().length(), "length of the cluster id");
            Check.equal(1, described.controller().get().id(), "controller");
            List<Node> nodes = List.copyOf(described.nodes().get());
            Check.equal(1, nodes.size(), "nodes");
            Check.equal(
                    cluster.bootstrap(),
                    nodes.get(0).host() + ":" + nodes.get(0).port(),
                    "address");
        }
    }

    private static void describeLogDirs(Cluster cluster) throws Exception {
        cluster.createTopic("sized", 1);
        try (var admin = cluster.admin();
                var producer = cluster.producer()) {
            Produce.send(producer, "sized", 0, 100);
            var dirs = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1);
            Check.equal(1, dirs.size(), "log directories");
            var dir = dirs.values().iterator().next();
            Check.equal(null, dir.error(), "error");
            Check.that(
                    dir.totalBytes().isPresent() && dir.usableBytes().isPresent(),
                    "the volume's sizes are known");
            var replica =
                    dir.replicaInfos().get(new org.apache.kafka.common.TopicPartition("sized", 0));
            Check.that(replica.size() > 100, "size of the log: " + replica.size());
            Check.equal(0L, replica.offsetLag(), "lag");
            Check.that(!replica.isFuture(), "no future replica");
        }
    }

    private static void describeQuorum(Cluster cluster) throws Exception {
        try (var admin = cluster.admin()) {
            var quorum = admin.describeMetadataQuorum().quorumInfo().get();
            Check.equal(1, quorum.leaderId(), "leader");
            Check.equal(1, quorum.voters().size(), "voters");
            Check.equal(1, quorum.voters().get(0).replicaId(), "voter");
            Check.that(
                    quorum.leaderEpoch() >= 1 && quorum.highWatermark() > 0,
                    "epoch and high watermark");
            Check.that(quorum.voters().get(0).logEndOffset() > 0, "log end offset of the voter");
        }
    }

    private static void describeFeatures(Cluster cluster) throws Exception {
        try (var admin = cluster.admin()) {
            var features = admin.describeFeatures().featureMetadata().get();
            var finalized = features.finalizedFeatures();
            Check.that(
                    finalized.get("metadata.version").maxVersionLevel() >= 7,
                    "metadata.version " + finalized);
            Check.that(
                    features.supportedFeatures().containsKey("group.version"),
                    "group.version is supported");
            Check.that(features.finalizedFeaturesEpoch().isPresent(), "the epoch is known");
        }
    }

    private static void describeProducers(Cluster cluster) throws Exception {
        cluster.createTopic("producers", 1);
        var partition = new org.apache.kafka.common.TopicPartition("producers", 0);
        try (var admin = cluster.admin();
                var producer = cluster.producer()) {
            Produce.send(producer, "producers", 0, 3);
            var active =
                    admin.describeProducers(List.of(partition))
                            .partitionResult(partition)
                            .get()
                            .activeProducers();
            Check.equal(1, active.size(), "producers");
            Check.equal(0, active.get(0).producerEpoch(), "epoch");
            Check.equal(2, active.get(0).lastSequence(), "last sequence");
        }
    }
}
