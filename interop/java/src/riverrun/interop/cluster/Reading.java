package riverrun.interop.cluster;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

import riverrun.interop.Check;

import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Reads a topic from its beginning to where it ends now, and writes {@code PARTITION TAB OFFSET TAB
 * VALUE} of each record to a file. It tells how many there are, and from which broker other than the
 * leader each partition was read last.
 */
final class Reading {
    private static final Duration POLL = Duration.ofMillis(100);

    private final String topic;
    private final Path file;
    private final long limitNanos;
    private final Properties settings = new Properties();

    Reading(Properties cluster, JsonNode command) {
        topic = command.get("topic").asText();
        file = Path.of(command.get("file").asText());
        limitNanos = command.get("limit_ms").asLong() * 1_000_000;
        settings.putAll(cluster);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        settings.put("fetch.max.wait.ms", "100");
        settings.put("default.api.timeout.ms", "20000");
        for (var setting : command.get("settings").properties()) {
            settings.put(setting.getKey(), setting.getValue().asText());
        }
    }

    ObjectNode read() throws Exception {
        ObjectNode told = new ObjectMapper().createObjectNode();
        long deadline = System.nanoTime() + limitNanos;
        long count = 0;
        var text = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, text, text);
                BufferedWriter output = Files.newBufferedWriter(file, UTF_8)) {
            List<TopicPartition> places = new ArrayList<>();
            consumer.partitionsFor(topic)
                    .forEach(found -> places.add(new TopicPartition(topic, found.partition())));
            consumer.assign(places);
            consumer.seekToBeginning(places);
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            while (!isThere(consumer, ends)) {
                Check.that(System.nanoTime() < deadline, topic + " is not read to " + ends);
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    String place = record.partition() + "\t" + record.offset() + "\t";
                    output.write(place + record.value() + "\n");
                    count++;
                }
            }
            putPreferred(consumer, told.putObject("preferred"));
        }
        return told.put("count", count);
    }

    private static boolean isThere(
            KafkaConsumer<String, String> consumer, Map<TopicPartition, Long> ends) {
        return ends.entrySet().stream()
                .allMatch(end -> consumer.position(end.getKey()) >= end.getValue());
    }

    private static void putPreferred(KafkaConsumer<String, String> consumer, ObjectNode preferred) {
        consumer.metrics()
                .forEach(
                        (name, metric) -> {
                            String partition = name.tags().get("partition");
                            if (name.name().equals("preferred-read-replica") && partition != null) {
                                preferred.put(partition, metric.metricValue().toString());
                            }
                        });
    }
}
