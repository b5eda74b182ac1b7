package riverrun.interop.streams.topologies;

import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.processor.StreamPartitioner;

/** Topologies of joins. */
final class JoinTopologies {
    private static final JoinWindows WINDOWS = JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(1));
    private static final ValueJoiner<String, String, String> FIRST = (value, other) -> value;

    private JoinTopologies() {}

    static void add(Topologies all) {
        addStreams(all);
        addTables(all);
        addForeignKeys(all);
        addOptimized(all);
        addJoinsWithThemselves(all);
    }

    private static KStream<String, String> left(StreamsBuilder builder) {
        return builder.stream("left");
    }

    private static KStream<String, String> right(StreamsBuilder builder) {
        return builder.stream("right");
    }

    private static void addStreams(Topologies all) {
        all.dsl("join-streams", builder -> {
            KStream<String, String> left = left(builder);
            left.join(right(builder), FIRST, WINDOWS).to("out");
        });
        all.dsl("join-streams-left", builder -> {
            KStream<String, String> left = left(builder);
            left.leftJoin(right(builder), FIRST, WINDOWS).to("out");
        });
        all.dsl("join-streams-outer", builder -> {
            KStream<String, String> left = left(builder).selectKey((key, value) -> value);
            KStream<String, String> right = right(builder).selectKey((key, value) -> value);
            left.outerJoin(right, FIRST, WINDOWS).to("out");
        });
        all.dsl("join-streams-outer-sources-first", builder -> {
            KStream<String, String> left = left(builder);
            KStream<String, String> right = right(builder);
            left.selectKey((key, value) -> value)
                    .outerJoin(right.selectKey((key, value) -> value), FIRST, WINDOWS)
                    .to("out");
        });
        all.dsl("join-streams-named", builder -> {
            KStream<String, String> left = left(builder).selectKey((key, value) -> value);
            KStream<String, String> right = right(builder).selectKey((key, value) -> value);
            StreamJoined<String, String, String> joined = StreamJoined.<String, String, String>as("s").withName("n");
            left.join(right, FIRST, WINDOWS, joined).to("out");
        });
        all.dsl("join-streams-outer-named", builder -> {
            KStream<String, String> left = left(builder).selectKey((key, value) -> value);
            KStream<String, String> right = right(builder).selectKey((key, value) -> value);
            StreamJoined<String, String, String> joined = StreamJoined.<String, String, String>as("s").withName("n");
            left.outerJoin(right, FIRST, WINDOWS, joined).to("out");
        });
        all.dsl("join-stream-with-itself", builder -> {
            KStream<String, String> left = left(builder);
            left.join(left, FIRST, WINDOWS).to("out");
        });
    }

    private static void addTables(Topologies all) {
        all.dsl("join-stream-table", builder -> {
            KStream<String, String> left = left(builder).selectKey((key, value) -> value);
            left.join(builder.<String, String>table("t"), FIRST).to("out");
        });
        all.dsl("join-stream-table-left", builder -> {
            left(builder).leftJoin(builder.<String, String>table("t"), FIRST).to("out");
        });
        all.dsl("join-stream-table-after-named", builder -> {
            KStream<String, String> left = left(builder).selectKey((key, value) -> value);
            KTable<String, String> table = builder.table("t");
            left.join(table, FIRST, Joined.<String, String, String>as("first")).to("one");
            left.join(table, FIRST).to("two");
        });
        all.dsl("join-stream-global-table", builder -> {
            KStream<String, String> left = left(builder);
            GlobalKTable<String, String> table = builder.globalTable("g");
            left.join(table, (key, value) -> value, FIRST).to("out");
        });
        all.dsl("join-tables", builder -> {
            KTable<String, String> a = builder.table("a");
            a.join(builder.<String, String>table("b"), FIRST).toStream().to("out");
        });
        all.dsl("join-tables-outer-materialized", builder -> {
            KTable<String, String> a = builder.table("a");
            a.outerJoin(builder.<String, String>table("b"), FIRST, Materialized.as("kept")).toStream().to("out");
        });
        all.dsl("join-tables-mapped", builder -> {
            KTable<String, String> a = builder.<String, String>table("a").mapValues(value -> value);
            KTable<String, String> b = builder.<String, String>table("b").filter((key, value) -> true);
            a.leftJoin(b, FIRST).toStream().to("out");
        });
    }

    private static void addForeignKeys(Topologies all) {
        all.dsl("join-foreign-key", builder -> {
            KTable<String, String> a = builder.table("a");
            KTable<String, String> b = builder.table("b");
            a.join(b, value -> value, FIRST).toStream().to("out");
        });
        all.dsl("join-foreign-key-named", builder -> {
            KTable<String, String> a = builder.table("a");
            KTable<String, String> b = builder.table("b");
            a.leftJoin(
                            b,
                            value -> value,
                            FIRST,
                            TableJoined.as("n"),
                            Materialized.with(Serdes.String(), Serdes.String()))
                    .toStream()
                    .to("out");
        });
        all.dsl("join-foreign-key-partitioned", builder -> {
            KTable<String, String> a = builder.table("a");
            KTable<String, String> b = builder.table("b");
            StreamPartitioner<String, Void> first = (topic, key, value, count) -> Optional.of(Set.of(0));
            a.join(b, value -> value, FIRST, TableJoined.with(first, first).withName("n"))
                    .toStream()
                    .to("out");
        });
    }

    private static void addOptimized(Topologies all) {
        all.optimized("optimized-join-streams-and-count", builder -> {
            KStream<String, String> left = left(builder).map(KeyValue::pair);
            KStream<String, String> right = right(builder);
            left.join(right, FIRST, WINDOWS).to("out");
            left.groupByKey().count();
        });
        all.optimized("optimized-join-global-table-and-count", builder -> {
            GlobalKTable<String, String> table = builder.globalTable("g");
            left(builder)
                    .selectKey((key, value) -> value)
                    .join(table, (key, value) -> value, FIRST)
                    .groupByKey()
                    .count()
                    .toStream()
                    .to("counts");
        });
        all.optimized("optimized-join-stream-table", builder -> {
            KStream<String, String> left = left(builder).selectKey((key, value) -> value);
            KTable<String, String> table = builder.table("t");
            left.join(table, FIRST).to("one");
            left.leftJoin(table, FIRST).to("two");
        });
    }

    private static void addJoinsWithThemselves(Topologies all) {
        all.optimized("optimized-join-stream-with-itself", builder -> {
            KStream<String, String> left = left(builder);
            left.join(left, FIRST, WINDOWS).to("out");
        });
        all.optimized("optimized-join-stream-with-itself-left", builder -> {
            KStream<String, String> left = left(builder);
            left.leftJoin(left, FIRST, WINDOWS).to("out");
        });
        all.optimized("optimized-join-stream-with-itself-again", builder -> {
            KStream<String, String> left = left(builder);
            left.join(left(builder), FIRST, WINDOWS).to("out");
        });
        all.optimized("optimized-join-stream-with-itself-named", builder -> {
            KStream<String, String> left = left(builder);
            StreamJoined<String, String, String> joined = StreamJoined.<String, String, String>as("s").withName("n");
            left.join(left, FIRST, WINDOWS, joined).to("out");
        });
        all.optimized("optimized-join-stream-with-itself-keyed", builder -> {
            KStream<String, String> left = left(builder).selectKey((key, value) -> value);
            left.join(left, FIRST, WINDOWS).to("out");
        });
        all.optimized("optimized-join-stream-with-itself-and-more", builder -> {
            KStream<String, String> left = left(builder).mapValues(value -> value);
            left.to("before");
            KStream<String, String> joined = left.join(left, FIRST, WINDOWS);
            left.to("after");
            joined.join(left, FIRST, WINDOWS).to("out");
        });
        all.optimized("optimized-join-stream-with-itself-filtered", builder -> {
            KStream<String, String> left = left(builder);
            left.join(left.filter((key, value) -> true), FIRST, WINDOWS).to("out");
        });
        all.optimized("optimized-join-stream-with-itself-mapped-twice", builder -> {
            KStream<String, String> left = left(builder);
            KStream<String, String> one = left.mapValues(value -> value);
            KStream<String, String> two = left.filter((key, value) -> true);
            one.join(two, FIRST, WINDOWS).to("out");
        });
        all.optimized("optimized-join-stream-with-itself-thrice", builder -> {
            KStream<String, String> left = left(builder);
            left.join(left, FIRST, WINDOWS).join(left, FIRST, WINDOWS).to("out");
        });
        all.optimized("optimized-join-stream-with-itself-merged", builder -> {
            KStream<String, String> merged = left(builder).merge(right(builder));
            merged.join(merged, FIRST, WINDOWS).to("out");
        });
        all.optimized("optimized-join-stream-with-itself-enriched", builder -> {
            KStream<String, String> left = left(builder).join(builder.<String, String>table("t"), FIRST);
            left.join(left, FIRST, WINDOWS).to("out");
        });
        all.optimized("optimized-join-stream-with-itself-counted", builder -> {
            KStream<String, Long> left = left(builder).groupByKey().count().toStream();
            left.join(left, (value, other) -> value, WINDOWS).foreach((key, value) -> {});
        });
        all.optimized("optimized-join-stream-with-itself-twice", builder -> {
            KStream<String, String> left = left(builder);
            left.join(left, FIRST, WINDOWS).to("one");
            left.join(left, FIRST, WINDOWS).to("two");
        });
    }
}
