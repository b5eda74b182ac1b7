//! What a request asks for, part by part, and what became of it.

use super::{Outcome, Verification};
use crate::logs::partitions::HostedTopic;
use model::{ErrorCode, Uuid};
use record::ParsedHeader;
use replication::{Leadership, Partition};
use std::cell::Cell;
use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

/// Lists of a request: topics, partitions, batches.
type Lists = (Vec<TopicPart>, Vec<PartitionPart>, Vec<ParsedHeader>);

thread_local! {
    /// Lists of a request that is answered, for the next one of the thread.
    static LISTS: Cell<Option<Lists>> = const { Cell::new(None) };
}

/// Lists for so many partitions are kept.
const KEPT_PARTS: usize = 256;

/// What a request asks for, part by part, and what became of it. The lists go from request to
/// request, so that a request allocates nothing.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) topics: Vec<TopicPart>,
    /// Of all topics, in their order.
    pub(super) partitions: Vec<PartitionPart>,
    /// What the headers of their batches say. A partition without a batch takes nothing here.
    pub(super) batches: Vec<ParsedHeader>,
}

impl Parts {
    pub(super) fn take() -> Self {
        let (topics, partitions, batches) = LISTS.take().unwrap_or_default();
        Self {
            topics,
            partitions,
            batches,
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let topics = take(&mut self.topics);
        let mut lists = (topics, take(&mut self.partitions), take(&mut self.batches));
        lists.0.clear();
        lists.1.clear();
        lists.2.clear();
        if lists.1.capacity() <= KEPT_PARTS {
            // A thread that ends keeps nothing.
            let _ = LISTS.try_with(|kept| kept.set(Some(lists)));
        }
    }
}

/// A topic of the request; its partitions follow in the list of parts.
pub(super) struct TopicPart {
    pub(super) name: Range<usize>,
    pub(super) id: Uuid,
    pub(super) hosted: Option<Arc<HostedTopic>>,
    pub(super) partition_count: usize,
}

/// A partition of the request: where its records are in the frame, then what became of them.
pub(super) struct PartitionPart {
    /// Where the frame has the topic's name, and its id.
    pub(super) topic: (Range<usize>, Uuid),
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
    pub(super) end_offset: i64,
    /// Whether the topic wants it to be durable.
    pub(super) is_flush_due: bool,
}

impl AppendedBatch {
    pub(super) fn is_replicated(&self) -> bool {
        self.partition.leadership() == self.leadership
            && self.partition.high_watermark() >= self.end_offset
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

    /// The topic that the request has it under.
    pub(super) fn topic_key<'f>(&self, frame: &'f [u8]) -> (&'f [u8], Uuid) {
        (&frame[self.topic.0.clone()], self.topic.1)
    }

    pub(super) fn key<'f>(&self, frame: &'f [u8]) -> (&'f [u8], Uuid, i32) {
        let (name, id) = self.topic_key(frame);
        (name, id, self.index)
    }

    /// Takes in another mention of the partition: the last valid records are appended, and the
    /// last invalid ones decide the answer.
    pub(super) fn repeat(&mut self, later: &Self) {
        match later.batch {
            Ok(_) => {
                self.repetition_error = self.repetition_error.or(self.batch.err());
                self.records = later.records.clone();
                self.batch = later.batch;
            }
            Err(error) => self.repetition_error = Some(error),
        }
    }
}
