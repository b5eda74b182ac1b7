package riverrun.bench;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
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

/** A fetch response encoded: all but records, which either server sends from their file. */
@State(Scope.Thread)
public class FetchResponseEncode implements Operation {
    private static final short VERSION = 18;

    @Param({"1", "16", "128"})
    public int partitions;

    private FetchResponseData response;

    static FetchResponseEncode of(int partitions) {
        FetchResponseEncode operation = new FetchResponseEncode();
        operation.partitions = partitions;
        operation.prepare();
        return operation;
    }

    @Setup
    public void prepare() {
        List<PartitionData> answers = new ArrayList<>();
        for (int i = 0; i < partitions; i++) {
            answers.add(new PartitionData()
                .setPartitionIndex(i)
                .setHighWatermark(1_000_000L + 7 * i)
                .setLastStableOffset(1_000_000L + 7 * i)
                .setLogStartOffset(i)
                .setAbortedTransactions(null)
                .setRecords(MemoryRecords.EMPTY));
        }
        FetchableTopicResponse topic = new FetchableTopicResponse()
            .setTopicId(Messages.TOPIC_ID)
            .setPartitions(answers);
        response = new FetchResponseData().setSessionId(42).setResponses(List.of(topic));
    }

    @Benchmark
    public ByteBuffer run() {
        return MessageUtil.toByteBufferAccessor(response, VERSION).buffer();
    }

    @Override
    public byte[] evidence() {
        return Messages.bytes(run());
    }
}
