package riverrun.bench;

import org.apache.kafka.common.utils.ByteUtils;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.infra.Blackhole;

/** The size of one number as a zigzag varint, each result used alone. */
@State(Scope.Thread)
public class VarintSize implements Operation {
    private int[] values = Values.mixed();

    @Benchmark
    @OperationsPerInvocation(Values.COUNT)
    public void run(Blackhole blackhole) {
        for (int value : values) {
            blackhole.consume(ByteUtils.sizeOfVarint(value));
        }
    }

    @Override
    public byte[] evidence() {
        byte[] sizes = new byte[values.length];
        for (int i = 0; i < values.length; i++) {
            sizes[i] = (byte) ByteUtils.sizeOfVarint(values[i]);
        }
        return sizes;
    }
}
