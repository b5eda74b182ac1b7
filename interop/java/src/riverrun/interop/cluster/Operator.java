package riverrun.interop.cluster;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.tools.StorageTool;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;

import riverrun.interop.Check;
import riverrun.interop.tools.Console;
import riverrun.interop.tools.Tool;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * The operator of a cluster under test: Kafka's admin client and Kafka's tools, in one process that
 * stays. Commands are JSON objects, one a line of standard input, whose field {@code do} names a
 * method of this class. Each has one line as its answer: {@code done} and JSON, or {@code FAILED}
 * and why.
 */
public final class Operator {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Properties settings = new Properties();
    private Admin admin;

    private Operator() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream protocol = System.out;
        Console.install();
        Operator operator = new Operator();
        var input = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                protocol.println("done " + operator.obey(JSON.readTree(line)));
            } catch (Throwable failure) {
                failure.printStackTrace();
                protocol.println("FAILED " + failure.toString().replace('\n', '\t'));
            }
        }
        // An admin client that waits for a cluster that is gone would keep the process.
        protocol.flush();
        Runtime.getRuntime().halt(0);
    }

    private JsonNode obey(JsonNode command) throws Exception {
        return switch (command.get("do").asText()) {
            case "format" -> format(command);
            case "connect" -> connect(command.get("bootstrap").asText());
            case "brokers" -> brokers();
            case "quorum" -> quorum();
            case "create" -> create(command);
            case "describe" -> describe(command.get("topic").asText());
            case "ends" -> ends(command);
            case "logs" -> logs();
            case "read" -> new Reading(settings, command).read();
            case "tool" -> tool(command);
            default -> throw new IllegalArgumentException("no such command");
        };
    }

    /** Formats the directories of each properties file as {@code kafka-storage} does. */
    private JsonNode format(JsonNode command) {
        for (JsonNode file : command.get("files")) {
            List<String> words = new ArrayList<>(List.of("format", "-c", file.asText()));
            words.addAll(texts(command.get("arguments")));
            var output = new ByteArrayOutputStream();
            var printed = new PrintStream(output, true, UTF_8);
            int status = StorageTool.execute(words.toArray(String[]::new), printed);
            Check.equal(0, status, words + ": " + output.toString(UTF_8));
        }
        return JSON.createObjectNode();
    }

    /** Names the cluster; what goes on is told by brokers that can be reached. */
    private JsonNode connect(String bootstrap) {
        settings.put("bootstrap.servers", bootstrap);
        Properties properties = new Properties();
        properties.putAll(settings);
        properties.put("default.api.timeout.ms", "15000");
        properties.put("request.timeout.ms", "5000");
        properties.put("reconnect.backoff.max.ms", "200");
        // A broker whose connections hang must not be the only one that is asked for long.
        properties.put("socket.connection.setup.timeout.ms", "1000");
        properties.put("socket.connection.setup.timeout.max.ms", "2000");
        properties.put("metadata.recovery.strategy", "rebootstrap");
        admin = Admin.create(properties);
        return JSON.createObjectNode();
    }

    /** The brokers that are not fenced. */
    private JsonNode brokers() throws Exception {
        var described = admin.describeCluster();
        ArrayNode ids = JSON.createArrayNode();
        described.nodes().get().stream().map(Node::id).sorted().forEach(ids::add);
        return ids;
    }

    private JsonNode quorum() throws Exception {
        var info = admin.describeMetadataQuorum().quorumInfo().get();
        ObjectNode node = JSON.createObjectNode();
        node.put("leader", info.leaderId());
        node.put("epoch", info.leaderEpoch());
        ArrayNode voters = node.putArray("voters");
        info.voters().forEach(voter -> voters.add(voter.replicaId()));
        ArrayNode observers = node.putArray("observers");
        info.observers().forEach(observer -> observers.add(observer.replicaId()));
        return node;
    }

    /** Makes a topic by the replicas of its partitions. */
    private JsonNode create(JsonNode command) throws Exception {
        String name = command.get("topic").asText();
        Map<Integer, List<Integer>> assignment = new HashMap<>();
        for (JsonNode replicas : command.get("assignment")) {
            List<Integer> ids = new ArrayList<>();
            replicas.forEach(id -> ids.add(id.asInt()));
            assignment.put(assignment.size(), ids);
        }
        NewTopic topic = new NewTopic(name, assignment);
        Map<String, String> configs = new HashMap<>();
        for (var config : command.get("configs").properties()) {
            configs.put(config.getKey(), config.getValue().asText());
        }
        admin.createTopics(List.of(topic.configs(configs))).all().get();
        return JSON.createObjectNode();
    }

    /** Leader and replicas of each partition. */
    private JsonNode describe(String topic) throws Exception {
        var described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        ArrayNode partitions = JSON.createArrayNode();
        for (var partition : described.partitions()) {
            ObjectNode node = partitions.addObject();
            node.put("partition", partition.partition());
            node.put("leader", partition.leader() == null ? -1 : partition.leader().id());
            putIds(node.putArray("replicas"), partition.replicas());
            putIds(node.putArray("isr"), partition.isr());
            if (partition.elr() != null) {
                putIds(node.putArray("elr"), partition.elr());
            }
        }
        return partitions;
    }

    /** The end of each partition as consumers see it. */
    private JsonNode ends(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        for (int partition = 0; partition < command.get("partitions").asInt(); partition++) {
            asked.put(new TopicPartition(topic, partition), OffsetSpec.latest());
        }
        ObjectNode ends = JSON.createObjectNode();
        admin.listOffsets(asked)
                .all()
                .get()
                .forEach((place, end) -> ends.put("" + place.partition(), end.offset()));
        return ends;
    }

    /** What each broker says of its log directories and the logs in them. */
    private JsonNode logs() throws Exception {
        List<Integer> ids = new ArrayList<>();
        brokers().forEach(id -> ids.add(id.asInt()));
        ArrayNode logs = JSON.createArrayNode();
        var described = admin.describeLogDirs(ids).allDescriptions().get();
        described.forEach(
                (broker, dirs) ->
                        dirs.forEach(
                                (path, dir) -> {
                                    ObjectNode node = logs.addObject();
                                    node.put("broker", broker).put("dir", path);
                                    node.put("failed", dir.error() != null);
                                    ObjectNode replicas = node.putObject("lag");
                                    dir.replicaInfos()
                                            .forEach(
                                                    (place, replica) ->
                                                            replicas.put(
                                                                    place.toString(),
                                                                    replica.offsetLag()));
                                }));
        return logs;
    }

    /** Runs one of Kafka's tools with the cluster's address before its arguments. */
    private JsonNode tool(JsonNode command) throws Exception {
        List<String> words = new ArrayList<>();
        words.add("--bootstrap-server");
        words.add(settings.getProperty("bootstrap.servers"));
        words.addAll(texts(command.get("arguments")));
        Class<?> tool = Class.forName(command.get("class").asText());
        var output = Tool.run(tool, words.toArray(String[]::new));
        ObjectNode node = JSON.createObjectNode();
        node.put("status", output.status());
        node.put("text", output.text());
        return node;
    }

    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(text -> texts.add(text.asText()));
        return texts;
    }

    private static void putIds(ArrayNode array, List<Node> nodes) {
        nodes.stream().map(Node::id).sorted().forEach(array::add);
    }
}
