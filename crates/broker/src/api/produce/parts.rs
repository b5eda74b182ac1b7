//! What a request asks for, part by part, and what became of it.

use super::{Outcome, Verification};
use crate::logs::partitions::HostedTopic;
use model::{ErrorCode, Offset, Uuid};
use record::ParsedHeader;
use replication::{Leadership, Partition};
use std::ops::Range;
use std::sync::Arc;

/// A piece of a request, part by part, and what became of it.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) topics: Vec<TopicPart>,
    /// Of all topics, in their order.
    pub(super) partitions: Vec<PartitionPart>,
    /// What the headers of their batches say. A partition without a batch takes nothing here.
    pub(super) batches: Vec<ParsedHeader>,
}

impl Parts {
    /// Forgets a piece.
    pub(super) fn clear(&mut self) {
        self.topics.clear();
        self.partitions.clear();
        self.batches.clear();
    }

    /// The transactional batches, with their partitions and where those are in the list.
    pub(super) fn transactional(
        &self,
    ) -> impl Iterator<Item = (usize, Arc<Partition>, ParsedHeader)> {
        let topics = self.topics.iter();
        let topics = topics.flat_map(|topic| std::iter::repeat_n(topic, topic.partition_count));
        let parts = self.partitions.iter().enumerate().zip(topics);
        parts.filter_map(|((at, part), topic)| {
            let batch = part.batch_of(&self.batches).ok()?;
            let is_of_producer = batch.is_transactional() && batch.has_producer_id();
            let hosted = topic.hosted.as_ref().filter(|_| is_of_producer)?;
            Some((at, hosted.find(part.index).ok()?, batch))
        })
    }
}

/// A topic of a piece; its partitions follow in the list of parts.
pub(super) struct TopicPart {
    pub(super) name: Range<usize>,
    pub(super) id: Uuid,
    pub(super) hosted: Option<Arc<HostedTopic>>,
    /// How many partitions the piece has of it.
    pub(super) partition_count: usize,
    /// How many the whole request has of it, if it begins in this piece.
    pub(super) begins_with: Option<usize>,
    /// Whether no piece after this one has more of it.
    pub(super) ends: bool,
}

/// A partition of the request: where its records are in the frame, then what became of them.
pub(super) struct PartitionPart {
    pub(super) index: i32,
    pub(super) records: Range<usize>,
    /// The place of its batch in the list of batches, or why there is not just one batch.
    pub(super) batch: Result<u32, ErrorCode>,
    /// What is wrong with other records that the request has for the partition.
    pub(super) repetition_error: Option<ErrorCode>,
    /// What the coordinator of the batch's transaction says of it; `Ok(None)` without one.
    pub(super) verification: Verification,
    pub(super) outcome: Outcome,
    pub(super) appended: Option<AppendedBatch>,
}

/// A batch that is in the log of its partition.
pub(super) struct AppendedBatch {
    pub(super) partition: Arc<Partition>,
    /// That in which it was appended.
    pub(super) leadership: Leadership,
    /// The offset after its last record.
    pub(super) end_offset: Offset,
    /// Whether the topic wants it to be durable.
    pub(super) is_flush_due: bool,
}

impl AppendedBatch {
    /// Whether all replicas have it that `acks=all` asks for, as far as is known without a wait.
    pub(super) fn is_replicated(&self) -> bool {
        // In this order: what another leadership has replicated may be other records.
        self.partition.high_watermark() >= self.end_offset
            && self.partition.leadership() == self.leadership
            && !self.partition.is_below_min_isr()
    }
}

impl PartitionPart {
    pub(super) fn is_flush_due(&self) -> bool {
        self.appended
            .as_ref()
            .is_some_and(|batch| batch.is_flush_due)
    }

    /// What the header of its batch says.
    ///
    /// # Errors
    /// Why there is not just one batch.
    pub(super) fn batch_of(&self, batches: &[ParsedHeader]) -> Result<ParsedHeader, ErrorCode> {
        self.batch.map(|at| batches[at as usize])
    }
}
