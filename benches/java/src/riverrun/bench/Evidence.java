package riverrun.bench;

import java.util.HexFormat;

/** Prints `NAME HEX` for each operation, with the names of {@code cargo xtask bench micro}. */
public final class Evidence {
    private Evidence() {
    }

    public static void main(String[] arguments) {
        print("error-lookup", new ErrorLookup());
        print("varint-size", new VarintSize());
        print("varint-size-bulk", new VarintSizeBulk());
        for (int partitions : new int[] {1, 16, 128}) {
            print("produce-response/" + partitions, ProduceResponseEncode.of(partitions));
            print("produce-request/" + partitions, ProduceRequestDecode.of(partitions));
            print("fetch-response/" + partitions, FetchResponseEncode.of(partitions));
        }
        RawExtraction.printAll(Evidence::print);
        ReplicaFetch.printAll(Evidence::print);
    }

    private static void print(String name, Operation operation) {
        System.out.println(name + " " + HexFormat.of().formatHex(operation.evidence()));
    }
}
