//! Random numbers of a client: who backs off how long, and who is asked first.

use crate::config::Seed;

/// A stream of random numbers from a seed (splitmix64). Not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub(crate) const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// One of the streams of a client: of the seed that it is given, or else one of the system's.
    pub(crate) fn of(seed: Seed, stream: u64) -> Self {
        #[cfg(test)]
        let seed = Seed(seed.0.or_else(crate::simulated::seed));
        if let Seed(Some(seed)) = seed {
            let mut random = Self(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93));
            random.next();
            return random;
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

    #[test]
    fn a_client_with_a_seed_draws_the_same_again() {
        let first = |seed, stream| Random::of(Seed(Some(seed)), stream).next();
        assert_eq!(first(1, 1), first(1, 1));
        assert_ne!(first(1, 1), first(1, 2));
        assert_ne!(first(1, 1), first(2, 1));
    }
}
