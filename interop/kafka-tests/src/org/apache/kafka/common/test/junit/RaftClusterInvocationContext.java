package org.apache.kafka.common.test.junit;

import org.apache.kafka.common.test.api.ClusterConfig;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

import riverrun.interop.kafkatests.RiverrunCluster;

import java.util.List;

/**
 * Stands before the class of this name in Apache Kafka's test framework, which asks it for a cluster
 * for each test: this one is a process of riverrun.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String baseDisplayName;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(
            String baseDisplayName, ClusterConfig config, boolean isCombined) {
        this.baseDisplayName = baseDisplayName;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int number) {
        String type = isCombined ? "Combined" : "Isolated";
        String tags = String.join(",", config.displayTags());
        return baseDisplayName + " [" + number + "] Type=Raft-" + type + ", " + tags;
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        RiverrunCluster cluster = new RiverrunCluster(config, isCombined);
        return List.of(
                (BeforeEachCallback)
                        context -> {
                            cluster.format();
                            if (config.isAutoStart()) {
                                cluster.start();
                            }
                        },
                (AfterTestExecutionCallback) context -> cluster.stop(),
                new ClusterInstanceParameterResolver(cluster));
    }
}
