//! The hash by which rows in memory are found. Its seed is the process's own: who does not know it writes no records
//! whose keys have all the same hash, of which each would be compared with all others.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));

/// The hash of a key. No order comes of it, and it is the process's secret.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, *SEED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use xxhash_rust::xxh3::xxh3_64;

    /// With what the algorithm multiplies these by, whatever follows is multiplied by zero.
    #[test]
    fn keys_that_were_made_to_collide_do_not() {
        const BEGIN: [u8; 8] = [0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe];
        let keys = (0..1000_u64).map(|number| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&BEGIN);
            key[8..16].copy_from_slice(&number.to_be_bytes());
            key
        });
        let of_all: BTreeSet<u64> = keys.clone().map(|key| xxh3_64(&key)).collect();
        assert_eq!(of_all.len(), 1, "they are not made well");
        let found: BTreeSet<u64> = keys.map(|key| key_hash(&key)).collect();
        assert_eq!(found.len(), 1000);
    }
}
