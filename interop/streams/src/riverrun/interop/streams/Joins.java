package riverrun.interop.streams;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.internals.Change;
import org.apache.kafka.streams.kstream.internals.ChangedDeserializer;
import org.apache.kafka.streams.kstream.internals.ChangedSerializer;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.CombinedKey;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.CombinedKeySchema;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionResponseWrapper;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionResponseWrapperSerde;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionWrapper;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionWrapperSerde;
import org.apache.kafka.streams.state.internals.LeftOrRightValue;
import org.apache.kafka.streams.state.internals.LeftOrRightValueDeserializer;
import org.apache.kafka.streams.state.internals.LeftOrRightValueSerializer;
import org.apache.kafka.streams.state.internals.Murmur3;
import org.apache.kafka.streams.state.internals.TimestampedKeyAndJoinSide;
import riverrun.interop.streams.FormatOracle.Format;

/** What joins and groupings of tables keep and send. */
final class Joins {
    private static final Supplier<String> TOPIC = () -> "t";

    static final Map<String, Format> FORMATS =
            Map.of(
                    "outer-join-key", new OuterJoinKey(),
                    "left-or-right-value", new LeftOrRight(),
                    "combined-key", new Combined(),
                    "table-change", new TableChange(),
                    "subscription", new Subscription(),
                    "subscription-response", new Response(),
                    "murmur3", new Murmur());

    private Joins() {}

    @SuppressWarnings("unchecked")
    private static Serializer<TimestampedKeyAndJoinSide<byte[]>> outerJoinSerializer()
            throws Exception {
        return (Serializer<TimestampedKeyAndJoinSide<byte[]>>)
                Hidden.create(
                        "state.internals.TimestampedKeyAndJoinSideSerializer",
                        new ByteArraySerializer());
    }

    @SuppressWarnings("unchecked")
    private static Deserializer<TimestampedKeyAndJoinSide<byte[]>> outerJoinDeserializer()
            throws Exception {
        return (Deserializer<TimestampedKeyAndJoinSide<byte[]>>)
                Hidden.create(
                        "state.internals.TimestampedKeyAndJoinSideDeserializer",
                        new ByteArrayDeserializer());
    }

    /** TIMESTAMP {@code left}|{@code right} KEY. */
    private static final class OuterJoinKey implements Format {
        @Override
        public byte[] write(Text fields) throws Exception {
            long timestamp = fields.number();
            boolean isLeft = fields.word().equals("left");
            byte[] key = fields.bytes();
            var side =
                    isLeft
                            ? TimestampedKeyAndJoinSide.makeLeft(key, timestamp)
                            : TimestampedKeyAndJoinSide.makeRight(key, timestamp);
            return outerJoinSerializer().serialize("t", new RecordHeaders(), side);
        }

        @Override
        public String read(byte[] bytes) throws Exception {
            var side = outerJoinDeserializer().deserialize("t", new RecordHeaders(), bytes);
            return side.timestamp()
                    + (side.isLeftSide() ? " left " : " right ")
                    + Text.of(side.key());
        }
    }

    /** {@code left}|{@code right} VALUE. */
    private static final class LeftOrRight implements Format {
        @Override
        public byte[] write(Text fields) {
            boolean isLeft = fields.word().equals("left");
            LeftOrRightValue<byte[], byte[]> value =
                    isLeft
                            ? LeftOrRightValue.makeLeftValue(fields.bytes())
                            : LeftOrRightValue.makeRightValue(fields.bytes());
            try (var serializer =
                    new LeftOrRightValueSerializer<>(
                            new ByteArraySerializer(), new ByteArraySerializer())) {
                return serializer.serialize("t", new RecordHeaders(), value);
            }
        }

        @Override
        public String read(byte[] bytes) {
            try (var deserializer =
                    new LeftOrRightValueDeserializer<>(
                            new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                LeftOrRightValue<byte[], byte[]> value = deserializer.deserialize("t", new RecordHeaders(), bytes);
                return value.leftValue() != null
                        ? "left " + Text.of(value.leftValue())
                        : "right " + Text.of(value.rightValue());
            }
        }
    }

    /** FOREIGN_KEY PRIMARY_KEY. */
    private static final class Combined implements Format {
        private final CombinedKeySchema<byte[], byte[]> schema =
                new CombinedKeySchema<>(TOPIC, Serdes.ByteArray(), TOPIC, Serdes.ByteArray());

