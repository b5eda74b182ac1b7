//! How long to wait before the next attempt: longer after each failure, never the same for all.
//!
//! Pure: who waits counts its failures and brings the random number.

/// Waits that double from `base_ms` to `max_ms`, give or take 20 percent (KIP-580).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure, in ms.
    pub base_ms: u64,
    /// The most that it grows to, in ms; what is less than the base counts as the base.
    pub max_ms: u64,
}

impl Backoff {
    /// The wait after `failures` in a row, in ms; none after none. `random` is any number.
    pub fn delay_ms(self, failures: u32, random: u64) -> u64 {
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
    fn a_wait_never_exceeds_the_most_nor_falls_below_what_the_failure_before_could_have() {
        for (base_ms, max_ms) in [(1, 1), (50, 1_000), (10_000, 30_000), (7, 3), (u64::MAX, 9)] {
            let backoff = Backoff { base_ms, max_ms };
            let mut highest_before_ms = 0;
            for failures in 1..80 {
                let [lowest_ms, highest_ms] =
                    [0, 40_000].map(|random| backoff.delay_ms(failures, random));
                assert!(lowest_ms <= highest_ms && highest_ms <= max_ms.max(base_ms));
                assert!(highest_before_ms <= highest_ms, "{failures} failures");
                highest_before_ms = highest_ms;
            }
        }
    }

    #[test]
    fn no_wait_stays_no_wait() {
        let none = Backoff {
            base_ms: 0,
            max_ms: 0,
        };
        assert_eq!(none.delay_ms(9, 123), 0);
    }
}
