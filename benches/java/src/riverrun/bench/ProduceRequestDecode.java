package riverrun.bench;

import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceRequestData.PartitionProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/** A produce request, its records in place, decoded from its frame. */
@State(Scope.Thread)
public class ProduceRequestDecode implements Operation {
    private static final short VERSION = 13;
    private static final int RECORDS_BYTES = 200;

    @Param({"1", "16", "128"})
    public int partitions;

    private ByteBuffer frame;

    static ProduceRequestDecode of(int partitions) {
        ProduceRequestDecode operation = new ProduceRequestDecode();
        operation.partitions = partitions;
        operation.prepare();
        return operation;
    }

    @Setup
    public void prepare() {
        TopicProduceData topic = new TopicProduceData().setTopicId(Messages.TOPIC_ID);
        for (int i = 0; i < partitions; i++) {
            byte[] records = new byte[RECORDS_BYTES];
            Arrays.fill(records, (byte) i);
            topic.partitionData().add(new PartitionProduceData()
                .setIndex(i)
                .setRecords(MemoryRecords.readableRecords(ByteBuffer.wrap(records))));
        }
        ProduceRequestData request = new ProduceRequestData().setAcks((short) -1).setTimeoutMs(30_000);
        request.topicData().add(topic);
        frame = MessageUtil.toByteBufferAccessor(request, VERSION).buffer();
    }

    @Benchmark
    public ProduceRequestData run() {
        return new ProduceRequestData(new ByteBufferAccessor(frame.duplicate()), VERSION);
    }

    @Override
    public byte[] evidence() {
        return Messages.bytes(MessageUtil.toByteBufferAccessor(run(), VERSION).buffer());
    }
}