        @Override
        public byte[] write(Text fields) throws Exception {
            Object key =
                    Hidden.call(
                            schema, "toBytes", fields.bytes(), fields.bytes(), new RecordHeaders());
            return ((Bytes) key).get();
        }

        @Override
        public String read(byte[] bytes) throws Exception {
            CombinedKey<byte[], byte[]> key =
                    schema.fromBytes(Bytes.wrap(bytes), new RecordHeaders());
            byte[] foreignKey = (byte[]) Hidden.call(key, "foreignKey");
            return Text.of(foreignKey) + " " + Text.of((byte[]) Hidden.call(key, "primaryKey"));
        }
    }

    /** NEW OLD; read: and whether it is the latest. */
    private static final class TableChange implements Format {
        @Override
        public byte[] write(Text fields) {
            try (var serializer = new ChangedSerializer<>(new ByteArraySerializer())) {
                serializer.configure(Map.of(), false);
                return serializer.serialize("t", new RecordHeaders(), new Change<>(fields.bytes(), fields.bytes()));
            }
        }

        @Override
        public String read(byte[] bytes) {
            try (var deserializer = new ChangedDeserializer<>(new ByteArrayDeserializer())) {
                Change<byte[]> change = deserializer.deserialize("t", new RecordHeaders(), bytes);
                return Text.of(change.newValue)
                        + " "
                        + Text.of(change.oldValue)
                        + " "
                        + change.isLatest;
            }
        }
    }

    private static long[] longs(byte[] hash) {
        if (hash == null) {
            return null;
        }
        ByteBuffer both = ByteBuffer.wrap(hash);
        return new long[] {both.getLong(), both.getLong()};
    }

    private static byte[] bytes(long[] hash) {
        return hash == null
                ? null
                : ByteBuffer.allocate(16).putLong(hash[0]).putLong(hash[1]).array();
    }

    /** VERSION HASH INSTRUCTION PRIMARY_KEY PARTITION, which is {@code -} in version 0. */
    private static final class Subscription implements Format {
        private final SubscriptionWrapperSerde<byte[]> serde =
                new SubscriptionWrapperSerde<>(TOPIC, Serdes.ByteArray());

        @Override
        public byte[] write(Text fields) {
            byte version = (byte) fields.integer();
            long[] hash = longs(fields.bytes());
            var instruction = SubscriptionWrapper.Instruction.values()[fields.integer()];
            byte[] key = fields.bytes();
            String partition = fields.word();
            var wrapper =
                    new SubscriptionWrapper<>(
                            hash,
                            instruction,
                            key,
                            version,
                            partition.equals("-") ? null : Integer.valueOf(partition));
            return serde.serializer().serialize("t", new RecordHeaders(), wrapper);
        }

        @Override
        public String read(byte[] bytes) {
            SubscriptionWrapper<byte[]> wrapper = serde.deserializer().deserialize("t", new RecordHeaders(), bytes);
            Integer partition = wrapper.primaryPartition();
            return String.join(
                    " ",
                    Byte.toString(wrapper.version()),
                    Text.of(Joins.bytes(wrapper.hash())),
                    Integer.toString(wrapper.instruction().ordinal()),
                    Text.of(wrapper.primaryKey()),
                    partition == null ? "-" : partition.toString());
        }
    }

    /** HASH FOREIGN_VALUE. */
    private static final class Response implements Format {
        private final SubscriptionResponseWrapperSerde<byte[]> serde =
                new SubscriptionResponseWrapperSerde<>(Serdes.ByteArray());

        @Override
        public byte[] write(Text fields) {
            long[] hash = longs(fields.bytes());
            var wrapper = new SubscriptionResponseWrapper<>(hash, fields.bytes(), null);
            return serde.serializer().serialize("t", new RecordHeaders(), wrapper);
        }

        @Override
        public String read(byte[] bytes) {
            var wrapper = serde.deserializer().deserialize("t", new RecordHeaders(), bytes);
            return Text.of(Joins.bytes(wrapper.originalValueHash()))
                    + " "
                    + Text.of(wrapper.foreignValue());
        }
    }

    /** BYTES; read: their hash. */
    private static final class Murmur implements Format {
        @Override
        public byte[] write(Text fields) {
            return fields.bytes();
        }

        @Override
        public String read(byte[] bytes) {
            return Text.of(Joins.bytes(Murmur3.hash128(bytes)));
        }
    }
}
