package riverrun.bench;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.function.BiConsumer;
import java.util.function.Function;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.utils.ByteUtils;
import org.apache.kafka.streams.state.internals.Utils;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.infra.Blackhole;

/** Parts of stored values with headers, a batch of values one after another. */
@State(Scope.Thread)
public class RawExtraction implements Operation {
    static final int COUNT = 256;
    private static final String[] KINDS = {
        "aggregation", "plain-value", "timestamped-value", "timestamp", "headers"
    };

    /** What is taken; with `-1` behind it from values that have a header. */
    @Param({"aggregation"})
    public String kind;

    private byte[][] stored;

    static void printAll(BiConsumer<String, Operation> print) {
        for (String kind : KINDS) {
            for (String count : new String[] {"-0", "-1"}) {
                RawExtraction operation = new RawExtraction();
                operation.kind = kind + count;
                operation.prepare();
                print.accept("raw-" + kind + "/" + count.substring(1), operation);
            }
        }
    }

    @Setup
    public void prepare() {
        stored = new byte[COUNT][];
        for (int number = 0; number < COUNT; number++) {
            ByteBuffer value = ByteBuffer.allocate(64);
            byte[] bytes = ByteBuffer.allocate(8).putLong(number).array();
            if (kind.endsWith("-1")) {
                byte[] key = "trace".getBytes();
                ByteUtils.writeVarint(1 + 1 + key.length + 1 + bytes.length, value);
                ByteUtils.writeVarint(1, value);
                ByteUtils.writeVarint(key.length, value);
                value.put(key);
                ByteUtils.writeVarint(bytes.length, value);
                value.put(bytes);
            } else {
                ByteUtils.writeVarint(0, value);
            }
            if (!kind.startsWith("aggregation")) {
                value.putLong(1_700_000_000_000L + number);
            }
            value.put(bytes).put(bytes).flip();
            stored[number] = new byte[value.remaining()];
            value.get(stored[number]);
        }
    }

    @Benchmark
    @OperationsPerInvocation(COUNT)
    public void run(Blackhole blackhole) {
        switch (kind.substring(0, kind.length() - 2)) {
            case "aggregation" -> {
                for (byte[] value : stored) {
                    blackhole.consume(Utils.rawAggregation(value));
                }
            }
            case "plain-value" -> {
                for (byte[] value : stored) {
                    blackhole.consume(Utils.rawPlainValue(value));
                }
            }
            case "timestamped-value" -> {
                for (byte[] value : stored) {
                    blackhole.consume(Utils.rawTimestampedValue(value));
                }
            }
            case "timestamp" -> {
                for (byte[] value : stored) {
                    blackhole.consume(Utils.timestamp(value));
                }
            }
            default -> {
                for (byte[] value : stored) {
                    for (Header header : Utils.headers(value)) {
                        blackhole.consume(header);
                    }
                }
            }
        }
    }

    @Override
    public byte[] evidence() {
        Function<byte[], byte[]> part =
                switch (kind.substring(0, kind.length() - 2)) {
                    case "aggregation" -> Utils::rawAggregation;
                    case "plain-value" -> Utils::rawPlainValue;
                    case "timestamped-value" -> Utils::rawTimestampedValue;
                    case "timestamp" ->
                            value -> ByteBuffer.allocate(8).putLong(Utils.timestamp(value)).array();
                    default -> value -> bytes(Utils.headers(value));
                };
        ByteArrayOutputStream evidence = new ByteArrayOutputStream();
        for (byte[] value : stored) {
            evidence.writeBytes(part.apply(value));
        }
        return evidence.toByteArray();
    }

    private static byte[] bytes(Headers headers) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (Header header : headers) {
            bytes.writeBytes(header.key().getBytes());
            bytes.writeBytes(header.value());
        }
        return bytes.toByteArray();
    }
}
