package riverrun.interop.kafkatests;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.Writer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

/** A riverrun that is started and stopped by its own process id, on ports that it keeps. */
final class ServerProcess {
    /** The program under test. */
    private static final String BINARY = System.getProperty("riverrun.binary", "riverrun");

    private static final int START_LIMIT_MS = 60_000;
    private static final int STOP_LIMIT_MS = 60_000;
    private static final int POLL_INTERVAL_MS = 10;

    private final Path dir;
    private final int port;
    private Process process;
    private long logStart;

    /** Prepares a server in a directory of its own, with these properties. */
    ServerProcess(Path dir, int port, Map<String, ?> properties) {
        this.dir = dir;
        this.port = port;
        Properties file = new Properties();
        properties.forEach((name, value) -> file.setProperty(name, String.valueOf(value)));
        try {
            Files.createDirectories(dir);
            try (Writer writer = Files.newBufferedWriter(propertiesPath())) {
                file.store(writer, null);
            }
        } catch (IOException error) {
            throw new IllegalStateException("cannot write " + propertiesPath(), error);
        }
    }

    private Path propertiesPath() {
        return dir.resolve("server.properties");
    }

    private Path logPath() {
        return dir.resolve("server.log");
    }

    synchronized boolean isRunning() {
        return process != null && process.isAlive();
    }

    /** Starts the server and waits until it names itself as a broker. */
    synchronized void start() {
        try {
            logStart = Files.exists(logPath()) ? Files.size(logPath()) : 0;
            process =
                    new ProcessBuilder(BINARY, "server", propertiesPath().toString())
                            .directory(dir.toFile())
                            .redirectErrorStream(true)
                            .redirectOutput(ProcessBuilder.Redirect.appendTo(logPath().toFile()))
                            .start();
            process.getOutputStream().close();
            long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(START_LIMIT_MS);
            while (!answersMetadata()) {
                if (!process.isAlive()) {
                    throw new IllegalStateException("the server does not start\n" + log());
                }
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the server is not ready in time\n" + log());
                }
                Thread.sleep(POLL_INTERVAL_MS);
            }
        } catch (IOException error) {
            throw new IllegalStateException("cannot run " + BINARY, error);
        } catch (InterruptedException error) {
            process.destroyForcibly();
            throw new IllegalStateException("interrupted while the server started", error);
        }
    }

    /** Stops the server as an operator does; fails if it does not go, or has gone or panicked. */
    synchronized void stop() {
        if (process == null) {
            return;
        }
        Process stopping = process;
        process = null;
        boolean wasAlive = stopping.isAlive();
        stopping.destroy();
        try {
            if (!stopping.waitFor(STOP_LIMIT_MS, TimeUnit.MILLISECONDS)) {
                stopping.destroyForcibly().waitFor();
                throw new AssertionError("the server did not stop\n" + log());
            }
        } catch (InterruptedException error) {
            stopping.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        String log = log();
        if (!wasAlive || stopping.exitValue() != 0 || log.contains("panicked at")) {
            throw new AssertionError("the server ended with " + stopping.exitValue() + "\n" + log);
        }
    }

    /** Ends the process where nothing may fail any more. */
    synchronized void kill() {
        if (process != null) {
            process.destroyForcibly();
            process = null;
        }
    }

    /** What the process has logged since its start. */
    private String log() {
        try {
            byte[] log = Files.readAllBytes(logPath());
            int start = (int) Math.min(logStart, log.length);
            return new String(log, start, log.length - start, StandardCharsets.UTF_8);
        } catch (IOException error) {
            return "no log: " + error;
        }
    }

    private boolean answersMetadata() {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress("localhost", port), START_LIMIT_MS);
            socket.setSoTimeout(START_LIMIT_MS);
            DataOutputStream request = new DataOutputStream(socket.getOutputStream());
            request.writeInt(14);
            request.writeShort(3); // Metadata
            request.writeShort(1); // version
            request.writeInt(7); // correlation id
            request.writeShort(-1); // no client id
            request.writeInt(0); // no topics
            request.flush();
            DataInputStream answer = new DataInputStream(socket.getInputStream());
            answer.readInt();
            return answer.readInt() == 7 && answer.readInt() > 0;
        } catch (IOException notYet) {
            return false;
        }
    }

    /**
     * A free port below the range from which the kernel takes the source ports of connections, so that
     * no client is given the port of a server that is stopped for a while.
     */
    static synchronized int freePort() {
        for (int tries = 0; tries < PORTS; tries++) {
            nextPort = (nextPort + 1) % PORTS;
            try (ServerSocket socket =
                    new ServerSocket(FIRST_PORT + nextPort, 1, InetAddress.getByName("localhost"))) {
                return socket.getLocalPort();
            } catch (IOException taken) {
                // The next one may be free.
            }
        }
        throw new IllegalStateException("no free port");
    }

    private static final int FIRST_PORT = 20_000;
    private static final int PORTS = 12_000;
    private static int nextPort = (int) (ProcessHandle.current().pid() * 997 % PORTS);
}
