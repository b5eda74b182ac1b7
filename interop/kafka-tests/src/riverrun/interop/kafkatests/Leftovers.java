package riverrun.interop.kafkatests;

import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.opentest4j.TestAbortedException;

import java.util.Optional;

/**
 * Takes away what a test leaves of its servers, and a class of those of all its tests. JUnit finds this
 * class by service loading.
 */
public final class Leftovers implements BeforeEachCallback, AfterEachCallback, AfterAllCallback {
    private int ofAll;

    @Override
    public void beforeEach(ExtensionContext context) {
        ofAll = RiverrunNode.count();
    }

    @Override
    public void afterEach(ExtensionContext context) {
        Optional<Throwable> failure = context.getExecutionException();
        boolean isKept = failure.isPresent() && !(failure.get() instanceof TestAbortedException);
        try {
            RiverrunNode.stopAfter(ofAll);
        } finally {
            RiverrunNode.clearAfter(ofAll, isKept);
        }
    }

    @Override
    public void afterAll(ExtensionContext context) {
        RiverrunNode.clearAfter(0, false);
    }
}
