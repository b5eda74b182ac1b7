package riverrun.interop.codec;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;

/** Random messages from the schemas that Kafka's generated classes carry. */
final class RandomStruct {
    private static final int[] BORDER_LENGTHS = {126, 127, 128, 129, 255};
    private static final int[] LETTERS = {'a', '-', 'Z', '7', 0xe9, 0x4e2d, 0x1f600, 0};

    private final Random random;

    RandomStruct(long seed) {
        random = new Random(seed);
    }

    /** The bytes of a random message. */
    byte[] bytes(Schema schema) {
        Struct struct = struct(schema, 0);
        ByteBuffer buffer = ByteBuffer.allocate(struct.sizeOf());
        struct.writeTo(buffer);
        return buffer.array();
    }

    private Struct struct(Schema schema, int depth) {
        Struct struct = new Struct(schema);
        for (BoundField field : schema.fields()) {
            struct.set(field, value(field.def.type, depth));
        }
        return struct;
    }

    private Object value(Type type, int depth) {
        if (type.isNullable() && random.nextInt(5) == 0) {
            return null;
        }
        Optional<Type> element = type.arrayElementType();
        if (element.isPresent()) {
            Object[] elements = new Object[length(depth)];
            for (int i = 0; i < elements.length; i++) {
                elements[i] = value(element.get(), depth + 1);
            }
            return elements;
        }
        if (type instanceof Schema schema) {
            return struct(schema, depth + 1);
        }
        if (type instanceof TaggedFields tagged) {
            Map<Integer, Object> present = new TreeMap<>();
            for (Map.Entry<Integer, Field> field : tagged.fields().entrySet()) {
                if (random.nextBoolean()) {
                    present.put(field.getKey(), value(field.getValue().type, depth));
                }
            }
            return present;
        }
        return primitive(((Type.DocumentedType) type).typeName());
    }

    private int length(int depth) {
        int choice = random.nextInt(40);
        if (choice == 0 && depth == 0) {
            return BORDER_LENGTHS[random.nextInt(BORDER_LENGTHS.length)] / 2;
        }
        return choice < 8 ? 0 : choice < 28 ? 1 : 2;
    }

    private Object primitive(String name) {
        return switch (name.replace("COMPACT_", "").replace("NULLABLE_", "")) {
            case "BOOLEAN" -> random.nextBoolean();
            case "INT8" -> (byte) integer(Byte.MIN_VALUE, Byte.MAX_VALUE);
            case "INT16" -> (short) integer(Short.MIN_VALUE, Short.MAX_VALUE);
            case "UINT16" -> (int) integer(0, 0xffff);
            case "INT32" -> (int) integer(Integer.MIN_VALUE, Integer.MAX_VALUE);
            case "INT64" -> integer(Long.MIN_VALUE, Long.MAX_VALUE);
            case "FLOAT64" -> random.nextGaussian();
            case "UUID" ->
                    random.nextInt(4) == 0
                            ? Uuid.ZERO_UUID
                            : new Uuid(random.nextLong(), random.nextLong());
            case "STRING" -> text();
            case "BYTES" -> data();
            case "RECORDS" -> MemoryRecords.readableRecords(data());
            default -> throw new IllegalArgumentException("no random " + name);
        };
    }

    private long integer(long min, long max) {
        return switch (random.nextInt(8)) {
            case 0 -> min;
            case 1 -> max;
            case 2, 3 -> Math.max(min, random.nextInt(3) - 1);
            default ->
                    max == Long.MAX_VALUE
                            ? random.nextLong()
                            : min + random.nextLong(max - min + 1);
        };
    }

    private ByteBuffer data() {
        int choice = random.nextInt(10);
        byte[] bytes =
                new byte[choice == 0 ? 0 : choice == 1 ? borderLength() : random.nextInt(30)];
        random.nextBytes(bytes);
        return ByteBuffer.wrap(bytes);
    }

    private String text() {
        int choice = random.nextInt(12);
        if (choice == 0) {
            return "";
        }
        if (choice == 1) {
            return "b".repeat(borderLength());
        }
        StringBuilder text = new StringBuilder();
        for (int i = random.nextInt(12); i >= 0; i--) {
            text.appendCodePoint(LETTERS[random.nextInt(LETTERS.length)]);
        }
        return text.toString();
    }

    private int borderLength() {
        return BORDER_LENGTHS[random.nextInt(BORDER_LENGTHS.length)];
    }
}
