package riverrun.interop.java;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConfigEntry.ConfigSource;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.util.Collection;
import java.util.List;
import java.util.Map;

/** Configurations of topics and brokers, described and altered. */
final class AdminConfigs {
    private static final ConfigResource BROKER =
            new ConfigResource(ConfigResource.Type.BROKER, "1");
    private static final ConfigResource ALL_BROKERS =
            new ConfigResource(ConfigResource.Type.BROKER, "");

    private AdminConfigs() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("describe-configs", AdminConfigs::describe),
                Scenario.of("alter-topic-configs", AdminConfigs::alterTopic),
                Scenario.of("alter-configs-refused", AdminConfigs::alterRefused),
                Scenario.of("alter-broker-configs", AdminConfigs::alterBroker),
                Scenario.of("topic-limits-take-effect", AdminConfigs::topicLimitsTakeEffect));
    }

    private static void describe(Cluster cluster) throws Exception {
        cluster.createTopic("described", 1, "retention.ms", "5000");
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, "described");
        try (var admin = cluster.admin()) {
            var options =
                    new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
            var topic = admin.describeConfigs(List.of(resource), options).all().get().get(resource);
            var retention = topic.get("retention.ms");
            Check.equal("5000", retention.value(), "retention.ms");
            Check.equal(
                    ConfigSource.DYNAMIC_TOPIC_CONFIG,
                    retention.source(),
                    "source of retention.ms");
            Check.equal(ConfigEntry.ConfigType.LONG, retention.type(), "type of retention.ms");
            Check.that(
                    !retention.isSensitive() && !retention.isReadOnly(),
                    "retention.ms is open to changes");
            Check.that(!retention.documentation().isEmpty(), "retention.ms is documented");
            Check.equal(
                    1,
                    retention.synonyms().size(),
                    "synonyms of retention.ms, whose default has another unit");
            var synonym = topic.get("max.message.bytes").synonyms().get(0);
            Check.equal("message.max.bytes", synonym.name(), "synonym of max.message.bytes");
            Check.equal("1048588", topic.get("max.message.bytes").value(), "max.message.bytes");
            Check.equal(
                    ConfigSource.DEFAULT_CONFIG, topic.get("max.message.bytes").source(), "source");
            Check.equal("delete", topic.get("cleanup.policy").value(), "cleanup.policy");
            Check.that(topic.entries().size() >= 30, "every topic configuration is described");
            var broker = admin.describeConfigs(List.of(BROKER)).all().get().get(BROKER);
            Check.equal(
                    ConfigSource.STATIC_BROKER_CONFIG,
                    broker.get("listeners").source(),
                    "source of listeners");
            Check.equal("1048588", broker.get("message.max.bytes").value(), "message.max.bytes");
            Check.that(broker.get("node.id").isReadOnly(), "node.id is read-only");
            var absent = new ConfigResource(ConfigResource.Type.TOPIC, "absent");
            Check.fails(
                    UnknownTopicOrPartitionException.class,
                    () -> admin.describeConfigs(List.of(absent)).all().get());
        }
    }

    private static void alterTopic(Cluster cluster) throws Exception {
        cluster.createTopic("altered", 1);
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, "altered");
        try (var admin = cluster.admin()) {
            alter(
                    admin,
                    resource,
                    op("retention.ms", "7000", OpType.SET),
                    op("cleanup.policy", "compact", OpType.APPEND));
            awaitValue(admin, resource, "cleanup.policy", "delete,compact");
            awaitValue(admin, resource, "retention.ms", "7000");
            alter(admin, resource, op("cleanup.policy", "delete", OpType.SUBTRACT));
            awaitValue(admin, resource, "cleanup.policy", "compact");
            alter(admin, resource, op("retention.ms", "", OpType.DELETE));
            awaitValue(admin, resource, "retention.ms", "604800000");
            var validateOnly = new AlterConfigsOptions().validateOnly(true);
            Map<ConfigResource, Collection<AlterConfigOp>> change =
                    Map.of(resource, List.of(op("retention.ms", "1", OpType.SET)));
            admin.incrementalAlterConfigs(change, validateOnly).all().get();
            awaitValue(admin, resource, "retention.ms", "604800000");
        }
    }

    private static void alterRefused(Cluster cluster) throws Exception {
        cluster.createTopic("not-altered", 1);
        var topic = new ConfigResource(ConfigResource.Type.TOPIC, "not-altered");
        var absent = new ConfigResource(ConfigResource.Type.TOPIC, "absent");
        try (var admin = cluster.admin()) {
            refused(
                    admin,
                    InvalidConfigurationException.class,
                    topic,
                    op("retention.ms", "long", OpType.SET));
            refused(
                    admin,
                    InvalidConfigurationException.class,
                    topic,
                    op("no.such.config", "1", OpType.SET));
            refused(
                    admin,
                    InvalidConfigurationException.class,
                    topic,
                    op("retention.ms", "1", OpType.APPEND));
            refused(
                    admin,
                    UnknownTopicOrPartitionException.class,
                    absent,
                    op("retention.ms", "1", OpType.SET));
            refused(admin, InvalidRequestException.class, BROKER, op("node.id", "2", OpType.SET));
            refused(
                    admin,
                    InvalidRequestException.class,
                    topic,
                    op("retention.ms", "1", OpType.SET),
                    op("retention.ms", "2", OpType.SET));
        }
    }

    private static void alterBroker(Cluster cluster) throws Exception {
        try (var admin = cluster.admin()) {
            alter(admin, ALL_BROKERS, op("log.retention.ms", "99000", OpType.SET));
            awaitValue(admin, BROKER, "log.retention.ms", "99000");
            alter(admin, BROKER, op("log.retention.ms", "88000", OpType.SET));
            awaitValue(admin, BROKER, "log.retention.ms", "88000");
            var entry = config(admin, BROKER).get("log.retention.ms");
            Check.equal(ConfigSource.DYNAMIC_BROKER_CONFIG, entry.source(), "source");
            cluster.createTopic("inherits", 1);
            awaitValue(
                    admin,
                    new ConfigResource(ConfigResource.Type.TOPIC, "inherits"),
                    "retention.ms",
                    "88000");
            alter(admin, BROKER, op("log.retention.ms", "", OpType.DELETE));
            awaitValue(admin, BROKER, "log.retention.ms", "99000");
            alter(admin, ALL_BROKERS, op("log.retention.ms", "", OpType.DELETE));
        }
    }

    private static void topicLimitsTakeEffect(Cluster cluster) throws Exception {
        cluster.createTopic("limited", 1);
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, "limited");
        try (var admin = cluster.admin();
                var producer = cluster.producer()) {
            Produce.send(producer, "limited", 0, 1);
            alter(admin, resource, op("max.message.bytes", "200", OpType.SET));
            awaitValue(admin, resource, "max.message.bytes", "200");
            var large =
                    new org.apache.kafka.clients.producer.ProducerRecord<byte[], byte[]>(
                            "limited", Produce.value(300));
            Check.fails(
                    org.apache.kafka.common.errors.RecordTooLargeException.class,
                    () -> producer.send(large).get());
        }
    }

    private static org.apache.kafka.clients.admin.Config config(
            Admin admin, ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource);
    }

    private static void awaitValue(Admin admin, ConfigResource resource, String name, String value)
            throws Exception {
        Check.eventually(
                () -> value.equals(config(admin, resource).get(name).value()), name + "=" + value);
    }

    private static AlterConfigOp op(String name, String value, OpType type) {
        return new AlterConfigOp(new ConfigEntry(name, value), type);
    }

    private static void alter(Admin admin, ConfigResource resource, AlterConfigOp... ops)
            throws Exception {
        admin.incrementalAlterConfigs(Map.of(resource, List.of(ops))).all().get();
    }

    private static void refused(
            Admin admin,
            Class<? extends Exception> error,
            ConfigResource resource,
            AlterConfigOp... ops)
            throws Exception {
        Check.fails(
                error,
                () -> admin.incrementalAlterConfigs(Map.of(resource, List.of(ops))).all().get());
    }
}
