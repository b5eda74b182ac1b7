package riverrun.interop.swap;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;

import riverrun.interop.Check;
import riverrun.interop.Cluster;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A member of a group that lives through every swap: it stays the member that it is, its generation
 * or member epoch never goes back, it reads each record once, and what it has committed is what the
 * next server knows. It may have to join again, as when a server is slow to know its topics.
 */
final class LivingGroup implements Part {
    private static final int RECORDS_BETWEEN_COMMITS = 50;

    private final Cluster cluster;
    private final String protocol;
    private final String group;
    private final Map<TopicPartition, Long> next = new HashMap<>();
    private final Map<TopicPartition, Long> acknowledged = new HashMap<>();
    private Map<TopicPartition, Long> attempted = Map.of();
    private int read;
    private int generation = -1;
    private String memberId;
    private volatile Throwable failure;
    private volatile boolean ends;
    private Thread thread;

    LivingGroup(Cluster cluster, String protocol) {
        this.cluster = cluster;
        this.protocol = protocol;
        this.group = "swap-living-" + protocol;
    }

    @Override
    public void write(int turn) throws Exception {
        if (turn == 0) {
            thread = new Thread(this::consume, group);
            thread.setDaemon(true);
            thread.start();
        }
        int before = read();
        Check.eventually(() -> failure != null || read() > before + 200, group + " reads");
    }

    private synchronized int read() {
        return read;
    }

    private void consume() {
        Object[] classic = {"session.timeout.ms", 60_000, "heartbeat.interval.ms", 500};
        Object[] all = {
            "group.id", group, "group.protocol", protocol, "group.instance.id", "the-one",
            "client.id", group, "reconnect.backoff.max.ms", 200, "request.timeout.ms", 10_000,
            "default.api.timeout.ms", 60_000,
        };
        Object[] settings = all;
        if (protocol.equals("classic")) {
            settings = new Object[all.length + classic.length];
            System.arraycopy(all, 0, settings, 0, all.length);
            System.arraycopy(classic, 0, settings, all.length, classic.length);
        }
        try (var consumer = cluster.consumer(settings)) {
            consumer.subscribe(List.of(EndlessRecords.TOPIC), new Listener(consumer));
            while (!ends) {
                poll(consumer);
            }
        } catch (Throwable thrown) {
            failure = thrown;
        }
    }

    private void poll(KafkaConsumer<byte[], byte[]> consumer) {
        var records = consumer.poll(Duration.ofMillis(50));
        synchronized (this) {
            for (var record : records) {
                var place = new TopicPartition(record.topic(), record.partition());
                Check.equal(next.getOrDefault(place, 0L), record.offset(), group + " at " + place);
                next.put(place, record.offset() + 1);
                read++;
                if (read % RECORDS_BETWEEN_COMMITS == 0) {
                    commit(consumer);
                }
            }
            if (consumer.assignment().size() == EndlessRecords.PARTITIONS) {
                note(consumer.groupMetadata());
            }
        }
    }

    private void note(ConsumerGroupMetadata now) {
        Check.that(
                generation <= now.generationId(),
                group + " went from generation " + generation + " to " + now.generationId());
        generation = now.generationId();
        if (memberId != null) {
            Check.equal(memberId, now.memberId(), group + "'s member");
        }
        memberId = now.memberId();
    }

    private void commit(KafkaConsumer<byte[], byte[]> consumer) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        next.forEach((place, offset) -> offsets.put(place, new OffsetAndMetadata(offset)));
        attempted = Map.copyOf(next);
        while (true) {
            try {
                consumer.commitSync(offsets, Duration.ofSeconds(60));
                acknowledged.putAll(next);
                return;
            } catch (RetriableException again) {
                System.err.println(group + " commits again: " + again);
            } catch (CommitFailedException stale) {
                // A server before 4.3 refuses a commit that crosses the answer to a heartbeat with
                // the next epoch; the member stays, and asks again with what it then knows.
                if (!stale.getMessage().contains("stale member epoch")) {
                    throw stale;
                }
                System.err.println(group + " commits again: " + stale);
            }
        }
    }

    private final class Listener implements ConsumerRebalanceListener {
        private final KafkaConsumer<byte[], byte[]> consumer;

        Listener(KafkaConsumer<byte[], byte[]> consumer) {
            this.consumer = consumer;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            synchronized (LivingGroup.this) {
                commit(consumer);
            }
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            throw new KafkaException(group + " was thrown out and loses " + partitions);
        }
    }

    @Override
    public void finish() throws Exception {
        ends = true;
        thread.join();
    }

    @Override
    public void check(int turn) throws Exception {
        if (failure != null) {
            throw new AssertionError(group + ": " + failure, failure);
        }
        try (var admin = cluster.admin()) {
            synchronized (this) {
                var committed =
                        admin.listConsumerGroupOffsets(group)
                                .partitionsToOffsetAndMetadata()
                                .get();
                acknowledged.forEach(
                        (place, offset) -> {
                            long found = committed.get(place).offset();
                            Check.that(
                                    found == offset || attempted.get(place) == found,
                                    group + " committed " + offset + " of " + place + ", not "
                                            + found);
                        });
            }
            if (!ends) {
                // A rebalance may be under way: a server that starts tells of its topics one by one.
                Check.eventually(
                        () -> failure != null || isTheOnlyMember(admin),
                        "one member has all partitions of " + group);
            }
        }
    }

    private boolean isTheOnlyMember(Admin admin) throws Exception {
        var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        Check.equal(1, described.members().size(), "members of " + group);
        var member = described.members().iterator().next();
        Check.equal("the-one", member.groupInstanceId().orElse(null), "its instance id");
        return member.assignment().topicPartitions().size() == EndlessRecords.PARTITIONS;
    }
}
