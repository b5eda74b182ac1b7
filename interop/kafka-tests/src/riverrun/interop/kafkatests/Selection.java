package riverrun.interop.kafkatests;

import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.ClusterTemplate;
import org.apache.kafka.common.test.api.ClusterTest;
import org.apache.kafka.common.test.api.ClusterTestDefaults;
import org.apache.kafka.common.test.api.ClusterTests;
import org.apache.kafka.common.test.api.Type;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.platform.commons.support.AnnotationSupport;
import org.junit.platform.commons.util.ReflectionUtils;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Leaves out a test with a controller of its own process where the same test runs with broker and
 * controller in one, as riverrun always does, and those that a file names: {@code CLASS#METHOD} a line,
 * without packages. A test of a streams group is skipped with that reason. JUnit finds this class by service loading.
 */
public final class Selection implements ExecutionCondition {
    static final String LEFT_OUT = "left out";

    private static final Set<String> NAMED = named();

    private static final Pattern ISOLATED = Pattern.compile(".* \\[(\\d+)\\] Type=Raft-Isolated.*");

    /** How tests name the invocation that is about a group of the STREAMS protocol. */
    private static final Pattern STREAMS_GROUP =
            Pattern.compile(".*(groupProtocol=streams|[pP]rotocol(Enabled)?=true).*");

    private static final boolean IS_RIVERRUN = System.getProperty("riverrun.binary") != null;

    private static final ConditionEvaluationResult RUNS = ConditionEvaluationResult.enabled("");

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        String name =
                context.getTestClass().map(Class::getSimpleName).orElse("")
                        + "#"
                        + context.getTestMethod().map(Method::getName).orElse("");
        if (NAMED.contains(name)) {
            return ConditionEvaluationResult.disabled(LEFT_OUT);
        }
        if (IS_RIVERRUN && STREAMS_GROUP.matcher(context.getDisplayName()).matches()) {
            // The client does not join, and the test would wait for it.
            return ConditionEvaluationResult.disabled("share groups and streams groups are not served");
        }
        Matcher isolated = ISOLATED.matcher(context.getDisplayName());
        Optional<Method> method = context.getTestMethod();
        if (method.isEmpty() || !isolated.matches()) {
            return RUNS;
        }
        int number = Integer.parseInt(isolated.group(1));
        for (Set<Type> types : configurations(context.getRequiredTestClass(), method.get())) {
            if (number <= types.size()) {
                boolean hasTwin = types.contains(Type.CO_KRAFT);
                return hasTwin ? ConditionEvaluationResult.disabled(LEFT_OUT) : RUNS;
            }
            number -= types.size();
        }
        return RUNS;
    }

    private static Set<String> named() {
        String file = System.getProperty("riverrun.left.out");
        try {
            return file == null ? Set.of() : Set.copyOf(Files.readAllLines(Path.of(file)));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** The types of each configuration, in the order in which Kafka numbers the invocations. */
    private static List<Set<Type>> configurations(Class<?> tests, Method method) {
        List<Set<Type>> configurations = new ArrayList<>();
        ClusterTemplate template = method.getDeclaredAnnotation(ClusterTemplate.class);
        if (template != null) {
            Method generator = ReflectionUtils.getRequiredMethod(tests, template.value());
            Object configs = ReflectionUtils.invokeMethod(generator, null);
            for (Object config : (Collection<?>) configs) {
                configurations.add(((ClusterConfig) config).clusterTypes());
            }
        }
        List<ClusterTest> annotations = new ArrayList<>();
        Optional.ofNullable(method.getDeclaredAnnotation(ClusterTest.class))
                .ifPresent(annotations::add);
        Optional.ofNullable(method.getDeclaredAnnotation(ClusterTests.class))
                .ifPresent(several -> annotations.addAll(Arrays.asList(several.value())));
        for (ClusterTest annotation : annotations) {
            Type[] types = annotation.types().length == 0 ? defaults(tests) : annotation.types();
            configurations.add(Set.of(types));
        }
        return configurations;
    }

    private static Type[] defaults(Class<?> tests) {
        return AnnotationSupport.findAnnotation(tests, ClusterTestDefaults.class)
                .map(ClusterTestDefaults::types)
                .orElse(Type.values());
    }
}
