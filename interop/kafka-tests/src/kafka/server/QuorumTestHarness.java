package kafka.server;

import kafka.integration.KafkaServerTestHarness;
import kafka.utils.Logging;
import kafka.utils.TestInfoUtils;

import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.MockFaultHandler;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.provider.Arguments;
import org.opentest4j.TestAbortedException;

import riverrun.interop.kafkatests.Broker;
import riverrun.interop.kafkatests.RiverrunNode;

import scala.Option;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Stream;

/**
 * Stands before the class of this name in Apache Kafka's test framework, which gives a broker to the
 * tests written in Scala: this one starts a process of riverrun for the first broker of a test, and
 * says of the others that they are the same.
 */
public abstract class QuorumTestHarness implements Logging {
    private final QuorumTestHarnessFaultHandlerFactory faultHandlerFactory =
            new QuorumTestHarnessFaultHandlerFactory(new MockFaultHandler("riverrun"));
    private String logIdent = "";
    private TestInfo testInfo;
    private RiverrunNode node;
    private ControllerServer controllerServer;

    @BeforeEach
    public void setUp(TestInfo testInfo) {
        this.testInfo = testInfo;
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("exit with " + code + ": " + message);
        });
        Exit.setHaltProcedure((code, message) -> {
            throw new IllegalStateException("halt with " + code + ": " + message);
        });
    }

    @AfterEach
    public void tearDown() {
        Exit.resetExitProcedure();
        Exit.resetHaltProcedure();
    }

    public KafkaBroker createBroker(
            KafkaConfig config, Time time, boolean startup, Option<String> threadNamePrefix) {
        if (node == null) {
            node = firstNode(config);
            Broker broker = new Broker(node);
            controllerServer = broker.controller();
            return started(broker, startup);
        }
        return started(new Broker(node, node.configOf(config.brokerId())), startup);
    }

    private static KafkaBroker started(Broker broker, boolean startup) {
        if (startup) {
            broker.broker().startup();
        }
        return broker.broker();
    }

    private RiverrunNode firstNode(KafkaConfig config) {
        Map<String, Object> properties = new HashMap<>();
        for (Properties ofController : CollectionConverters.asJava(kraftControllerConfigs(testInfo))) {
            ofController.stringPropertyNames().forEach(
                    name -> properties.put(name, ofController.getProperty(name)));
        }
        properties.putAll(config.originals());
        String listeners = String.valueOf(properties.get("listeners"));
        if (listeners.contains("SSL") || listeners.contains("SASL")) {
            throw new TestAbortedException("SASL and TLS are not served");
        }
        int brokers = this instanceof KafkaServerTestHarness harness ? harness.configs().size() : 1;
        RiverrunNode first =
                new RiverrunNode(
                        properties,
                        listeners.substring(0, listeners.indexOf("://")),
                        "CONTROLLER",
                        config.brokerId(),
                        config.logDirs().size(),
                        brokers);
        first.format(metadataVersion(), false, this::addFormatterSettings);
        return first;
    }

    public Time createBroker$default$2() {
        return Time.SYSTEM;
    }

    public boolean createBroker$default$3() {
        return true;
    }

    public Option<String> createBroker$default$4() {
        return Option.empty();
    }

    public ControllerServer controllerServer() {
        return controllerServer;
    }

    public Seq<ControllerServer> controllerServers() {
        return CollectionConverters.asScala(List.of(controllerServer)).toSeq();
    }

    public Seq<Properties> kraftControllerConfigs(TestInfo testInfo) {
        return CollectionConverters.asScala(List.of(new Properties())).toSeq();
    }

    public void addFormatterSettings(Formatter formatter) {
        // Tests add theirs.
    }

    public MetadataVersion metadataVersion() {
        return MetadataVersion.latestTesting();
    }

    public SecurityProtocol controllerListenerSecurityProtocol() {
        return SecurityProtocol.PLAINTEXT;
    }

    public Seq<SecurityProtocol> extraControllerSecurityProtocols() {
        return CollectionConverters.asScala(List.<SecurityProtocol>of()).toSeq();
    }

    public QuorumImplementation implementation() {
        throw new TestAbortedException("looks inside of a controller");
    }

    public void shutdownKRaftController() {
        throw new TestAbortedException("stops the controller without its broker");
    }

    public QuorumTestHarnessFaultHandlerFactory faultHandlerFactory() {
        return faultHandlerFactory;
    }

    public MockFaultHandler faultHandler() {
        return faultHandlerFactory.faultHandler();
    }

    public Option<GroupProtocol> maybeGroupProtocolSpecified() {
        return TestInfoUtils.maybeGroupProtocolSpecified(testInfo);
    }

    public GroupProtocol groupProtocolFromTestParameters() {
        return maybeGroupProtocolSpecified().get();
    }

    @Override
    public String logIdent() {
        return logIdent;
    }

    @Override
    public void logIdent_$eq(String text) {
        logIdent = text;
    }

    public static Stream<Arguments> getTestGroupProtocolParametersAll() {
        return Stream.of(GroupProtocol.values()).map(QuorumTestHarness::arguments);
    }

    public static Stream<Arguments> getTestGroupProtocolParametersClassicGroupProtocolOnly() {
        return Stream.of(arguments(GroupProtocol.CLASSIC));
    }

    public static Stream<Arguments> getTestGroupProtocolParametersConsumerGroupProtocolOnly() {
        return Stream.of(arguments(GroupProtocol.CONSUMER));
    }

    private static Arguments arguments(GroupProtocol protocol) {
        return Arguments.of(protocol.name().toLowerCase(java.util.Locale.ROOT));
    }
}
