package riverrun.interop.kafkatests;

import kafka.server.KafkaConfig;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.raft.DynamicVoters;
import org.apache.kafka.server.common.MetadataVersion;
import org.opentest4j.TestAbortedException;

import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/**
 * One riverrun, broker and controller in one, in a directory that Kafka's own formatter has prepared,
 * with the properties of a test.
 */
public final class RiverrunNode implements Broker.Node {
    /** Properties by which a test asks for what is not served, and why it is not. */
    private static final Map<String, String> UNSERVED =
            Map.of(
                    "authorizer.class.name", "ACLs are not served",
                    "sasl.enabled.mechanisms", "SASL is not served",
                    "delegation.token.secret.key", "delegation tokens are not served",
                    "remote.log.storage.system.enable", "tiered storage is not served",
                    "create.topic.policy.class.name", "runs a Java class in the server",
                    "alter.config.policy.class.name", "runs a Java class in the server",
                    "client.quota.callback.class", "runs a Java class in the server",
                    "principal.builder.class", "runs a Java class in the server",
                    "metric.reporters", "runs a Java class in the server");

    /** What one broker can give no more than once. */
    private static final List<String> COUNTS_OF_REPLICAS =
            List.of(
                    "default.replication.factor",
                    "min.insync.replicas",
                    "offsets.topic.replication.factor",
                    "transaction.state.log.replication.factor",
                    "transaction.state.log.min.isr",
                    "share.coordinator.state.topic.replication.factor",
                    "share.coordinator.state.topic.min.isr");

    private static final Path DIRS =
            Path.of(System.getProperty("riverrun.dir", System.getProperty("java.io.tmpdir")));

    /** Those of the class that runs. */
    private static final List<RiverrunNode> NODES = new ArrayList<>();

    private final Path dir;
    private final List<Path> logDirs;
    private final int port = ServerProcess.freePort();
    private final int controllerPort = ServerProcess.freePort();
    private final String clusterId = Uuid.randomUuid().toString();
    private final Map<String, Object> properties;
    private final KafkaConfig config;
    private final ServerProcess process;
    /** How many brokers this one stands for. */
    private final int brokers;
    /** Those of them that the test has stopped. The process goes with the last one. */
    private final Set<Integer> stopped = new HashSet<>();
    /** The test has ended with some of them stopped. */
    private boolean isPartial;

    /**
     * @param given the test's properties
     * @param brokers how many brokers the test asks for: it gets one
     */
    public RiverrunNode(Map<String, ?> given, String listener, String controllerListener, int id,
            int disks, int brokers) {
        given.forEach(RiverrunNode::checkIsServed);
        try {
            Files.createDirectories(DIRS);
            dir = Files.createTempDirectory(DIRS, "server-");
        } catch (IOException error) {
            throw new IllegalStateException("no directory in " + DIRS, error);
        }
        logDirs = IntStream.range(0, disks).mapToObj(disk -> dir.resolve("data" + disk)).toList();
        properties = new HashMap<>(given);
        properties.put("process.roles", "broker,controller");
        properties.put("node.id", String.valueOf(id));
        properties.keySet().removeAll(List.of("broker.id", "log.dir", "metadata.log.dir",
                "advertised.listeners", "security.inter.broker.protocol"));
        properties.put("listeners", listener + "://localhost:" + port + ","
                + controllerListener + "://localhost:" + controllerPort);
        properties.put("listener.security.protocol.map",
                listener + ":PLAINTEXT," + controllerListener + ":PLAINTEXT");
        properties.put("inter.broker.listener.name", listener);
        properties.put("controller.listener.names", controllerListener);
        properties.put("controller.quorum.voters", id + "@localhost:" + controllerPort);
        properties.putIfAbsent("log.cleaner.dedupe.buffer.size", "2097152");
        properties.put("log.dirs", String.join(",", logDirs.stream().map(Path::toString).toList()));
        for (String count : COUNTS_OF_REPLICAS) {
            boolean isGiven = properties.containsKey(count);
            if (isGiven || brokers > 1) {
                properties.put(count, "1");
            }
        }
        config = new KafkaConfig(properties, false);
        process = new ServerProcess(dir, port, properties);
        this.brokers = brokers;
        synchronized (RiverrunNode.class) {
            NODES.add(this);
        }
    }

    private static void checkIsServed(String name, Object value) {
        String reason = UNSERVED.get(name);
        String text = String.valueOf(value);
        if (reason != null && !text.isEmpty() && !text.equals("false")) {
            throw new TestAbortedException(reason);
        }
    }

