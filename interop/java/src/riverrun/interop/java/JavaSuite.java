package riverrun.interop.java;

import riverrun.interop.Scenario;

import java.util.ArrayList;
import java.util.List;

/** Scenarios of Kafka's own Java clients. */
public final class JavaSuite {
    private JavaSuite() {}

    public static List<Scenario> scenarios() {
        List<Scenario> scenarios = new ArrayList<>();
        scenarios.addAll(Produce.scenarios());
        scenarios.addAll(Consume.scenarios());
        scenarios.addAll(Compaction.scenarios());
        scenarios.addAll(Groups.scenarios());
        scenarios.addAll(Transactions.scenarios());
        scenarios.addAll(ShareGroups.scenarios());
        scenarios.addAll(AdminTopics.scenarios());
        scenarios.addAll(AdminConfigs.scenarios());
        scenarios.addAll(AdminCluster.scenarios());
        scenarios.addAll(AdminGroups.scenarios());
        return scenarios;
    }
}
