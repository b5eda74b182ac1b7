package riverrun.interop.streams.applications;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyConfig;

/**
 * Runs the applications of {@link ApplicationTopologies} for the runner to compare with riverrun's.
 *
 * <p>The argument is {@code HOST:PORT}. The line {@code start STATE_DIR PREFIX=CACHE_BYTES ...} of standard input
 * starts an application {@code PREFIX-NAME} of each topology and each prefix, whose results go to the topic {@code
 * PREFIX-NAME-out}; {@code close} closes all. Both are answered by {@code done} when every application runs, or is
 * closed. {@code interop/applications} is the same program with riverrun.
 */
public final class Applications {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    private final List<KafkaStreams> instances = new ArrayList<>();

    private Applications() {}

    /** Obeys standard input until its end. */
    public static void main(String[] arguments) throws Exception {
        Applications applications = new Applications();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "start" -> applications.start(arguments[0], words);
                    case "close" -> applications.close();
                    default -> throw new IllegalArgumentException("no command `" + line + "`");
                }
                System.out.println("done");
            } catch (RuntimeException exception) {
                exception.printStackTrace();
                System.out.println(String.valueOf(exception).replace('\n', '\t'));
            }
        }
        // Threads of Kafka Streams that wait for a server must not keep the process.
        System.exit(0);
    }

    private void start(String servers, String[] words) throws InterruptedException {
        Map<String, BiConsumer<StreamsBuilder, String>> topologies = new TreeMap<>();
        ApplicationTopologies.add(topologies);
        for (String prefix : List.of(words).subList(2, words.length)) {
            String[] parts = prefix.split("=");
            topologies.forEach((name, build) -> {
                String id = parts[0] + "-" + name;
                Properties properties = properties(id, servers, words[1], parts[1]);
                if (name.startsWith("headers-")) {
                    properties.put(StreamsConfig.DSL_STORE_FORMAT_CONFIG, StreamsConfig.DSL_STORE_FORMAT_HEADERS);
                }
                StreamsBuilder builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(properties)));
                build.accept(builder, id + "-out");
                KafkaStreams streams = new KafkaStreams(builder.build(properties), properties);
                streams.start();
                instances.add(streams);
            });
        }
        long deadline = System.nanoTime() + LIMIT.toNanos();
        for (KafkaStreams streams : instances) {
            while (streams.state() != KafkaStreams.State.RUNNING) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("an application does not run: " + streams.state());
                }
                Thread.sleep(10);
            }
        }
    }

    private static Properties properties(String id, String servers, String stateDir, String cacheBytes) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, id);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, stateDir);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, cacheBytes);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        properties.put(StreamsConfig.POLL_MS_CONFIG, 20);
        properties.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 100);
        properties.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.SINGLE_STORE_SELF_JOIN);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        return properties;
    }

    private void close() {
        CloseOptions options = CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP)
                .withTimeout(LIMIT);
        for (KafkaStreams streams : instances) {
            if (streams.state() != KafkaStreams.State.RUNNING) {
                throw new IllegalStateException("an application does not run: " + streams.state());
            }
            if (!streams.close(options)) {
                throw new IllegalStateException("an application is not closed: " + streams.state());
            }
        }
        instances.clear();
    }
}
