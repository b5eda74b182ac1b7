package riverrun.interop.kafkatests;

import org.apache.kafka.common.metadata.BeginTransactionRecord;
import org.apache.kafka.common.metadata.EndTransactionRecord;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.util.BatchFileReader;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * What riverrun has written to {@code __cluster_metadata}, read by Kafka's own classes: tests that
 * look into a broker's metadata cache see what a broker of Kafka would make of the log.
 */
public final class MetadataLog {
    private static final int FIRST_BROKER = 0;

    private final Path partition;
    private final boolean isOneOfSeveral;

    /** What is in a log directory. Of one of several brokers, all live if this one does. */
    MetadataLog(Path logDir, boolean isOneOfSeveral) {
        partition = logDir.resolve("__cluster_metadata-0");
        this.isOneOfSeveral = isOneOfSeveral;
    }

    /** Kafka's cache, filled with all that is in the log by now. */
    KRaftMetadataCache cache() {
        KRaftMetadataCache cache =
                new KRaftMetadataCache(FIRST_BROKER, () -> KRaftVersion.KRAFT_VERSION_0) {
                    @Override
                    public boolean hasAliveBroker(int id) {
                        return super.hasAliveBroker(isOneOfSeveral ? FIRST_BROKER : id);
                    }
                };
        cache.setImage(image());
        return cache;
    }

    MetadataImage image() {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        try {
            Optional<Path> snapshot = files(".checkpoint").reduce((first, second) -> second);
            if (snapshot.isPresent()) {
                replay(snapshot.get(), delta);
                delta.finishSnapshot();
            }
            for (Path segment : files(".log").toList()) {
                replay(segment, delta);
            }
        } catch (Exception error) {
            throw new IllegalStateException("cannot read " + partition, error);
        }
        return delta.apply(MetadataProvenance.EMPTY);
    }

    private Stream<Path> files(String suffix) throws IOException {
        List<Path> files = new ArrayList<>();
        try (Stream<Path> all = Files.list(partition)) {
            all.filter(file -> file.toString().endsWith(suffix)).sorted().forEach(files::add);
        }
        return files.stream();
    }

    private static void replay(Path file, MetadataDelta delta) throws Exception {
        BatchFileReader.Builder builder = new BatchFileReader.Builder().setPath(file.toString());
        try (BatchFileReader batches = builder.build()) {
            while (batches.hasNext()) {
                BatchFileReader.BatchAndType batch = batches.next();
                if (batch.isControl()) {
                    continue;
                }
                for (ApiMessageAndVersion record : batch.batch().records()) {
                    if (!(record.message() instanceof BeginTransactionRecord)
                            && !(record.message() instanceof EndTransactionRecord)) {
                        delta.replay(record.message());
                    }
                }
            }
        }
    }
}
