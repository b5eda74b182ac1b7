package riverrun.interop.java;

import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.UnknownMemberIdException;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.util.List;
import java.util.Map;
import java.util.Set;

/** Consumer groups, as an operator sees and changes them. */
final class AdminGroups {
    private AdminGroups() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("list-groups", AdminGroups::list),
                Scenario.of("describe-group", AdminGroups::describe),
                Scenario.of("delete-group", AdminGroups::delete),
                Scenario.of("alter-group-offsets", AdminGroups::alterOffsets),
                Scenario.of("delete-group-offsets", AdminGroups::deleteOffsets));
    }

    private static void list(Cluster cluster) throws Exception {
        cluster.createTopic("of-listed-group", 1);
        commit(cluster, "listed-empty", "of-listed-group", 0);
        try (var member = cluster.consumer("group.id", "listed-stable");
                var admin = cluster.admin()) {
            member.subscribe(List.of("of-listed-group"));
            Cluster.awaitAssignment(member, 1);
            var stable =
                    ListGroupsOptions.forConsumerGroups().inGroupStates(Set.of(GroupState.STABLE));
            var ids = admin.listGroups(stable).all().get().stream().map(g -> g.groupId()).toList();
            Check.that(
                    ids.contains("listed-stable") && !ids.contains("listed-empty"),
                    "stable groups: " + ids);
            var classic = new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC));
            for (var group : admin.listGroups(classic).all().get()) {
                if (group.groupId().equals("listed-stable")) {
                    Check.equal("consumer", group.protocol(), "protocol type");
                    Check.equal(GroupState.STABLE, group.groupState().get(), "state");
                }
                if (group.groupId().equals("listed-empty")) {
                    Check.equal("", group.protocol(), "protocol type of a group without members");
                    Check.equal(GroupState.EMPTY, group.groupState().get(), "state");
                }
            }
        }
    }

    private static void describe(Cluster cluster) throws Exception {
        cluster.createTopic("of-described-group", 2);
        try (var member = cluster.consumer("group.id", "described", "client.id", "the-client");
                var admin = cluster.admin()) {
            member.subscribe(List.of("of-described-group"));
            Cluster.awaitAssignment(member, 2);
            var group =
                    admin.describeConsumerGroups(List.of("described")).all().get().get("described");
            Check.equal(GroupState.STABLE, group.groupState(), "state");
            Check.equal("range", group.partitionAssignor(), "assignor");
            Check.equal(1, group.coordinator().id(), "coordinator");
            Check.equal(1, group.members().size(), "members");
            var described = group.members().iterator().next();
            Check.equal("the-client", described.clientId(), "client id");
            Check.that(
                    described.consumerId().startsWith("the-client-"),
                    "member id " + described.consumerId());
            Check.equal("/127.0.0.1", described.host(), "host");
            Check.equal(2, described.assignment().topicPartitions().size(), "partitions");
            var classic =
                    admin.describeClassicGroups(List.of("described")).all().get().get("described");
            Check.equal("consumer", classic.protocol(), "protocol type");
            Check.fails(
                    GroupIdNotFoundException.class,
                    () -> admin.describeConsumerGroups(List.of("absent")).all().get());
        }
    }

    private static void delete(Cluster cluster) throws Exception {
        cluster.createTopic("of-deleted-group", 1);
        commit(cluster, "deleted", "of-deleted-group", 0);
        try (var admin = cluster.admin()) {
            try (var member = cluster.consumer("group.id", "deleted")) {
                member.subscribe(List.of("of-deleted-group"));
                Cluster.awaitAssignment(member, 1);
                Check.fails(
                        GroupNotEmptyException.class,
                        () -> admin.deleteConsumerGroups(List.of("deleted")).all().get());
            }
            admin.deleteConsumerGroups(List.of("deleted")).all().get();
            Check.fails(
                    GroupIdNotFoundException.class,
                    () -> admin.deleteConsumerGroups(List.of("deleted")).all().get());
            var ids = admin.listGroups().all().get().stream().map(g -> g.groupId()).toList();
            Check.that(!ids.contains("deleted"), "groups: " + ids);
        }
    }

    private static void alterOffsets(Cluster cluster) throws Exception {
        cluster.createTopic("of-altered-group", 2);
        var first = new TopicPartition("of-altered-group", 0);
        var second = new TopicPartition("of-altered-group", 1);
        try (var admin = cluster.admin()) {
            var offsets =
                    Map.of(
                            first,
                            new OffsetAndMetadata(5),
                            second,
                            new OffsetAndMetadata(6, "six"));
            admin.alterConsumerGroupOffsets("altered", offsets).all().get();
            var committed =
                    admin.listConsumerGroupOffsets("altered").partitionsToOffsetAndMetadata().get();
            Check.equal(5L, committed.get(first).offset(), "offset");
            Check.equal("six", committed.get(second).metadata(), "metadata");
            try (var member = cluster.consumer("group.id", "altered")) {
                member.subscribe(List.of("of-altered-group"));
                Cluster.awaitAssignment(member, 2);
                Check.fails(
                        UnknownMemberIdException.class,
                        () -> admin.alterConsumerGroupOffsets("altered", offsets).all().get());
            }
        }
    }

    private static void deleteOffsets(Cluster cluster) throws Exception {
        cluster.createTopic("of-trimmed-group", 2);
        var first = new TopicPartition("of-trimmed-group", 0);
        commit(cluster, "trimmed", "of-trimmed-group", 0);
        commit(cluster, "trimmed", "of-trimmed-group", 1);
        try (var admin = cluster.admin()) {
            admin.deleteConsumerGroupOffsets("trimmed", Set.of(first)).all().get();
            var left =
                    admin.listConsumerGroupOffsets("trimmed").partitionsToOffsetAndMetadata().get();
            Check.equal(
                    Set.of(new TopicPartition("of-trimmed-group", 1)),
                    left.keySet(),
                    "partitions left");
            try (var member = cluster.consumer("group.id", "trimmed")) {
                member.subscribe(List.of("of-trimmed-group"));
                Cluster.awaitAssignment(member, 2);
                Check.fails(
                        GroupSubscribedToTopicException.class,
                        () ->
                                admin.deleteConsumerGroupOffsets("trimmed", Set.of(first))
                                        .all()
                                        .get());
            }
        }
    }

    private static void commit(Cluster cluster, String group, String topic, int partition) {
        try (var consumer = cluster.consumer("group.id", group)) {
            consumer.commitSync(
                    Map.of(new TopicPartition(topic, partition), new OffsetAndMetadata(0)));
        }
    }
}
