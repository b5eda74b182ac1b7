package riverrun.interop.streams.topologies;

import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.AutoOffsetReset;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Printed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.RecordContext;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;

/** Topologies of streams, without tables. */
final class StreamTopologies {
    /** A record's topic is its key. */
    static final TopicNameExtractor<String, String> TO_KEY =
            new TopicNameExtractor<>() {
                @Override
                public String extract(String key, String value, RecordContext context) {
                    return key;
                }

                @Override
                public String toString() {
                    return "to-key";
                }
            };

    private static final FixedKeyProcessorSupplier<String, String, String> FIXED_KEY =
            () -> new FixedKeyProcessor<>() {
                @Override
                public void process(FixedKeyRecord<String, String> record) {}
            };

    private StreamTopologies() {}

    static KStream<String, String> in(StreamsBuilder builder) {
        return builder.stream("in");
    }

    static void add(Topologies all) {
        addOperators(all);
        addNamed(all);
        addBranches(all);
        addSources(all);
        addRepartitions(all);
        addMerged(all);
        addGlobal(all);
    }

    private static void addOperators(Topologies all) {
        all.dsl("stream-every-operator", builder -> {
            KStream<String, String> stream = in(builder)
                    .filter((key, value) -> true)
                    .filterNot((key, value) -> false)
                    .mapValues(value -> value)
                    .flatMapValues(value -> List.of(value))
                    .peek((key, value) -> {})
                    .map(KeyValue::pair)
                    .flatMap((key, value) -> List.of(KeyValue.pair(key, value)))
                    .selectKey((key, value) -> key)
                    .process(NodeTopologies.NOTHING)
                    .processValues(FIXED_KEY);
            stream.merge(builder.stream("other")).to("out");
            stream.foreach((key, value) -> {});
            stream.print(Printed.toSysOut());
            stream.to(TO_KEY);
        });
        all.dsl("stream-of-stores", builder -> {
            builder.addStateStore(NodeTopologies.store("kept"));
            builder.addStateStore(NodeTopologies.store("also"));
            in(builder).process(NodeTopologies.NOTHING, "kept").to("out");
            builder.<String, String>stream("other").processValues(FIXED_KEY, "kept", "also").to("out");
        });
    }

    private static void addNamed(Topologies all) {
        all.dsl("stream-every-operator-named", builder -> {
            KStream<String, String> stream = builder.<String, String>stream("in", Consumed.as("source"))
                    .filter((key, value) -> true, Named.as("filter"))
                    .filterNot((key, value) -> false, Named.as("filter-not"))
                    .mapValues(value -> value, Named.as("map-values"))
                    .flatMapValues(value -> List.of(value), Named.as("flat-map-values"))
                    .peek((key, value) -> {}, Named.as("peek"))
                    .map(KeyValue::pair, Named.as("map"))
                    .flatMap((key, value) -> List.of(KeyValue.pair(key, value)), Named.as("flat-map"))
                    .selectKey((key, value) -> key, Named.as("select-key"))
                    .process(NodeTopologies.NOTHING, Named.as("process"))
                    .processValues(FIXED_KEY, Named.as("process-values"));
            stream.merge(builder.stream("other"), Named.as("merge")).to("out", Produced.as("sink"));
            stream.foreach((key, value) -> {}, Named.as("for-each"));
            stream.print(Printed.<String, String>toSysOut().withName("print"));
            stream.filter((key, value) -> true).to(TO_KEY);
        });
        all.dsl("stream-same-name-twice", builder -> {
            in(builder)
                    .filter((key, value) -> true, Named.as("same"))
                    .filter((key, value) -> true, Named.as("same"));
        });
        all.dsl("stream-bad-name", builder -> in(builder).filter((key, value) -> true, Named.as("a b")));
    }

    private static void addBranches(Topologies all) {
        all.dsl("branches", builder -> {
            Map<String, KStream<String, String>> branches = in(builder)
                    .split()
                    .branch((key, value) -> true)
                    .branch((key, value) -> true, Branched.as("x"))
                    .defaultBranch();
            branches.get("KSTREAM-BRANCH-00000000011").to("one");
            branches.get("KSTREAM-BRANCH-0000000001x").to("two");
            branches.get("KSTREAM-BRANCH-00000000010").to("rest");
        });
        all.dsl("branches-named", builder -> {
            in(builder)
                    .split(Named.as("split-"))
                    .branch((key, value) -> true, Branched.withFunction(stream -> stream.mapValues(value -> value)))
                    .branch((key, value) -> true, Branched.withConsumer(stream -> stream.to("two"), "x"))
                    .branch((key, value) -> true, Branched.as("y"))
                    .noDefaultBranch()
                    .get("split-y")
                    .to("three");
        });
    }

