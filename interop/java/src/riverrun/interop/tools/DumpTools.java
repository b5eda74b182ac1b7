package riverrun.interop.tools;

import static riverrun.interop.tools.TopicTools.with;

import org.apache.kafka.shell.MetadataShell;
import org.apache.kafka.tools.DumpLogSegments;
import org.apache.kafka.tools.GetOffsetShell;
import org.apache.kafka.tools.ProducerPerformance;
import org.apache.kafka.tools.consumer.ConsoleConsumer;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** Tools that read the server's files, and formatters of its internal topics. */
final class DumpTools {
    private static final int SHELL_ATTEMPTS_MAX = 10;

    private DumpTools() {}

    static List<Scenario> scenarios() {
        return List.of(
                Scenario.of("dump-log-records", DumpTools::records),
                Scenario.of("dump-log-offsets", DumpTools::offsets),
                Scenario.of("dump-log-metadata", DumpTools::metadata),
                // Each command takes a virtual machine of its own.
                new Scenario("metadata-shell", 300, DumpTools::shell),
                Scenario.of("offsets-formatters", DumpTools::formatters));
    }

    /** The files of partitions whose directory begins like this, by the end of their names. */
    static String files(Cluster cluster, String partition, String... ends) throws Exception {
        // The server keeps its data beside the folder of the programs.
        Path data = cluster.dir().resolveSibling("data");
        List<String> files = new ArrayList<>();
        try (Stream<Path> paths = Files.walk(data, 2)) {
            for (Path path : paths.toList()) {
                String parent = path.getParent().getFileName().toString();
                String name = path.getFileName().toString();
                if (parent.startsWith(partition) && Stream.of(ends).anyMatch(name::endsWith)) {
                    files.add(path.toString());
                }
            }
        }
        Check.that(!files.isEmpty(), "files of " + partition);
        return String.join(",", files);
    }

    static Tool.Output dump(String files, String... arguments) throws Exception {
        String[] all = new String[arguments.length + 2];
        all[0] = "--files";
        all[1] = files;
        System.arraycopy(arguments, 0, all, 2, arguments.length);
        return Tool.run(DumpLogSegments.class, all).good();
    }

    private static void records(Cluster cluster) throws Exception {
        cluster.createTopic("dumped", 1);
        ClientTools.produce(cluster, "dumped", "one\ntwo\n", "--compression-codec", "zstd");
        dump(files(cluster, "dumped-0", ".log"), "--print-data-log")
                .withLine("baseOffset: 0 lastOffset: .*compresscodec: zstd.*isvalid: true")
                .withLine("\\| offset: 0 .*payload: one")
                .withLine("\\| offset: 1 .*payload: two");
        // Enough of them for an index.
        cluster.createTopic("indexed", 1);
        Tool.run(
                        ProducerPerformance.class,
                        with(
                                cluster,
                                "--topic",
                                "indexed",
                                "--num-records",
                                "500",
                                "--record-size",
                                "1000",
                                "--throughput",
                                "-1",
                                "--command-property",
                                "batch.size=5000"))
                .good();
        dump(files(cluster, "indexed-0", ".index", ".timeindex"), "--index-sanity-check")
                .without("Found timestamp mismatch");
    }

    private static void offsets(Cluster cluster) throws Exception {
        GroupTools.readBy(cluster, "dumped-group", "of-dumped-group");
        String files = files(cluster, "__consumer_offsets-", ".log");
        dump(files, "--offsets-decoder", "--print-data-log")
                .with("\"group\":\"dumped-group\"")
                .with("\"topic\":\"of-dumped-group\",\"partition\":0")
                .with("\"offset\":5");
    }

    private static void metadata(Cluster cluster) throws Exception {
        cluster.createTopic("in-metadata", 2);
        String files = files(cluster, "__cluster_metadata-0", ".log");
        dump(files, "--cluster-metadata-decoder", "--print-data-log")
                .with("\"type\":\"REGISTER_BROKER_RECORD\"")
                .with("{\"name\":\"in-metadata\",\"topicId\":")
                .with("LeaderChange");
        String snapshots = files(cluster, "__cluster_metadata-0", ".checkpoint");
        dump(snapshots, "--cluster-metadata-decoder", "--print-data-log").with("SnapshotHeader");
    }

    private static void shell(Cluster cluster) throws Exception {
        cluster.createTopic("in-shell", 1);
        // The tool leaves out the last batch.
        cluster.createTopic("after-in-shell", 1);
        // The tool wants the directory for itself, so it gets a copy.
        Path copy = cluster.dir().resolve("shell/__cluster_metadata-0");
        Files.createDirectories(copy);
        Path file = copy.resolve("00000000000000000000.log");
        Files.copy(
                Path.of(files(cluster, "__cluster_metadata-0", "00000000000000000000.log")), file);
        String log = file.toString();
        shell(log, "in-shell", "ls", "/image/topics/byName").withLine("in-shell");
        shell(log, "isr=[1]", "cat", "/image/topics/byName/in-shell/0")
                .with("isr=[1]")
                .with("leader=1");
        shell(log, "brokers", "ls", "/image/cluster").withLine("brokers");
    }

    /**
     * What a command of the shell prints. The tool counts what it has read before it can show it, and
     * waits only until it has counted: a command that it runs in between finds nothing, and is run
     * again.
     */
    private static Tool.Output shell(String log, String expected, String... command)
            throws Exception {
        List<String> arguments = new ArrayList<>(List.of("--snapshot", log));
        arguments.addAll(List.of(command));
        Tool.Output output;
        int attempts = 0;
        do {
            output = Tool.runApart(MetadataShell.class, arguments.toArray(String[]::new)).good();
            attempts++;
        } while (attempts < SHELL_ATTEMPTS_MAX && !output.text().contains(expected));
        return output;
    }

    private static void formatters(Cluster cluster) throws Exception {
        GroupTools.readBy(cluster, "formatted-group", "of-formatted-group");
        String formatter = "org.apache.kafka.tools.consumer.";
        consumeOffsets(cluster, formatter + "OffsetsMessageFormatter")
                .with("\"group\":\"formatted-group\",\"topic\":\"of-formatted-group\"");
        consumeOffsets(cluster, formatter + "GroupMetadataMessageFormatter")
                .with("\"group\":\"formatted-group\"");
        Tool.run(GetOffsetShell.class, with(cluster, "--topic", "__consumer_offsets"))
                .good()
                .withLine("__consumer_offsets:0:\\d+");
    }

    private static Tool.Output consumeOffsets(Cluster cluster, String formatter) throws Exception {
        return Tool.runApart(
                ConsoleConsumer.class,
                with(
                        cluster,
                        "--topic",
                        "__consumer_offsets",
                        "--partition",
                        // Of five partitions, as every suite's server has them.
                        "" + Math.abs("formatted-group".hashCode()) % 5,
                        "--offset",
                        "earliest",
                        "--timeout-ms",
                        "4000",
                        "--formatter",
                        formatter));
    }
}
