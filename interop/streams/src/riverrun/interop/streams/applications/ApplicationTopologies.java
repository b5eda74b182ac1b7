package riverrun.interop.streams.applications;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.WindowStore;

/** The topologies of {@link Applications}; those whose name begins with {@code headers-} keep headers in their stores. */
final class ApplicationTopologies {
    private static final Duration WINDOW = Duration.ofSeconds(10);
    private static final Duration GRACE = Duration.ofSeconds(5);
    private static final JoinWindows JOIN_WINDOWS =
            JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(3), GRACE).after(Duration.ofSeconds(1));

    private ApplicationTopologies() {}

    static void add(Map<String, BiConsumer<StreamsBuilder, String>> topologies) {
        for (String format : List.of("", "headers-")) {
            topologies.put(format + "word-count", ApplicationTopologies::wordCount);
            topologies.put(format + "windowed-count", ApplicationTopologies::windowedCount);
            topologies.put(format + "session-count", ApplicationTopologies::sessionCount);
            topologies.put(format + "stream-join", ApplicationTopologies::streamJoin);
            topologies.put(format + "foreign-key-join", ApplicationTopologies::foreignKeyJoin);
        }
        topologies.put("final-count", ApplicationTopologies::finalCount);
        topologies.put("self-join", ApplicationTopologies::selfJoin);
        topologies.put("table-aggregate", ApplicationTopologies::tableAggregate);
    }

    private static void wordCount(StreamsBuilder builder, String out) {
        builder.<String, String>stream("events")
                .flatMapValues(value -> value == null ? List.<String>of() : List.of(value.split(" ")))
                .groupBy((key, word) -> word)
                .count(Materialized.as("counts"))
                .toStream()
                .to(out, Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static KGroupedStream<String, String> events(StreamsBuilder builder) {
        return builder.<String, String>stream("events").groupByKey();
    }

    private static KTable<Windowed<String>, Long> counts(StreamsBuilder builder) {
        return events(builder)
                .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE).advanceBy(WINDOW.dividedBy(2)))
                .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts")
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()));
    }

    private static void write(KTable<Windowed<String>, Long> counts, String out) {
        counts.toStream()
                .to(
                        out,
                        Produced.with(
                                WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW.toMillis()), Serdes.Long()));
    }

    private static void windowedCount(StreamsBuilder builder, String out) {
        write(counts(builder), out);
    }

    private static void finalCount(StreamsBuilder builder, String out) {
        write(
                counts(builder)
                        .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())
                                .withName("final")),
                out);
    }

    private static void sessionCount(StreamsBuilder builder, String out) {
        events(builder)
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(GRACE, GRACE))
                .count(Materialized.as("counts"))
                .toStream()
                .to(out, Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.Long()));
    }

    private static void streamJoin(StreamsBuilder builder, String out) {
        KStream<String, String> left = builder.stream("left");
        KStream<String, String> right = builder.stream("right");
        left.join(
                        right,
                        (value, other) -> value + "+" + other,
                        JOIN_WINDOWS,
                        StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()))
                .to(out);
    }

    private static void selfJoin(StreamsBuilder builder, String out) {
        KStream<String, String> left = builder.stream("left");
        left.join(
                        left,
                        (value, other) -> value + "+" + other,
                        JOIN_WINDOWS,
                        StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()))
                .to(out);
    }

    /** What stands before the bar; null if that is nothing. */
    private static String customer(String order) {
        String customer = order.substring(0, order.indexOf('|'));
        return customer.isEmpty() ? null : customer;
    }

    private static void foreignKeyJoin(StreamsBuilder builder, String out) {
        KTable<String, String> orders = builder.table("orders");
        KTable<String, String> customers = builder.table("customers");
        orders.leftJoin(
                        customers,
                        ApplicationTopologies::customer,
                        (order, customer) -> order + "+" + customer,
                        TableJoined.as("bought"),
                        Materialized.as("joined"))
                .toStream()
                .to(out);
    }

    private static void tableAggregate(StreamsBuilder builder, String out) {
        builder.<String, String>table("customers", Materialized.as("customers"))
                .groupBy((key, value) -> KeyValue.pair(value, key))
                .aggregate(
                        () -> "",
                        (value, key, aggregate) -> aggregate + "+" + key,
                        (value, key, aggregate) -> aggregate + "-" + key,
                        Materialized.as("aggregates"))
                .toStream()
                .to(out);
    }
}
