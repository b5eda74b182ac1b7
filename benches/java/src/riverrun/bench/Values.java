package riverrun.bench;

/** Numbers of every magnitude, the same on both sides. */
final class Values {
    static final int COUNT = 1024;

    private Values() {
    }

    static int[] mixed() {
        int[] values = new int[COUNT];
        long state = 1;
        for (int i = 0; i < COUNT; i++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            values[i] = (int) (state >>> 32) >> ((state >>> 24) & 31);
        }
        return values;
    }
}
