package riverrun.interop.streams;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * The words of a line. Bytes are hexadecimal, {@code .} for none and {@code -} for null; a list has
 * commas between its elements and colons between their parts, and is {@code none} without elements.
 */
final class Text {
    private final String[] words;
    private int next;

    Text(String line) {
        words = line.split(" ", -1);
    }

    String word() {
        return words[next++];
    }

    byte[] bytes() {
        return bytes(word());
    }

    long number() {
        return Long.parseLong(word());
    }

    int integer() {
        return Integer.parseInt(word());
    }

    String string() {
        return string(word());
    }

    <T> List<T> list(Function<String[], T> element) {
        List<T> elements = new ArrayList<>();
        String list = word();
        if (!list.equals("none")) {
            for (String one : list.split(",", -1)) {
                elements.add(element.apply(one.split(":", -1)));
            }
        }
        return elements;
    }

    Headers headers() {
        RecordHeaders headers = new RecordHeaders();
        list(parts -> headers.add(string(parts[0]), bytes(parts[1])));
        return headers;
    }

    Map<String, Long> numbersByName() {
        Map<String, Long> numbers = new TreeMap<>();
        list(parts -> numbers.put(string(parts[0]), Long.parseLong(parts[1])));
        return numbers;
    }

    static byte[] bytes(String word) {
        return switch (word) {
            case "-" -> null;
            case "." -> new byte[0];
            default -> HexFormat.of().parseHex(word);
        };
    }

    static String string(String word) {
        return new String(bytes(word), StandardCharsets.UTF_8);
    }

    static String of(byte[] bytes) {
        if (bytes == null) {
            return "-";
        }
        return bytes.length == 0 ? "." : HexFormat.of().formatHex(bytes);
    }

    static String of(String text) {
        return of(text.getBytes(StandardCharsets.UTF_8));
    }

    static String of(List<String> elements) {
        return elements.isEmpty() ? "none" : String.join(",", elements);
    }

    static String of(Headers headers) {
        List<String> elements = new ArrayList<>();
        for (Header header : headers) {
            elements.add(of(header.key()) + ":" + of(header.value()));
        }
        return of(elements);
    }

    static String of(Map<String, Long> numbers) {
        List<String> elements = new ArrayList<>();
        new TreeMap<>(numbers).forEach((name, number) -> elements.add(of(name) + ":" + number));
        return of(elements);
    }
}
