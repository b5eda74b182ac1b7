package riverrun.bench;

import com.sun.management.OperatingSystemMXBean;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.Optional;

/**
 * What Kafka's log cleaner costs: {@code LogCleaning DIRECTORY...} compacts each log, in turn and in
 * one JVM, with the buffers that a broker with one cleaner thread has. Prints a line for each: its
 * directory, bytes before and after, nanoseconds of processor time of the whole process, which
 * collects garbage and compiles as well, and nanoseconds of wall time.
 */
public final class LogCleaning {
    private static final int DEDUPE_BUFFER_BYTES = 128 << 20;
    private static final int IO_BUFFER_BYTES = 256 << 10;
    private static final int MESSAGE_BYTES_MAX = 4 << 20;
    private static final double LOAD_FACTOR = 0.9;
    private static final int EXPIRATION_MS = 86_400_000;

    private LogCleaning() {}

    public static void main(String[] arguments) throws Exception {
        var scheduler = new KafkaScheduler(1);
        scheduler.startup();
        var throttler =
                new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM);
        var cleaner =
                new Cleaner(
                        0,
                        new SkimpyOffsetMap(DEDUPE_BUFFER_BYTES),
                        IO_BUFFER_BYTES,
                        MESSAGE_BYTES_MAX,
                        LOAD_FACTOR,
                        throttler,
                        Time.SYSTEM,
                        partition -> {});
        var process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        for (String directory : arguments) {
            UnifiedLog log = open(new File(directory), scheduler);
            log.roll();
            long before = log.size();
            long cpu = process.getProcessCpuTime();
            long wall = System.nanoTime();
            long end = log.activeSegment().baseOffset();
            for (long offset = 0; offset < end; ) {
                offset = cleaner.clean(new LogToClean(log, offset, end, false)).getKey();
            }
            System.out.println(
                    directory + " " + before + " " + log.size() + " "
                            + (process.getProcessCpuTime() - cpu) + " "
                            + (System.nanoTime() - wall));
            log.close();
        }
        System.exit(0);
    }

    private static UnifiedLog open(File directory, KafkaScheduler scheduler) throws Exception {
        var config =
                new LogConfig(
                        Map.of(
                                "cleanup.policy", "compact",
                                "segment.bytes", 128 << 20,
                                "max.message.bytes", MESSAGE_BYTES_MAX));
        return UnifiedLog.create(
                directory,
                config,
                0L,
                0L,
                scheduler,
                new BrokerTopicStats(),
                Time.SYSTEM,
                EXPIRATION_MS,
                new ProducerStateManagerConfig(EXPIRATION_MS, false),
                EXPIRATION_MS,
                new LogDirFailureChannel(1),
                true,
                Optional.empty());
    }
}
