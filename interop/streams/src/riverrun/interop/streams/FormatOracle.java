package riverrun.interop.streams;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Kafka Streams' own formats as a service over lines: one request, one answer ({@code ok TEXT}, or
 * {@code error REASON}).
 *
 * <pre>
 *   write FORMAT FIELD...   the bytes that Kafka Streams writes
 *   read FORMAT BYTES       the fields that Kafka Streams reads
 * </pre>
 *
 * <p>{@link Text} says how bytes, lists and null stand in a line.
 */
public final class FormatOracle {
    /** What Kafka Streams writes of fields, and reads of bytes. */
    interface Format {
        byte[] write(Text fields) throws Exception;

        String read(byte[] bytes) throws Exception;
    }

    private static final Map<String, Format> FORMATS = new HashMap<>();

    private FormatOracle() {}

    public static void main(String[] arguments) throws IOException {
        List.of(Values.FORMATS, Keys.FORMATS, Buffers.FORMATS, Joins.FORMATS, Groups.FORMATS)
                .forEach(FORMATS::putAll);
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(answer(new Text(line)));
            answers.flush();
        }
    }

    private static String answer(Text request) {
        try {
            String command = request.word();
            Format format = FORMATS.get(request.word());
            return switch (command) {
                case "write" -> "ok " + Text.of(format.write(request));
                case "read" -> "ok " + format.read(request.bytes());
                default -> throw new IllegalArgumentException("no command " + command);
            };
        } catch (Exception failure) {
            return "error " + failure.toString().replace('\n', ' ').replace('\r', ' ');
        }
    }
}
