//! Random numbers of a fixed seed: every run has the same records.

/// SplitMix64.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from 0 to below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// From 0 to below `end`, as words are in a text: the n-th about n times as seldom as the first (Zipf's law).
    pub(crate) fn word_below(&mut self, end: u64) -> u64 {
        let part = self.next() as f64 / u64::MAX as f64;
        let rank = (end as f64).powf(part) as u64;
        rank.clamp(1, end) - 1
    }

    /// Fills `bytes` with letters.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next().to_le_bytes();
            for (byte, random) in chunk.iter_mut().zip(random) {
                *byte = b'a' + random % 26;
            }
        }
    }
}
