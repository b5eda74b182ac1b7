package riverrun.interop.swap;

/** One thing that the workload does, and what it knows of it. */
interface Part {
    /** Adds to what there is; returns once everything but the endless work is acknowledged. */
    void write(int turn) throws Exception;

    /** Fails unless the server has all that was acknowledged by those before it. */
    void check(int turn) throws Exception;

    /**
     * Lets every transaction of the endless work end and begins none until the next turn: Kafka 4.3.1
     * completes one that ends while it stops without markers in the partitions that it no longer
     * leads, and what was committed is lost.
     */
    default void rest() throws Exception {}

    /** Ends the endless work, so that the next check is about everything. */
    default void finish() throws Exception {}
}
