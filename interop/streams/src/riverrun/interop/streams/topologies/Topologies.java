package riverrun.interop.streams.topologies;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;

/**
 * Prints what Kafka Streams' {@code describe()} says of topologies, for the runner to compare with riverrun's.
 *
 * <p>{@code interop/topologies} builds the same topologies under the same names. Each is printed as a line
 * {@code topology NAME}, and then its lines, with {@code |} in front. Of one that is refused the line is {@code
 * refused}.
 */
public final class Topologies {
    private final Map<String, Supplier<Topology>> topologies = new LinkedHashMap<>();

    private Topologies() {}

    /** Prints every topology. */
    public static void main(String[] arguments) {
        Topologies all = new Topologies();
        NodeTopologies.add(all);
        StreamTopologies.add(all);
        AggregationTopologies.add(all);
        JoinTopologies.add(all);
        all.print();
    }

    /** A topology of nodes. */
    void nodes(String name, Consumer<Topology> build) {
        add(name, () -> {
            Topology topology = new Topology();
            build.accept(topology);
            return topology;
        });
    }

    /** A topology of streams and tables, without optimization. */
    void dsl(String name, Consumer<StreamsBuilder> build) {
        configured(name, Map.of(), build);
    }

    /** A topology of streams and tables, with all optimizations. */
    void optimized(String name, Consumer<StreamsBuilder> build) {
        configured(name, Map.of(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.OPTIMIZE), build);
    }

    /** A topology of streams and tables, with these settings. */
    void configured(String name, Map<String, String> settings, Consumer<StreamsBuilder> build) {
        add(name, () -> {
            Properties properties = new Properties();
            properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
            properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:9092");
            properties.putAll(settings);
            StreamsBuilder builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(properties)));
            build.accept(builder);
            return builder.build(properties);
        });
    }

    private void add(String name, Supplier<Topology> build) {
        if (topologies.put(name, build) != null) {
            throw new AssertionError("two topologies are called " + name);
        }
    }

    private void print() {
        StringBuilder text = new StringBuilder();
        topologies.forEach((name, build) -> {
            text.append("topology ").append(name).append('\n');
            try {
                String description = build.get().describe().toString();
                for (String line : description.split("\n", -1)) {
                    text.append('|').append(line).append('\n');
                }
            } catch (RuntimeException exception) {
                System.err.println(name + ": " + exception);
                text.append("refused\n");
            }
        });
        System.out.print(text);
        System.out.flush();
    }
}
