package riverrun.interop.streams;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.internals.ProcessorMetadata;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.processor.internals.TopicPartitionMetadata;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.internals.OffsetCheckpoint;
import org.apache.kafka.streams.state.internals.PositionSerde;
import riverrun.interop.streams.FormatOracle.Format;

/** What buffers hold and log, lists, and the offsets of stores and commits. */
final class Buffers {
    private static final String INTERNALS = "state.internals.";

    static final Map<String, Format> FORMATS = new HashMap<>();

    static {
        FORMATS.put("buffer-value", new BufferFormat());
        for (String version : new String[] {"deserializeV0", "deserializeV1", "duckTypeV2", "deserializeV3"}) {
            FORMATS.put("buffer-changelog-" + version.charAt(version.length() - 1), new Changelog(version));
        }
        FORMATS.put("list", new BytesList());
        FORMATS.put("list-of-one-size", new IntegerList());
        FORMATS.put("position", new PositionFormat());
        FORMATS.put("checkpoint", new CheckpointFormat());
        FORMATS.put("commit-metadata", new MetadataFormat());
    }

    private Buffers() {}

    @SuppressWarnings("unchecked")
    private static <T> Serde<List<T>> listOf(Serde<T> element) {
        return Serdes.ListSerde(ArrayList.class, element);
    }

    /** TIMESTAMP OFFSET TOPIC PARTITION HEADERS PRIOR OLD NEW. */
    private static final class BufferFormat implements Format {
        @Override
        public byte[] write(Text fields) throws Exception {
            long timestamp = fields.number();
            long offset = fields.number();
            String topic = fields.string();
            int partition = fields.integer();
            Headers headers = fields.headers();
            var context = new ProcessorRecordContext(timestamp, offset, partition, topic, headers);
            Object value =
                    Hidden.create(
                            INTERNALS + "BufferValue",
                            fields.bytes(),
                            fields.bytes(),
                            fields.bytes(),
                            context);
            return ((ByteBuffer) Hidden.call(value, "serialize", 0)).array();
        }

        @Override
        public String read(byte[] bytes) throws Exception {
            return text(
                    Hidden.callStatic(
                            INTERNALS + "BufferValue", "deserialize", ByteBuffer.wrap(bytes)));
        }

        static String text(Object value) throws Exception {
            var context = (ProcessorRecordContext) Hidden.call(value, "context");
            return String.join(
                    " ",
                    Long.toString(context.timestamp()),
                    Long.toString(context.offset()),
                    Text.of(context.topic()),
                    Integer.toString(context.partition()),
                    Text.of(context.headers()),
                    Text.of((byte[]) Hidden.call(value, "priorValue")),
                    Text.of((byte[]) Hidden.call(value, "oldValue")),
                    Text.of((byte[]) Hidden.call(value, "newValue")));
        }
    }

    /** A record of a buffer's changelog; read: TIME and the fields of a buffer. */
    private record Changelog(String version) implements Format {
        @Override
        public byte[] write(Text fields) {
            throw new UnsupportedOperationException();
        }

        @Override
        public String read(byte[] bytes) throws Exception {
            Bytes key = Bytes.wrap(new byte[0]);
            var record = new ConsumerRecord<>("changelog", 3, 7, key.get(), bytes);
            String helper = INTERNALS + "TimeOrderedKeyValueBufferChangelogDeserializationHelper";
            Object result =
                    version.equals("deserializeV0") || version.equals("deserializeV1")
                            ? Hidden.callStatic(helper, version, record, key, null)
                            : Hidden.callStatic(helper, version, record, key);
            return Hidden.call(result, "time") + " " + BufferFormat.text(Hidden.call(result, "bufferValue"));
        }
    }

    /** Elements. */
    private static final class BytesList implements Format {
        private final Serde<List<byte[]>> serde = listOf(Serdes.ByteArray());

        @Override
        public byte[] write(Text fields) {
            return serde.serializer().serialize("t", fields.list(parts -> Text.bytes(parts[0])));
        }

