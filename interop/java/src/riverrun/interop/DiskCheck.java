package riverrun.interop;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.tools.DumpLogSegments;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * Has Kafka's DumpLogSegments read every file of a log directory whose server has stopped: each
 * record one by one, each index against its log, and the records of internal topics decoded.
 */
public final class DiskCheck {
    /** What the tool prints of a file it cannot read or finds at odds with another. */
    private static final List<String> COMPLAINTS =
            List.of(
                    "isvalid: false",
                    "invalid bytes",
                    "Mismatches in",
                    "Found timestamp mismatch",
                    "Found out of order timestamp",
                    "Non-consecutive offsets",
                    "indexed offsets are not found",
                    "Unknown record type",
                    "Error at",
                    "Ignoring unknown file");

    private DiskCheck() {}

    public static void main(String[] arguments) throws Exception {
        Path dir = Path.of(arguments[0]);
        List<String> plain = files(dir, "");
        List<String> problems = new ArrayList<>();
        check(problems, plain, "--deep-iteration", "--index-sanity-check");
        check(problems, plain, "--deep-iteration");
        check(problems, files(dir, "__consumer_offsets-"), "--offsets-decoder");
        check(problems, files(dir, "__transaction_state-"), "--transaction-log-decoder");
        check(problems, files(dir, "__cluster_metadata-"), "--cluster-metadata-decoder");
        problems.forEach(System.out::println);
        System.exit(problems.isEmpty() && !plain.isEmpty() ? 0 : 1);
    }

    /** The files of partitions whose folder starts so, but for those about to be deleted. */
    private static List<String> files(Path dir, String folder) throws Exception {
        try (Stream<Path> files = Files.walk(dir, 2)) {
            return files.filter(
                            file -> file.getParent().getFileName().toString().startsWith(folder))
                    .filter(
                            file ->
                                    !file.getParent().equals(dir)
                                            && !file.getParent().toString().endsWith("-delete"))
                    .map(Path::toString)
                    .filter(
                            file ->
                                    file.matches(
                                            ".*\\.(log|index|timeindex|snapshot|txnindex|checkpoint)"))
                    .sorted()
                    .toList();
        }
    }

    private static void check(List<String> problems, List<String> files, String... options)
            throws Exception {
        List<String> chosen =
                options[0].endsWith("decoder")
                        ? files.stream()
                                .filter(
                                        file ->
                                                file.endsWith(".log")
                                                        || file.endsWith(".checkpoint"))
                                .toList()
                        : files;
        if (chosen.isEmpty()) {
            return;
        }
        List<String> arguments = new ArrayList<>(List.of(options));
        arguments.add("--files");
        arguments.add(String.join(",", chosen));
        PrintStream stdout = System.out;
        System.setOut(new PrintStream(new Complaints(problems), false, UTF_8));
        try {
            DumpLogSegments.main(arguments.toArray(String[]::new));
        } finally {
            System.out.flush();
            System.setOut(stdout);
        }
    }

    /** Keeps the lines that complain, with the file that they are about: of a large log all lines do not fit in memory. */
    private static final class Complaints extends OutputStream {
        private final List<String> problems;
        private final ByteArrayOutputStream line = new ByteArrayOutputStream();
        private String file = "";

        private Complaints(List<String> problems) {
            this.problems = problems;
        }

        @Override
        public void write(int octet) {
            if (octet == '\n') {
                end();
            } else {
                line.write(octet);
            }
        }

        @Override
        public void write(byte[] octets, int offset, int length) {
            int begin = offset;
            for (int at = offset; at < offset + length; at++) {
                if (octets[at] == '\n') {
                    line.write(octets, begin, at - begin);
                    end();
                    begin = at + 1;
                }
            }
            line.write(octets, begin, offset + length - begin);
        }

        private void end() {
            String text = line.toString(UTF_8);
            line.reset();
            if (text.startsWith("Dumping ")) {
                file = text;
            }
            if (COMPLAINTS.stream().anyMatch(text::contains)) {
                problems.add(file + ": " + text);
            }
        }
    }
}
