//! The hash by which rows in memory are found. It has a seed of the process's own: who does not know it writes no
//! records whose keys have all the same hash, of which each would be compared with all others.

use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

static SEED: OnceLock<u64> = OnceLock::new();

/// Before the first row: from then on the seed stays as it is, or 0 if none was given.
pub(crate) fn seed_key_hash(seed: u64) {
    // Another instance of the process was first.
    let _ = SEED.set(seed);
}

/// The hash of a key. No order comes of it, and it is the process's secret.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, *SEED.get_or_init(|| 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// With what the algorithm multiplies these by, if there is no seed, whatever follows is multiplied by zero.
    #[test]
    fn keys_that_were_made_to_collide_do_not() {
        const BEGIN: [u8; 8] = [0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe];
        let count_hashes = |seed| {
            let keys = (0..1000_u64).map(|number| {
                let mut key = [0; 32];
                key[..8].copy_from_slice(&BEGIN);
                key[8..16].copy_from_slice(&number.to_be_bytes());
                key
            });
            let hashes: BTreeSet<u64> = keys.map(|key| xxh3_64_with_seed(&key, seed)).collect();
            hashes.len()
        };
        assert_eq!(count_hashes(0), 1, "they are not made well");
        assert_eq!(count_hashes(0x1234_5678_9abc_def0), 1000);
    }

    #[test]
    fn a_seed_stays() {
        let before = key_hash(b"key");
        seed_key_hash(77);
        assert_eq!(key_hash(b"key"), before);
    }
}
