package riverrun.interop.kafkatests;

import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Stream;

/**
 * Runs test classes of Apache Kafka. It reads lines {@code CLASS} or {@code CLASS#METHOD} until its
 * input ends, and for each prints what {@link Lines} says of its tests, then {@code end}.
 *
 * <p>Where this folder comes before Kafka's jars on the class path, {@link
 * org.apache.kafka.common.test.junit.RaftClusterInvocationContext} and {@link
 * kafka.server.QuorumTestHarness} are ours, and start riverrun; where it comes after them, Kafka's
 * own start Kafka.
 */
public final class Main {
    /** A test that takes longer is interrupted, and has failed. */
    private static final String LIMIT = System.getProperty("riverrun.limit", "100 s");

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream protocol = System.out;
        // Tests take standard output over and give it back.
        System.setOut(System.err);
        Launcher launcher = LauncherFactory.create();
        launcher.registerTestExecutionListeners(new Lines(protocol));
        BufferedReader names =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String name = names.readLine(); name != null; name = names.readLine()) {
            launcher.execute(request(name));
            protocol.println("end\t" + name);
        }
        protocol.flush();
        // Tests that have failed leave threads behind.
        Runtime.getRuntime().halt(0);
    }

    private static LauncherDiscoveryRequest request(String name)
            throws ClassNotFoundException {
        return LauncherDiscoveryRequestBuilder.request()
                .selectors(selectors(name))
                .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
                .configurationParameter("junit.jupiter.execution.timeout.default", LIMIT)
                .build();
    }

    private static List<? extends DiscoverySelector> selectors(String name)
            throws ClassNotFoundException {
        String[] parts = name.split("#");
        if (parts.length == 1) {
            return List.of(DiscoverySelectors.selectClass(name));
        }
        Class<?> tests = Class.forName(parts[0]);
        return Stream.of(tests.getMethods(), tests.getDeclaredMethods())
                .flatMap(Stream::of)
                .filter(method -> method.getName().equals(parts[1]))
                .distinct()
                .map(method -> DiscoverySelectors.selectMethod(tests, method))
                .toList();
    }
}
