package riverrun.interop.java;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.record.TimestampType;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Future;

/** What a producer may send and what it is told. */
final class Produce {
    private Produce() {}

    static List<Scenario> scenarios() {
        List<Scenario> scenarios = new ArrayList<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            scenarios.add(Scenario.of("produce-" + codec, cluster -> codec(cluster, codec)));
        }
        scenarios.add(Scenario.of("recompress", Produce::recompress));
        scenarios.add(Scenario.of("nulls", Produce::nulls));
        scenarios.add(Scenario.of("headers", Produce::headers));
        scenarios.add(Scenario.of("record-of-1-mib", Produce::recordOfOneMebibyte));
        scenarios.add(Scenario.of("record-too-large", Produce::recordTooLarge));
        scenarios.add(new Scenario("100000-small-records", 120, Produce::manySmallRecords));
        scenarios.add(Scenario.of("acks-0-and-1", Produce::acks));
        scenarios.add(Scenario.of("idempotent", Produce::idempotent));
        scenarios.add(Scenario.of("log-append-time", Produce::logAppendTime));
        scenarios.add(Scenario.of("timestamp-out-of-range", Produce::timestampOutOfRange));
        scenarios.add(Scenario.of("auto-create", Produce::autoCreate));
        scenarios.add(Scenario.of("unknown-topic", Produce::unknownTopic));
        return scenarios;
    }

    private static void codec(Cluster cluster, String codec) throws Exception {
        String topic = "produce-" + codec;
        cluster.createTopic(topic, 2);
        List<String> sent = new ArrayList<>();
        try (var producer = cluster.producer("compression.type", codec, "linger.ms", 20)) {
            for (int i = 0; i < 1000; i++) {
                String value = "value " + i + " " + "of a text that compresses ".repeat(i % 20);
                producer.send(new ProducerRecord<>(topic, i % 2, bytes("key " + i), bytes(value)));
                sent.add("key " + i + "=" + value);
            }
        }
        Check.equal(sorted(sent), sorted(texts(cluster.read(topic, 2, 1000))), "records");
    }

    /**
     * A topic's own codec wins over the producer's; gzip is chosen so that the broker must work.
     */
    private static void recompress(Cluster cluster) throws Exception {
        List<String> sent = new ArrayList<>();
        for (String codec : List.of("uncompressed", "gzip", "snappy", "lz4", "zstd")) {
            String topic = "recompress-to-" + codec;
            cluster.createTopic(topic, 1, "compression.type", codec);
            sent.clear();
            try (var producer = cluster.producer("compression.type", "lz4", "linger.ms", 20)) {
                for (int i = 0; i < 200; i++) {
                    producer.send(
                            new ProducerRecord<>(topic, bytes("k" + i), bytes("v".repeat(i))));
                    sent.add("k" + i + "=" + "v".repeat(i));
                }
            }
            Check.equal(
                    sent, texts(cluster.read(topic, 1, 200)), "records recompressed to " + codec);
        }
    }

    private static void nulls(Cluster cluster) throws Exception {
        cluster.createTopic("nulls", 1);
        byte[][] contents = {null, {}, {0}};
        try (var producer = cluster.producer()) {
            for (byte[] key : contents) {
                for (byte[] value : contents) {
                    producer.send(new ProducerRecord<>("nulls", key, value)).get();
                }
            }
        }
        var records = cluster.read("nulls", 1, 9);
        for (int i = 0; i < 9; i++) {
            Check.that(Arrays.equals(contents[i / 3], records.get(i).key()), "key of record " + i);
            Check.that(
                    Arrays.equals(contents[i % 3], records.get(i).value()), "value of record " + i);
        }
    }

    private static void headers(Cluster cluster) throws Exception {
        cluster.createTopic("headers", 1);
        try (var producer = cluster.producer()) {
            var record = new ProducerRecord<>("headers", bytes("key"), bytes("value"));
            record.headers().add("twice", bytes("first")).add("null", null).add("", new byte[0]);
            record.headers().add("twice", bytes("second")).add("größe", bytes("ß"));
            producer.send(record).get();
        }
        List<String> read = new ArrayList<>();
        cluster.read("headers", 1, 1)
                .get(0)
                .headers()
                .forEach(h -> read.add(h.key() + "=" + text(h.value())));
        Check.equal(
                List.of("twice=first", "null=null", "=", "twice=second", "größe=ß"),
                read,
                "headers");
    }

    /**
     * The default `message.max.bytes` allows a batch of 1,048,588 bytes, all its headers included.
     */
    private static void recordOfOneMebibyte(Cluster cluster) throws Exception {
        cluster.createTopic("one-mebibyte", 1);
        try (var producer = cluster.producer("max.request.size", 4 << 20)) {
            producer.send(new ProducerRecord<>("one-mebibyte", value(LARGEST_VALUE))).get();
        }
        var records = cluster.read("one-mebibyte", 1, 1);
        Check.equal(LARGEST_VALUE, records.get(0).value().length, "length of the value");
    }

    private static void recordTooLarge(Cluster cluster) throws Exception {
        cluster.createTopic("too-large", 1);
        try (var producer = cluster.producer("max.request.size", 4 << 20)) {
            Check.fails(
                    RecordTooLargeException.class,
                    () ->
                            producer.send(
                                            new ProducerRecord<>(
                                                    "too-large", value(LARGEST_VALUE + 1)))
                                    .get());
            producer.send(new ProducerRecord<>("too-large", value(10))).get();
        }
        cluster.read("too-large", 1, 1);
    }

    /**
     * A batch's header takes 61 bytes, the record's length 3, its other fields before it 8 and 1
     * after.
     */
    private static final int LARGEST_VALUE = 1_048_588 - 61 - 3 - 8;

    private static void manySmallRecords(Cluster cluster) throws Exception {
        cluster.createTopic("small", 8);
        try (var producer = cluster.producer()) {
            for (int i = 0; i < 100_000; i++) {
                producer.send(
                        new ProducerRecord<>("small", i % 8, null, bytes(Integer.toString(i))));
            }
        }
        Map<Integer, Integer> next = new TreeMap<>();
        for (var record : cluster.read("small", 8, 100_000)) {
            int expected = next.merge(record.partition(), 1, Integer::sum) - 1;
            Check.equal(
                    (long) expected, record.offset(), "offset in partition " + record.partition());
            Check.equal(
                    expected * 8 + record.partition(),
                    Integer.parseInt(text(record.value())),
                    "value");
        }
    }

    private static void acks(Cluster cluster) throws Exception {
        cluster.createTopic("acks", 1);
        for (String acks : List.of("0", "1")) {
            try (var producer = cluster.producer("acks", acks, "enable.idempotence", false)) {
                RecordMetadata metadata = null;
                for (int i = 0; i < 100; i++) {
                    metadata = producer.send(new ProducerRecord<>("acks", bytes(acks))).get();
                }
                Check.equal(
                        !acks.equals("0"),
                        metadata.hasOffset(),
                        "offset is known with acks=" + acks);
            }
        }
        var records = cluster.read("acks", 1, 200);
        Check.equal("0", text(records.get(99).value()), "last record of acks=0");
        Check.equal("1", text(records.get(100).value()), "first record of acks=1");
    }

    private static void idempotent(Cluster cluster) throws Exception {
        cluster.createTopic("idempotent", 3);
        try (var producer =
                cluster.producer("enable.idempotence", true, "batch.size", 200, "linger.ms", 0)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 3000; i++) {
                sent.add(
                        producer.send(
                                new ProducerRecord<>("idempotent", i % 3, null, bytes("" + i))));
            }
            for (int i = 0; i < 3000; i++) {
                Check.equal((long) (i / 3), sent.get(i).get().offset(), "offset of record " + i);
            }
        }
        for (var record : cluster.read("idempotent", 3, 3000)) {
            Check.equal(
                    "" + (record.offset() * 3 + record.partition()), text(record.value()), "value");
        }
    }

    private static void logAppendTime(Cluster cluster) throws Exception {
        cluster.createTopic("log-append-time", 1, "message.timestamp.type", "LogAppendTime");
        long before = System.currentTimeMillis();
        try (var producer = cluster.producer()) {
            var record =
                    new ProducerRecord<byte[], byte[]>(
                            "log-append-time", 0, 1234L, null, bytes("v"));
            long told = producer.send(record).get().timestamp();
            Check.that(told >= before, "the producer is told the time of the append, not " + told);
        }
        var read = cluster.read("log-append-time", 1, 1).get(0);
        Check.equal(TimestampType.LOG_APPEND_TIME, read.timestampType(), "timestamp type");
        Check.that(read.timestamp() >= before, "the record has the time of the append");
    }

    private static void timestampOutOfRange(Cluster cluster) throws Exception {
        cluster.createTopic("timestamps", 1);
        long now = System.currentTimeMillis();
        try (var producer = cluster.producer()) {
            var future =
                    new ProducerRecord<byte[], byte[]>(
                            "timestamps", 0, now + 7_200_000, null, bytes("v"));
            Check.fails(InvalidTimestampException.class, () -> producer.send(future).get());
            var old = new ProducerRecord<byte[], byte[]>("timestamps", 0, 0L, null, bytes("v"));
            Check.equal(0L, producer.send(old).get().timestamp(), "timestamp");
        }
    }

    private static void autoCreate(Cluster cluster) throws Exception {
        try (var producer = cluster.producer()) {
            producer.send(new ProducerRecord<>("auto-created", bytes("v"))).get();
        }
        cluster.read("auto-created", 1, 1);
    }

    private static void unknownTopic(Cluster cluster) throws Exception {
        try (var consumer = cluster.consumer("allow.auto.create.topics", false)) {
            Check.equal(null, consumer.listTopics().get("absent"), "an absent topic in the list");
            Check.equal(
                    List.of(), consumer.partitionsFor("absent"), "partitions of an absent topic");
        }
        try (var admin = cluster.admin()) {
            Check.fails(
                    UnknownTopicOrPartitionException.class,
                    () -> admin.describeTopics(List.of("absent")).allTopicNames().get());
        }
    }

    static byte[] value(int length) {
        byte[] value = new byte[length];
        Arrays.fill(value, (byte) 'x');
        return value;
    }

    static byte[] bytes(String text) {
        return text.getBytes(UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? "null" : new String(bytes, UTF_8);
    }

    static List<String> texts(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(r -> text(r.key()) + "=" + text(r.value())).toList();
    }

    private static List<String> sorted(List<String> texts) {
        return texts.stream().sorted().toList();
    }

    static void send(KafkaProducer<byte[], byte[]> producer, String topic, int partition, int count)
            throws Exception {
        Future<RecordMetadata> last = null;
        for (int i = 0; i < count; i++) {
            last = producer.send(new ProducerRecord<>(topic, partition, null, bytes("" + i)));
        }
        producer.flush();
        Check.that(last == null || last.get().offset() >= 0, "the last record has an offset");
    }
}
