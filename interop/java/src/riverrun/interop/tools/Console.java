package riverrun.interop.tools;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;

/** Takes what tools print: to standard error as a rule, to a buffer while a tool runs. */
public final class Console {
    private static final PrintStream STDERR = System.err;
    private static volatile OutputStream target = STDERR;

    private Console() {}

    /** Replaces both standard streams before any class keeps a reference to them. */
    public static void install() {
        System.setOut(new PrintStream(new Switch(), true, UTF_8));
        System.setErr(new PrintStream(new Switch(), true, UTF_8));
    }

    /** Starts to capture. */
    static synchronized ByteArrayOutputStream capture() {
        ByteArrayOutputStream buffer = new ByteArrayOutputStream();
        target = buffer;
        return buffer;
    }

    /** Ends to capture. */
    static synchronized void release() {
        target = STDERR;
    }

    private static final class Switch extends OutputStream {
        @Override
        public void write(int value) throws java.io.IOException {
            target.write(value);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws java.io.IOException {
            target.write(bytes, offset, length);
        }
    }
}