    private static void addSources(Topologies all) {
        all.dsl("source-shared", builder -> {
            in(builder).mapValues(value -> value).to("one");
            in(builder).filter((key, value) -> true).to("two");
        });
        all.dsl("source-shared-topics", builder -> {
            builder.<String, String>stream(List.of("a", "b")).to("one");
            builder.<String, String>stream(List.of("b", "a")).to("two");
        });
        all.dsl("source-shared-named", builder -> {
            builder.<String, String>stream("in", Consumed.as("first")).to("one");
            builder.<String, String>stream("in", Consumed.as("second")).to("two");
        });
        all.dsl("source-pattern", builder -> builder.<String, String>stream(Pattern.compile("in-.*")).to("out"));
        all.dsl("source-pattern-shared", builder -> {
            builder.<String, String>stream(Pattern.compile("in-.*")).to("one");
            builder.<String, String>stream(Pattern.compile("in-.*")).to("two");
        });
        all.dsl("source-overlap", builder -> {
            builder.<String, String>stream(List.of("a", "b")).to("one");
            builder.<String, String>stream(List.of("b", "c")).to("two");
        });
        all.dsl("source-subset", builder -> {
            builder.<String, String>stream(List.of("a", "b")).to("one");
            builder.<String, String>stream("a").to("two");
        });
        all.dsl("source-stream-and-table", builder -> {
            in(builder).to("one");
            builder.<String, String>table("in").toStream().to("two");
        });
        all.dsl("source-table-and-stream", builder -> {
            builder.<String, String>table("in").toStream().to("one");
            in(builder).to("two");
        });
        all.dsl("source-table-twice", builder -> {
            builder.<String, String>table("in").toStream().to("one");
            builder.<String, String>table("in").toStream().to("two");
        });
        all.dsl("source-other-reset", builder -> {
            builder.<String, String>stream("in", Consumed.with(AutoOffsetReset.latest())).to("one");
            in(builder).to("two");
        });
        all.dsl("source-order-of-merge", builder -> {
            in(builder).to("one");
            builder.<String, String>stream("other").to("two");
            in(builder).merge(builder.stream("other")).to("three");
        });
        all.dsl("source-merged-with-itself", builder -> in(builder).merge(in(builder)).to("out"));
        all.dsl("stream-merged-with-itself", builder -> {
            KStream<String, String> stream = in(builder).mapValues(value -> value);
            stream.merge(stream).to("out");
        });
    }

    private static void addRepartitions(Topologies all) {
        all.dsl("repartition", builder -> in(builder).repartition().to("out"));
        all.dsl("repartition-named", builder -> {
            in(builder).repartition(Repartitioned.as("again")).mapValues(value -> value).to("out");
        });
        all.dsl("repartition-named-as-generated", builder -> {
            in(builder).repartition(Repartitioned.as("KSTREAM-MINE-0123456789")).to("out");
        });
        all.dsl("repartition-twice", builder -> {
            KStream<String, String> stream = in(builder).selectKey((key, value) -> value);
            stream.repartition().to("one");
            stream.repartition(Repartitioned.with(Serdes.String(), Serdes.String()).withName("named")).to("two");
        });
        all.configured(
                "repartition-generated-refused",
                Map.of(StreamsConfig.ENSURE_EXPLICIT_INTERNAL_RESOURCE_NAMING_CONFIG, "true"),
                builder -> in(builder).repartition().to("out"));
        all.configured(
                "repartition-explicit-naming",
                Map.of(StreamsConfig.ENSURE_EXPLICIT_INTERNAL_RESOURCE_NAMING_CONFIG, "true"),
                builder -> in(builder).repartition(Repartitioned.as("again")).to("out"));
    }

    /** What {@code merge.repartition.topics} makes of repartitions that users have asked for, which is nothing. */
    private static void addMerged(Topologies all) {
        all.optimized("optimized-repartition", builder -> {
            KStream<String, String> stream = in(builder).selectKey((key, value) -> value);
            stream.repartition().to("one");
            stream.mapValues(value -> value).repartition().to("two");
        });
    }

    private static void addGlobal(Topologies all) {
        all.dsl("global-store", builder -> {
            in(builder).to("out");
            builder.addGlobalStore(
                    NodeTopologies.store("everywhere").withLoggingDisabled(),
                    "everything",
                    Consumed.with(Serdes.String(), Serdes.String()),
                    NodeTopologies.FILL);
            builder.<String, String>stream("other").to("out");
        });
        all.dsl("global-store-named", builder -> {
            builder.addGlobalStore(
                    NodeTopologies.store("everywhere").withLoggingDisabled(),
                    "everything",
                    Consumed.with(Serdes.String(), Serdes.String()).withName("fill"),
                    NodeTopologies.FILL);
            in(builder).to("out");
        });
    }
}
