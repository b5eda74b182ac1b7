package riverrun.interop;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;

/** The records that every client writes and reads; interop/README.md defines them and their sum. */
public final class Cross {
    private static final long START_MS = 1_700_000_000_000L;
    private static final List<String> KINDS =
            List.of("none", "gzip", "snappy", "lz4", "zstd", "small");

    private Cross() {}

    public static void main(String[] arguments) throws Exception {
        Cluster cluster = new Cluster(arguments[1], Path.of("."));
        for (String kind : KINDS) {
            String topic = "cross-" + arguments[2] + "-" + kind;
            if (arguments[0].equals("write")) {
                write(cluster, topic, kind);
            }
            // A producer keeps no offsets by itself, so what it wrote is summed up as it is read.
            var records = cluster.read(topic, partitions(kind), count(kind));
            System.out.println(topic + " " + records.size() + " " + sum(records));
        }
    }

    private static int count(String kind) {
        return kind.equals("small") ? 100_000 : 1000;
    }

    private static int partitions(String kind) {
        return kind.equals("small") ? 8 : 4;
    }

    private static void write(Cluster cluster, String topic, String kind) throws Exception {
        cluster.createTopic(topic, partitions(kind), "retention.ms", "-1");
        String codec = kind.equals("small") ? "none" : kind;
        try (var producer = cluster.producer("compression.type", codec)) {
            java.util.concurrent.Future<RecordMetadata> last = null;
            for (int i = 0; i < count(kind); i++) {
                last = producer.send(record(topic, kind, i));
            }
            last.get();
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, String kind, int i) {
        int partition = i % partitions(kind);
        if (kind.equals("small")) {
            return new ProducerRecord<>(topic, partition, START_MS + i, null, bytes("" + i));
        }
        byte[] key = i % 3 == 0 && i % 5 != 0 ? null : bytes("key-" + i);
        byte[] value = i % 5 == 0 ? null : bytes(("value-" + i + ";").repeat(i % 50));
        var record = new ProducerRecord<>(topic, partition, START_MS + i, key, value);
        for (int h = 0; h < i % 4; h++) {
            record.headers().add("header-" + h, h == 1 ? new byte[0] : bytes("" + i * h));
        }
        return record;
    }

    private static String sum(List<ConsumerRecord<byte[], byte[]>> records) throws Exception {
        Comparator<ConsumerRecord<byte[], byte[]>> byPartition =
                Comparator.comparingInt(ConsumerRecord::partition);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream output = new DataOutputStream(bytes);
        for (var record :
                records.stream()
                        .sorted(byPartition.thenComparing(ConsumerRecord::offset))
                        .toList()) {
            output.writeInt(record.partition());
            output.writeLong(record.offset());
            output.writeLong(record.timestamp());
            write(output, record.key());
            write(output, record.value());
            output.writeInt(record.headers().toArray().length);
            for (var header : record.headers()) {
                write(output, bytes(header.key()));
                write(output, header.value());
            }
        }
        return HexFormat.of()
                .formatHex(MessageDigest.getInstance("SHA-256").digest(bytes.toByteArray()));
    }

    private static void write(DataOutputStream output, byte[] bytes) throws IOException {
        output.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) {
            output.write(bytes);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(UTF_8);
    }
}
