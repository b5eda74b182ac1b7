package org.apache.kafka.common.test;

import kafka.server.BrokerServer;
import kafka.server.ControllerServer;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.opentest4j.TestAbortedException;

import riverrun.interop.kafkatests.Broker;
import riverrun.interop.kafkatests.RiverrunNode;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;

/**
 * Stands before the class of this name in Apache Kafka's test framework, of which tests make clusters
 * by hand: this one is a process of riverrun.
 */
public class KafkaClusterTestKit implements AutoCloseable {
    private final TestKitNodes nodes;
    private final boolean isStandalone;
    private final RiverrunNode node;
    private final Map<Integer, BrokerServer> brokers = new TreeMap<>();
    private final Map<Integer, ControllerServer> controllers = new TreeMap<>();
    private final MockFaultHandler faultHandler = new MockFaultHandler("riverrun");

    private KafkaClusterTestKit(
            TestKitNodes nodes, Map<String, Object> properties, boolean isStandalone) {
        if (nodes.brokerListenerProtocol() != SecurityProtocol.PLAINTEXT) {
            throw new TestAbortedException("SASL is not served");
        }
        this.nodes = nodes;
        this.isStandalone = isStandalone;
        int id = nodes.brokerNodes().firstKey();
        Map<String, Object> given = new HashMap<>(properties);
        given.putAll(nodes.brokerNodes().get(id).propertyOverrides());
        node =
                new RiverrunNode(
                        given,
                        nodes.brokerListenerName().value(),
                        nodes.controllerListenerName().value(),
                        id,
                        nodes.brokerNodes().get(id).logDataDirectories().size(),
                        nodes.brokerNodes().size());
    }

    public void format() {
        BootstrapMetadata bootstrap = nodes.bootstrapMetadata();
        node.format(
                bootstrap.metadataVersion(), isStandalone, formatter -> add(bootstrap, formatter));
    }

    private static void add(BootstrapMetadata bootstrap, Formatter formatter) {
        for (ApiMessageAndVersion record : bootstrap.records()) {
            if (record.message() instanceof FeatureLevelRecord feature
                    && !feature.name().equals(MetadataVersion.FEATURE_NAME)) {
                formatter.setFeatureLevel(feature.name(), feature.featureLevel());
            }
        }
    }

    public void startup() {
        node.start();
        for (int id : nodes.brokerNodes().keySet()) {
            brokers.put(id, new Broker(node, node.configOf(id)).broker());
        }
        for (int id : nodes.controllerNodes().keySet()) {
            controllers.put(id, new Broker(node).controller());
        }
    }

    public void waitForReadyBrokers() {
        // They were ready when startup() returned.
    }

    public Admin admin() {
        return admin(Map.of());
    }

    public Admin admin(Map<String, Object> configs) {
        return admin(configs, false);
    }

    public Admin admin(Map<String, Object> configs, boolean usesControllers) {
        Map<String, Object> all = new HashMap<>(configs);
        if (usesControllers) {
            all.put(AdminClientConfig.BOOTSTRAP_CONTROLLERS_CONFIG, bootstrapControllers());
            all.remove(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG);
        } else {
            all.put(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrapServers());
            all.remove(AdminClientConfig.BOOTSTRAP_CONTROLLERS_CONFIG);
        }
        return Admin.create(all);
    }

    public String bootstrapServers() {
        return "localhost:" + node.port();
    }

    public String bootstrapControllers() {
        return "localhost:" + node.controllerPort();
    }

    public Map<Integer, BrokerServer> brokers() {
        return brokers;
    }

    public Map<Integer, ControllerServer> controllers() {
        return controllers;
    }

    public TestKitNodes nodes() {
        return nodes;
    }

    public MockFaultHandler fatalFaultHandler() {
        return faultHandler;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return faultHandler;
    }

    @Override
    public void close() {
        node.stop();
    }

    /** What tests make a cluster with. */
    public static class Builder {
        private final TestKitNodes nodes;
        private final Map<String, Object> properties = new HashMap<>();
        private boolean isStandalone;

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String name, Object value) {
            properties.put(name, value);
            return this;
        }

        public Builder setStandalone(boolean isStandalone) {
            this.isStandalone = isStandalone;
            return this;
        }

        public Builder setInitialVoterSet(Map<Integer, Uuid> voters) {
            isStandalone = !voters.isEmpty();
            return this;
        }

        public Builder setDeleteOnClose(boolean isDeleted) {
            return this;
        }

        public KafkaClusterTestKit build() {
            return new KafkaClusterTestKit(nodes, properties, isStandalone);
        }
    }
}
