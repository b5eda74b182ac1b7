package riverrun.bench;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.FetchSessionHandler;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData.OffsetForLeaderPartition;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData.EpochEndOffset;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.server.LeaderEndPoint;
import org.apache.kafka.server.PartitionFetchState;
import org.apache.kafka.server.ReplicaFetch;
import org.apache.kafka.server.ResultWithPartitions;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.network.BrokerEndPoint;

/**
 * A leader without a network: requests become bytes, and answers come from bytes, by Apache Kafka's session of a
 * fetcher.
 */
final class BenchLeader implements LeaderEndPoint {
    static final short VERSION = 17;
    static final int EPOCH = 5;
    static final BrokerEndPoint END_POINT = new BrokerEndPoint(0, "leader", 9092);

    List<ByteBuffer> answers;
    ByteBuffer request;
    private int next;
    private final FetchSessionHandler session = new FetchSessionHandler(new LogContext(), END_POINT.id());

    @Override
    public ResultWithPartitions<Optional<ReplicaFetch>> buildFetch(Map<TopicPartition, PartitionFetchState> states) {
        FetchSessionHandler.Builder builder = session.newBuilder(states.size(), false);
        for (Map.Entry<TopicPartition, PartitionFetchState> one : states.entrySet()) {
            PartitionFetchState state = one.getValue();
            if (state.isReadyForFetch()) {
                builder.add(one.getKey(), new FetchRequest.PartitionData(state.topicId().orElseThrow(),
                    state.fetchOffset(), 0, 1 << 20, Optional.of(state.currentLeaderEpoch()),
                    state.lastFetchedEpoch()));
            }
        }
        FetchSessionHandler.FetchRequestData data = builder.build();
        FetchRequest.Builder fetch = FetchRequest.Builder.forReplica(VERSION, 1, 7, 500, 1, data.toSend())
            .setMaxBytes(10 << 20)
            .removed(data.toForget())
            .replaced(data.toReplace())
            .metadata(data.metadata());
        return new ResultWithPartitions<>(Optional.of(new ReplicaFetch(data.sessionPartitions(), fetch)), Set.of());
    }

    @Override
    public Map<TopicPartition, FetchResponseData.PartitionData> fetch(FetchRequest.Builder fetch) {
        request = MessageUtil.toByteBufferAccessor(fetch.build(VERSION).data(), VERSION).buffer();
        ByteBuffer answer = answers.get(next % answers.size()).duplicate();
        next = (next + 1) % answers.size();
        FetchResponse response = FetchResponse.parse(new ByteBufferAccessor(answer), VERSION);
        if (!session.handleResponse(response, VERSION)) {
            throw new IllegalStateException("the answer is none");
        }
        return response.responseData(session.sessionTopicNames(), VERSION);
    }

    @Override
    public boolean isTruncationOnFetchSupported() {
        return true;
    }

    @Override
    public void initiateClose() {
    }

    @Override
    public void close() {
    }

    @Override
    public BrokerEndPoint brokerEndPoint() {
        return END_POINT;
    }

    @Override
    public OffsetAndEpoch fetchEarliestOffset(TopicPartition partition, int epoch) {
        throw new IllegalStateException("nobody asks");
    }

    @Override
    public OffsetAndEpoch fetchLatestOffset(TopicPartition partition, int epoch) {
        throw new IllegalStateException("nobody asks");
    }

    @Override
    public OffsetAndEpoch fetchEarliestLocalOffset(TopicPartition partition, int epoch) {
        throw new IllegalStateException("nobody asks");
    }

    @Override
    public OffsetAndEpoch fetchEarliestPendingUploadOffset(TopicPartition partition, int epoch) {
        throw new IllegalStateException("nobody asks");
    }

    @Override
    public Map<TopicPartition, EpochEndOffset> fetchEpochEndOffsets(
        Map<TopicPartition, OffsetForLeaderPartition> partitions) {
        throw new IllegalStateException("nobody asks");
    }
}
