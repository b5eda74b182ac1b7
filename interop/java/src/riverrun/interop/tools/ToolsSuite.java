package riverrun.interop.tools;

import riverrun.interop.Scenario;

import java.util.ArrayList;
import java.util.List;

/** Scenarios of Kafka's command-line tools, run as their scripts run them. */
public final class ToolsSuite {
    private ToolsSuite() {}

    public static List<Scenario> scenarios() {
        List<Scenario> scenarios = new ArrayList<>();
        scenarios.addAll(TopicTools.scenarios());
        scenarios.addAll(ClusterTools.scenarios());
        scenarios.addAll(ClientTools.scenarios());
        scenarios.addAll(GroupTools.scenarios());
        scenarios.addAll(AdminTools.scenarios());
        scenarios.addAll(DumpTools.scenarios());
        scenarios.addAll(TransactionTools.scenarios());
        scenarios.addAll(HangingTransactions.scenarios());
        return scenarios;
    }
}
