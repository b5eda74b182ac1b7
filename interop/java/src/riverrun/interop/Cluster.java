package riverrun.interop;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.stream.IntStream;

/** The server under test and clients for it. Settings are given as {@code name, value, ...}. */
public record Cluster(String bootstrap, Path dir) {
    /** An admin client. */
    public Admin admin() {
        return Admin.create(
                settings("default.api.timeout.ms", 20_000, "request.timeout.ms", 15_000));
    }

    /** A producer of bytes. */
    public KafkaProducer<byte[], byte[]> producer(Object... settings) {
        Properties properties = new Properties();
        properties.put("max.block.ms", "20000");
        properties.put("request.timeout.ms", "15000");
        properties.put("delivery.timeout.ms", "30000");
        properties.putAll(settings(settings));
        return new KafkaProducer<>(
                properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** A consumer of bytes that starts at the earliest offset and commits only when told to. */
    public KafkaConsumer<byte[], byte[]> consumer(Object... settings) {
        Properties properties = new Properties();
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("default.api.timeout.ms", "20000");
        // A consumer that closes waits for the fetch that is under way.
        properties.put("fetch.max.wait.ms", "100");
        properties.putAll(settings(settings));
        return new KafkaConsumer<>(
                properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /**
     * Creates a topic and waits until the broker leads its partitions. Metadata may name a leader
     * that does not know yet; an idempotent producer whose first requests meet it can end in
     * sequences that no retry puts in order.
     */
    public void createTopic(String name, int partitions, String... configs) throws Exception {
        NewTopic topic = new NewTopic(name, partitions, (short) 1).configs(map(configs));
        try (Admin admin = admin()) {
            admin.createTopics(List.of(topic)).all().get();
            Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
            IntStream.range(0, partitions)
                    .forEach(p -> ends.put(new TopicPartition(name, p), OffsetSpec.latest()));
            Check.eventually(() -> leads(admin, ends), "the broker leads " + name);
        }
    }

    private static boolean leads(Admin admin, Map<TopicPartition, OffsetSpec> ends)
            throws Exception {
        try {
            admin.listOffsets(ends).all().get();
            return true;
        } catch (ExecutionException notYet) {
            return false;
        }
    }

    /** Reads partitions from their beginning until {@code count} records have come. */
    public List<ConsumerRecord<byte[], byte[]>> read(
            String topic, int partitions, int count, Object... settings) throws Exception {
        List<TopicPartition> assigned =
                IntStream.range(0, partitions).mapToObj(p -> new TopicPartition(topic, p)).toList();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            consumer.assign(assigned);
            return poll(consumer, count);
        }
    }

    /** Polls until {@code count} records have come, and a little longer for one too many. */
    public static List<ConsumerRecord<byte[], byte[]>> poll(
            KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        long deadline = System.nanoTime() + 40_000_000_000L;
        while (records.size() < count) {
            Check.that(
                    System.nanoTime() < deadline,
                    "only " + records.size() + " of " + count + " records came");
            consumer.poll(Duration.ofMillis(200)).forEach(records::add);
        }
        consumer.poll(Duration.ofMillis(50)).forEach(records::add);
        Check.equal(count, records.size(), "records");
        return records;
    }

    /** Polls until the consumer owns {@code count} partitions. */
    public static void awaitAssignment(KafkaConsumer<byte[], byte[]> consumer, int count)
            throws Exception {
        Check.eventually(
                () -> {
                    consumer.poll(Duration.ofMillis(50));
                    return consumer.assignment().size() == count;
                },
                "the consumer owns " + count + " partitions");
    }

    /** The settings of a client. */
    public Properties settings(Object... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < settings.length; i += 2) {
            properties.put((String) settings[i], settings[i + 1].toString());
        }
        return properties;
    }

    private static Map<String, String> map(String... pairs) {
        Map<String, String> map = new HashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            map.put(pairs[i], pairs[i + 1]);
        }
        return map;
    }
}
