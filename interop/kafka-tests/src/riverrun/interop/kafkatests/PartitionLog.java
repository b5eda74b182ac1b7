package riverrun.interop.kafkatests;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.stubbing.Answer;

import java.io.File;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;

/** What tests may ask of the log of a partition; the server is asked over its protocol. */
final class PartitionLog {
    private final int port;
    private final TopicPartition partition;
    private final File dir;

    PartitionLog(int port, TopicPartition partition, File dir) {
        this.port = port;
        this.partition = partition;
        this.dir = dir;
    }

    UnifiedLog log() {
        ProducerStateManager producers =
                new StandIn<>(ProducerStateManager.class)
                        .on("activeProducers", asked(this::producers))
                        .object();
        return new StandIn<>(UnifiedLog.class)
                .on("dir", call -> dir)
                .on("topicPartition", call -> partition)
                .on("logStartOffset", asked(admin -> offset(admin, OffsetSpec.earliest())))
                .on("logEndOffset", asked(admin -> offset(admin, OffsetSpec.latest())))
                .on("highWatermark", asked(admin -> offset(admin, OffsetSpec.latest())))
                .on("producerStateManager", call -> producers)
                .object();
    }

    /** A question to the server. */
    private interface Question<T> {
        T ask(Admin admin) throws ExecutionException, InterruptedException;
    }

    private <T> Answer<T> asked(Question<T> question) {
        String server = "localhost:" + port;
        return call -> {
            try (Admin admin =
                    Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, server))) {
                return question.ask(admin);
            }
        };
    }

    private long offset(Admin admin, OffsetSpec spec)
            throws ExecutionException, InterruptedException {
        return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
    }

    private Map<Long, ProducerStateEntry> producers(Admin admin)
            throws ExecutionException, InterruptedException {
        Map<Long, ProducerStateEntry> entries = new HashMap<>();
        for (ProducerState state :
                admin.describeProducers(List.of(partition))
                        .partitionResult(partition)
                        .get()
                        .activeProducers()) {
            entries.put(
                    state.producerId(),
                    new ProducerStateEntry(
                            state.producerId(),
                            (short) state.producerEpoch(),
                            state.coordinatorEpoch().orElse(RecordBatch.NO_PARTITION_LEADER_EPOCH),
                            state.lastTimestamp(),
                            state.currentTransactionStartOffset()));
        }
        return entries;
    }
}
