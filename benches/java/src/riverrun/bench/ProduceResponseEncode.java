package riverrun.bench;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.requests.ProduceResponse.PartitionResponse;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/** What became of each partition's batch, built into a produce response and encoded. */
@State(Scope.Thread)
public class ProduceResponseEncode implements Operation {
    private static final short VERSION = 13;

    @Param({"1", "16", "128"})
    public int partitions;

    private Map<TopicIdPartition, PartitionResponse> results;

    static ProduceResponseEncode of(int partitions) {
        ProduceResponseEncode operation = new ProduceResponseEncode();
        operation.partitions = partitions;
        operation.prepare();
        return operation;
    }

    @Setup
    public void prepare() {
        results = new LinkedHashMap<>();
        for (int i = 0; i < partitions; i++) {
            results.put(
                new TopicIdPartition(Messages.TOPIC_ID, i, Messages.TOPIC),
                new PartitionResponse(Errors.NONE, 1_000_000L + 7 * i, -1, i));
        }
    }

    /** With the constructor that Kafka's broker calls. */
    @Benchmark
    @SuppressWarnings("deprecation")
    public ByteBuffer run() {
        ProduceResponse response = new ProduceResponse(results, 0, List.of());
        return MessageUtil.toByteBufferAccessor(response.data(), VERSION).buffer();
    }

    @Override
    public byte[] evidence() {
        return Messages.bytes(run());
    }
}
