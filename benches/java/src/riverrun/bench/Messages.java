package riverrun.bench;

import java.nio.ByteBuffer;
import org.apache.kafka.common.Uuid;

/** What the messages of both sides have in common. */
final class Messages {
    static final String TOPIC = "benchmark-topic";
    static final Uuid TOPIC_ID = new Uuid(0x0123456789abcdefL, 0x1032547698badcfeL);

    private Messages() {
    }

    static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }
}