        @Override
        public String read(byte[] bytes) {
            return Text.of(serde.deserializer().deserialize("t", bytes).stream().map(Text::of).toList());
        }
    }

    /** Integers, or {@code -}. */
    private static final class IntegerList implements Format {
        private final Serde<List<Integer>> serde = listOf(Serdes.Integer());

        @Override
        public byte[] write(Text fields) {
            return serde.serializer()
                    .serialize(
                            "t",
                            fields.list(
                                    parts -> parts[0].equals("-") ? null : Integer.valueOf(parts[0])));
        }

        @Override
        public String read(byte[] bytes) {
            return Text.of(
                    serde.deserializer().deserialize("t", bytes).stream()
                            .map(number -> number == null ? "-" : number.toString())
                            .toList());
        }
    }

    /** TOPIC:PARTITION:OFFSET of each partition. */
    private static final class PositionFormat implements Format {
        @Override
        public byte[] write(Text fields) {
            Position position = Position.emptyPosition();
            fields.list(
                    parts ->
                            position.withComponent(
                                    Text.string(parts[0]),
                                    Integer.parseInt(parts[1]),
                                    Long.parseLong(parts[2])));
            return PositionSerde.serialize(position).array();
        }

        @Override
        public String read(byte[] bytes) {
            Position position = PositionSerde.deserialize(ByteBuffer.wrap(bytes));
            List<String> offsets = new ArrayList<>();
            for (String topic : position.getTopics()) {
                position.getPartitionPositions(topic)
                        .forEach(
                                (partition, offset) ->
                                        offsets.add(Text.of(topic) + ":" + partition + ":" + offset));
            }
            offsets.sort(null);
            return Text.of(offsets);
        }
    }

    /** TOPIC:PARTITION:OFFSET of each partition. */
    private static final class CheckpointFormat implements Format {
        @Override
        public byte[] write(Text fields) throws Exception {
            Map<TopicPartition, Long> offsets = new HashMap<>();
            fields.list(
                    parts ->
                            offsets.put(
                                    new TopicPartition(
                                            Text.string(parts[0]), Integer.parseInt(parts[1])),
                                    Long.valueOf(parts[2])));
            Path file = Files.createTempFile("checkpoint", "");
            new OffsetCheckpoint(file.toFile()).write(offsets);
            byte[] bytes = Files.exists(file) ? Files.readAllBytes(file) : new byte[0];
            Files.deleteIfExists(file);
            return bytes;
        }

        @Override
        public String read(byte[] bytes) throws Exception {
            Path file = Files.createTempFile("checkpoint", "");
            Files.write(file, bytes);
            List<String> offsets = new ArrayList<>();
            new OffsetCheckpoint(file.toFile())
                    .read()
                    .forEach(
                            (partition, offset) ->
                                    offsets.add(
                                            Text.of(partition.topic())
                                                    + ":"
                                                    + partition.partition()
                                                    + ":"
                                                    + offset));
            Files.delete(file);
            offsets.sort(null);
            return Text.of(offsets);
        }
    }

    /** PARTITION_TIME NAME:TIME of each processor. */
    private static final class MetadataFormat implements Format {
        @Override
        public byte[] write(Text fields) {
            long time = fields.number();
            ProcessorMetadata processors = new ProcessorMetadata(new TreeMap<>(fields.numbersByName()));
            return new TopicPartitionMetadata(time, processors)
                    .encode()
                    .getBytes(StandardCharsets.US_ASCII);
        }

        @Override
        public String read(byte[] bytes) throws Exception {
            var metadata = TopicPartitionMetadata.decode(new String(bytes, StandardCharsets.UTF_8));
            Map<String, Long> times = new TreeMap<>();
            var field = ProcessorMetadata.class.getDeclaredField("metadata");
            field.setAccessible(true);
            ((Map<?, ?>) field.get(metadata.processorMetadata()))
                    .forEach((name, time) -> times.put((String) name, (Long) time));
            return metadata.partitionTime() + " " + Text.of(times);
        }
    }
}
