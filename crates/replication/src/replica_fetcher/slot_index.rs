//! From a partition to its slot: a table of open addresses, whose look-ups cost the same however many there are.
//!
//! The table holds slots, and the caller tells which partition each of them is. Topic ids are random, and the
//! controller gives them; so a plain mixture of bits spreads them.

use crate::partition_key::PartitionKey;

/// No slot.
const NONE: u32 = u32::MAX;
/// The least places of a table that is not empty.
const PLACES_MIN: usize = 16;

/// Slots by partition.
#[derive(Debug, Default)]
pub(super) struct SlotIndex {
    /// A power of two, and at most three quarters of them taken; or none.
    places: Vec<u32>,
    count: usize,
}

impl SlotIndex {
    /// The slot of a partition.
    #[inline]
    pub(super) fn find(
        &self,
        key: PartitionKey,
        key_of: impl Fn(u32) -> PartitionKey,
    ) -> Option<u32> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = self.home(key);
        loop {
            match self.places[at] {
                NONE => return None,
                slot if key_of(slot) == key => return Some(slot),
                _ => at = self.after(at),
            }
        }
    }

    /// Adds a partition that is not there.
    pub(super) fn insert(&mut self, slot: u32, key_of: impl Fn(u32) -> PartitionKey) {
        if (self.count + 1) * 4 > self.places.len() * 3 {
            self.grow(&key_of);
        }
        self.count += 1;
        self.put(slot, key_of(slot));
    }

    /// Removes a partition that is there.
    pub(super) fn remove(&mut self, slot: u32, key_of: impl Fn(u32) -> PartitionKey) {
        let mut hole = self.home(key_of(slot));
        while self.places[hole] != slot {
            hole = self.after(hole);
        }
        self.count -= 1;
        // Those behind it move up, unless that would put them before the place where they are looked for.
        let mut at = hole;
        loop {
            at = self.after(at);
            let moved = self.places[at];
            if moved == NONE {
                self.places[hole] = NONE;
                return;
            }
            let home = self.home(key_of(moved));
            let mask = self.places.len() - 1;
            let distance = |from: usize| at.wrapping_sub(from) & mask;
            if distance(home) >= distance(hole) {
                self.places[hole] = moved;
                hole = at;
            }
        }
    }

    fn put(&mut self, slot: u32, key: PartitionKey) {
        let mut at = self.home(key);
        while self.places[at] != NONE {
            at = self.after(at);
        }
        self.places[at] = slot;
    }

    #[cold]
    fn grow(&mut self, key_of: &impl Fn(u32) -> PartitionKey) {
        let place_count = (self.places.len() * 2).max(PLACES_MIN);
        let before = std::mem::replace(&mut self.places, vec![NONE; place_count]);
        for slot in before.into_iter().filter(|slot| *slot != NONE) {
            self.put(slot, key_of(slot));
        }
    }

    /// Where a partition is looked for first.
    #[inline]
    fn home(&self, (topic_id, partition): PartitionKey) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let bits = u128::from_be_bytes(topic_id.to_bytes());
        let mixed = (bits as u64 ^ (bits >> 64) as u64).wrapping_add(partition as u64);
        let mixed = mixed.wrapping_mul(ODD);
        (mixed ^ mixed >> 32) as usize & (self.places.len() - 1)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Uuid;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(trials::property(64))]
        /// Of few topics, so that many partitions have neighbouring places.
        #[test]
        fn equals_a_map(steps in prop::collection::vec((0u128..3, 0i32..40, any::<bool>()), 0..200)) {
            let mut keys: Vec<PartitionKey> = Vec::new();
            let mut index = SlotIndex::default();
            let mut model = BTreeMap::new();
            for (topic, partition, adds) in steps {
                let key = (Uuid::from_u128(topic << 40), partition);
                let of = |slot: u32| keys[slot as usize];
                prop_assert_eq!(index.find(key, of), model.get(&key).copied());
                match (model.get(&key).copied(), adds) {
                    (None, true) => {
                        let slot = keys.len() as u32;
                        keys.push(key);
                        index.insert(slot, |slot| keys[slot as usize]);
                        model.insert(key, slot);
                    }
                    (Some(slot), false) => {
                        index.remove(slot, of);
                        model.remove(&key);
                    }
                    _ => {}
                }
            }
            for (key, slot) in &model {
                prop_assert_eq!(index.find(*key, |slot| keys[slot as usize]), Some(*slot));
            }
            prop_assert_eq!(index.count, model.len());
        }
    }
}
