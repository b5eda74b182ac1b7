package riverrun.interop.java;

import static riverrun.interop.java.Produce.bytes;
import static riverrun.interop.java.Produce.text;

import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.UnknownMemberIdException;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Consumer groups of the classic protocol whose members come and go. */
final class Groups {
    private static final String RANGE = "org.apache.kafka.clients.consumer.RangeAssignor";
    private static final String COOPERATIVE =
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
    private static final int PARTITIONS = 6;

    private Groups() {}

    static List<Scenario> scenarios() {
        return List.of(
                new Scenario(
                        "group-range", 90, cluster -> comeAndGo(cluster, "range", classic(RANGE))),
                new Scenario(
                        "group-cooperative",
                        90,
                        cluster -> comeAndGo(cluster, "cooperative", classic(COOPERATIVE))),
                new Scenario(
                        "group-consumer-protocol",
                        90,
                        cluster ->
                                comeAndGo(
                                        cluster,
                                        "consumer-protocol",
                                        "group.protocol",
                                        "consumer")),
                Scenario.of("group-member-times-out", Groups::memberTimesOut),
                Scenario.of("group-static-member", Groups::staticMember),
                Scenario.of("group-commit-of-stale-member", Groups::commitOfStaleMember));
    }

    private static Object[] classic(String assignor) {
        return new Object[] {
            "partition.assignment.strategy", assignor, "heartbeat.interval.ms", 200
        };
    }

    /** Records keep coming while three members join, leave and join again; none may be lost. */
    private static void comeAndGo(Cluster cluster, String name, Object... settings)
            throws Exception {
        String topic = "group-" + name;
        cluster.createTopic(topic, PARTITIONS);
        Set<String> seen = ConcurrentHashMap.newKeySet();
        Writer writer = new Writer(cluster, topic);
        List<Member> members = new ArrayList<>();
        try {
            writer.start();
            for (int i = 0; i < 3; i++) {
                members.add(new Member(cluster, topic, "member-" + i, seen, settings));
                members.get(i).start();
                awaitOwners(members);
            }
            members.remove(0).leave();
            awaitOwners(members);
            members.add(new Member(cluster, topic, "member-3", seen, settings));
            members.get(2).start();
            members.remove(0).leave();
            awaitOwners(members);
            int written = writer.finish();
            Check.eventually(() -> seen.size() >= written, "all " + written + " records delivered");
            Check.equal(written, seen.size(), "records");
            for (Member member : members) {
                member.leave();
            }
        } finally {
            writer.finished = true;
            members.forEach(member -> member.finished = true);
        }
        checkCommitted(cluster, topic);
    }

    /** Every member owns its share of the partitions, and together they own all. */
    private static void awaitOwners(List<Member> members) throws Exception {
        Check.eventually(
                () -> {
                    int owned = 0;
                    for (Member member : members) {
                        Check.equal(null, member.failure, "failure of " + member.getName());
                        if (member.owned != PARTITIONS / members.size()) {
                            return false;
                        }
                        owned += member.owned;
                    }
                    return owned == PARTITIONS;
                },
                members.size() + " members share the partitions evenly");
    }

    private static void checkCommitted(Cluster cluster, String topic) throws Exception {
        try (var admin = cluster.admin();
                var consumer = cluster.consumer()) {
            var committed =
                    admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get();
            var ends = consumer.endOffsets(committed.keySet());
            Check.equal(PARTITIONS, ends.size(), "partitions with a committed offset");
            ends.forEach(
                    (partition, end) ->
                            Check.equal(end, committed.get(partition).offset(), "" + partition));
        }
    }

    /** A member that stops polling without leaving is dropped when its session ends. */
    private static void memberTimesOut(Cluster cluster) throws Exception {
        cluster.createTopic("times-out", 2);
        Object[] settings = {
            "group.id",
            "times-out",
            "session.timeout.ms",
            6000,
            "max.poll.interval.ms",
            6000,
            "heartbeat.interval.ms",
            500
        };
        try (var stuck = cluster.consumer(settings)) {
            stuck.subscribe(List.of("times-out"));
            Cluster.awaitAssignment(stuck, 2);
            try (var other = cluster.consumer(settings)) {
                other.subscribe(List.of("times-out"));
                Cluster.awaitAssignment(other, 2);
            }
        }
    }

