package riverrun.bench;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.BiConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.FetchResponseData.FetchableTopicResponse;
import org.apache.kafka.common.message.FetchResponseData.PartitionData;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/** A follower's fetcher: its request encoded, and the leader's answer taken, as riverrun's side has it. */
@State(Scope.Thread)
public class ReplicaFetch implements Operation {
    static final String[] KINDS = {"none", "some", "all", "none-topics", "some-topics", "all-topics"};
    static final int[] COUNTS = {100, 500, 1000, 5000, 50000};
    private static final int SESSION_ID = 42;
    private static final int RECORDS_BYTES = 76;
    private static final int ROUNDS = 10;

    @Param({"none", "some", "all", "none-topics", "some-topics", "all-topics"})
    public String kind;

    @Param({"100", "500", "1000", "5000", "50000"})
    public int partitions;

    private int perTopic;
    private BenchFetcher fetcher;

    static ReplicaFetch of(String kind, int partitions) {
        ReplicaFetch operation = new ReplicaFetch();
        operation.kind = kind;
        operation.partitions = partitions;
        operation.prepare();
        return operation;
    }

    @Setup
    public void prepare() {
        perTopic = kind.endsWith("-topics") ? 1 : partitions;
        var followed = new scala.collection.mutable.LinkedHashMap<TopicPartition, kafka.server.InitialFetchState>();
        List<Integer> all = new ArrayList<>();
        for (int number = 0; number < partitions; number++) {
            all.add(number);
            followed.put(
                new TopicPartition("topic-" + number / perTopic, number % perTopic),
                new kafka.server.InitialFetchState(
                    scala.Option.apply(topicId(number / perTopic)), BenchLeader.END_POINT, BenchLeader.EPOCH, 1000));
        }
        BenchLeader leader = new BenchLeader();
        fetcher = new BenchFetcher(leader);
        fetcher.addPartitions(followed);
        // The session begins.
        leader.answers = List.of(answer(all, 0));
        run();
        leader.answers = answers(all);
    }

    private List<ByteBuffer> answers(List<Integer> all) {
        if (kind.startsWith("none")) {
            return List.of(answer(List.of(), 0));
        }
        if (kind.startsWith("all")) {
            return List.of(answer(all, RECORDS_BYTES));
        }
        List<ByteBuffer> answers = new ArrayList<>();
        for (int round = 0; round < ROUNDS; round++) {
            int chosen = round * 7;
            answers.add(answer(all.stream().filter(number -> number % 100 == chosen).toList(), RECORDS_BYTES));
        }
        return answers;
    }

    private ByteBuffer answer(List<Integer> numbers, int recordsBytes) {
        byte[] records = new byte[recordsBytes];
        Arrays.fill(records, (byte) 0xab);
        FetchResponseData response = new FetchResponseData().setSessionId(SESSION_ID);
        int before = -1;
        for (int number : numbers) {
            if (number / perTopic != before) {
                before = number / perTopic;
                response.responses().add(new FetchableTopicResponse().setTopicId(topicId(before)));
            }
            response.responses().get(response.responses().size() - 1).partitions().add(new PartitionData()
                .setPartitionIndex(number % perTopic)
                .setHighWatermark(1_000_000)
                .setLastStableOffset(1_000_000)
                .setLogStartOffset(0)
                .setAbortedTransactions(null)
                .setRecords(MemoryRecords.readableRecords(ByteBuffer.wrap(records))));
        }
        return MessageUtil.toByteBufferAccessor(response, BenchLeader.VERSION).buffer();
    }

    private static Uuid topicId(int number) {
        return new Uuid(0x0123456789abcdefL, number);
    }

    @Benchmark
    public ByteBuffer run() {
        fetcher.doWork();
        return ((BenchLeader) fetcher.leader()).request;
    }

    @Override
    public byte[] evidence() {
        run();
        return Messages.bytes(run());
    }

    static void printAll(BiConsumer<String, Operation> print) {
        for (String kind : KINDS) {
            for (int count : COUNTS) {
                print.accept("replica-fetch-" + kind + "/" + count, of(kind, count));
                print.accept("replica-answer-" + kind + "/" + count, ReplicaAnswer.of(kind, count));
            }
        }
    }
}
