package riverrun.interop.streams.topologies;

import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** Topologies that are put together node by node. */
final class NodeTopologies {
    /** A processor that does nothing. */
    static final ProcessorSupplier<String, String, String, String> NOTHING =
            () -> new Processor<>() {
                @Override
                public void process(Record<String, String> record) {}
            };

    private NodeTopologies() {}

    static StoreBuilder<KeyValueStore<String, String>> store(String name) {
        return Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), Serdes.String(), Serdes.String());
    }

    static void add(Topologies all) {
        all.nodes("nodes-sources-b-before-a", topology -> {
            topology.addSource("b", "from-b");
            topology.addSource("a", "from-a");
            topology.addSink("to-b", "out-b", "b");
            topology.addSink("to-a", "out-a", "a");
        });
        all.nodes("nodes-pattern-before-topic", topology -> {
            topology.addSource("b", Pattern.compile("from-.*"));
            topology.addSource("a", "other");
            topology.addSink("to-a", "out-a", "a");
            topology.addSink("to-b", "out-b", "b");
        });
        all.nodes("nodes-parents-before-others", topology -> {
            topology.addSource("z", "from-z");
            topology.addProcessor("a", NOTHING, "z");
            topology.addSource("m", "from-m");
            topology.addProcessor("n", NOTHING, "m", "z");
            topology.addSource("c", "from-c");
            topology.addSink("b", "out", "c");
        });
        all.nodes("nodes-joined-by-store", topology -> {
            topology.addSource("y", "from-y");
            topology.addSource("x", "from-x");
            topology.addSource("w", "from-w");
            topology.addProcessor("of-y", NOTHING, "y");
            topology.addProcessor("of-x", NOTHING, "x");
            topology.addProcessor("of-w", NOTHING, "w");
            topology.addStateStore(store("shared"), "of-y", "of-w");
            topology.addStateStore(store("alone"), "of-x");
        });
        all.nodes("nodes-many-topics-and-stores", topology -> {
            topology.addSource("source", "delta", "alpha", "charlie", "bravo", "echo", "Zürich", "a.b_c-d");
            topology.addProcessor("processor", NOTHING, "source");
            for (String name : "one two three four five six seven eight nine ten eleven".split(" ")) {
                topology.addStateStore(store(name), "processor");
            }
        });
        all.nodes("nodes-more-stores-than-buckets", topology -> {
            topology.addSource("source", "in");
            topology.addProcessor("processor", NOTHING, "source");
            for (int i = 0; i < 30; i++) {
                topology.addStateStore(store("store-" + i * i), "processor");
            }
        });
        all.nodes("nodes-of-one-bucket", topology -> {
            topology.addSource("BBBB", "BB", "Aa");
            topology.addSource("AaBB", "AaAa", "AaBB", "BBAa");
            topology.addProcessor("BBAa", NOTHING, "BBBB", "AaBB");
            topology.addProcessor("AaAa", NOTHING, "AaBB", "BBBB");
            topology.addStateStore(store("BB"), "AaAa", "BBAa");
            topology.addStateStore(store("Aa"), "AaAa", "BBAa");
        });
        all.nodes("nodes-same-parent-twice", topology -> {
            topology.addSource("source", "in");
            topology.addProcessor("below", NOTHING, "source", "source");
            topology.addSink("sink", "out", "below");
        });
        // The order of children depends on the sizes of their trees at the time when each is connected.
        for (int seed = 1; seed <= 24; seed++) {
            int chosen = seed;
            all.nodes("nodes-random-" + seed, topology -> random(topology, chosen));
        }
        addOthers(all);
    }

    /** A processor that fills nothing. */
    static final ProcessorSupplier<String, String, Void, Void> FILL =
            () -> new Processor<>() {
                @Override
                public void process(Record<String, String> record) {}
            };

    private static void addOthers(Topologies all) {
        all.nodes("nodes-extracted", topology -> {
            topology.addSource("source", "in");
            topology.addSink("sink", StreamTopologies.TO_KEY, "source");
        });
        all.nodes("nodes-global-store", topology -> {
            topology.addSource("b", "from-b");
            topology.addProcessor("of-b", NOTHING, "b");
            topology.addGlobalStore(
                    store("everywhere").withLoggingDisabled(),
                    "a-global",
                    new StringDeserializer(),
                    new StringDeserializer(),
                    "from-everywhere",
                    "fill",
                    FILL);
        });
        all.nodes("nodes-read-only-store", topology -> {
            topology.addReadOnlyStateStore(
                    store("read-only").withLoggingDisabled(),
                    "source",
                    new StringDeserializer(),
                    new StringDeserializer(),
                    "in",
                    "fill",
                    FILL);
            topology.addSource("other", "from-other");
            topology.addProcessor("reads", NOTHING, "other");
            topology.connectProcessorAndStateStores("reads", "read-only");
        });
    }

    /** A generator that is easy to write in every language. */
    private static final class Numbers {
        private int state;

        Numbers(int seed) {
            state = seed;
        }

        int below(int end) {
            state = state * 1103515245 + 12345;
            return (state >>> 16) % end;
        }
    }

    private static void random(Topology topology, int seed) {
        Numbers numbers = new Numbers(seed);
        int sources = 1 + numbers.below(4);
        int nodes = sources + 5 + numbers.below(40);
        for (int node = 0; node < nodes; node++) {
            String name = "node-" + (node * 7919 + seed) % 1000;
            if (node < sources) {
                topology.addSource(name, "topic-" + node);
                continue;
            }
            int first = numbers.below(node);
            int second = numbers.below(node);
            String firstName = "node-" + (first * 7919 + seed) % 1000;
            String secondName = "node-" + (second * 7919 + seed) % 1000;
            if (first == second || numbers.below(3) > 0) {
                topology.addProcessor(name, NOTHING, firstName);
            } else {
                topology.addProcessor(name, NOTHING, firstName, secondName);
            }
        }
    }
}
