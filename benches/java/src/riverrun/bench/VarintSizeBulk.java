package riverrun.bench;

import java.nio.ByteBuffer;
import org.apache.kafka.common.utils.ByteUtils;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;

/** The size of many numbers together, per number. */
@State(Scope.Thread)
public class VarintSizeBulk implements Operation {
    private int[] values = Values.mixed();

    @Benchmark
    @OperationsPerInvocation(Values.COUNT)
    public int run() {
        int total = 0;
        for (int value : values) {
            total += ByteUtils.sizeOfVarint(value);
        }
        return total;
    }

    @Override
    public byte[] evidence() {
        return ByteBuffer.allocate(8).putLong(run()).array();
    }
}
