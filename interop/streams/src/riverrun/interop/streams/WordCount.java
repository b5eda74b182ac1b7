package riverrun.interop.streams;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.HostInfo;

/**
 * An instance of a word count on Kafka Streams, which shares its group with instances of riverrun's ({@code
 * word_count.rs} of {@code interop/topologies}).
 *
 * <p>{@code BOOTSTRAP STATE_DIR GUARANTEE PROTOCOL SERVER}. The line {@code running} of standard input is answered by {@code
 * done} once it runs, {@code ended} once it has ended because a member asked for that, {@code tasks} by {@code done} and how
 * many active tasks it has, {@code where WORD} by {@code done}, the server of the instance that counts it, and those that
 * stand by. It ends in order when standard input does.
 */
public final class WordCount {
    private WordCount() {}

    public static void main(String[] arguments) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count(Materialized.as("word-counts"))
                .toStream()
                .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-count");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[2]);
        properties.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, arguments[3]);
        properties.put(StreamsConfig.APPLICATION_SERVER_CONFIG, arguments[4]);
        properties.put(StreamsConfig.clientTagPrefix("server"), arguments[4]);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        properties.put(ProducerConfig.LINGER_MS_CONFIG, 0);
        if (arguments[3].equals("classic")) {
            // In streams groups these are the broker's to say.
            properties.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 1);
            properties.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 500);
            // Kafka Streams does not leave the group when it ends.
            properties.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 6000);
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.start();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String command = commands.readLine(); command != null; command = commands.readLine()) {
            switch (command) {
                case "running" -> {
                    while (streams.state() != KafkaStreams.State.RUNNING) {
                        Thread.sleep(20);
                    }
                    System.out.println("done");
                }
                case "ended" -> {
                    while (!streams.state().hasCompletedShutdown()) {
                        Thread.sleep(20);
                    }
                    System.out.println("done");
                }
                case "tasks" -> System.out.println("done " + tasks(streams));
                default -> {
                    if (command.startsWith("where ")) {
                        System.out.println("done " + servers(streams, command.substring("where ".length())));
                    } else {
                        System.out.println("no command " + command);
                    }
                }
            }
        }
        streams.close();
    }

    private static String servers(KafkaStreams streams, String word) {
        KeyQueryMetadata found =
                streams.queryMetadataForKey("word-counts", word, Serdes.String().serializer());
        if (found.equals(KeyQueryMetadata.NOT_AVAILABLE)) {
            return "unknown";
        }
        String standby = found.standbyHosts().stream()
                .map(WordCount::server)
                .sorted()
                .map(server -> " " + server)
                .collect(Collectors.joining());
        return server(found.activeHost()) + standby;
    }

    private static String server(HostInfo host) {
        return host.port() < 0 ? "unknown" : host.host() + ":" + host.port();
    }

    private static int tasks(KafkaStreams streams) {
        return streams.metadataForLocalThreads().stream()
                .mapToInt(thread -> thread.activeTasks().size())
                .sum();
    }
}
