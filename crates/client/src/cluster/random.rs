//! Random numbers of a client: who backs off how long, and who is asked first.

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
