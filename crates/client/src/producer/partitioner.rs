//! Which partition a record goes to.
//!
//! The record's own choice wins. A key is hashed as the Java client does, so that producers of both
//! kinds put a key into the same partition. Records without a key stick to one partition until it
//! has taken `batch.size` bytes (KIP-480), and the next one is drawn so that partitions whose
//! batches pile up are drawn less often (KIP-794).

/// The hash of keys: murmur2 of 32 bits with the Java client's seed.
pub fn murmur2(bytes: &[u8]) -> i32 {
    const SEED: u32 = 0x9747_b28c;
    const FACTOR: u32 = 0x5bd1_e995;
    const SHIFT: u32 = 24;
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        let word = u32::from_le_bytes(*word).wrapping_mul(FACTOR);
        let word = (word ^ (word >> SHIFT)).wrapping_mul(FACTOR);
        hash = hash.wrapping_mul(FACTOR) ^ word;
    }
    if !tail.is_empty() {
        for (index, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(FACTOR);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(FACTOR);
    (hash ^ (hash >> 15)) as i32
}

/// The partition of a key among `partition_count` partitions, one at least.
pub fn partition_of_key(key: &[u8], partition_count: usize) -> usize {
    (murmur2(key) & i32::MAX) as usize % partition_count
}

/// What the draw knows of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// How many batches wait to be sent.
    pub(crate) queued_batches: usize,
    /// Whether it has a leader that takes requests.
    pub(crate) is_available: bool,
}

/// The partition that the records of a topic without a key stick to.
#[derive(Debug, Default)]
pub(crate) struct StickyPartition {
    current: Option<usize>,
    /// What the current partition has taken since it was drawn.
    taken_bytes: usize,
}

impl StickyPartition {
    /// The partition to append to, if one has been drawn.
    pub(crate) const fn current(&self) -> Option<usize> {
        self.current
    }

    /// Draws another partition: `candidates` are all partitions of the topic.
    ///
    /// With `is_adaptive`, a partition is drawn with a probability that falls with its queue. When
    /// none is available, any may be drawn: its records wait for a leader.
    pub(crate) fn draw(
        &mut self,
        candidates: impl Iterator<Item = Candidate> + Clone,
        is_adaptive: bool,
        random: u64,
    ) -> usize {
        let any_available = candidates.clone().any(|one| one.is_available);
        let eligible = candidates
            .enumerate()
            .filter(|(_, one)| one.is_available || !any_available);
        let longest = eligible.clone().map(|(_, one)| one.queued_batches).max();
        let longest = longest.expect("a topic has partitions");
        let weighted = eligible.map(|(index, one)| {
            let weight = if is_adaptive {
                longest + 1 - one.queued_batches
            } else {
                1
            };
            (index, weight as u64)
        });
        let sum: u64 = weighted.clone().map(|(_, weight)| weight).sum();
        let mut left = random % sum;
        let drawn = weighted.clone().find(|(_, weight)| {
            let is_drawn = left < *weight;
            left = left.saturating_sub(*weight);
            is_drawn
        });
        let (index, _) = drawn.expect("what is left is less than the sum");
        self.current = Some(index);
        self.taken_bytes = 0;
        index
    }

    /// Counts what the current partition took. It is given up after `sticky_bytes`, but only with
    /// a batch that is full, so that no batch stays behind half empty; or after twice as much.
    pub(crate) fn add(&mut self, record_bytes: usize, sticky_bytes: usize, is_batch_full: bool) {
        self.taken_bytes += record_bytes;
        if self.taken_bytes >= sticky_bytes * 2
            || (self.taken_bytes >= sticky_bytes && is_batch_full)
        {
            self.current = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_is_the_java_clients() {
        let check = |bytes: &[u8], hash: i32| assert_eq!(murmur2(bytes), hash, "{bytes:?}");
        for (text, hash) in [
            ("", 275_646_681),
            ("a", -1_563_381_124),
            ("ab", 316_155_434),
            ("abc", 479_470_107),
            ("abcd", -1_323_649_548),
            ("abcde", 461_995_741),
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("éü中", -446_000_220),
        ] {
            check(text.as_bytes(), hash);
        }
        let high = [0xff, 0x80, 0, 1, 0xfe, 0x7f, 0x81];
        let hashes = [
            275_646_681,
            -311_467_685,
            -442_788_720,
            -616_959_190,
            -1_398_556_208,
            -173_560_464,
            1_702_389_579,
            71_187_198,
        ];
        for (length, hash) in hashes.into_iter().enumerate() {
            check(&high[..length], hash);
        }
        assert_eq!(partition_of_key(b"a", 10), 4);
        assert_eq!(partition_of_key(b"abcd", 10), 0);
    }

    /// How often each partition is drawn when every random number below `draws` comes once.
    fn check_draws(queues: &[(usize, bool)], is_adaptive: bool, draws: u64, expected: &[u64]) {
        let candidates = queues
            .iter()
            .map(|(queued_batches, is_available)| Candidate {
                queued_batches: *queued_batches,
                is_available: *is_available,
            });
        let mut counts = vec![0; queues.len()];
        for random in 0..draws {
            let mut sticky = StickyPartition::default();
            counts[sticky.draw(candidates.clone(), is_adaptive, random)] += 1;
        }
        assert_eq!(counts, expected, "{queues:?}");
    }

    #[test]
    fn long_queues_are_drawn_less_often() {
        let equal = [(2, true), (2, true), (2, true)];
        check_draws(&equal, true, 9, &[3, 3, 3]);
        let uneven = [(0, true), (3, true), (1, true)];
        check_draws(&uneven, true, 8, &[4, 1, 3]);
        check_draws(&uneven, false, 9, &[3, 3, 3]);
    }

    #[test]
    fn partitions_without_a_leader_are_avoided_while_there_are_others() {
        check_draws(&[(0, false), (0, true)], true, 4, &[0, 4]);
        check_draws(&[(0, false), (0, false)], true, 4, &[2, 2]);
        check_draws(&[(9, true), (0, false)], true, 3, &[3, 0]);
    }

    #[test]
    fn a_partition_is_given_up_with_a_full_batch() {
        let mut sticky = StickyPartition::default();
        let candidates = [Candidate {
            queued_batches: 0,
            is_available: true,
        }; 3];
        sticky.draw(candidates.into_iter(), true, 1);
        sticky.add(60, 100, true);
        assert_eq!(sticky.current(), Some(1));
        sticky.add(60, 100, false);
        assert_eq!(sticky.current(), Some(1), "its batch has room");
        sticky.add(1, 100, true);
        assert_eq!(sticky.current(), None);
        sticky.draw(candidates.into_iter(), true, 2);
        sticky.add(200, 100, false);
        assert_eq!(sticky.current(), None, "twice the bytes are enough");
    }
}
