package riverrun.interop.kafkatests;

import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import kafka.server.SharedServer;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.ConfigurationsImage;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;
import org.apache.kafka.server.record.BrokerCompressionType;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.opentest4j.TestAbortedException;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;

/** What tests may ask of a broker and of its controller beside the protocol. */
public final class Broker {
    private final Node node;
    private final KafkaConfig config;
    private final BrokerServer broker;
    private final ControllerServer controller;

    public Broker(Node node) {
        this(node, node.config());
    }

    /** One of several that are the same server. */
    public Broker(Node node, KafkaConfig config) {
        this.node = node;
        this.config = config;
        broker = brokerServer();
        controller = controllerServer();
    }

    public BrokerServer broker() {
        return broker;
    }

    public ControllerServer controller() {
        return controller;
    }

    private BrokerServer brokerServer() {
        SocketServer sockets =
                new StandIn<>(SocketServer.class).on("boundPort", call -> node.port()).object();
        // All that is acknowledged has been applied.
        MetadataLoader loader =
                new StandIn<>(MetadataLoader.class)
                        .on("lastAppliedOffset", call -> Long.MAX_VALUE)
                        .object();
        SharedServer shared =
                new StandIn<>(SharedServer.class).on("loader", call -> loader).object();
        KafkaApis apis =
                new StandIn<>(KafkaApis.class)
                        .on("metadataCache", call -> node.metadata().cache())
                        .object();
        GroupCoordinator groups =
                new StandIn<>(GroupCoordinator.class)
                        .on("groupMetadataTopicConfigs", call -> offsetsTopicConfigs())
                        .object();
        LogManager logs = logManager();
        ReplicaManager replicas =
                new StandIn<>(ReplicaManager.class)
                        .on("onlinePartition", call -> partition(call.getArgument(0)))
                        .on("localLog", call -> log(call.getArgument(0)))
                        .on("localLogOrException", call -> log(call.getArgument(0)).get())
                        .on("logManager", call -> logs)
                        .object();
        return new StandIn<>(BrokerServer.class)
                .on("config", call -> currentConfig())
                .on("clusterId", call -> node.clusterId())
                .on("boundPort", call -> node.port())
                .on("socketServer", call -> sockets)
                .on("metadataCache", call -> node.metadata().cache())
                .on("dataPlaneRequestProcessor", call -> apis)
                .on("groupCoordinator", call -> groups)
                .on("logManager", call -> logs)
                .on("replicaManager", call -> replicas)
                .on("sharedServer", call -> shared)
                .on("brokerState", call -> state())
                .on("isShutdown", call -> !node.isRunning(config.brokerId()))
                .on("startup", call -> {
                    node.start(config.brokerId());
                    return null;
                })
                .on("shutdown", call -> {
                    shutdown();
                    return null;
                })
                .on("awaitShutdown", call -> null)
                .object();
    }

    /** The static configuration, and what the metadata say of the broker and of all brokers. */
    private KafkaConfig currentConfig() {
        if (!node.isRunning(config.brokerId())) {
            return config;
        }
        ConfigurationsImage changed = node.metadata().image().configs();
        Map<String, Object> all = new HashMap<>(config.originals());
        for (String name : List.of("", String.valueOf(config.nodeId()))) {
            all.putAll(changed.configMapForResource(
                    new ConfigResource(ConfigResource.Type.BROKER, name)));
        }
        return all.equals(config.originals()) ? config : new KafkaConfig(all, false);
    }

    private void shutdown() {
        if (isCalledBy("recreateBrokers")) {
            throw new TestAbortedException("makes its brokers anew");
        }
        // That is how Kafka's test framework ends a test.
        if (isCalledBy("shutdownServers")) {
            node.end();
        } else {
            node.shutdown(config.brokerId());
        }
    }

    private static boolean isCalledBy(String method) {
        return StackWalker.getInstance()
                .walk(frames -> frames.anyMatch(frame -> frame.getMethodName().contains(method)));
    }

    private BrokerState state() {
        return node.isRunning(config.brokerId()) ? BrokerState.RUNNING : BrokerState.NOT_RUNNING;
    }

