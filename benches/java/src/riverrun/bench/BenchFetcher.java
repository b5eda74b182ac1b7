package riverrun.bench;

import java.util.Optional;
import kafka.server.AbstractFetcherThread;
import kafka.server.FailedPartitions;
import kafka.server.OffsetTruncationState;
import kafka.server.TierStateMachine;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.FetchResponseData.PartitionData;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.RecordValidationStats;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Apache Kafka's fetcher thread, whose logs take everything and keep nothing: each answer with records moves a
 * partition on by one offset.
 */
final class BenchFetcher extends AbstractFetcherThread {
    BenchFetcher(BenchLeader leader) {
        super("fetcher", "fetcher", leader, new FailedPartitions(), new TierStateMachine(leader, null, false), 1000,
            false, new BrokerTopicStats());
    }

    @Override
    public scala.Option<LogAppendInfo> processPartitionData(
        TopicPartition partition, long fetchOffset, int leaderEpoch, PartitionData data) {
        int bytes = FetchResponse.recordsSize(data);
        long lastOffset = bytes == 0 ? -1 : fetchOffset;
        return scala.Option.apply(new LogAppendInfo(lastOffset, lastOffset, Optional.of(leaderEpoch), -1, -1, 0,
            RecordValidationStats.EMPTY, CompressionType.NONE, bytes, lastOffset));
    }

    @Override
    public void truncate(TopicPartition partition, OffsetTruncationState state) {
        throw new IllegalStateException("nothing diverges");
    }

    @Override
    public void truncateFullyAndStartAt(TopicPartition partition, long offset) {
        throw new IllegalStateException("nothing is out of range");
    }

    @Override
    public Optional<Integer> latestEpoch(TopicPartition partition) {
        return Optional.of(BenchLeader.EPOCH);
    }

    @Override
    public long logStartOffset(TopicPartition partition) {
        return 0;
    }

    @Override
    public long logEndOffset(TopicPartition partition) {
        return 1000;
    }

    @Override
    public Optional<OffsetAndEpoch> endOffsetForEpoch(TopicPartition partition, int epoch) {
        return Optional.empty();
    }

    @Override
    public boolean shouldFetchFromLastTieredOffset(TopicPartition partition, long endOffset, long ownEndOffset) {
        return false;
    }
}
