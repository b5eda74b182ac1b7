package riverrun.interop;

import riverrun.interop.java.JavaSuite;
import riverrun.interop.tools.Console;
import riverrun.interop.tools.ToolsSuite;

import java.io.PrintStream;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Runs scenarios by name: {@code SUITE list}, or {@code SUITE run HOST:PORT DIR NAME...}. Standard
 * output carries only the lines that the runner reads; what scenarios print goes to {@link Console}.
 */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream protocol = System.out;
        Console.install();
        Map<String, Scenario> scenarios = new LinkedHashMap<>();
        for (Scenario scenario : suite(arguments[0])) {
            scenarios.put(scenario.name(), scenario);
        }
        if (arguments[1].equals("list")) {
            scenarios.values().forEach(s -> protocol.println(s.name() + " " + s.limitSeconds()));
            return;
        }
        Cluster cluster = new Cluster(arguments[2], Path.of(arguments[3]));
        for (int i = 4; i < arguments.length; i++) {
            run(scenarios.get(arguments[i]), cluster, protocol);
        }
        // Clients and tools may leave threads behind that are no daemons.
        protocol.flush();
        Runtime.getRuntime().halt(0);
    }

    private static List<Scenario> suite(String name) {
        return switch (name) {
            case "java" -> JavaSuite.scenarios();
            case "tools" -> ToolsSuite.scenarios();
            default -> throw new IllegalArgumentException("no suite " + name);
        };
    }

    private static void run(Scenario scenario, Cluster cluster, PrintStream protocol) {
        protocol.println("start " + scenario.name());
        System.err.println("=== " + scenario.name());
        try {
            scenario.body().run(cluster);
            protocol.println("ok " + scenario.name());
        } catch (Throwable failure) {
            failure.printStackTrace();
            protocol.println("FAILED " + scenario.name() + ": " + oneLine(failure));
        }
    }

    /** The failure and where it was noticed; a tab stands for a line end. */
    private static String oneLine(Throwable failure) {
        StringBuilder text = new StringBuilder(failure.toString());
        for (StackTraceElement frame : failure.getStackTrace()) {
            if (frame.getClassName().startsWith("riverrun.")
                    && !frame.getClassName().endsWith(".Check")) {
                text.append(" (")
                        .append(frame.getFileName())
                        .append(':')
                        .append(frame.getLineNumber())
                        .append(')');
                break;
            }
        }
        return text.toString().replace("\r", "").replace("\t", "    ").replace('\n', '\t');
    }
}
