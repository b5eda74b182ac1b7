package riverrun.interop.tools;

import static riverrun.interop.tools.TopicTools.with;

import org.apache.kafka.tools.GroupsCommand;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** kafka-consumer-groups and kafka-groups. */
final class GroupTools {
    private GroupTools() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("consumer-groups", GroupTools::describe),
                Scenario.of("consumer-groups-reset-offsets", GroupTools::resetOffsets),
                Scenario.of("consumer-groups-reset-plans", GroupTools::resetPlans),
                Scenario.of("consumer-groups-of-all", GroupTools::all),
                Scenario.of("consumer-groups-delete", GroupTools::delete));
    }

    private static Tool.Output groups(Cluster cluster, String... arguments) throws Exception {
        return Tool.run(ConsumerGroupCommand.class, with(cluster, arguments));
    }

    /** A group that has read five records of one partition and left. */
    static void readBy(Cluster cluster, String group, String topic) throws Exception {
        cluster.createTopic(topic, 1);
        ClientTools.produce(cluster, topic, "a\nb\nc\nd\ne\n");
        ClientTools.consume(cluster, topic, 5, "--group", group);
    }

    private static void describe(Cluster cluster) throws Exception {
        readBy(cluster, "tool-group", "of-tool-group");
        groups(cluster, "--list").good().withLine("tool-group");
        groups(cluster, "--list", "--state").good().withLine("tool-group\\s+Empty\\s*");
        groups(cluster, "--describe", "--group", "tool-group")
                .good()
                .with("Consumer group 'tool-group' has no active members.")
                .withLine(
                        "GROUP\\s+TOPIC\\s+PARTITION\\s+CURRENT-OFFSET\\s+LOG-END-OFFSET\\s+LAG\\s+CONSUMER-ID\\s+HOST\\s+CLIENT-ID.*")
                .withLine("tool-group\\s+of-tool-group\\s+0\\s+5\\s+5\\s+0\\s+-\\s+-\\s+-.*");
        try (var member = cluster.consumer("group.id", "tool-group", "client.id", "the-member")) {
            member.subscribe(List.of("of-tool-group"));
            Cluster.awaitAssignment(member, 1);
            groups(cluster, "--describe", "--group", "tool-group")
                    .good()
                    .withLine(
                            "tool-group\\s+of-tool-group\\s+0\\s+5\\s+5\\s+0\\s+the-member-\\S+\\s+/127.0.0.1\\s+the-member.*");
            groups(cluster, "--describe", "--group", "tool-group", "--members", "--verbose")
                    .good()
                    .with("of-tool-group:0");
            groups(cluster, "--describe", "--group", "tool-group", "--state")
                    .good()
                    .withLine(
                            "tool-group\\s+127.0.0.1:\\d+\\s+\\(1\\)\\s+range\\s+Stable\\s+.*1.*");
        }
        Tool.run(GroupsCommand.class, with(cluster, "--list"))
                .good()
                .withLine("tool-group\\s+Classic\\s+.*");
        // The tool reports the error and ends with status 0.
        groups(cluster, "--describe", "--group", "absent").with("Group absent not found.");
    }

    private static void resetOffsets(Cluster cluster) throws Exception {
        readBy(cluster, "reset-group", "of-reset-group");
        String[][] targets = {
            {"--to-earliest", "0"},
            {"--to-latest", "5"},
            {"--to-offset", "2", "2"},
            {"--shift-by", "2", "4"},
            {"--by-duration", "P1D", "0"},
            {"--to-current", "0"}
        };
        for (String[] target : targets) {
            String[] reset = {
                "--reset-offsets",
                "--group",
                "reset-group",
                "--topic",
                "of-reset-group",
                "--execute"
            };
            String[] arguments = new String[reset.length + target.length - 1];
            System.arraycopy(reset, 0, arguments, 0, reset.length);
            System.arraycopy(target, 0, arguments, reset.length, target.length - 1);
            groups(cluster, arguments)
                    .good()
                    .withLine(
                            "reset-group\\s+of-reset-group\\s+0\\s+"
                                    + target[target.length - 1]
                                    + "\\s*");
        }
        groups(cluster, "--describe", "--group", "reset-group")
                .good()
                .withLine("reset-group\\s+of-reset-group\\s+0\\s+0\\s+5\\s+5\\s.*");
    }

    /** Resets that only show what they would do, and plans as files. */
    private static void resetPlans(Cluster cluster) throws Exception {
        readBy(cluster, "plan-group", "of-plan-group");
        readBy(cluster, "plan-group", "also-of-plan-group");
        String[] one = {"--reset-offsets", "--group", "plan-group", "--topic", "of-plan-group:0"};
        String[] all = {"--reset-offsets", "--group", "plan-group", "--all-topics"};
        // Without --execute nothing happens, with or without --dry-run.
        groups(cluster, and(one, "--to-earliest", "--dry-run")).good().withLine(planned(0));
        groups(cluster, and(one, "--shift-by", "-2")).good().withLine(planned(3));
        groups(cluster, and(one, "--shift-by", "-9")).good().withLine(planned(0));
        groups(cluster, and(one, "--shift-by", "9")).good().withLine(planned(5));
        groups(cluster, and(one, "--to-datetime", "2020-01-01T00:00:00.000")).withLine(planned(0));
        groups(cluster, and(one, "--to-datetime", "2099-01-01T00:00:00.000")).withLine(planned(5));
        groups(cluster, and(one, "--by-duration", "PT0S")).good().withLine(planned(5));
        groups(cluster, and(all, "--to-earliest", "--dry-run"))
                .good()
                .withLine(planned(0))
                .withLine("plan-group\\s+also-of-plan-group\\s+0\\s+0\\s*");
        groups(cluster, "--describe", "--group", "plan-group")
                .good()
                .withLine("plan-group\\s+of-plan-group\\s+0\\s+5\\s+5\\s+0\\s.*");

        // A plan as a file, and back.
        groups(cluster, and(one, "--to-offset", "2", "--export"))
                .good()
                .withLine("of-plan-group,0,2");
        Path plan = cluster.dir().resolve("plan.csv");
        Files.writeString(plan, "\"of-plan-group\",0,1\n\"also-of-plan-group\",0,4\n");
        String[] file = {"--reset-offsets", "--group", "plan-group", "--from-file", plan.toString()};
        groups(cluster, and(file, "--dry-run")).good().withLine(planned(1));
        groups(cluster, and(file, "--execute")).good().withLine(planned(1));
        groups(cluster, "--describe", "--group", "plan-group")
                .good()
                .withLine("plan-group\\s+of-plan-group\\s+0\\s+1\\s+5\\s+4\\s.*")
                .withLine("plan-group\\s+also-of-plan-group\\s+0\\s+4\\s+5\\s+1\\s.*");

        // A group with members keeps its offsets.
        try (var member = cluster.consumer("group.id", "plan-group")) {
            member.subscribe(List.of("of-plan-group"));
            Cluster.awaitAssignment(member, 1);
            groups(cluster, and(one, "--to-latest", "--execute"))
                    .with("Assignments can only be reset if the group 'plan-group' is inactive");
        }
    }

    private static String planned(int offset) {
        return "plan-group\\s+of-plan-group\\s+0\\s+" + offset + "\\s*";
    }

    private static String[] and(String[] first, String... more) {
        String[] all = new String[first.length + more.length];
        System.arraycopy(first, 0, all, 0, first.length);
        System.arraycopy(more, 0, all, first.length, more.length);
        return all;
    }

    private static void all(Cluster cluster) throws Exception {
        readBy(cluster, "all-one", "of-all");
        readBy(cluster, "all-two", "also-of-all");
        groups(cluster, "--describe", "--all-groups")
                .good()
                .withLine("all-one\\s+of-all\\s+0\\s+5\\s.*")
                .withLine("all-two\\s+also-of-all\\s+0\\s+5\\s.*");
        groups(cluster, "--describe", "--all-groups", "--state")
                .good()
                .withLine("all-one\\s+127.0.0.1:\\d+\\s+\\(1\\)\\s+.*Empty\\s.*");
        groups(cluster, "--list", "--state", "Empty").good().withLine("all-two\\s+Empty\\s*");
        groups(cluster, "--list", "--state", "Stable").good().without("all-two");
        groups(cluster, "--list", "--type").good().withLine("all-one\\s+Classic\\s*");
        groups(cluster, "--list", "--type", "consumer").good().without("all-one");
        groups(cluster, "--delete", "--group", "absent-group").with("absent-group");
        for (String filter : List.of("--group-type=classic", "--protocol=consumer", "--consumer")) {
            String[] words = filter.split("=");
            Tool.run(GroupsCommand.class, with(cluster, and(new String[] {"--list"}, words)))
                    .good()
                    .withLine("all-one\\s+Classic\\s+consumer\\s*");
        }
        Tool.run(GroupsCommand.class, with(cluster, "--list", "--share")).without("all-one");
    }

    private static void delete(Cluster cluster) throws Exception {
        readBy(cluster, "tool-deleted", "of-tool-deleted");
        groups(cluster, "--delete-offsets", "--group", "tool-deleted", "--topic", "of-tool-deleted")
                .good()
                .withLine("of-tool-deleted\\s+0\\s+Successful\\s*");
        groups(cluster, "--delete", "--group", "tool-deleted")
                .good()
                .with("Deletion of requested consumer groups ('tool-deleted') was successful.");
        Check.that(
                !groups(cluster, "--list").good().text().contains("tool-deleted"),
                "the group is gone");
    }
}
