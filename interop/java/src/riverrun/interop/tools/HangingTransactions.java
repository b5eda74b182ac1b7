package riverrun.interop.tools;

import static riverrun.interop.tools.TopicTools.with;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.tools.TransactionsCommand;

import riverrun.interop.Check;
import riverrun.interop.Cluster;
import riverrun.interop.Scenario;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** kafka-transactions against a transaction that no coordinator knows. */
final class HangingTransactions {
    /** The last version of Produce whose client adds partitions to transactions itself. */
    private static final short PRODUCE_VERSION = 11;

    private HangingTransactions() {}

    static List<Scenario> scenarios() {
        return List.of(Scenario.of("transactions-hanging", HangingTransactions::hanging));
    }

    private static Tool.Output transactions(Cluster cluster, String... arguments)
            throws Exception {
        return Tool.run(TransactionsCommand.class, with(cluster, arguments));
    }

    /** A transaction that only its partition knows is found and aborted. */
    private static void hanging(Cluster cluster) throws Exception {
        cluster.createTopic("hangs", 1);
        verifyTransactions(cluster, "false");
        try {
            produceUnverified(cluster, "hangs", 4_000_111L);
        } finally {
            verifyTransactions(cluster, "true");
        }
        var partition = new TopicPartition("hangs", 0);
        try (var consumer = cluster.consumer("isolation.level", "read_committed")) {
            Check.equal(
                    0L,
                    consumer.endOffsets(Set.of(partition)).get(partition),
                    "last stable offset while the transaction hangs");
        }
        transactions(
                        cluster,
                        "find-hanging",
                        "--topic",
                        "hangs",
                        "--partition",
                        "0",
                        "--max-transaction-timeout",
                        "0")
                .good()
                .withLine("Topic\\s+Partition\\s+ProducerId\\s+ProducerEpoch\\s+CoordinatorEpoch.*")
                .withLine("hangs\\s+0\\s+4000111\\s+0\\s+-1\\s+0\\s.*");
        transactions(
                        cluster,
                        "abort",
                        "--topic",
                        "hangs",
                        "--partition",
                        "0",
                        "--start-offset",
                        "0")
                .good();
        try (var consumer = cluster.consumer("isolation.level", "read_committed")) {
            Check.equal(
                    2L,
                    consumer.endOffsets(Set.of(partition)).get(partition),
                    "last stable offset");
        }
        transactions(cluster, "describe-producers", "--topic", "hangs", "--partition", "0")
                .good()
                .withLine("4000111\\s+0\\s+0\\s+0\\s+\\d+\\s+None\\s*");
    }

    private static void verifyTransactions(Cluster cluster, String value) throws Exception {
        var brokers = new ConfigResource(ConfigResource.Type.BROKER, "");
        var entry = new ConfigEntry("transaction.partition.verification.enable", value);
        var change = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
        try (var admin = cluster.admin()) {
            admin.incrementalAlterConfigs(Map.of(brokers, change)).all().get();
        }
    }

    /** Writes a batch of a transaction that was never begun, as no client of Kafka does. */
    private static void produceUnverified(Cluster cluster, String topic, long producerId)
            throws Exception {
        var records =
                MemoryRecords.withTransactionalRecords(
                        Compression.NONE,
                        producerId,
                        (short) 0,
                        0,
                        new SimpleRecord(1_700_000_000_000L, "v".getBytes(UTF_8)));
        var topics = new ProduceRequestData.TopicProduceDataCollection();
        topics.add(
                new ProduceRequestData.TopicProduceData()
                        .setName(topic)
                        .setPartitionData(
                                List.of(
                                        new ProduceRequestData.PartitionProduceData()
                                                .setIndex(0)
                                                .setRecords(records))));
        var request =
                new ProduceRequestData()
                        .setTransactionalId("hangs")
                        .setAcks((short) -1)
                        .setTimeoutMs(10_000)
                        .setTopicData(topics);
        Check.eventually(
                () -> produce(cluster, request) == 0, "an unverified batch is taken");
    }

    /** The error of the only partition of a request. */
    private static int produce(Cluster cluster, ProduceRequestData request) throws Exception {
        var header = new RequestHeader(ApiKeys.PRODUCE, PRODUCE_VERSION, "interop", 1);
        var head = MessageUtil.toByteBufferAccessor(header.data(), header.headerVersion()).buffer();
        var body = MessageUtil.toByteBufferAccessor(request, PRODUCE_VERSION).buffer();
        String[] address = cluster.bootstrap().split(":");
        try (var socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            var out = new DataOutputStream(socket.getOutputStream());
            out.writeInt(head.remaining() + body.remaining());
            out.write(head.array(), head.arrayOffset() + head.position(), head.remaining());
            out.write(body.array(), body.arrayOffset() + body.position(), body.remaining());
            out.flush();
            var in = new DataInputStream(socket.getInputStream());
            byte[] answer = new byte[in.readInt()];
            in.readFully(answer);
            // The header is the correlation id and no tagged fields.
            var rest = ByteBuffer.wrap(answer, 5, answer.length - 5);
            var response =
                    new ProduceResponseData(new ByteBufferAccessor(rest), PRODUCE_VERSION);
            return response.responses().iterator().next().partitionResponses().get(0).errorCode();
        }
    }
}
