package riverrun.interop.java;

import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** Topics and their records, as an operator changes them. */
final class AdminTopics {
    private AdminTopics() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("create-topics", AdminTopics::create),
                Scenario.of("create-topics-refused", AdminTopics::createRefused),
                Scenario.of("list-and-describe-topics", AdminTopics::listAndDescribe),
                Scenario.of("delete-topics", AdminTopics::delete),
                Scenario.of("create-partitions", AdminTopics::createPartitions),
                Scenario.of("delete-records", AdminTopics::deleteRecords),
                Scenario.of("list-offsets", AdminTopics::listOffsets));
    }

    private static void create(Cluster cluster) throws Exception {
        try (var admin = cluster.admin()) {
            var configs = Map.of("retention.ms", "123456", "cleanup.policy", "compact");
            var created =
                    admin.createTopics(
                            List.of(
                                    new NewTopic("created", 3, (short) 1).configs(configs),
                                    new NewTopic(
                                            "created-default", Optional.empty(), Optional.empty()),
                                    new NewTopic(
                                            "created-assigned",
                                            Map.of(0, List.of(1), 1, List.of(1)))));
            created.all().get();
            Check.equal(3, created.numPartitions("created").get(), "partitions");
            Check.equal(1, created.numPartitions("created-default").get(), "partitions by default");
            Check.equal(
                    2, created.numPartitions("created-assigned").get(), "partitions as assigned");
            Check.equal(1, created.replicationFactor("created").get(), "replication factor");
            Check.equal(
                    "123456",
                    created.config("created").get().get("retention.ms").value(),
                    "retention.ms");
            var onlyValidated = new CreateTopicsOptions().validateOnly(true);
            admin.createTopics(List.of(new NewTopic("only-validated", 1, (short) 1)), onlyValidated)
                    .all()
                    .get();
            Check.that(
                    !admin.listTopics().names().get().contains("only-validated"),
                    "validation creates nothing");
        }
    }

    private static void createRefused(Cluster cluster) throws Exception {
        cluster.createTopic("exists", 1);
        refused(cluster, TopicExistsException.class, new NewTopic("exists", 1, (short) 1));
        refused(cluster, InvalidTopicException.class, new NewTopic("a topic", 1, (short) 1));
        refused(cluster, InvalidTopicException.class, new NewTopic("..", 1, (short) 1));
        refused(cluster, InvalidTopicException.class, new NewTopic("x".repeat(250), 1, (short) 1));
        refused(
                cluster,
                InvalidPartitionsException.class,
                new NewTopic("no-partitions", 0, (short) 1));
        refused(
                cluster,
                InvalidReplicationFactorException.class,
                new NewTopic("two", 1, (short) 2));
        refused(
                cluster,
                InvalidReplicationFactorException.class,
                new NewTopic("zero", 1, (short) 0));
        refused(
                cluster,
                InvalidReplicaAssignmentException.class,
                new NewTopic("a", Map.of(0, List.of(77))));
        refused(
                cluster,
                InvalidReplicaAssignmentException.class,
                new NewTopic("a", Map.of(1, List.of(1))));
        refused(
                cluster,
                InvalidConfigurationException.class,
                new NewTopic("a", 1, (short) 1).configs(Map.of("retention.ms", "long")));
        refused(
                cluster,
                InvalidConfigurationException.class,
                new NewTopic("a", 1, (short) 1).configs(Map.of("no.such.config", "1")));
        // A dot and an underscore give metrics of one name.
        cluster.createTopic("dot.or_underscore", 1);
        refused(
                cluster,
                InvalidTopicException.class,
                new NewTopic("dot_or.underscore", 1, (short) 1));
    }

    private static void refused(Cluster cluster, Class<? extends Exception> error, NewTopic topic)
            throws Exception {
        try (var admin = cluster.admin()) {
            Check.fails(error, () -> admin.createTopics(List.of(topic)).all().get());
        }
    }

    private static void listAndDescribe(Cluster cluster) throws Exception {
        cluster.createTopic("listed-a", 1);
        cluster.createTopic("listed-b", 70);
        try (var admin = cluster.admin()) {
            var listings =
                    admin.listTopics(new ListTopicsOptions().listInternal(true))
                            .namesToListings()
                            .get();
            Check.that(
                    listings.keySet().containsAll(Set.of("listed-a", "listed-b")),
                    "both are listed");
            var byName =
                    admin.describeTopics(List.of("listed-a", "listed-b")).allTopicNames().get();
            var topic = byName.get("listed-b");
            Check.equal(listings.get("listed-b").topicId(), topic.topicId(), "topic id");
            Check.equal(70, topic.partitions().size(), "partitions");
            for (int i = 0; i < 70; i++) {
                var partition = topic.partitions().get(i);
                Check.equal(i, partition.partition(), "partition");
                Check.equal(1, partition.leader().id(), "leader");
                Check.equal(partition.replicas(), partition.isr(), "in-sync replicas");
            }
            var ids = TopicCollection.ofTopicIds(List.of(topic.topicId()));
            var byId = admin.describeTopics(ids).allTopicIds().get();
            Check.equal("listed-b", byId.get(topic.topicId()).name(), "name by id");
            var absent =
                    TopicCollection.ofTopicIds(List.of(org.apache.kafka.common.Uuid.randomUuid()));
            Check.fails(
                    UnknownTopicIdException.class,
                    () -> admin.describeTopics(absent).allTopicIds().get());
        }
    }

    private static void delete(Cluster cluster) throws Exception {
        cluster.createTopic("deleted-a", 2);
        cluster.createTopic("deleted-b", 2);
        try (var admin = cluster.admin();
                var producer = cluster.producer()) {
            Produce.send(producer, "deleted-a", 0, 10);
            var id =
                    admin.describeTopics(List.of("deleted-a"))
                            .allTopicNames()
                            .get()
                            .get("deleted-a")
                            .topicId();
            admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
            admin.deleteTopics(List.of("deleted-b")).all().get();
            Check.eventually(
                    () -> {
                        var names = admin.listTopics().names().get();
                        return !names.contains("deleted-a") && !names.contains("deleted-b");
                    },
                    "the topics are gone");
            Check.fails(
                    UnknownTopicOrPartitionException.class,
                    () -> admin.deleteTopics(List.of("deleted-a")).all().get());
        }
        cluster.createTopic("deleted-a", 1);
        try (var consumer = cluster.consumer()) {
            var partition = new TopicPartition("deleted-a", 0);
            Check.equal(
                    0L,
                    consumer.endOffsets(Set.of(partition)).get(partition),
                    "end of the topic made anew");
        }
    }

    private static void createPartitions(Cluster cluster) throws Exception {
        cluster.createTopic("grows", 1);
        try (var admin = cluster.admin();
                var producer = cluster.producer("metadata.max.age.ms", 200)) {
            admin.createPartitions(Map.of("grows", NewPartitions.increaseTo(4))).all().get();
            Check.eventually(() -> producer.partitionsFor("grows").size() == 4, "four partitions");
            Produce.send(producer, "grows", 3, 5);
            for (int count : new int[] {4, 2, 0}) {
                var partitions = Map.of("grows", NewPartitions.increaseTo(count));
                Check.fails(
                        InvalidPartitionsException.class,
                        () -> admin.createPartitions(partitions).all().get());
            }
            var absent = Map.of("absent", NewPartitions.increaseTo(4));
            Check.fails(
                    UnknownTopicOrPartitionException.class,
                    () -> admin.createPartitions(absent).all().get());
        }
    }

    private static void deleteRecords(Cluster cluster) throws Exception {
        cluster.createTopic("trimmed", 1);
        var partition = new TopicPartition("trimmed", 0);
        try (var admin = cluster.admin();
                var producer = cluster.producer("batch.size", 0);
                var consumer = cluster.consumer()) {
            Produce.send(producer, "trimmed", 0, 20);
            var before7 = Map.of(partition, RecordsToDelete.beforeOffset(7));
            var low =
                    admin.deleteRecords(before7)
                            .lowWatermarks()
                            .get(partition)
                            .get()
                            .lowWatermark();
            Check.equal(7L, low, "low watermark");
            Check.equal(
                    7L, consumer.beginningOffsets(Set.of(partition)).get(partition), "beginning");
            consumer.assign(Set.of(partition));
            Check.equal(7L, Cluster.poll(consumer, 13).get(0).offset(), "first record");
            var beyond = Map.of(partition, RecordsToDelete.beforeOffset(21));
            Check.fails(
                    OffsetOutOfRangeException.class, () -> admin.deleteRecords(beyond).all().get());
            var all = Map.of(partition, RecordsToDelete.beforeOffset(-1));
            low = admin.deleteRecords(all).lowWatermarks().get(partition).get().lowWatermark();
            Check.equal(20L, low, "low watermark after all");
            Produce.send(producer, "trimmed", 0, 1);
            Check.equal(
                    20L, Cluster.poll(consumer, 1).get(0).offset(), "offset of the next record");
        }
    }

    private static void listOffsets(Cluster cluster) throws Exception {
        cluster.createTopic("offsets", 1, "segment.bytes", "1048576");
        var partition = new TopicPartition("offsets", 0);
        long time = System.currentTimeMillis() - 10_000;
        try (var admin = cluster.admin();
                var producer = cluster.producer()) {
            for (long offset : new long[] {0, 5, 3}) {
                producer.send(
                                new org.apache.kafka.clients.producer.ProducerRecord<>(
                                        "offsets", 0, time + offset, null, Produce.bytes("v")))
                        .get();
            }
            Check.equal(0L, offset(admin, partition, OffsetSpec.earliest()), "earliest");
            Check.equal(3L, offset(admin, partition, OffsetSpec.latest()), "latest");
            Check.equal(1L, offset(admin, partition, OffsetSpec.maxTimestamp()), "max timestamp");
            Check.equal(
                    1L,
                    offset(admin, partition, OffsetSpec.forTimestamp(time + 1)),
                    "for a timestamp");
            Check.equal(
                    -1L,
                    offset(admin, partition, OffsetSpec.forTimestamp(time + 6)),
                    "for a later timestamp");
            Check.equal(0L, offset(admin, partition, OffsetSpec.earliestLocal()), "earliest local");
            Check.equal(-1L, offset(admin, partition, OffsetSpec.latestTiered()), "latest tiered");
        }
    }

    private static long offset(
            org.apache.kafka.clients.admin.Admin admin, TopicPartition partition, OffsetSpec spec)
            throws Exception {
        return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
    }
}
