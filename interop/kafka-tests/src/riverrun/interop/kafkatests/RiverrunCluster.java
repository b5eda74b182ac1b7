package riverrun.interop.kafkatests;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.TestKitDefaults;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.opentest4j.TestAbortedException;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** The cluster of a test of Kafka: one riverrun, whatever number of brokers it asks for. */
public final class RiverrunCluster implements ClusterInstance {
    private static final int ID = TestKitDefaults.BROKER_ID_OFFSET;
    private static final int CONTROLLER_ID = TestKitDefaults.CONTROLLER_ID_OFFSET;
    private static final int WAIT_LIMIT_S = 30;

    private final ClusterConfig config;
    private final boolean isCombined;
    private RiverrunNode node;
    private final Map<Integer, Broker> servers = new TreeMap<>();
    private boolean isStarted;
    private boolean isStopped;

    public RiverrunCluster(ClusterConfig config, boolean isCombined) {
        this.config = config;
        this.isCombined = isCombined;
    }

    /** Prepares the directory, or skips the test if it asks for what is not served. */
    public void format() {
        if (node != null) {
            return;
        }
        if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT
                || config.controllerSecurityProtocol() != SecurityProtocol.PLAINTEXT) {
            throw new TestAbortedException("SASL is not served");
        }
        Map<String, String> properties = new HashMap<>(config.serverProperties());
        Map<Integer, Map<String, String>> ofServers = config.perServerOverrideProperties();
        if (ofServers.keySet().stream().anyMatch(id -> id >= CONTROLLER_ID)) {
            throw new TestAbortedException("gives properties to a controller of its own");
        }
        properties.putAll(ofServers.getOrDefault(ID, Map.of()));
        node =
                new RiverrunNode(
                        properties,
                        config.brokerListenerName().value(),
                        config.controllerListenerName().value(),
                        ID,
                        config.numDisksPerBroker(),
                        config.numBrokers());
        node.format(
                config.metadataVersion(),
                config.standalone(),
                formatter ->
                        config.features().forEach(
                                (feature, level) ->
                                        formatter.setFeatureLevel(feature.featureName(), level)));
    }

    @Override
    public void start() {
        format();
        if (!isStarted) {
            isStarted = true;
            node.start();
        }
    }

    @Override
    public boolean started() {
        return isStarted;
    }

    @Override
    public void stop() {
        if (!isStopped && node != null) {
            isStopped = true;
            node.stop();
        }
    }

    @Override
    public boolean stopped() {
        return isStopped;
    }

    @Override
    public Type type() {
        return isCombined ? Type.CO_KRAFT : Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        Map<Integer, KafkaBroker> brokers = new HashMap<>();
        servers().forEach((id, server) -> brokers.put(id, server.broker()));
        return brokers;
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        Map<Integer, ControllerServer> controllers = new HashMap<>();
        controllers.put(ID, servers().get(ID).controller());
        return controllers;
    }

    /** The brokers that the test has asked for: all are the one. */
    private Map<Integer, Broker> servers() {
        for (int id = ID; servers.size() < config.numBrokers(); id++) {
            servers.put(id, new Broker(node, node.configOf(id)));
        }
        return servers;
    }

    @Override
    public Set<Integer> brokerIds() {
        return brokers().keySet();
    }

    @Override
    public Set<Integer> controllerIds() {
        return controllers().keySet();
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    @Override
    public String bootstrapServers() {
        return "localhost:" + node.port();
    }

    @Override
    public String bootstrapControllers() {
        return "localhost:" + node.controllerPort();
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return List.of(node.port());
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        return List.of(node.controllerPort());
    }

    @Override
    public String clusterId() {
        return node.clusterId();
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        Short level = config.features().get(Feature.GROUP_VERSION);
        boolean hasConsumer = level == null || level > 0;
        return hasConsumer ? Set.of(GroupProtocol.values()) : Set.of(GroupProtocol.CLASSIC);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public void shutdownBroker(int id) {
        server(id).shutdown();
    }

    @Override
    public void startBroker(int id) {
        server(id).startup();
    }

    private KafkaBroker server(int id) {
        if (!servers().containsKey(id)) {
            throw new IllegalArgumentException("no broker " + id);
        }
        return servers().get(id).broker();
    }

    @Override
    public void createTopic(
            String topic, int partitions, short replicas, Map<String, String> configs) {
        create(new NewTopic(topic, partitions, (short) 1).configs(configs));
    }

    @Override
    public void createTopic(String topic, int partitions, short replicas) {
        createTopic(topic, partitions, replicas, Map.of());
    }

    @Override
    public void createTopicWithAssignment(
            String topic, Map<Integer, List<Integer>> assignment) {
        Map<Integer, List<Integer>> here = new HashMap<>();
        assignment.keySet().forEach(partition -> here.put(partition, List.of(ID)));
        create(new NewTopic(topic, here));
    }

    private void create(NewTopic topic) {
        try (Admin admin = admin()) {
            admin.createTopics(List.of(topic)).all().get(WAIT_LIMIT_S, TimeUnit.SECONDS);
        } catch (Exception error) {
            // Kafka's own cluster only waits until the topic is there.
            if (error.getCause() instanceof TopicExistsException) {
                return;
            }
            throw new AssertionError("cannot create " + topic, error);
        }
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        try (Admin admin = admin()) {
            await(topic + " is not there", () -> partitionsOf(admin, topic) == partitions);
        }
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        try (Admin admin = admin()) {
            await(topic + " is still there", () -> partitionsOf(admin, topic) == 0);
        }
    }

    /** How many partitions a topic has; 0 without the topic. */
    private static int partitionsOf(Admin admin, String topic) {
        try {
            return admin.describeTopics(List.of(topic))
                    .allTopicNames()
                    .get()
                    .get(topic)
                    .partitions()
                    .size();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return 0;
            }
            throw new AssertionError("cannot describe " + topic, error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new AssertionError("interrupted", error);
        }
    }

    private static void await(String otherwise, BooleanSupplier condition)
            throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_LIMIT_S);
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError(otherwise);
            }
            TimeUnit.MILLISECONDS.sleep(20);
        }
    }

    @Override
    public void waitForReadyBrokers() {
        // It was ready when start() returned.
    }

    @Override
    public void ensureConsistentMetadata() {
        // What is acknowledged has been applied.
    }

    @Override
    public void ensureConsistentMetadata(
            Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
        // The same.
    }
}
