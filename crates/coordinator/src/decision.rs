//! What a coordinator answers to a request: records to append, and replies.
//!
//! [`runtime`](crate::runtime) appends the records of a [`Decision`] to the log as one batch (or several, see
//! [`Decision::batch_end`]), replays each of them into the shard, and sends the reply and the
//! released answers once the high watermark has passed everything that the shard has appended so
//! far.

use crate::group_response::GroupResponse;
use model::varint::size_of_varint;
use std::ops::Range;

/// Bytes of a batch beside its records.
pub(crate) const BATCH_HEADER_BYTES: usize = 61;

/// A record of a coordinator's topic; a value of `None` is a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorRecord {
    /// The type of the record and its key.
    pub key: Vec<u8>,
    /// The version of the value and the value.
    pub value: Option<Vec<u8>>,
}

impl CoordinatorRecord {
    /// Bytes that the record takes in a batch without compression, behind `index` others.
    pub fn size_in_bytes(&self, index: usize) -> usize {
        // Attributes, timestamp delta and header count: the records of a batch have one timestamp
        // and no headers.
        const FIXED_BYTES: usize = 1 + 1 + 1;
        let varint = |length: usize| size_of_varint(i32::try_from(length).unwrap_or(i32::MAX));
        let nullable = |bytes: Option<&[u8]>| match bytes {
            None => size_of_varint(-1),
            Some(bytes) => varint(bytes.len()) + bytes.len(),
        };
        let body_bytes = FIXED_BYTES
            + varint(index)
            + nullable(Some(&self.key))
            + nullable(self.value.as_deref());
        varint(body_bytes) + body_bytes
    }
}

/// Names a request whose answer waits for other members of its group.
///
/// A shard never gives the same token twice, and releases each token that it gave exactly once:
/// in a later [`Decision`], or when it is unloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// When a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply<R> {
    /// With this, once the decision's records are below the high watermark.
    Now(R),
    /// When a later decision, or unloading, releases the token.
    Parked(Token),
}

impl<R> Reply<R> {
    /// The answer, unless a later decision gives it.
    pub fn now(self) -> Option<R> {
        match self {
            Self::Now(reply) => Some(reply),
            Self::Parked(_) => None,
        }
    }
}

/// The outcome of a request or of time that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "records must be appended and replayed, and tokens answered"]
pub struct Decision<R, P = GroupResponse> {
    /// To append to the log and then to replay, in this order.
    pub records: Vec<CoordinatorRecord>,
    /// Whether the records must stand in one batch. Those of a decision that is not atomic may be
    /// split between any two records that no range of `indivisible` holds both.
    pub is_atomic: bool,
    /// Runs of records, ascending and apart, each of which must stand in one batch even when the
    /// decision as a whole need not.
    pub indivisible: Vec<Range<usize>>,
    /// The answer of the request itself.
    pub reply: Reply<R>,
    /// Answers of requests that were parked before. A token that this very decision parks is never
    /// among them.
    pub released: Vec<(Token, P)>,
}

impl<R, P> Decision<R, P> {
    /// Answers `reply`; nothing to append, nobody to wake.
    pub const fn reply(reply: R) -> Self {
        Self {
            records: Vec::new(),
            is_atomic: true,
            indivisible: Vec::new(),
            reply: Reply::Now(reply),
            released: Vec::new(),
        }
    }

    /// Where the batch ends that begins with the record at `start`: past as many records as
    /// `batch_bytes_max` allows, and past at least one, or one indivisible run, whatever its size.
    pub fn batch_end(&self, start: usize, batch_bytes_max: usize) -> usize {
        if self.is_atomic {
            return self.records.len();
        }
        let end = start + count_for_batch(&self.records[start..], batch_bytes_max);
        let mut runs = self.indivisible.iter();
        match runs.find(|run| run.start < end && end < run.end) {
            Some(run) if run.start > start => run.start,
            Some(run) => run.end,
            None => end,
        }
    }
}

/// Bytes of a batch of these records without compression.
pub(crate) fn batch_size_in_bytes(records: &[CoordinatorRecord]) -> usize {
    let sizes = records.iter().enumerate();
    BATCH_HEADER_BYTES
        + sizes
            .map(|(index, record)| record.size_in_bytes(index))
            .sum::<usize>()
}

/// Whether a batch of these records is not larger than `batch_bytes_max`.
pub(crate) fn fits_batch(records: &[CoordinatorRecord], batch_bytes_max: usize) -> bool {
    batch_size_in_bytes(records) <= batch_bytes_max
}

/// How many of the records fit a batch of `batch_bytes_max` bytes; at least one.
pub fn count_for_batch(records: &[CoordinatorRecord], batch_bytes_max: usize) -> usize {
    let mut left = batch_bytes_max.saturating_sub(BATCH_HEADER_BYTES);
    let fit = records.iter().enumerate().take_while(|(index, record)| {
        let size = record.size_in_bytes(*index);
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    });
    fit.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{BatchBuilder, BatchHeader};

    /// Sizes of the batches of some records, of which a batch holds three.
    fn batches(count: usize, runs: &[(usize, usize)], is_atomic: bool) -> Vec<usize> {
        let record = CoordinatorRecord {
            key: vec![0; 4],
            value: None,
        };
        let batch_bytes_max = BATCH_HEADER_BYTES + 3 * record.size_in_bytes(0);
        let decision: Decision<()> = Decision {
            records: vec![record; count],
            is_atomic,
            indivisible: runs.iter().map(|(start, end)| *start..*end).collect(),
            ..Decision::reply(())
        };
        let (mut sizes, mut start) = (Vec::new(), 0);
        while start < count {
            let end = decision.batch_end(start, batch_bytes_max);
            sizes.push(end - start);
            start = end;
        }
        sizes
    }

    #[test]
    fn a_batch_has_the_size_that_is_computed() {
        for (count, key_bytes, value_bytes) in
            [(1, 0, 0), (1, 70, 9_000), (300, 20, 60), (70, 3, 1)]
        {
            let record = |at: usize| CoordinatorRecord {
                key: vec![1; key_bytes],
                value: (!at.is_multiple_of(3)).then(|| vec![2; value_bytes]),
            };
            let records: Vec<_> = (0..count).map(record).collect();
            let mut batch = BatchBuilder::new(BatchHeader::default());
            for record in &records {
                batch.append(
                    1_700_000_000_000,
                    Some(&record.key),
                    record.value.as_deref(),
                    &[],
                );
            }
            assert_eq!(batch_size_in_bytes(&records), batch.size_in_bytes());
            assert_eq!(count_for_batch(&records, batch.size_in_bytes()), count);
            let too_small = batch.size_in_bytes() - 1;
            assert_eq!(count_for_batch(&records, too_small), (count - 1).max(1));
        }
    }

    #[test]
    fn indivisible_runs_stay_in_one_batch() {
        assert_eq!(batches(7, &[], true), [7]);
        assert_eq!(batches(7, &[], false), [3, 3, 1]);
        assert_eq!(batches(7, &[(0, 3), (3, 6)], false), [3, 3, 1]);
        assert_eq!(batches(7, &[(0, 2), (2, 4), (4, 7)], false), [2, 2, 3]);
        assert_eq!(
            batches(7, &[(1, 6)], false),
            [1, 5, 1],
            "the log refuses one that is too large"
        );
    }
}
