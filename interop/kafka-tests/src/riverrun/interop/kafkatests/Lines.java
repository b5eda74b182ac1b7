package riverrun.interop.kafkatests;

import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.UniqueId;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.opentest4j.TestAbortedException;

import java.io.PrintStream;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * A line for each test that starts, {@code start NAME}, and one for what became of it: {@code
 * OUTCOME NAME MS DISPLAY REASON}, with tabs between. NAME is {@code CLASS#METHOD}, with the number
 * of the invocation in brackets where there are several. OUTCOME is {@code passed}, {@code failed} or
 * {@code skipped}; of tests that {@link Selection} leaves out nothing is said. In a reason U+001F stands
 * for a line end.
 */
final class Lines implements TestExecutionListener {
    private static final int FRAMES_MAX = 14;

    /** What clients say when the server does not offer the API of a protocol. */
    private static final Pattern UNSERVED =
            Pattern.compile("does not support the (share group|STREAMS group) protocol");

    private final PrintStream protocol;
    private final Map<String, Long> startedNanos = new HashMap<>();

    Lines(PrintStream protocol) {
        this.protocol = protocol;
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        startedNanos.put(test.getUniqueId(), System.nanoTime());
        if (test.isTest()) {
            protocol.println("start\t" + name(test));
            System.err.println("=== " + name(test) + " " + test.getDisplayName());
        }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        if (!Selection.LEFT_OUT.equals(reason)) {
            print("skipped", test, reason);
        }
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        switch (result.getStatus()) {
            case SUCCESSFUL -> {
                if (test.isTest()) {
                    print("passed", test, "");
                }
            }
            case ABORTED -> print("skipped", test, message(result));
            case FAILED -> {
                Throwable failure = result.getThrowable().orElseThrow();
                Optional<String> aborted = aborted(failure);
                print(
                        aborted.isPresent() ? "skipped" : "failed",
                        test,
                        aborted.orElseGet(() -> text(failure)));
            }
        }
    }

    /** Why a test is to be skipped that has met that, and failed. */
    private static Optional<String> aborted(Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            String message = String.valueOf(cause.getMessage());
            if (cause instanceof TestAbortedException) {
                return Optional.of(message);
            }
            for (Throwable suppressed : cause.getSuppressed()) {
                if (suppressed instanceof TestAbortedException) {
                    return Optional.of(String.valueOf(suppressed.getMessage()));
                }
            }
            if (cause instanceof UnsupportedVersionException && UNSERVED.matcher(message).find()) {
                return Optional.of("share groups and streams groups are not served");
            }
        }
        return Optional.empty();
    }

    private void print(String outcome, TestIdentifier test, String reason) {
        long started = startedNanos.getOrDefault(test.getUniqueId(), System.nanoTime());
        long ms = (System.nanoTime() - started) / 1_000_000;
        String display = oneLine(test.getDisplayName());
        protocol.println(
                String.join("\t", outcome, name(test), Long.toString(ms), display, oneLine(reason)));
    }

    /** {@code CLASS#METHOD[NUMBER]}, of the segments of the test's id. */
    private static String name(TestIdentifier test) {
        StringBuilder name = new StringBuilder();
        for (UniqueId.Segment segment : UniqueId.parse(test.getUniqueId()).getSegments()) {
            String value = segment.getValue();
            switch (segment.getType()) {
                case "class" -> name.append(value);
                case "nested-class" -> name.append('$').append(value);
                case "method", "test-template", "test-factory" ->
                        name.append('#').append(value.replaceFirst("\\(.*", ""));
                case "test-template-invocation", "dynamic-test" ->
                        name.append('[').append(value.substring(1)).append(']');
                default -> { }
            }
        }
        return name.toString();
    }

    private static String message(TestExecutionResult result) {
        return result.getThrowable().map(thrown -> String.valueOf(thrown.getMessage())).orElse("");
    }

    /** The failure, its causes, and where in the tests it was noticed. */
    private static String text(Throwable failure) {
        StringBuilder text = new StringBuilder();
        int frames = 0;
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            text.append(cause == failure ? "" : "\ncaused by ").append(cause);
            for (StackTraceElement frame : cause.getStackTrace()) {
                if (frames < FRAMES_MAX && isTelling(frame.getClassName())) {
                    text.append("\n  at ").append(frame);
                    frames++;
                }
            }
            for (Throwable suppressed : cause.getSuppressed()) {
                text.append("\nalso ").append(suppressed);
            }
        }
        return text.toString();
    }

    private static boolean isTelling(String className) {
        return !className.startsWith("java.")
                && !className.startsWith("jdk.")
                && !className.startsWith("org.junit.")
                && !className.startsWith("org.mockito.")
                && !className.startsWith("scala.");
    }

    private static String oneLine(String text) {
        return text.replace("\r", "").replace('\t', ' ').replace('\n', '\u001f');
    }
}
