//! The one source of chance: a sequence of numbers that follows from a seed (splitmix64).

/// Numbers that follow from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A sequence of its own for what this number stands for: what others draw does not move it.
    pub(crate) const fn of(seed: u64, what: u64) -> Self {
        let mut own = Self(seed ^ what.wrapping_mul(0xd6e8_feb8_6659_fd93));
        own.next();
        own
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number in `0..end`.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.next() % if end == 0 { 1 } else { end }
    }

    /// A number in `from..=to`.
    pub(crate) const fn between(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from + 1).unsigned_abs()).cast_signed()
    }

    /// True so many times in a hundred.
    pub(crate) const fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn bytes(&mut self) -> [u8; 16] {
        let number = u128::from(self.next()) << 64 | u128::from(self.next());
        number.to_be_bytes()
    }
}
