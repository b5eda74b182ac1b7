package org.apache.kafka.clients.admin;

import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableReplicaAssignment;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopic;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopicConfig;
import org.apache.kafka.common.requests.CreateTopicsRequest;

import riverrun.interop.kafkatests.RiverrunNode;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * Stands before the class of this name in Kafka's client. It is the same, but that a test which asks
 * for several brokers, and has one, gets its topics with one replica a partition.
 */
public class NewTopic {
    private static final int FIRST_BROKER = 0;

    private final String name;
    private final Optional<Integer> partitions;
    private final Optional<Short> replicas;
    private final Map<Integer, List<Integer>> assignments;
    private Map<String, String> configs;

    public NewTopic(String name, int numPartitions, short replicationFactor) {
        this(name, Optional.of(numPartitions), Optional.of(replicationFactor));
    }

    public NewTopic(
            String name, Optional<Integer> numPartitions, Optional<Short> replicationFactor) {
        this.name = name;
        partitions = numPartitions;
        replicas = replicationFactor;
        assignments = null;
    }

    public NewTopic(String name, Map<Integer, List<Integer>> replicasAssignments) {
        this.name = name;
        partitions = Optional.empty();
        replicas = Optional.empty();
        assignments = Map.copyOf(replicasAssignments);
    }

    public String name() {
        return name;
    }

    public int numPartitions() {
        return partitions.orElse(CreateTopicsRequest.NO_NUM_PARTITIONS);
    }

    public short replicationFactor() {
        return replicas.orElse(CreateTopicsRequest.NO_REPLICATION_FACTOR);
    }

    public Map<Integer, List<Integer>> replicasAssignments() {
        return assignments;
    }

    public NewTopic configs(Map<String, String> configs) {
        this.configs = configs;
        return this;
    }

    public Map<String, String> configs() {
        return configs;
    }

    CreatableTopic convertToCreatableTopic() {
        boolean isOneOfSeveral = RiverrunNode.isAnyOneOfSeveral();
        short wanted = replicationFactor();
        CreatableTopic topic =
                new CreatableTopic()
                        .setName(name)
                        .setNumPartitions(numPartitions())
                        .setReplicationFactor(isOneOfSeveral && wanted > 1 ? 1 : wanted);
        if (assignments != null) {
            assignments.forEach((partition, brokers) -> topic.assignments().add(
                    new CreatableReplicaAssignment()
                            .setPartitionIndex(partition)
                            .setBrokerIds(isOneOfSeveral ? List.of(FIRST_BROKER) : brokers)));
        }
        if (configs != null) {
            configs.forEach((key, value) -> {
                boolean isCount = isOneOfSeveral && key.equals(TopicConfig.MIN_IN_SYNC_REPLICAS_CONFIG);
                topic.configs().add(new CreatableTopicConfig()
                        .setName(key)
                        .setValue(isCount ? "1" : value));
            });
        }
        return topic;
    }

    @Override
    public String toString() {
        return "(name=" + name
                + ", numPartitions=" + partitions.map(String::valueOf).orElse("default")
                + ", replicationFactor=" + replicas.map(String::valueOf).orElse("default")
                + ", replicasAssignments=" + assignments
                + ", configs=" + configs + ")";
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof NewTopic that
                && name.equals(that.name)
                && partitions.equals(that.partitions)
                && replicas.equals(that.replicas)
                && Objects.equals(assignments, that.assignments)
                && Objects.equals(configs, that.configs);
    }

    @Override
    public int hashCode() {
        return Objects.hash(name, partitions, replicas, assignments, configs);
    }
}
