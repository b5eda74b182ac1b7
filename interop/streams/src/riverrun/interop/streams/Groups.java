package riverrun.interop.streams;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;
import riverrun.interop.streams.FormatOracle.Format;

/** The user data that the members of a group exchange. */
final class Groups {
    static final Map<String, Format> FORMATS =
            Map.of("member-subscription", new Subscription(), "member-assignment", new Assignment());

    private Groups() {}

    private static byte[] bytes(ByteBuffer buffer) {
        buffer.rewind();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    /**
     * VERSION LATEST PROCESS_ID ENDPOINT SUBTOPOLOGY:PARTITION:SUM,... UNIQUE ERROR KEY:VALUE,...
     */
    private static final class Subscription implements Format {
        @Override
        public byte[] write(Text fields) {
            int version = fields.integer();
            int latest = fields.integer();
            ByteBuffer id = ByteBuffer.wrap(fields.bytes());
            String endpoint = fields.string();
            Map<TaskId, Long> sums = new HashMap<>();
            fields.list(
                    parts ->
                            sums.put(
                                    new TaskId(Integer.parseInt(parts[0]), Integer.parseInt(parts[1])),
                                    Long.valueOf(parts[2])));
            byte unique = (byte) fields.integer();
            int error = fields.integer();
            Map<String, String> tags = new TreeMap<>();
            fields.list(parts -> tags.put(Text.string(parts[0]), Text.string(parts[1])));
            ProcessId process = new ProcessId(new UUID(id.getLong(), id.getLong()));
            return bytes(
                    new SubscriptionInfo(
                                    version, latest, process, endpoint, sums, unique, error, tags)
                            .encode());
        }

        @Override
        public String read(byte[] bytes) {
            SubscriptionInfo info = SubscriptionInfo.decode(ByteBuffer.wrap(bytes));
            List<String> sums = new ArrayList<>();
            info.taskOffsetSums()
                    .forEach(
                            (task, sum) ->
                                    sums.add(task.subtopology() + ":" + task.partition() + ":" + sum));
            sums.sort(null);
            List<String> tags = new ArrayList<>();
            info.clientTags()
                    .forEach((key, value) -> tags.add(Text.of(key) + ":" + Text.of(value)));
            tags.sort(null);
            UUID process = info.processId().id();
            byte[] id =
                    ByteBuffer.allocate(16)
                            .putLong(process.getMostSignificantBits())
                            .putLong(process.getLeastSignificantBits())
                            .array();
            String endpoint = info.userEndPoint();
            return String.join(
                    " ",
                    Integer.toString(info.version()),
                    Integer.toString(info.latestSupportedVersion()),
                    Text.of(id),
                    Text.of(endpoint == null ? "" : endpoint),
                    Text.of(sums),
                    Integer.toString(info.errorCode()),
                    Text.of(tags));
        }
    }

    /**
     * VERSION COMMON SUBTOPOLOGY:PARTITION,... SUBTOPOLOGY:PARTITION:TOPIC:PARTITION,...
     * HOST:PORT:TOPIC:PARTITION,... HOST:PORT:TOPIC:PARTITION,... ERROR NEXT_REBALANCE.
     */
    private static final class Assignment implements Format {
        @Override
        public byte[] write(Text fields) {
            int version = fields.integer();
            int common = fields.integer();
            List<TaskId> active = fields.list(Assignment::task);
            Map<TaskId, Set<TopicPartition>> standby = new HashMap<>();
            fields.list(
                    parts ->
                            standby.computeIfAbsent(task(parts), task -> new HashSet<>())
                                    .add(partition(parts)));
            Map<HostInfo, Set<TopicPartition>> activeHosts = hosts(fields);
            Map<HostInfo, Set<TopicPartition>> standbyHosts = hosts(fields);
            AssignmentInfo info =
                    new AssignmentInfo(
                            version,
                            common,
                            active,
                            standby,
                            activeHosts,
                            standbyHosts,
                            fields.integer());
            info.setNextRebalanceTime(fields.number());
            return bytes(info.encode());
        }

        private static TaskId task(String[] parts) {
            return new TaskId(Integer.parseInt(parts[0]), Integer.parseInt(parts[1]));
        }

        private static TopicPartition partition(String[] parts) {
            return new TopicPartition(Text.string(parts[2]), Integer.parseInt(parts[3]));
        }

        private static Map<HostInfo, Set<TopicPartition>> hosts(Text fields) {
            Map<HostInfo, Set<TopicPartition>> hosts = new HashMap<>();
            fields.list(
                    parts ->
                            hosts.computeIfAbsent(
                                            new HostInfo(
                                                    Text.string(parts[0]),
                                                    Integer.parseInt(parts[1])),
                                            host -> new HashSet<>())
                                    .add(partition(parts)));
            return hosts;
        }

        @Override
        public String read(byte[] bytes) {
            AssignmentInfo info = AssignmentInfo.decode(ByteBuffer.wrap(bytes));
            List<String> active = new ArrayList<>();
            info.activeTasks()
                    .forEach(task -> active.add(task.subtopology() + ":" + task.partition()));
            List<String> standby = new ArrayList<>();
            info.standbyTasks()
                    .forEach(
                            (task, partitions) ->
                                    partitions.forEach(
                                            partition ->
                                                    standby.add(
                                                            task.subtopology()
                                                                    + ":"
                                                                    + task.partition()
                                                                    + text(partition))));
            standby.sort(null);
            return String.join(
                    " ",
                    Integer.toString(info.version()),
                    Integer.toString(info.commonlySupportedVersion()),
                    Text.of(active),
                    Text.of(standby),
                    text(info.partitionsByHost()),
                    text(info.standbyPartitionByHost()),
                    Integer.toString(info.errCode()),
                    Long.toString(info.nextRebalanceMs()));
        }

        private static String text(TopicPartition partition) {
            return ":" + Text.of(partition.topic()) + ":" + partition.partition();
        }

        private static String text(Map<HostInfo, Set<TopicPartition>> hosts) {
            List<String> texts = new ArrayList<>();
            hosts.forEach(
                    (host, partitions) ->
                            partitions.forEach(
                                    partition ->
                                            texts.add(
                                                    Text.of(host.host())
                                                            + ":"
                                                            + host.port()
                                                            + text(partition))));
            texts.sort(null);
            return Text.of(texts);
        }
    }
}
