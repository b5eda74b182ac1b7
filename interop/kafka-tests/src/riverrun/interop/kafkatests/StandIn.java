package riverrun.interop.kafkatests;

import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;
import org.mockito.stubbing.Answer;
import org.opentest4j.TestAbortedException;

import java.util.HashMap;
import java.util.Map;

/**
 * An object of a class of Kafka's server that is none: a few methods are answered, and a test that
 * calls another one is skipped, as it looks into the process of a broker that is not there.
 */
final class StandIn<T> implements Answer<Object> {
    private final String name;
    private final Map<String, Answer<?>> answers = new HashMap<>();
    private final T object;

    StandIn(Class<T> type) {
        name = type.getSimpleName();
        object = Mockito.mock(type, Mockito.withSettings().stubOnly().defaultAnswer(this));
    }

    /** Has a method answered, in all its overloads. */
    StandIn<T> on(String method, Answer<?> answer) {
        answers.put(method, answer);
        return this;
    }

    T object() {
        return object;
    }

    @Override
    public Object answer(InvocationOnMock call) throws Throwable {
        String method = call.getMethod().getName();
        Answer<?> answer = answers.get(method);
        if (answer != null) {
            return answer.answer(call);
        }
        if (method.contains("$default$")) {
            return call.callRealMethod();
        }
        if (call.getMethod().getDeclaringClass() == Object.class || method.equals("toString")) {
            return Mockito.RETURNS_DEFAULTS.answer(call);
        }
        throw new TestAbortedException("looks inside of a broker: " + name + "." + method);
    }
}
