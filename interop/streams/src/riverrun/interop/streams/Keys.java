package riverrun.interop.streams;

import java.util.Map;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.SessionWindowedDeserializer;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindowedDeserializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import riverrun.interop.streams.FormatOracle.Format;

/** Keys of windows and sessions, in stores and in topics. */
final class Keys {
    private static final String INTERNALS = "state.internals.";
    private static final String OF_WINDOWS = INTERNALS + "PrefixedWindowKeySchemas$";
    private static final String OF_SESSIONS = INTERNALS + "PrefixedSessionKeySchemas$";

    static final Map<String, Format> FORMATS =
            Map.of(
                    "window-key", new WindowFormat(INTERNALS + "WindowKeySchema"),
                    "window-key-time-first", new WindowFormat(OF_WINDOWS + "TimeFirstWindowKeySchema"),
                    "window-key-key-first", new WindowFormat(OF_WINDOWS + "KeyFirstWindowKeySchema"),
                    "window-key-topic", new WindowOfTopic(),
                    "session-key", new SessionFormat(INTERNALS + "SessionKeySchema"),
                    "session-key-time-first",
                            new SessionFormat(OF_SESSIONS + "TimeFirstSessionKeySchema"),
                    "session-key-key-first",
                            new SessionFormat(OF_SESSIONS + "KeyFirstSessionKeySchema"),
                    "session-key-topic", new SessionOfTopic());

    private Keys() {}

    /** KEY START SEQUENCE_NUMBER. */
    private record WindowFormat(String schema) implements Format {
        @Override
        public byte[] write(Text fields) throws Exception {
            byte[] key = fields.bytes();
            long start = fields.number();
            Object stored =
                    Hidden.callStatic(schema, "toStoreKeyBinary", key, start, fields.integer());
            return ((Bytes) stored).get();
        }

        @Override
        public String read(byte[] bytes) throws Exception {
            return Text.of((byte[]) Hidden.callStatic(schema, "extractStoreKeyBytes", bytes))
                    + " "
                    + Hidden.callStatic(schema, "extractStoreTimestamp", bytes)
                    + " "
                    + Hidden.callStatic(schema, "extractStoreSequence", bytes);
        }
    }

    /** KEY START. */
    private static final class WindowOfTopic implements Format {
        @Override
        public byte[] write(Text fields) {
            byte[] key = fields.bytes();
            long start = fields.number();
            try (var serializer = new TimeWindowedSerializer<>(new ByteArraySerializer())) {
                return serializer.serialize(
                        "t", new Windowed<>(key, new TimeWindow(start, Long.MAX_VALUE)));
            }
        }

        @Override
        public String read(byte[] bytes) {
            try (var deserializer =
                    new TimeWindowedDeserializer<>(new ByteArrayDeserializer(), 1L)) {
                Windowed<byte[]> windowed = deserializer.deserialize("t", bytes);
                return Text.of(windowed.key()) + " " + windowed.window().start();
            }
        }
    }

    /** KEY END START. */
    private record SessionFormat(String schema) implements Format {
        @Override
        public byte[] write(Text fields) throws Exception {
            Bytes key = Bytes.wrap(fields.bytes());
            long end = fields.number();
            Object stored = Hidden.callStatic(schema, "toBinary", key, fields.number(), end);
            return ((Bytes) stored).get();
        }

        @Override
        public String read(byte[] bytes) throws Exception {
            return Text.of((byte[]) Hidden.callStatic(schema, "extractKeyBytes", bytes))
                    + " "
                    + Hidden.callStatic(schema, "extractEndTimestamp", bytes)
                    + " "
                    + Hidden.callStatic(schema, "extractStartTimestamp", bytes);
        }
    }

    /** KEY END START. */
    private static final class SessionOfTopic implements Format {
        @Override
        public byte[] write(Text fields) {
            byte[] key = fields.bytes();
            long end = fields.number();
            try (var serializer = new SessionWindowedSerializer<>(new ByteArraySerializer())) {
                return serializer.serialize(
                        "t", new Windowed<>(key, new SessionWindow(fields.number(), end)));
            }
        }

        @Override
        public String read(byte[] bytes) {
            try (var deserializer =
                    new SessionWindowedDeserializer<>(new ByteArrayDeserializer())) {
                Windowed<byte[]> windowed = deserializer.deserialize("t", bytes);
                return Text.of(windowed.key())
                        + " "
                        + windowed.window().end()
                        + " "
                        + windowed.window().start();
            }
        }
    }
}