    /** Formats the directory as Kafka's storage tool does, with what {@code features} adds. */
    public void format(MetadataVersion version, boolean isStandalone, Consumer<Formatter> features) {
        Formatter formatter =
                new Formatter()
                        .setPrintStream(new PrintStream(OutputStream.nullOutputStream()))
                        .setNodeId(config.nodeId())
                        .setClusterId(clusterId)
                        .setDirectories(logDirs.stream().map(Path::toString).toList())
                        .setMetadataLogDirectory(logDirs.get(0).toString())
                        .setReleaseVersion(released(version))
                        .setUnstableFeatureVersionsEnabled(true)
                        .setIgnoreFormatted(false)
                        .setControllerListenerName(config.controllerListenerNames().get(0));
        if (isStandalone) {
            String voter = config.nodeId() + "@localhost:" + controllerPort + ":" + Uuid.randomUuid();
            formatter.setInitialControllers(DynamicVoters.parse(voter)).setHasDynamicQuorum(true);
        }
        features.accept(formatter);
        try {
            formatter.run();
        } catch (Exception error) {
            throw new IllegalStateException("cannot format " + logDirs, error);
        }
    }

    /** Kafka's tests ask for the version of the next release where they do not care. */
    private static MetadataVersion released(MetadataVersion version) {
        return version.isLessThan(MetadataVersion.LATEST_PRODUCTION)
                ? version
                : MetadataVersion.LATEST_PRODUCTION;
    }

    @Override
    public KafkaConfig config() {
        return config;
    }

    /** The configuration of a broker that this one stands for. */
    public KafkaConfig configOf(int id) {
        if (id == config.nodeId()) {
            return config;
        }
        Map<String, Object> others = new HashMap<>(properties);
        others.put("node.id", String.valueOf(id));
        others.put("controller.quorum.voters", id + "@localhost:" + controllerPort);
        return new KafkaConfig(others, false);
    }

    @Override
    public String clusterId() {
        return clusterId;
    }

    @Override
    public int port() {
        return port;
    }

    @Override
    public int controllerPort() {
        return controllerPort;
    }

    @Override
    public List<Path> logDirs() {
        return logDirs;
    }

    @Override
    public MetadataLog metadata() {
        return new MetadataLog(logDirs.get(0), brokers > 1);
    }

    @Override
    public synchronized boolean isRunning(int id) {
        return process.isRunning() && !stopped.contains(id);
    }

    @Override
    public synchronized void start(int id) {
        checkIsWhole();
        stopped.remove(id);
        start();
    }

    @Override
    public synchronized void shutdown(int id) {
        stopped.add(id);
        if (stopped.size() == brokers) {
            process.stop();
        }
    }

    /** A test that stops some brokers and uses the others gets less than it asks for. */
    private void checkIsWhole() {
        if (process.isRunning() && !stopped.isEmpty()) {
            throw new TestAbortedException("stops some of several brokers");
        }
    }

    /** Starts the process if it does not run. */
    public synchronized void start() {
        if (!process.isRunning()) {
            process.start();
        }
    }

    @Override
    public synchronized void end() {
        isPartial |= process.isRunning() && !stopped.isEmpty();
        process.stop();
    }

    /** Ends the process, and skips the test if it has stopped some of several brokers. */
    public void stop() {
        end();
        if (isPartial) {
            throw new TestAbortedException("stops some of several brokers");
        }
    }

    /** Stops what still runs of the servers after the first ones. */
    static synchronized void stopAfter(int first) {
        NODES.subList(first, NODES.size()).forEach(RiverrunNode::stop);
    }

    /** How many servers there are by now. */
    static synchronized int count() {
        return NODES.size();
    }

    /** Leaves nothing behind of the servers after the first ones, but for the directory of a failure. */
    static synchronized void clearAfter(int first, boolean isKept) {
        List<RiverrunNode> cleared = NODES.subList(first, NODES.size());
        for (RiverrunNode node : cleared) {
            node.process.kill();
            if (isKept) {
                System.err.println("kept " + node.dir);
                continue;
            }
            try {
                Utils.delete(node.dir.toFile());
            } catch (IOException error) {
                System.err.println("left " + node.dir + ": " + error);
            }
        }
        cleared.clear();
    }

    /** Whether the test that runs has asked for more brokers than there are. */
    public static synchronized boolean isAnyOneOfSeveral() {
        return NODES.stream().anyMatch(node -> node.brokers > 1);
    }
}
