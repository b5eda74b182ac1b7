package riverrun.bench;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData.PartitionData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.requests.FetchMetadata;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.FetchContext;
import org.apache.kafka.server.FetchManager;
import org.apache.kafka.server.FetchSession;
import org.apache.kafka.server.FetchSessionCacheShard;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/** The leader's half of a follower's fetch, but for what a log is read for, as riverrun's side has it. */
@State(Scope.Thread)
public class ReplicaAnswer implements Operation {
    private static final short VERSION = 17;
    private static final int SESSION_ID = 42;
    private static final long HIGH_WATERMARK = 1000;

    @Param({"none", "some", "all", "none-topics", "some-topics", "all-topics"})
    public String kind;

    @Param({"100", "500", "1000", "5000", "50000"})
    public int partitions;

    private final Map<Uuid, String> topics = new HashMap<>();
    private final Map<TopicIdPartition, long[]> highWatermarks = new HashMap<>();
    private final List<List<long[]>> moved = new ArrayList<>();
    private List<ByteBuffer> requests = new ArrayList<>();
    private FetchManager manager;
    private int perTopic;
    private int sessionId;
    private int epoch = 1;
    private int next;
    private long offset = HIGH_WATERMARK;

    static ReplicaAnswer of(String kind, int partitions) {
        ReplicaAnswer operation = new ReplicaAnswer();
        operation.kind = kind;
        operation.partitions = partitions;
        operation.prepare();
        return operation;
    }

    @Setup
    public void prepare() {
        perTopic = kind.endsWith("-topics") ? 1 : partitions;
        manager = new FetchManager(Time.SYSTEM, new FetchSession.FetchSessionCache(
            List.of(new FetchSessionCacheShard(1000, 120_000, Integer.MAX_VALUE, 0))));
        List<Integer> all = new ArrayList<>();
        List<long[]> byNumber = new ArrayList<>();
        for (int number = 0; number < partitions; number++) {
            all.add(number);
            topics.put(topicId(number / perTopic), "topic-" + number / perTopic);
            long[] highWatermark = {HIGH_WATERMARK};
            byNumber.add(highWatermark);
            highWatermarks.put(partition(number), highWatermark);
        }
        FetchRequest begin = FetchRequest.parse(new ByteBufferAccessor(request(all).duplicate()), VERSION);
        FetchContext full = manager.newContext(
            VERSION, FetchMetadata.INITIAL, true, begin.fetchData(topics), List.of(), topics);
        sessionId = full.updateAndGenerateResponseData(read(full), List.of()).sessionId();
        int rounds = kind.startsWith("some") ? 10 : 1;
        for (int round = 0; round < rounds; round++) {
            int residue = round * 7;
            List<Integer> chosen = all.stream().filter(number -> !kind.startsWith("none")
                && (kind.startsWith("all") || number % 100 == residue)).toList();
            moved.add(chosen.stream().map(byNumber::get).toList());
            requests.add(request(chosen));
        }
        // The first answer of riverrun's side is told before anything moves.
        offset++;
    }

    private TopicIdPartition partition(int number) {
        int topic = number / perTopic;
        return new TopicIdPartition(topicId(topic), number % perTopic, "topic-" + topic);
    }

    private static Uuid topicId(int number) {
        return new Uuid(0x0123456789abcdefL, number);
    }

    private ByteBuffer request(List<Integer> numbers) {
        FetchRequestData request = new FetchRequestData()
            .setMaxWaitMs(500).setMinBytes(1).setMaxBytes(10 << 20).setSessionId(SESSION_ID).setSessionEpoch(1);
        request.replicaState().setReplicaId(1).setReplicaEpoch(7);
        int before = -1;
        for (int number : numbers) {
            if (number / perTopic != before) {
                before = number / perTopic;
                request.topics().add(new FetchRequestData.FetchTopic().setTopicId(topicId(before)));
            }
            request.topics().get(request.topics().size() - 1).partitions().add(
                new FetchRequestData.FetchPartition().setPartition(number % perTopic).setCurrentLeaderEpoch(5)
                    .setFetchOffset(HIGH_WATERMARK).setLastFetchedEpoch(5).setLogStartOffset(0)
                    .setPartitionMaxBytes(1 << 20));
        }
        return MessageUtil.toByteBufferAccessor(request, VERSION).buffer();
    }

    /** What is found of each partition of the session: every one is looked at. */
    private LinkedHashMap<TopicIdPartition, PartitionData> read(FetchContext context) {
        LinkedHashMap<TopicIdPartition, PartitionData> found = new LinkedHashMap<>();
        context.foreachPartition((partition, asked) -> {
            long highWatermark = highWatermarks.get(partition)[0];
            found.put(partition, new PartitionData().setPartitionIndex(partition.partition())
                .setHighWatermark(highWatermark).setLastStableOffset(highWatermark).setLogStartOffset(0)
                .setAbortedTransactions(null).setRecords(MemoryRecords.EMPTY));
        });
        return found;
    }

    @Benchmark
    public ByteBuffer run() {
        offset++;
        for (long[] highWatermark : moved.get(next)) {
            highWatermark[0] = offset;
        }
        FetchRequest request = FetchRequest.parse(new ByteBufferAccessor(requests.get(next).duplicate()), VERSION);
        next = (next + 1) % requests.size();
        FetchContext context = manager.newContext(VERSION, new FetchMetadata(sessionId, epoch), true,
            request.fetchData(topics), request.forgottenTopics(topics), topics);
        epoch = FetchMetadata.nextEpoch(epoch);
        FetchResponse response = context.updateAndGenerateResponseData(read(context), List.of());
        response.data().setSessionId(SESSION_ID);
        return MessageUtil.toByteBufferAccessor(response.data(), VERSION).buffer();
    }

    @Override
    public byte[] evidence() {
        run();
        return Messages.bytes(run());
    }
}