    private ControllerServer controllerServer() {
        RaftLog log =
                new StandIn<>(RaftLog.class)
                        .on("endOffset", call -> new LogOffsetMetadata(0))
                        .object();
        KafkaRaftManager<?> raft =
                new StandIn<>(KafkaRaftManager.class).on("raftLog", call -> log).object();
        Controller controller =
                new StandIn<>(Controller.class)
                        .on("isActive", call -> true)
                        .on("findAllTopicIds", call -> CompletableFuture.completedFuture(topicIds()))
                        .on("findTopicIds", call -> topicIds(call.getArgument(1)))
                        .object();
        SocketServer sockets =
                new StandIn<>(SocketServer.class)
                        .on("boundPort", call -> node.controllerPort())
                        .object();
        return new StandIn<>(ControllerServer.class)
                .on("config", call -> currentConfig())
                .on("clusterId", call -> node.clusterId())
                .on("raftManager", call -> raft)
                .on("controller", call -> controller)
                .on("socketServer", call -> sockets)
                .on("shutdown", call -> null)
                .on("awaitShutdown", call -> null)
                .object();
    }

    private Map<String, Uuid> topicIds() {
        return node.metadata().image().topics().topicNameToIdView();
    }

    private CompletableFuture<Map<String, ResultOrError<Uuid>>> topicIds(Collection<String> names) {
        Map<String, Uuid> ids = topicIds();
        Map<String, ResultOrError<Uuid>> found = new HashMap<>();
        for (String name : names) {
            found.put(name, ids.containsKey(name)
                    ? ResultOrError.of(ids.get(name))
                    : ResultOrError.of(new ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION)));
        }
        return CompletableFuture.completedFuture(found);
    }

    /** By directories: there is a log where there is a directory of the partition's. */
    private LogManager logManager() {
        return new StandIn<>(LogManager.class)
                .on("liveLogDirs", call -> CollectionConverters.asScala(
                        node.logDirs().stream().map(Path::toFile).toList()).toSeq())
                .on("getLog", call -> log(call.getArgument(0)))
                .object();
    }

    private Option<UnifiedLog> log(TopicPartition partition) {
        for (Path logDir : node.logDirs()) {
            Path dir = logDir.resolve(partition.toString());
            if (Files.isDirectory(dir)) {
                return Option.apply(
                        new PartitionLog(node.port(), partition, dir.toFile()).log());
            }
        }
        return Option.empty();
    }

    private Option<Partition> partition(TopicPartition partition) {
        Option<UnifiedLog> log = log(partition);
        if (log.isEmpty()) {
            return Option.empty();
        }
        Optional<LeaderAndIsr> leader =
                node.metadata().cache().getLeaderAndIsr(partition.topic(), partition.partition());
        return Option.apply(
                new StandIn<>(Partition.class)
                        .on("topicPartition", call -> partition)
                        .on("leaderIdIfLocal", call -> Option.apply(config.brokerId()))
                        .on("leaderLogIfLocal", call -> log)
                        .on("localLogOrException", call -> log.get())
                        .on("log", call -> log)
                        .on("getLeaderEpoch", call -> leader.orElseThrow().leaderEpoch())
                        .object());
    }

    /** What Kafka's group coordinator gives the topic of its offsets. */
    private Properties offsetsTopicConfigs() {
        Properties properties = new Properties();
        properties.setProperty(
                TopicConfig.CLEANUP_POLICY_CONFIG, TopicConfig.CLEANUP_POLICY_COMPACT);
        properties.setProperty(
                TopicConfig.COMPRESSION_TYPE_CONFIG, BrokerCompressionType.PRODUCER.name);
        properties.setProperty(
                TopicConfig.SEGMENT_BYTES_CONFIG,
                String.valueOf(config.groupCoordinatorConfig().offsetsTopicSegmentBytes()));
        return properties;
    }

    /** The server behind the stand-ins. */
    public interface Node {
        KafkaConfig config();

        String clusterId();

        int port();

        int controllerPort();

        List<Path> logDirs();

        MetadataLog metadata();

        boolean isRunning(int id);

        void start(int id);

        void shutdown(int id);

        /** Stops the process at the end of a test. */
        void end();
    }
}
