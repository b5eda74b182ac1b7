//! Where in its frame a request has what: all that is kept of a request of any size.
//!
//! ```text
//!   frame:    [head | topic: part part | topic: part …]
//!   topics:    ^ name, id     partitions: ^ topic, index, records     ordered, each once
//!   pieces:    [0..2048) [2048..4096) …   one at a time is looked up, appended, and answered
//! ```
//!
//! What is kept of a partition while its batch is appended takes several times what the smallest batch
//! takes. So that is kept of one piece; an entry here takes less than half of the smallest batch. The
//! requests of producers are one piece.

use super::Outcome;
use super::parts::{PartitionPart, Parts, TopicPart};
use crate::logs::partitions::HostedTopic;
use model::{ErrorCode, Uuid};
use record::ParsedHeader;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;
use wire::produce_request::ProduceRequestTopic;

/// So many partitions are a piece.
const PIECE_PARTITIONS: usize = 2_048;

/// Topics and partitions of a request.
#[derive(Default)]
pub(super) struct Outline {
    /// Where the frame has each topic's name, and its id. A topic stands here as often as the request has
    /// it apart.
    topics: Vec<(FrameRange, Uuid)>,
    /// Of all topics, in the order of their topics once repetitions are joined.
    partitions: Vec<OutlinedPartition>,
    /// What the headers of the batches say, while there are no more than those of a piece. A partition
    /// without a batch takes nothing here.
    batches: Vec<ParsedHeader>,
    /// Whether headers are read again, with their pieces.
    is_long: bool,
}

/// A part of a frame, which has less than 2 GiB.
#[derive(Clone, Copy)]
struct FrameRange {
    start: u32,
    length: u32,
}

/// A partition of the request.
#[derive(Clone, Copy)]
struct OutlinedPartition {
    /// The topic's place in the list.
    topic: u32,
    index: i32,
    records: FrameRange,
    /// The place of its batch in the list of batches, or why there is not just one batch.
    batch: Result<u32, ErrorCode>,
    /// What is wrong with other records that the request has for the partition.
    repetition_error: Option<ErrorCode>,
}

impl FrameRange {
    fn of(frame: &[u8], part: &[u8]) -> Self {
        // An empty part need not point into the frame.
        let start = match part.is_empty() {
            true => 0,
            false => part.as_ptr() as usize - frame.as_ptr() as usize,
        };
        let (start, length) = (start as u32, part.len() as u32);
        Self { start, length }
    }

    const fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }
}

impl OutlinedPartition {
    /// Takes in another mention of the partition: the last valid records are appended, and the
    /// last invalid ones decide the answer.
    fn repeat(&mut self, later: &Self) {
        match later.batch {
            Ok(_) => {
                self.repetition_error = self.repetition_error.or(self.batch.err());
                self.records = later.records;
                self.batch = later.batch;
            }
            Err(error) => self.repetition_error = Some(error),
        }
    }
}

impl Outline {
    /// Forgets a request.
    pub(super) fn clear(&mut self) {
        self.topics.clear();
        self.partitions.clear();
        self.batches.clear();
        self.is_long = false;
    }

    /// For how many partitions there is room.
    pub(super) const fn capacity(&self) -> usize {
        self.partitions.capacity()
    }

    pub(super) const fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// Adds a partition: its index, its records, and what the header of its batch says.
    pub(super) fn push(
        &mut self,
        frame: &[u8],
        topic: &ProduceRequestTopic<'_>,
        (index, records): (i32, &[u8]),
        batch: Result<ParsedHeader, ErrorCode>,
    ) {
        if self.partitions.len() == PIECE_PARTITIONS {
            self.batches = Vec::new();
            self.is_long = true;
        }
        let asked = (topic.name.as_bytes(), topic.id);
        let last = self.topics.last();
        if last.is_none_or(|(name, id)| (&frame[name.range()], *id) != asked) {
            let name = FrameRange::of(frame, asked.0);
            self.topics.push((name, topic.id));
        }
        let batch = batch.map(|batch| {
            let place = self.batches.len();
            if !self.is_long {
                self.batches.push(batch);
            }
            place as u32
        });
        self.partitions.push(OutlinedPartition {
            topic: (self.topics.len() - 1) as u32,
            index,
            records: FrameRange::of(frame, records),
            batch,
            repetition_error: None,
        });
    }

