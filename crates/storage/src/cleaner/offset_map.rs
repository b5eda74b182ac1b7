//! The latest offset of each key, in memory of a fixed size.
//!
//! ```text
//!   slot: 16 bytes digest of the key, 8 bytes offset + 1 (0: empty)      24 bytes
//! ```
//!
//! Keys themselves are not kept: two keys with one digest would lose a record, which 128 bits that
//! depend on a secret make impossible in practice, for attackers as well.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use model::Offset;

const SLOT_BYTES: u64 = 24;

/// A hash map of digests to offsets; linear probing, no growth, no removal.
#[derive(Debug)]
pub struct OffsetMap {
    slots: Vec<[u64; 3]>,
    count: u64,
    count_max: u64,
    latest_offset: Offset,
    seed: [u64; 2],
}

impl OffsetMap {
    /// A map of at most `memory_bytes` that takes entries until `load_factor` of its slots are in
    /// use, and is no larger than `record_count` records need. `seed` is random.
    pub fn new(memory_bytes: u64, load_factor: f64, record_count: u64, seed: [u64; 2]) -> Self {
        let load_factor = load_factor.clamp(0.1, 0.95);
        let wanted = (record_count as f64 / load_factor) as u64 + 2;
        let slot_count = (memory_bytes / SLOT_BYTES).min(wanted).max(2);
        let slots = vec![[0; 3]; usize::try_from(slot_count).unwrap_or(usize::MAX / 24)];
        Self {
            count: 0,
            count_max: ((slots.len() as f64 * load_factor) as u64).max(1),
            slots,
            latest_offset: Offset::NONE,
            seed,
        }
    }

    /// Forgets every key; nothing above `latest_offset` has been looked at.
    pub fn clear(&mut self, latest_offset: Offset) {
        if self.count > 0 {
            self.slots.fill([0; 3]);
            self.count = 0;
        }
        self.latest_offset = latest_offset;
    }

    /// How many keys there are.
    pub const fn len(&self) -> u64 {
        self.count
    }

    /// Whether there is no key.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that the map takes.
    pub fn memory_bytes(&self) -> u64 {
        self.slots.len() as u64 * SLOT_BYTES
    }

    /// Everything up to this offset has been looked at.
    pub const fn latest_offset(&self) -> Offset {
        self.latest_offset
    }

    /// Everything up to `offset` has been looked at.
    pub fn advance(&mut self, offset: Offset) {
        self.latest_offset = self.latest_offset.max(offset);
    }

    /// Notes the offset of a key; `false` when the map is full and the key is a new one.
    #[must_use]
    pub fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        let mut hasher = self.hasher();
        hasher.write(key);
        self.put_digest(&hasher, offset)
    }

    /// The same for a key that the hasher was given.
    #[must_use]
    pub(super) fn put_digest(&mut self, hasher: &KeyHasher, offset: Offset) -> bool {
        let digest = hasher.digest();
        let at = self.find(digest);
        let slot = &mut self.slots[at];
        if slot[2] == 0 {
            if self.count >= self.count_max {
                return false;
            }
            self.count += 1;
        }
        *slot = [digest[0], digest[1], offset.0.unsigned_abs() + 1];
        self.latest_offset = self.latest_offset.max(offset);
        true
    }

    /// The latest offset of a key, if it has been noted.
    pub fn offset_of(&self, key: &[u8]) -> Option<Offset> {
        let mut hasher = self.hasher();
        hasher.write(key);
        self.offset_of_digest(&hasher)
    }

    /// The same for a key that the hasher was given.
    pub(super) fn offset_of_digest(&self, hasher: &KeyHasher) -> Option<Offset> {
        let slot = self.slots[self.find(hasher.digest())];
        slot[2].checked_sub(1).map(|offset| Offset(offset as i64))
    }

    /// For a key that comes in parts.
    pub(super) fn hasher(&self) -> KeyHasher {
        KeyHasher(self.seed.map(|seed| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(seed);
            hasher
        }))
    }

    /// The slot of a digest, or the empty one that it would take.
    fn find(&self, digest: [u64; 2]) -> usize {
        let count = self.slots.len();
        let mut at = ((u128::from(digest[0]) * count as u128) >> 64) as usize;
        loop {
            let slot = &self.slots[at];
            if slot[2] == 0 || (slot[0], slot[1]) == (digest[0], digest[1]) {
                return at;
            }
            at = match at + 1 {
                next if next == count => 0,
                next => next,
            };
        }
    }
}

/// What is known of a key so far.
#[derive(Debug, Clone)]
pub(super) struct KeyHasher([DefaultHasher; 2]);

impl KeyHasher {
    /// The next part of the key: how it is cut makes no difference.
    pub(super) fn write(&mut self, part: &[u8]) {
        for hasher in &mut self.0 {
            hasher.write(part);
        }
    }

    fn digest(&self) -> [u64; 2] {
        self.0.each_ref().map(Hasher::finish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(trials::property(200))]
        #[test]
        fn it_is_a_map(keys in prop::collection::vec(0u16..200, 0..300), slots in 2u64..400) {
            let mut map = OffsetMap::new(slots * 24, 0.9, u64::MAX >> 12, [1, 2]);
            let mut model = BTreeMap::new();
            for (offset, key) in keys.iter().enumerate() {
                let bytes = key.to_be_bytes();
                if map.put(&bytes, Offset(offset as i64)) {
                    model.insert(*key, Offset(offset as i64));
                } else {
                    prop_assert!(!model.contains_key(key) && model.len() as u64 >= map.count_max);
                }
            }
            for key in 0..200u16 {
                prop_assert_eq!(map.offset_of(&key.to_be_bytes()), model.get(&key).copied());
            }
            prop_assert_eq!(map.len(), model.len() as u64);
        }
    }

    #[test]
    fn memory_is_bounded_by_the_setting_and_by_the_need() {
        assert!(OffsetMap::new(24_000, 0.9, 1 << 40, [0, 0]).memory_bytes() <= 24_000);
        assert!(OffsetMap::new(128 << 20, 0.9, 100, [0, 0]).memory_bytes() < 3_000);
        let mut map = OffsetMap::new(0, 0.9, 100, [0, 0]);
        assert!(map.put(b"a", Offset(7)) && !map.put(b"b", Offset(8)) && map.put(b"a", Offset(9)));
        assert_eq!(map.offset_of(b"a"), Some(Offset(9)));
    }
}
