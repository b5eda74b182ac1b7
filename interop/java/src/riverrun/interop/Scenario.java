package riverrun.interop;

/** One named check of a cluster and the time it may take. */
public record Scenario(String name, int limitSeconds, Body body) {
    /** What the scenario does; it fails by throwing. */
    @FunctionalInterface
    public interface Body {
        void run(Cluster cluster) throws Exception;
    }

    /** A scenario with the usual limit. */
    public static Scenario of(String name, Body body) {
        return new Scenario(name, 60, body);
    }
}
