package riverrun.interop.codec;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.Schema;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/**
 * Kafka's own codecs as a service over lines: one request, one answer ({@code ok HEX}, or {@code
 * error REASON}).
 *
 * <pre>
 *   recode MESSAGE FROM TO HEX    reads the bytes in one version and writes the message in another
 *   random MESSAGE VERSION SEED   a random message
 *   default MESSAGE VERSION       the message that nobody has touched
 * </pre>
 */
public final class CodecOracle {
    /** Where the generated classes are; those of requests and responses have the suffix Data. */
    private static final List<String> PACKAGES =
            List.of(
                    "org.apache.kafka.common.message.",
                    "org.apache.kafka.common.metadata.",
                    "org.apache.kafka.coordinator.group.generated.",
                    "org.apache.kafka.coordinator.transaction.generated.",
                    "org.apache.kafka.coordinator.share.generated.");

    private static final Map<String, Class<?>> CLASSES = new HashMap<>();

    private CodecOracle() {}

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(answer(line.split(" ", -1)));
            answers.flush();
        }
    }

    private static String answer(String[] request) {
        try {
            short version = Short.parseShort(request[2]);
            byte[] bytes =
                    switch (request[0]) {
                        case "recode" ->
                                bytes(
                                        read(
                                                request[1],
                                                version,
                                                HexFormat.of().parseHex(request[4])),
                                        Short.parseShort(request[3]));
                        case "random" -> random(request[1], version, Long.parseLong(request[3]));
                        case "default" -> bytes(create(request[1]), version);
                        default -> throw new IllegalArgumentException("no command " + request[0]);
                    };
            return "ok " + HexFormat.of().formatHex(bytes);
        } catch (ReflectiveOperationException | RuntimeException failure) {
            return "error " + failure.toString().replace('\n', ' ').replace('\r', ' ');
        }
    }

    private static byte[] random(String name, short version, long seed)
            throws ReflectiveOperationException {
        Schema[] schemas = (Schema[]) type(name).getField("SCHEMAS").get(null);
        // Schemas write tagged fields also when they hold their default; messages leave those out.
        return bytes(read(name, version, new RandomStruct(seed).bytes(schemas[version])), version);
    }

    private static Message read(String name, short version, byte[] bytes)
            throws ReflectiveOperationException {
        Message message = create(name);
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalArgumentException(buffer.remaining() + " bytes are left");
        }
        return message;
    }

    private static byte[] bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static Message create(String name) throws ReflectiveOperationException {
        return (Message) type(name).getConstructor().newInstance();
    }

    private static Class<?> type(String name) throws ClassNotFoundException {
        Class<?> known = CLASSES.get(name);
        if (known != null) {
            return known;
        }
        for (String prefix : PACKAGES) {
            for (String suffix : List.of("Data", "")) {
                try {
                    Class<?> found = Class.forName(prefix + name + suffix);
                    CLASSES.put(name, found);
                    return found;
                } catch (ClassNotFoundException notHere) {
                    continue;
                }
            }
        }
        throw new ClassNotFoundException(name);
    }
}