    /** A static member that comes back gets its partitions without a rebalance of the others. */
    private static void staticMember(Cluster cluster) throws Exception {
        cluster.createTopic("static", 2);
        Object[] settings = {
            "group.id", "static", "session.timeout.ms", 30000, "group.instance.id", "the-one"
        };
        int generation;
        try (var first = cluster.consumer(settings)) {
            first.subscribe(List.of("static"));
            Cluster.awaitAssignment(first, 2);
            generation = first.groupMetadata().generationId();
        }
        try (var second = cluster.consumer(settings)) {
            second.subscribe(List.of("static"));
            Cluster.awaitAssignment(second, 2);
            Check.equal(
                    generation,
                    second.groupMetadata().generationId(),
                    "generation after the return");
            try (var third = cluster.consumer(settings)) {
                third.subscribe(List.of("static"));
                Cluster.awaitAssignment(third, 2);
                Check.fails(
                        FencedInstanceIdException.class,
                        () -> {
                            Check.eventually(
                                    () -> {
                                        second.poll(Duration.ofMillis(50));
                                        second.commitSync();
                                        return false;
                                    },
                                    "");
                            return null;
                        });
            }
        }
    }

    private static void commitOfStaleMember(Cluster cluster) throws Exception {
        cluster.createTopic("stale", 1);
        var partition = new TopicPartition("stale", 0);
        try (var member = cluster.consumer("group.id", "stale");
                var outsider = cluster.consumer("group.id", "stale")) {
            member.subscribe(List.of("stale"));
            Cluster.awaitAssignment(member, 1);
            outsider.assign(List.of(partition));
            Check.fails(
                    CommitFailedException.class,
                    () -> {
                        outsider.commitSync(java.util.Map.of(partition, new OffsetAndMetadata(0)));
                        return null;
                    });
            try (var admin = cluster.admin()) {
                var group = admin.describeConsumerGroups(List.of("stale")).all().get().get("stale");
                Check.equal(GroupState.STABLE, group.groupState(), "state of the group");
                var options =
                        new org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions();
                admin.removeMembersFromConsumerGroup("stale", options).all().get();
            }
            Check.fails(
                    Exception.class,
                    () -> {
                        member.commitSync();
                        return null;
                    });
        }
    }

    /** Writes numbered records until told to finish. */
    private static final class Writer extends Thread {
        private final Cluster cluster;
        private final String topic;
        private volatile int written;
        private volatile Exception failure;
        volatile boolean finished;

        Writer(Cluster cluster, String topic) {
            super("writer");
            this.cluster = cluster;
            this.topic = topic;
            setDaemon(true);
        }

        @Override
        public void run() {
            try (var producer = cluster.producer()) {
                while (!finished) {
                    producer.send(
                            new ProducerRecord<>(
                                    topic, written % PARTITIONS, null, bytes("" + written)));
                    written++;
                    Thread.sleep(1);
                }
            } catch (Exception thrown) {
                failure = thrown;
            }
        }

        int finish() throws Exception {
            finished = true;
            join();
            Check.equal(null, failure, "failure of the writer");
            return written;
        }
    }

    /** A member that commits after every poll. */
    private static final class Member extends Thread {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final String topic;
        private final Set<String> seen;
        volatile int owned;
        volatile boolean finished;
        volatile Exception failure;

        Member(Cluster cluster, String topic, String name, Set<String> seen, Object... settings) {
            super(name);
            this.topic = topic;
            this.seen = seen;
            setDaemon(true);
            Object[] all = Arrays.copyOf(settings, settings.length + 4);
            System.arraycopy(
                    new Object[] {"group.id", topic, "client.id", name},
                    0,
                    all,
                    settings.length,
                    4);
            consumer = cluster.consumer(all);
        }

        @Override
        public void run() {
            try (consumer) {
                consumer.subscribe(List.of(topic));
                while (!finished) {
                    consumer.poll(Duration.ofMillis(50))
                            .forEach(record -> seen.add(text(record.value())));
                    commit();
                    owned = consumer.assignment().size();
                }
            } catch (Exception thrown) {
                failure = thrown;
            }
        }

        /** A commit may be refused while the group rebalances: the records come again. */
        private void commit() {
            try {
                consumer.commitSync();
            } catch (CommitFailedException
                    | RebalanceInProgressException
                    | UnknownMemberIdException again) {
                Thread.onSpinWait();
            }
        }

        void leave() throws Exception {
            finished = true;
            join();
            Check.equal(null, failure, "failure of " + getName());
        }
    }
}
