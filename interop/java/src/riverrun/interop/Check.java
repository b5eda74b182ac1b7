package riverrun.interop;

import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;

/** Assertions of scenarios. */
public final class Check {
    private Check() {}

    /** Fails unless both are equal. */
    public static void equal(Object expected, Object actual, String what) {
        if (!Objects.equals(expected, actual)) {
            throw new AssertionError(what + ": expected " + expected + ", got " + actual);
        }
    }

    /** Fails unless {@code condition} holds. */
    public static void that(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    /** Fails unless {@code text} contains {@code part}. */
    public static void contains(String text, String part) {
        that(text.contains(part), "`" + part + "` is not in:\n" + text);
    }

    /** Fails unless {@code action} throws {@code expected}, directly or from a future. */
    public static <T extends Throwable> T fails(Class<T> expected, Callable<?> action)
            throws Exception {
        Object result;
        try {
            result = action.call();
        } catch (Exception thrown) {
            Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
            if (expected.isInstance(cause)) {
                return expected.cast(cause);
            }
            throw new AssertionError(
                    "expected " + expected.getSimpleName() + ", got " + cause, thrown);
        }
        throw new AssertionError("expected " + expected.getSimpleName() + ", got " + result);
    }

    /** Polls {@code condition} until it holds; the scenario's own limit ends a hopeless wait. */
    public static void eventually(Callable<Boolean> condition, String what) throws Exception {
        long deadline = System.nanoTime() + 20_000_000_000L;
        while (!condition.call()) {
            that(System.nanoTime() < deadline, "still not so: " + what);
            Thread.sleep(50);
        }
    }
}
