package riverrun.interop.streams;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Calls what Kafka Streams keeps to its packages. */
final class Hidden {
    private Hidden() {}

    /** The class of Kafka Streams' of this name. */
    static Class<?> type(String name) throws ClassNotFoundException {
        return Class.forName("org.apache.kafka.streams." + name);
    }

    /** A new object of the class, by its only constructor of so many parameters. */
    static Object create(String type, Object... arguments) throws Exception {
        for (Constructor<?> constructor : type(type).getDeclaredConstructors()) {
            if (constructor.getParameterCount() == arguments.length) {
                constructor.setAccessible(true);
                try {
                    return constructor.newInstance(arguments);
                } catch (InvocationTargetException failure) {
                    throw cause(failure);
                }
            }
        }
        throw new NoSuchMethodException(type);
    }

    /** Calls a static method of the class that takes these arguments. */
    static Object callStatic(String type, String name, Object... arguments) throws Exception {
        return call(type(type), null, name, arguments);
    }

    /** Calls a method of the object that takes these arguments. */
    static Object call(Object object, String name, Object... arguments) throws Exception {
        return call(object.getClass(), object, name, arguments);
    }

    private static Object call(Class<?> type, Object object, String name, Object... arguments)
            throws Exception {
        for (Class<?> owner = type; owner != null; owner = owner.getSuperclass()) {
            for (Method method : owner.getDeclaredMethods()) {
                if (method.getName().equals(name) && takes(method, arguments)) {
                    method.setAccessible(true);
                    try {
                        return method.invoke(object, arguments);
                    } catch (InvocationTargetException failure) {
                        throw cause(failure);
                    }
                }
            }
        }
        throw new NoSuchMethodException(type + "." + name);
    }

    private static boolean takes(Method method, Object[] arguments) {
        Class<?>[] types = method.getParameterTypes();
        if (types.length != arguments.length || method.isBridge()) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            boolean fits =
                    switch (types[i].getName()) {
                        case "long" -> arguments[i] instanceof Long;
                        case "int" -> arguments[i] instanceof Integer;
                        case "boolean" -> arguments[i] instanceof Boolean;
                        default -> arguments[i] == null || types[i].isInstance(arguments[i]);
                    };
            if (!fits) {
                return false;
            }
        }
        return true;
    }

    private static Exception cause(InvocationTargetException failure) {
        return failure.getCause() instanceof Exception cause ? cause : failure;
    }
}
