package riverrun.interop.tools;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.common.utils.Exit;

import riverrun.interop.Check;

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;

/**
 * Runs a tool's main method in this process, with its exit, its shutdown hooks and its output
 * caught.
 */
public final class Tool {
    /** What a tool printed, and the status with which it ended. */
    public record Output(int status, String text) {
        /** Fails unless the tool ended well. */
        Output good() {
            Check.that(status == 0, "the tool ended with status " + status + ":\n" + text);
            return this;
        }

        /** Fails unless the tool ended with an error. */
        Output bad() {
            Check.that(status != 0, "the tool took what it should refuse:\n" + text);
            return this;
        }

        /** Fails unless the output contains this. */
        Output with(String part) {
            Check.contains(text, part);
            return this;
        }

        /** Fails if the output contains this. */
        Output without(String part) {
            Check.that(!text.contains(part), "`" + part + "` is in:\n" + text);
            return this;
        }

        /** Fails unless some line of the output matches the regular expression. */
        Output withLine(String regex) {
            Check.that(
                    text.lines().anyMatch(line -> line.matches(regex)),
                    "no line is `" + regex + "` in:\n" + text);
            return this;
        }
    }

    private Tool() {}

    public static Output run(Class<?> tool, String... arguments) throws Exception {
        return run("", tool, arguments);
    }

    static Output run(String stdin, Class<?> tool, String... arguments) throws Exception {
        List<Integer> statuses = new ArrayList<>();
        List<Runnable> hooks = new ArrayList<>();
        // A tool that ends well goes on to the end of its main method: some catch what is thrown
        // here.
        Exit.Procedure exit =
                (status, message) -> {
                    statuses.add(status);
                    if (status != 0) {
                        throw new Exited();
                    }
                };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        InputStream before = System.in;
        System.setIn(new ByteArrayInputStream(stdin.getBytes(UTF_8)));
        var output = Console.capture();
        try {
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Exited)) {
                thrown.getCause().printStackTrace();
                statuses.add(1);
            }
        } finally {
            hooks.forEach(Runnable::run);
            Console.release();
            System.setIn(before);
        }
        String text = output.toString(UTF_8);
        System.err.println(
                "$ " + tool.getSimpleName() + " " + String.join(" ", arguments) + "\n" + text);
        return new Output(
                statuses.stream().filter(status -> status != 0).findFirst().orElse(0), text);
    }

    /**
     * Runs a tool in a virtual machine of its own: one that ends by the hooks of it, or closes its
     * output.
     */
    static Output runApart(Class<?> tool, String... arguments) throws Exception {
        List<String> command = new ArrayList<>();
        command.add("java");
        command.addAll(List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"));
        command.add(System.getProperty("java.class.path"));
        command.add(tool.getName());
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String text = new String(process.getInputStream().readAllBytes(), UTF_8);
        System.err.println("$ " + tool.getSimpleName() + "\n" + text);
        return new Output(process.waitFor(), text);
    }

    private static final class Exited extends RuntimeException {
        private static final long serialVersionUID = 1;
    }
}
