package riverrun.interop.swap;

import riverrun.interop.Cluster;
import riverrun.interop.tools.Console;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;

/**
 * The workload of a directory that goes from server to server: {@code Swap HOST:PORT DIR
 * [CAPABILITY...]}. Clients live through every swap, as an application's do. Commands come from
 * standard input: {@code turn N} lets the server that now runs show what it took over and adds to
 * it, {@code rest N} comes before a server stops that would lose what ends meanwhile, and {@code
 * finish N} ends the endless work and checks the last time. Each has one line as its
 * answer, {@code done} or {@code FAILED} and why.
 */
public final class Swap {
    private final List<Part> parts = new ArrayList<>();

    private Swap(Cluster cluster, Set<String> capabilities) throws Exception {
        parts.add(new RepeatedBatch(cluster));
        parts.add(new CompactedTopic(cluster));
        if (capabilities.contains("share-groups")) {
            parts.add(new ShareGroup(cluster));
        }
        if (capabilities.contains("transactions")) {
            boolean hasOffsets = capabilities.contains("transactional-offsets");
            parts.add(new OpenTransactions(cluster, hasOffsets));
            parts.add(new EndlessTransactions(cluster));
        }
        parts.add(new EndlessRecords(cluster));
        parts.add(new LivingGroup(cluster, "classic"));
        if (capabilities.contains("consumer-groups")) {
            parts.add(new LivingGroup(cluster, "consumer"));
        }
        // It shows the topics that the others have made.
        parts.add(new AdminState(cluster, capabilities));
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream protocol = System.out;
        Console.install();
        Cluster cluster = new Cluster(arguments[0], Path.of(arguments[1]));
        Swap swap = null;
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            int turn = Integer.parseInt(words[1]);
            System.err.println("=== " + line);
            try {
                if (swap == null) {
                    swap = new Swap(cluster, Set.copyOf(Arrays.asList(arguments)));
                }
                swap.obey(words[0], turn);
                protocol.println("done");
            } catch (Throwable failure) {
                failure.printStackTrace();
                protocol.println("FAILED " + failure.toString().replace('\n', '\t'));
            }
        }
        // Clients that wait for a server that is gone would keep the process.
        protocol.flush();
        Runtime.getRuntime().halt(0);
    }

    private void obey(String command, int turn) throws Exception {
        if (command.equals("rest")) {
            for (Part part : parts) {
                part.rest();
            }
            return;
        }
        if (command.equals("finish")) {
            // The readers of records end before what they read.
            for (int i = parts.size() - 1; i >= 0; i--) {
                parts.get(i).finish();
            }
        }
        if (turn > 0 || command.equals("finish")) {
            for (Part part : parts) {
                System.err.println("check " + part.getClass().getSimpleName());
                part.check(turn);
            }
        }
        if (command.equals("turn")) {
            for (Part part : parts) {
                System.err.println("write " + part.getClass().getSimpleName());
                part.write(turn);
            }
        }
    }
}
