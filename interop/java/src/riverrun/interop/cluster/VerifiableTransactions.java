package riverrun.interop.cluster;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

import java.io.FileReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Future;

/**
 * Transactions without end, of which some are aborted: {@code VerifiableTransactions BOOTSTRAP TOPIC
 * PARTITIONS NUMBER SEED CONFIG-FILE}. As Kafka's verifiable tools do, it tells by a line of JSON what
 * became of each: committed, aborted, or not known. Values are {@code NUMBER.COUNT}, and no value is
 * sent twice, so that what an aborted transaction wrote is told apart from everything else.
 */
public final class VerifiableTransactions {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int RECORDS_MAX = 20;
    private static final int ABORTED_PERCENT = 30;

    private final Properties settings = new Properties();
    private final String topic;
    private final int partitions;
    private final String number;
    private final Random random;
    private KafkaProducer<String, String> producer;
    private long count;
    private volatile boolean ends;

    private VerifiableTransactions(String[] arguments) throws Exception {
        topic = arguments[1];
        partitions = Integer.parseInt(arguments[2]);
        number = arguments[3];
        random = new Random(Long.parseLong(arguments[4]));
        settings.put("transactional.id", "transactions-" + number);
        settings.put("transaction.timeout.ms", "30000");
        settings.put("max.block.ms", "15000");
        try (FileReader file = new FileReader(arguments[5])) {
            settings.load(file);
        }
        settings.put("bootstrap.servers", arguments[0]);
    }

    public static void main(String[] arguments) throws Exception {
        var transactions = new VerifiableTransactions(arguments);
        Thread main = Thread.currentThread();
        Runtime.getRuntime()
                .addShutdownHook(
                        new Thread(
                                () -> {
                                    transactions.ends = true;
                                    try {
                                        main.join();
                                    } catch (InterruptedException stopped) {
                                        Thread.currentThread().interrupt();
                                    }
                                }));
        transactions.run();
    }

    private void run() {
        for (long transaction = 0; !ends; transaction++) {
            List<String> values = new ArrayList<>();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            String outcome;
            try {
                begin();
                int size = 1 + random.nextInt(RECORDS_MAX);
                for (int i = 0; i < size; i++) {
                    String value = number + "." + count++;
                    values.add(value);
                    int partition = random.nextInt(partitions);
                    sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
                }
                outcome = end(random.nextInt(100) >= ABORTED_PERCENT);
            } catch (KafkaException failure) {
                outcome = recover(failure);
            }
            tell(transaction, outcome, values, outcome.equals("committed") ? sent : List.of());
        }
        if (producer != null) {
            producer.close();
        }
    }

    private void begin() {
        if (producer == null) {
            var text = new StringSerializer();
            producer = new KafkaProducer<>(settings, text, text);
            again(producer::initTransactions);
        }
        producer.beginTransaction();
    }

    private String end(boolean isCommitted) {
        if (isCommitted) {
            again(producer::commitTransaction);
            return "committed";
        }
        producer.flush();
        again(producer::abortTransaction);
        return "aborted";
    }

    /** What waits too long is not decided yet, and is asked again. */
    private static void again(Runnable action) {
        while (true) {
            try {
                action.run();
                return;
            } catch (TimeoutException notYet) {
                System.err.println("again after " + notYet);
            }
        }
    }

    /** Aborts what can be aborted; a producer that can do nothing any more is made anew. */
    private String recover(KafkaException failure) {
        failure.printStackTrace();
        if (failure instanceof InterruptException) {
            throw failure;
        }
        try {
            again(producer::abortTransaction);
            return "aborted";
        } catch (KafkaException | IllegalStateException useless) {
            useless.printStackTrace();
            producer.close(java.time.Duration.ZERO);
            producer = null;
            return "unknown";
        }
    }

    private void tell(
            long transaction,
            String outcome,
            List<String> values,
            List<Future<RecordMetadata>> sent) {
        ObjectNode line = JSON.createObjectNode();
        line.put("name", "transaction").put("number", transaction).put("outcome", outcome);
        ArrayNode told = line.putArray("values");
        values.forEach(told::add);
        ArrayNode places = line.putArray("places");
        for (Future<RecordMetadata> record : sent) {
            try {
                RecordMetadata place = record.get();
                places.addArray().add(place.partition()).add(place.offset());
            } catch (Exception lost) {
                throw new AssertionError("a record of a committed transaction has failed", lost);
            }
        }
        System.out.println(line);
    }
}
