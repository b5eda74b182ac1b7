package riverrun.interop.swap;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.InitProducerIdRequestData;
import org.apache.kafka.common.message.InitProducerIdResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.RequestHeader;

import riverrun.interop.Check;
import riverrun.interop.Cluster;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * The retry of a producer whose answer was lost in the swap: the batch that the last server has
 * appended, sent once more to the next, is found to be there already.
 */
final class RepeatedBatch implements Part {
    private static final String TOPIC = "swap-repeated";
    /** The last version that Kafka 3.9 has. */
    private static final short PRODUCE_VERSION = 11;
    private static final short INIT_PRODUCER_ID_VERSION = 4;
    private static final int RECORDS = 3;

    private final Cluster cluster;
    /** Producers of long ago are forgotten, by the time of their records. */
    private final long startMs = System.currentTimeMillis();
    private final List<Long> offsets = new ArrayList<>();
    private long producerId;
    private short producerEpoch;

    RepeatedBatch(Cluster cluster) {
        this.cluster = cluster;
    }

    @Override
    public void write(int turn) throws Exception {
        if (turn == 0) {
            cluster.createTopic(TOPIC, 1);
            // The first one waits for a block of ids from the controller.
            Check.eventually(this::getProducerId, "a producer id");
        }
        for (int i = 0; i < 2; i++) {
            int batch = offsets.size();
            var answer = send(batch);
            Check.equal(Errors.NONE, Errors.forCode(answer.errorCode()), "batch " + batch);
            Check.equal((long) batch * RECORDS, answer.baseOffset(), "offset of batch " + batch);
            offsets.add(answer.baseOffset());
        }
    }

    private boolean getProducerId() throws Exception {
        var request = new InitProducerIdRequestData().setTransactionalId(null);
        var answer =
                new InitProducerIdResponseData(
                        call(ApiKeys.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request),
                        INIT_PRODUCER_ID_VERSION);
        producerId = answer.producerId();
        producerEpoch = answer.producerEpoch();
        return answer.errorCode() == Errors.NONE.code();
    }

    @Override
    public void check(int turn) throws Exception {
        int last = offsets.size() - 1;
        var again = send(last);
        Check.equal(Errors.NONE, Errors.forCode(again.errorCode()), "batch " + last + " again");
        Check.equal(offsets.get(last), again.baseOffset(), "offset of batch " + last + " again");
        var early = send(last + 2);
        Check.equal(
                Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
                Errors.forCode(early.errorCode()),
                "a batch that leaves one out");
        List<String> values = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record :
                Clients.readAll(cluster, new TopicPartition(TOPIC, 0), "read_committed")) {
            values.add(new String(record.value(), UTF_8));
        }
        List<String> expected = new ArrayList<>();
        for (int batch = 0; batch < offsets.size(); batch++) {
            for (SimpleRecord record : records(batch)) {
                expected.add(UTF_8.decode(record.value().duplicate()).toString());
            }
        }
        Check.equal(expected, values, "records of " + TOPIC);
    }

    private SimpleRecord[] records(int batch) {
        SimpleRecord[] records = new SimpleRecord[RECORDS];
        for (int i = 0; i < RECORDS; i++) {
            String value = "batch " + batch + ", record " + i;
            records[i] = new SimpleRecord(startMs + batch, null, value.getBytes(UTF_8));
        }
        return records;
    }

    /** Sends a batch by its number until the server leads the partition. */
    private ProduceResponseData.PartitionProduceResponse send(int batch) throws Exception {
        var answer = new ProduceResponseData.PartitionProduceResponse[1];
        Check.eventually(
                () -> {
                    answer[0] = sendOnce(batch);
                    return answer[0].errorCode() != Errors.NOT_LEADER_OR_FOLLOWER.code();
                },
                "the server leads " + TOPIC);
        return answer[0];
    }

    /** The number of a batch makes its sequence. */
    private ProduceResponseData.PartitionProduceResponse sendOnce(int batch) throws Exception {
        var partition =
                new ProduceRequestData.PartitionProduceData()
                        .setIndex(0)
                        .setRecords(
                                MemoryRecords.withIdempotentRecords(
                                        Compression.gzip().build(),
                                        producerId,
                                        producerEpoch,
                                        batch * RECORDS,
                                        records(batch)));
        var topics = new ProduceRequestData.TopicProduceDataCollection();
        topics.add(
                new ProduceRequestData.TopicProduceData()
                        .setName(TOPIC)
                        .setPartitionData(List.of(partition)));
        var request =
                new ProduceRequestData()
                        .setAcks((short) -1)
                        .setTimeoutMs(10_000)
                        .setTopicData(topics);
        var answer =
                new ProduceResponseData(
                        call(ApiKeys.PRODUCE, PRODUCE_VERSION, request), PRODUCE_VERSION);
        return answer.responses().iterator().next().partitionResponses().get(0);
    }

    /** Sends a request on a connection of its own; the answer after its header. */
    private ByteBufferAccessor call(ApiKeys api, short version, ApiMessage request)
            throws Exception {
        String[] address = cluster.bootstrap().split(":");
        try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            socket.setSoTimeout(20_000);
            var header = new RequestHeader(api, version, "swap", 7);
            ByteBuffer head =
                    MessageUtil.toByteBufferAccessor(header.data(), header.headerVersion())
                            .buffer();
            ByteBuffer body = MessageUtil.toByteBufferAccessor(request, version).buffer();
            var output = new DataOutputStream(socket.getOutputStream());
            output.writeInt(head.remaining() + body.remaining());
            output.write(head.array(), head.arrayOffset(), head.remaining());
            output.write(body.array(), body.arrayOffset(), body.remaining());
            output.flush();
            var input = new DataInputStream(socket.getInputStream());
            var answer = new ByteBufferAccessor(ByteBuffer.wrap(input.readNBytes(input.readInt())));
            var answered = new ResponseHeaderData(answer, api.responseHeaderVersion(version));
            Check.equal(7, answered.correlationId(), "correlation id");
            return answer;
        }
    }
}
