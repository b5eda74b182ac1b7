package riverrun.interop.streams.topologies;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.Stores;

/** Topologies of tables and aggregations. */
final class AggregationTopologies {
    private static final Duration MINUTE = Duration.ofMinutes(1);

    private AggregationTopologies() {}

    static void add(Topologies all) {
        addTables(all);
        addCounts(all);
        addWindows(all);
        addCogroup(all);
        addSuppliers(all);
        addOptimized(all);
    }

    private static KStream<String, String> words(StreamsBuilder builder) {
        return StreamTopologies.in(builder).flatMapValues(value -> List.of(value.split(" ")));
    }

    private static void addTables(Topologies all) {
        all.dsl("table", builder -> builder.<String, String>table("in").toStream().to("out"));
        all.dsl("table-materialized", builder -> {
            builder.<String, String>table("in", Materialized.as("kept")).toStream().to("out");
        });
        all.dsl("table-chain", builder -> {
            builder.<String, String>table("in")
                    .filter((key, value) -> true)
                    .mapValues(value -> value, Materialized.with(Serdes.String(), Serdes.String()))
                    .filter((key, value) -> true, Materialized.as("fs"))
                    .toStream()
                    .to("out");
        });
        all.dsl("table-to-stream-keyed", builder -> {
            builder.<String, String>table("in").toStream((key, value) -> value).to("out");
        });
        all.dsl("to-table", builder -> {
            StreamTopologies.in(builder)
                    .map(KeyValue::pair)
                    .toTable(Materialized.with(Serdes.String(), Serdes.String()))
                    .toStream()
                    .to("out");
        });
        all.dsl("to-table-named", builder -> {
            StreamTopologies.in(builder)
                    .map(KeyValue::pair)
                    .toTable(Named.as("made"))
                    .toStream(Named.as("again"))
                    .to("out");
        });
        all.dsl("global-table", builder -> {
            builder.<String, String>globalTable("global");
            StreamTopologies.in(builder).to("out");
        });
        all.dsl("table-group-reduce", builder -> {
            builder.<String, String>table("in")
                    .groupBy(KeyValue::pair)
                    .reduce((value, other) -> value, (value, other) -> value)
                    .toStream()
                    .to("out");
        });
        all.dsl("table-group-named", builder -> {
            builder.<String, String>table("in")
                    .groupBy(KeyValue::pair, Grouped.as("g"))
                    .count(Named.as("n"))
                    .toStream()
                    .to("out");
        });
        all.dsl("table-suppress", builder -> {
            builder.<String, String>table("in")
                    .suppress(Suppressed.untilTimeLimit(MINUTE, Suppressed.BufferConfig.unbounded()))
                    .toStream()
                    .to("out");
        });
        all.dsl("table-suppress-named", builder -> {
            builder.<String, String>table("in")
                    .suppress(Suppressed.<String>untilTimeLimit(MINUTE, Suppressed.BufferConfig.unbounded())
                            .withName("held"))
                    .toStream()
                    .to("out");
        });
    }

    private static void addCounts(Topologies all) {
        all.dsl("count", builder -> {
            words(builder).groupBy((key, value) -> value).count().toStream().to("out");
        });
        all.dsl("count-materialized", builder -> {
            words(builder).groupBy((key, value) -> value).count(Materialized.as("counts")).toStream().to("out");
        });
        all.dsl("count-named", builder -> {
            words(builder)
                    .groupBy((key, value) -> value, Grouped.as("g"))
                    .count(Named.as("cnt"), Materialized.with(Serdes.String(), Serdes.Long()))
                    .toStream()
                    .to("out");
        });
        all.dsl("two-aggregations", AggregationTopologies::twoAggregations);
        all.dsl("two-aggregations-named", builder -> {
            KGroupedStream<String, String> grouped = StreamTopologies.in(builder)
                    .selectKey((key, value) -> value)
                    .groupByKey(Grouped.as("g"));
            grouped.count();
            grouped.reduce((value, other) -> value);
        });
        all.configured(
                "count-generated-refused",
                Map.of(StreamsConfig.ENSURE_EXPLICIT_INTERNAL_RESOURCE_NAMING_CONFIG, "true"),
                builder -> StreamTopologies.in(builder).groupByKey().count());
    }

    private static void twoAggregations(StreamsBuilder builder) {
        KStream<String, String> stream = StreamTopologies.in(builder).selectKey((key, value) -> value);
        stream.groupByKey().count();
        stream.groupByKey().reduce((value, other) -> value);
    }

