package riverrun.bench;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.Stores;

import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/**
 * An application of Kafka Streams, as {@code benches/streamsbench} has it in Rust:
 * {@code StreamsApplication SERVERS WORKLOAD STORE APPLICATION STATE_DIR WARM TOTAL}. Says where it is, a word a line,
 * and ends when its standard input does. Everything that is not named here is at Kafka Streams' defaults.
 */
public final class StreamsApplication {
    private static final Duration WINDOW = Duration.ofMinutes(1);
    private static final Duration GRACE = Duration.ofSeconds(10);

    private static final AtomicLong COUNT = new AtomicLong();
    private static final CountDownLatch DONE = new CountDownLatch(1);
    private static long warm;
    private static long total;

    private StreamsApplication() {}

    private static void taken() {
        long count = COUNT.incrementAndGet();
        if (count == warm) {
            say("warm");
        }
        if (count == total) {
            say("done");
            DONE.countDown();
        }
    }

    private static void say(String word) {
        System.out.println(word);
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        warm = Long.parseLong(arguments[5]);
        total = Long.parseLong(arguments[6]);
        var topology = topology(arguments[1], arguments[2].equals("persistent"));
        var properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[3]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        say("starting");
        var running = new CountDownLatch(1);
        var streams = new KafkaStreams(topology, properties);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
            if (now == KafkaStreams.State.ERROR) {
                System.err.println("the application failed");
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
        running.await();
        say("running");
        if (total > 0) {
            DONE.await();
        }
        streams.close();
        say("closed");
        System.in.readAllBytes();
    }

    private static Topology topology(String workload, boolean isPersistent) {
        var builder = new StreamsBuilder();
        switch (workload) {
            case "words" -> builder
                .stream("words", Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .aggregate(
                    () -> 0L,
                    (key, word, count) -> {
                        taken();
                        return count + 1;
                    },
                    Materialized.<String, Long>as(isPersistent
                            ? Stores.persistentTimestampedKeyValueStore("store")
                            : Stores.inMemoryKeyValueStore("store"))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()))
                .toStream()
                .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
            case "windows" -> builder
                .stream("windows", Consumed.with(Serdes.String(), Serdes.Long()))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
                .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE))
                .aggregate(
                    () -> 0L,
                    (key, value, sum) -> {
                        taken();
                        return sum + value;
                    },
                    Materialized.<String, Long>as(isPersistent
                            ? Stores.persistentTimestampedWindowStore("store", WINDOW.plus(GRACE), WINDOW, false)
                            : Stores.inMemoryWindowStore("store", WINDOW.plus(GRACE), WINDOW, false))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()))
                .toStream()
                .to("sums", Produced.with(
                    WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW.toMillis()), Serdes.Long()));
            case "restore" -> builder
                .stream("none", Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
                .reduce(
                    (before, value) -> value,
                    Materialized.<String, byte[]>as(isPersistent
                            ? Stores.persistentTimestampedKeyValueStore("store")
                            : Stores.inMemoryKeyValueStore("store"))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.ByteArray()));
            default -> throw new IllegalArgumentException(workload);
        }
        return builder.build();
    }
}
