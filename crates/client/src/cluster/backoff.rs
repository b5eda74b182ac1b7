//! How long to wait before the next attempt: longer after each failure, never the same for all.

/// Waits that double from `base_ms` to `max_ms`, give or take 20 percent (KIP-580).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// The wait after the first failure.
    pub(crate) base_ms: u64,
    /// The most that it grows to.
    pub(crate) max_ms: u64,
}

impl Backoff {
    /// The wait after `failures` in a row; `random` is any number.
    pub(crate) fn delay_ms(self, failures: u32, random: u64) -> u64 {
        if failures == 0 {
            return 0;
        }
        let doubled = self.base_ms.saturating_mul(1 << (failures - 1).min(30));
        let delay_ms = doubled.min(self.max_ms.max(self.base_ms));
        // From 80 to 120 percent, in steps of a thousandth.
        let percent_thousandths = 80_000 + random % 40_001;
        (delay_ms.saturating_mul(percent_thousandths) / 100_000).min(self.max_ms.max(self.base_ms))
    }
}

/// A stream of random numbers from a seed (splitmix64). Not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub(crate) const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of a seed that the system gives.
    pub(crate) fn from_system() -> Self {
        #[cfg(test)]
        if let Some(seed) = crate::simulated::seed() {
            return Self(seed);
        }
        let mut seed = [0; 8];
        // Without a seed, clients only back off in step with others that had none.
        let _ = getrandom::fill(&mut seed);
        Self(u64::from_ne_bytes(seed))
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `count`, which is not zero.
    pub(crate) const fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_most() {
        let backoff = Backoff {
            base_ms: 100,
            max_ms: 1_000,
        };
        let check = |failures: u32, random: u64, expect_ms: u64| {
            assert_eq!(backoff.delay_ms(failures, random), expect_ms);
        };
        check(0, 7, 0);
        check(1, 0, 80);
        check(1, 20_000, 100);
        check(1, 40_000, 120);
        check(2, 20_000, 200);
        check(4, 20_000, 800);
        check(5, 20_000, 1_000);
        check(5, 0, 800);
        check(5, 40_000, 1_000);
        check(u32::MAX, 20_000, 1_000);
    }

    #[test]
    fn no_wait_stays_no_wait() {
        let none = Backoff {
            base_ms: 0,
            max_ms: 0,
        };
        assert_eq!(none.delay_ms(9, 123), 0);
    }

    #[test]
    fn a_seed_gives_its_stream() {
        let mut one = Random::from_seed(1);
        let mut other = Random::from_seed(1);
        for _ in 0..100 {
            assert_eq!(one.next(), other.next());
            assert!(one.below(3) < 3);
            other.next();
        }
        assert_ne!(Random::from_seed(1).next(), Random::from_seed(2).next());
    }
}
