package riverrun.bench;

import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.protocol.Errors;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.infra.Blackhole;

/** Four error codes from the wire become errors. */
@State(Scope.Thread)
public class ErrorLookup implements Operation {
    private short[] codes = {0, 1, 6, 87};

    @Benchmark
    public void run(Blackhole blackhole) {
        blackhole.consume(Errors.forCode(codes[0]));
        blackhole.consume(Errors.forCode(codes[1]));
        blackhole.consume(Errors.forCode(codes[2]));
        blackhole.consume(Errors.forCode(codes[3]));
    }

    @Override
    public byte[] evidence() {
        StringBuilder names = new StringBuilder();
        for (short code : codes) {
            names.append(Errors.forCode(code).name()).append(' ');
        }
        return names.toString().getBytes(StandardCharsets.UTF_8);
    }
}
