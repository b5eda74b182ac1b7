package riverrun.interop.streams;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.internals.Utils;
import riverrun.interop.streams.FormatOracle.Format;

/** Values of stores: with timestamp and headers, of sessions, of versioned stores, and their parts. */
final class Values {
    private static final String INTERNALS = "state.internals.";

    static final Map<String, Format> FORMATS =
            Map.of(
                    "value-timestamp-headers", new ValueFormat(),
                    "aggregation-with-headers", new AggregationFormat(),
                    "versioned-row", new RowFormat(),
                    "raw-plain-value", part(bytes -> Text.of(Utils.rawPlainValue(bytes))),
                    "raw-timestamped-value", part(bytes -> Text.of(Utils.rawTimestampedValue(bytes))),
                    "raw-timestamp", part(bytes -> Long.toString(Utils.timestamp(bytes))),
                    "raw-aggregation", part(bytes -> Text.of(Utils.rawAggregation(bytes))),
                    "raw-headers", part(bytes -> Text.of(Utils.headers(bytes))));

    private Values() {}

    private interface Part {
        String read(byte[] bytes) throws Exception;
    }

    /** A format that is only read. */
    private static Format part(Part part) {
        return new Format() {
            @Override
            public byte[] write(Text fields) {
                throw new UnsupportedOperationException();
            }

            @Override
            public String read(byte[] bytes) throws Exception {
                return part.read(bytes);
            }
        };
    }

    @SuppressWarnings("unchecked")
    private static <T> Serializer<T> serializer(String type, Object... inner) throws Exception {
        return (Serializer<T>) Hidden.create(INTERNALS + type, inner);
    }

    @SuppressWarnings("unchecked")
    private static <T> Deserializer<T> deserializer(String type, Object... inner) throws Exception {
        return (Deserializer<T>) Hidden.create(INTERNALS + type, inner);
    }

    /** VALUE TIMESTAMP HEADERS. */
    private static final class ValueFormat implements Format {
        @Override
        public byte[] write(Text fields) throws Exception {
            Serializer<ValueTimestampHeaders<byte[]>> serializer =
                    serializer("ValueTimestampHeadersSerializer", new ByteArraySerializer());
            return serializer.serialize(
                    "t", ValueTimestampHeaders.make(fields.bytes(), fields.number(), fields.headers()));
        }

        @Override
        public String read(byte[] bytes) throws Exception {
            Deserializer<ValueTimestampHeaders<byte[]>> deserializer =
                    deserializer("ValueTimestampHeadersDeserializer", new ByteArrayDeserializer());
            ValueTimestampHeaders<byte[]> value = deserializer.deserialize("t", bytes);
            return Text.of(value.value()) + " " + value.timestamp() + " " + Text.of(value.headers());
        }
    }

    /** AGGREGATION HEADERS. */
    private static final class AggregationFormat implements Format {
        @Override
        public byte[] write(Text fields) throws Exception {
            Serializer<AggregationWithHeaders<byte[]>> serializer =
                    serializer("AggregationWithHeadersSerializer", new ByteArraySerializer());
            return serializer.serialize(
                    "t", AggregationWithHeaders.make(fields.bytes(), fields.headers()));
        }

        @Override
        public String read(byte[] bytes) throws Exception {
            Deserializer<AggregationWithHeaders<byte[]>> deserializer =
                    deserializer("AggregationWithHeadersDeserializer", new ByteArrayDeserializer());
            AggregationWithHeaders<byte[]> value = deserializer.deserialize("t", bytes);
            return Text.of(value.aggregation()) + " " + Text.of(value.headers());
        }
    }

    /** Steps, the first of which is {@code new}; read: VALID_FROM:VALID_TO:VALUE of each version. */
    private static final class RowFormat implements Format {
        private static final String FORMATTER =
                INTERNALS + "RocksDBVersionedStoreSegmentValueFormatter";

        @Override
        public byte[] write(Text fields) throws Exception {
            Object row = null;
            for (String[] step : fields.list(parts -> parts)) {
                byte[] value = Text.bytes(step[1]);
                long time = Long.parseLong(step[2]);
                switch (step[0]) {
                    case "new" ->
                            row =
                                    Hidden.callStatic(
                                            FORMATTER,
                                            "newSegmentValueWithRecord",
                                            value,
                                            time,
                                            Long.parseLong(step[3]));
                    case "latest" ->
                            Hidden.call(
                                    row, "insertAsLatest", time, Long.parseLong(step[3]), value);
                    case "earliest" -> Hidden.call(row, "insertAsEarliest", time, value);
                    case "insert" -> {
                        Hidden.call(row, "find", time, false);
                        Hidden.call(row, "insert", time, value, Integer.parseInt(step[3]));
                    }
                    default -> {
                        Hidden.call(row, "find", time, false);
                        Hidden.call(row, "updateRecord", time, value, Integer.parseInt(step[3]));
                    }
                }
            }
            return (byte[]) Hidden.call(row, "serialize");
        }

        @Override
        public String read(byte[] bytes) throws Exception {
            Object row = Hidden.callStatic(FORMATTER, "deserialize", bytes);
            List<String> versions = new ArrayList<>();
            long time = ByteBuffer.wrap(bytes).getLong() - 1;
            long lowest = ByteBuffer.wrap(bytes).getLong(8);
            while (time >= lowest) {
                Object found = Hidden.call(row, "find", time, true);
                long from = (Long) Hidden.call(found, "validFrom");
                versions.add(
                        from
                                + ":"
                                + Hidden.call(found, "validTo")
                                + ":"
                                + Text.of((byte[]) Hidden.call(found, "value")));
                time = from - 1;
            }
            return Text.of(versions);
        }
    }
}