    private static void addWindows(Topologies all) {
        all.dsl("window-suppress", builder -> {
            StreamTopologies.in(builder)
                    .groupByKey()
                    .windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE))
                    .count()
                    .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
                    .toStream()
                    .foreach((key, value) -> {});
        });
        all.dsl("windows-of-one-group", builder -> {
            KGroupedStream<String, String> grouped = StreamTopologies.in(builder).groupByKey();
            grouped.windowedBy(SessionWindows.ofInactivityGapWithNoGrace(MINUTE)).reduce((value, other) -> value);
            KTable<Windowed<String>, String> sliding = grouped.windowedBy(
                            SlidingWindows.ofTimeDifferenceWithNoGrace(MINUTE))
                    .aggregate(() -> "", (key, value, aggregate) -> aggregate);
            grouped.windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE))
                    .count(Materialized.with(Serdes.String(), Serdes.Long()));
            sliding.toStream().foreach((key, value) -> {});
        });
    }

    private static void addCogroup(Topologies all) {
        all.dsl("cogroup", builder -> {
            KGroupedStream<String, String> first = StreamTopologies.in(builder).groupByKey();
            KGroupedStream<String, String> second =
                    builder.<String, String>stream("other").groupBy((key, value) -> value);
            first.<String>cogroup((key, value, aggregate) -> aggregate)
                    .cogroup(second, (key, value, aggregate) -> aggregate)
                    .aggregate(() -> "")
                    .toStream()
                    .to("out");
        });
        all.dsl("cogroup-twice", AggregationTopologies::cogroupTwice);
        all.optimized("optimized-cogroup-twice", AggregationTopologies::cogroupTwice);
        all.dsl("cogroup-group-again", builder -> {
            KGroupedStream<String, String> first = StreamTopologies.in(builder).groupByKey();
            KGroupedStream<String, String> second =
                    builder.<String, String>stream("other").groupBy((key, value) -> value);
            first.<String>cogroup((key, value, aggregate) -> aggregate)
                    .cogroup(second, (key, value, aggregate) -> aggregate)
                    .cogroup(first, (key, value, aggregate) -> value)
                    .aggregate(() -> "", Named.as("n"), Materialized.as("kept"))
                    .toStream()
                    .to("out");
        });
    }

    private static void cogroupTwice(StreamsBuilder builder) {
        KGroupedStream<String, String> first = StreamTopologies.in(builder).groupBy((key, value) -> value);
        KGroupedStream<String, String> second = builder.<String, String>stream("other")
                .groupBy((key, value) -> value, Grouped.as("second"));
        CogroupedKStream<String, String> cogrouped = first.<String>cogroup((key, value, aggregate) -> aggregate)
                .cogroup(second, (key, value, aggregate) -> aggregate);
        cogrouped.aggregate(() -> "").toStream().to("out");
        cogrouped.aggregate(() -> "", Materialized.as("kept")).toStream().to("out");
        cogrouped.windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE)).aggregate(() -> "");
        cogrouped.windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(MINUTE)).aggregate(() -> "");
        cogrouped
                .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(MINUTE))
                .aggregate(() -> "", (key, one, other) -> one);
    }

    private static void addSuppliers(Topologies all) {
        all.dsl("suppliers", builder -> {
            KGroupedStream<String, String> grouped = StreamTopologies.in(builder).groupByKey();
            grouped.reduce((value, other) -> value, Materialized.as(Stores.lruMap("lru", 2)));
            grouped.count(Materialized.as(Stores.persistentVersionedKeyValueStore("versioned", MINUTE)));
            grouped.windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE))
                    .count(Materialized.as(Stores.inMemoryWindowStore("window", MINUTE, MINUTE, false)));
            grouped.windowedBy(SessionWindows.ofInactivityGapWithNoGrace(MINUTE))
                    .count(Materialized.as(Stores.persistentSessionStore("session", MINUTE)));
            builder.<String, String>table("t", Materialized.as(Stores.inMemoryKeyValueStore("table")))
                    .toStream()
                    .to("out");
        });
    }

    private static void addOptimized(Topologies all) {
        all.optimized("optimized-two-aggregations", AggregationTopologies::twoAggregations);
        all.optimized("optimized-aggregations-below-values", builder -> {
            KStream<String, String> stream = StreamTopologies.in(builder).selectKey((key, value) -> value);
            stream.mapValues(value -> value).groupByKey().count();
            stream.filter((key, value) -> true).groupByKey(Grouped.as("g")).count();
            stream.to("three");
        });
        all.optimized("optimized-aggregations-below-merge", builder -> {
            KStream<String, String> stream = StreamTopologies.in(builder)
                    .selectKey((key, value) -> value)
                    .merge(builder.<String, String>stream("other").map(KeyValue::pair));
            stream.groupByKey().count();
            stream.groupByKey().reduce((value, other) -> value);
        });
        all.optimized("optimized-aggregations-below-merge-with-source", builder -> {
            KStream<String, String> merged = StreamTopologies.in(builder)
                    .selectKey((key, value) -> value)
                    .merge(builder.<String, String>stream("other"));
            merged.groupByKey(Grouped.as("g")).count();
            merged.leftJoin(builder.<String, String>table("t"), (value, other) -> value).to("out");
        });
        all.optimized("optimized-aggregations-of-two-keys", builder -> {
            KStream<String, String> stream = StreamTopologies.in(builder).selectKey((key, value) -> value);
            stream.groupByKey().count();
            KStream<String, String> again = stream.selectKey((key, value) -> value);
            again.groupByKey().count();
            again.mapValues(value -> value).groupByKey().reduce((value, other) -> value);
            stream.groupByKey().count();
        });
        all.optimized("optimized-table", builder -> builder.<String, String>table("in").toStream().to("out"));
        all.optimized("optimized-table-materialized", builder -> {
            builder.<String, String>table("in", Materialized.as("kept")).toStream().to("out");
        });
    }
}