    /// The topic that the request has a partition under.
    fn topic_key<'f>(&self, partition: &OutlinedPartition, frame: &'f [u8]) -> (&'f [u8], Uuid) {
        let (name, id) = self.topics[partition.topic as usize];
        (&frame[name.range()], id)
    }

    fn is_same_topic(&self, a: &OutlinedPartition, b: &OutlinedPartition, frame: &[u8]) -> bool {
        a.topic == b.topic || self.topic_key(a, frame) == self.topic_key(b, frame)
    }

    /// Brings the partitions in the order of topic and index, each once.
    pub(super) fn join_repetitions(&mut self, frame: &[u8]) {
        let mut partitions = std::mem::take(&mut self.partitions);
        // Names may be long: those of one mention are equal.
        let order = |a: &OutlinedPartition, b: &OutlinedPartition| {
            let topics = match a.topic == b.topic {
                true => Ordering::Equal,
                false => self.topic_key(a, frame).cmp(&self.topic_key(b, frame)),
            };
            topics.then(a.index.cmp(&b.index))
        };
        if !partitions.is_sorted_by(|a, b| order(a, b).is_lt()) {
            partitions.sort_by(order);
            partitions.dedup_by(|later, kept| {
                let is_same = order(later, kept).is_eq();
                if is_same {
                    kept.repeat(later);
                }
                is_same
            });
        }
        self.partitions = partitions;
    }

    /// Whether there is more than one piece.
    pub(super) const fn is_split(&self) -> bool {
        self.partitions.len() > PIECE_PARTITIONS
    }

    /// The pieces, in their order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let count = self.partitions.len();
        let starts = (0..count).step_by(PIECE_PARTITIONS);
        starts.map(move |start| start..count.min(start + PIECE_PARTITIONS))
    }

    /// How many topics there are.
    pub(super) fn topic_count(&self, frame: &[u8]) -> usize {
        let same = |a: &_, b: &_| self.is_same_topic(a, b, frame);
        self.partitions.chunk_by(same).count()
    }

    /// Makes `parts` those of a piece. `look_up` finds the topic of a name or id.
    pub(super) fn fill(
        &self,
        piece: Range<usize>,
        frame: &[u8],
        parts: &mut Parts,
        look_up: impl Fn(&[u8], Uuid) -> Option<Arc<HostedTopic>>,
    ) {
        parts.clear();
        if !self.is_long {
            parts.batches.extend_from_slice(&self.batches);
        }
        let same = |a: &_, b: &_| self.is_same_topic(a, b, frame);
        let mut at = piece.start;
        for chunk in self.partitions[piece].chunk_by(same) {
            let end = at + chunk.len();
            let goes_on = |from: &[OutlinedPartition]| {
                let is_same = |one: &&OutlinedPartition| same(&chunk[0], one);
                from.iter().take_while(is_same).count()
            };
            let begins = at == 0 || !same(&self.partitions[at - 1], &chunk[0]);
            let (name, id) = self.topics[chunk[0].topic as usize];
            parts.topics.push(TopicPart {
                name: name.range(),
                id,
                hosted: look_up(&frame[name.range()], id),
                partition_count: chunk.len(),
                begins_with: begins.then(|| chunk.len() + goes_on(&self.partitions[end..])),
                ends: self
                    .partitions
                    .get(end)
                    .is_none_or(|next| !same(&chunk[0], next)),
            });
            for partition in chunk {
                self.fill_partition(partition, frame, parts);
            }
            at = end;
        }
    }

    fn fill_partition(&self, partition: &OutlinedPartition, frame: &[u8], parts: &mut Parts) {
        let records = partition.records.range();
        let batch = match self.is_long {
            false => partition.batch,
            true => partition.batch.and_then(|_| {
                let batch = ParsedHeader::parse(&frame[records.clone()]);
                parts
                    .batches
                    .push(batch.map_err(|_| ErrorCode::CorruptMessage)?);
                Ok((parts.batches.len() - 1) as u32)
            }),
        };
        parts.partitions.push(PartitionPart {
            index: partition.index,
            records,
            batch,
            repetition_error: partition.repetition_error,
            verification: Ok(None),
            outcome: Outcome::of(ErrorCode::UnknownServerError),
            appended: None,
        });
    }
}

#[cfg(test)]
mod tests;
