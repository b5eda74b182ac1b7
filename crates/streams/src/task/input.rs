//! An input partition of a task: records that wait, of which the first is read.

use super::CommittableOffset;
use crate::error::{Failure, StreamsError};
use crate::processor::TaskContext;
use crate::record::RecordContext;
use crate::topology::{Decoded, RawRecord, SourceQueue};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// An input partition of a task.
pub(crate) struct Input {
    topic: Arc<str>,
    partition: i32,
    source: Box<dyn SourceQueue>,
    /// The record that is read, and its timestamp by the extractor.
    head: Option<(RawRecord, i64)>,
    waiting: VecDeque<RawRecord>,
    /// The largest timestamp taken.
    partition_time_ms: i64,
    /// How many records the broker has that were not handed over, as last heard.
    lag: Option<i64>,
    /// When an input that has none is not waited for any longer.
    idle_until_ms: Option<i64>,
    /// The first offset that is neither processed nor dropped.
    next_offset: Option<i64>,
    /// The same, as it was when the task was taken up.
    resumed_offset: Option<i64>,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("waiting", &self.len())
            .finish_non_exhaustive()
    }
}

impl Input {
    pub(crate) fn new(topic: Arc<str>, partition: i32, source: Box<dyn SourceQueue>) -> Self {
        Self {
            topic,
            partition,
            source,
            head: None,
            waiting: VecDeque::new(),
            partition_time_ms: -1,
            lag: None,
            idle_until_ms: None,
            next_offset: None,
            resumed_offset: None,
        }
    }

    pub(crate) fn is(&self, topic: &str, partition: i32) -> bool {
        self.partition == partition && *self.topic == *topic
    }

    /// What is before this offset was processed by a task before.
    pub(crate) const fn resume_at(&mut self, offset: i64) {
        self.resumed_offset = Some(offset);
    }

    /// The last offset that is processed, if there is one.
    pub(crate) fn processed_offset(&self) -> Option<(&Arc<str>, i32, i64)> {
        let next_offset = self.next_offset.max(self.resumed_offset)?;
        (next_offset > 0).then_some((&self.topic, self.partition, next_offset - 1))
    }

    /// The partition's time does not go back behind this.
    pub(crate) fn resume(&mut self, partition_time_ms: i64) {
        self.partition_time_ms = self.partition_time_ms.max(partition_time_ms);
    }

    pub(crate) fn waiting(&self) -> (&Arc<str>, i32, usize) {
        (&self.topic, self.partition, self.len())
    }

    pub(crate) const fn set_lag(&mut self, lag: i64) {
        self.lag = Some(lag);
    }

    /// Whether the next record may be this input's although none waits. Without limit while the broker has some or has
    /// not said; for `idle_ms` when it has none.
    pub(crate) fn is_waited_for(&mut self, now_ms: i64, idle_ms: i64) -> bool {
        if self.head.is_some() {
            self.idle_until_ms = None;
            return false;
        }
        if self.lag != Some(0) {
            self.idle_until_ms = None;
            return true;
        }
        let until_ms = *self
            .idle_until_ms
            .get_or_insert(now_ms.saturating_add(idle_ms));
        now_ms < until_ms
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.head.is_some())
    }

    pub(crate) fn head_timestamp_ms(&self) -> Option<i64> {
        self.head.as_ref().map(|(_, timestamp_ms)| *timestamp_ms)
    }

    /// Adds records that wait. Whether some were dropped, so that there is something to commit.
    pub(crate) fn add(
        &mut self,
        context: &mut TaskContext,
        records: impl IntoIterator<Item = RawRecord>,
    ) -> Result<bool, StreamsError> {
        self.waiting.extend(records);
        self.read_head(context)
    }

    /// Reads records until one can be processed; whether it has dropped some.
    fn read_head(&mut self, context: &mut TaskContext) -> Result<bool, StreamsError> {
        let mut has_dropped = false;
        while self.head.is_none() {
            let Some(raw) = self.waiting.pop_front() else {
                break;
            };
            let offset = raw.offset;
            match self.source.decode(context, &raw, self.partition_time_ms)? {
                Decoded::Waits(timestamp_ms) => self.head = Some((raw, timestamp_ms)),
                Decoded::Dropped => {
                    self.next_offset = Some(offset + 1);
                    has_dropped = true;
                }
            }
        }
        Ok(has_dropped)
    }

    /// Processes the first record.
    pub(crate) fn process(&mut self, context: &mut TaskContext) -> Result<(), Failure> {
        let Some((raw, timestamp_ms)) = self.head.take() else {
            return Ok(());
        };
        self.partition_time_ms = self.partition_time_ms.max(timestamp_ms);
        let offset = raw.offset;
        context.record = RecordContext {
            topic: raw.topic,
            partition: raw.partition,
            offset,
            timestamp_ms,
            headers: raw.headers,
        };
        context.raw_record = (raw.key, raw.value);
        self.source.process(context)?;
        self.next_offset = Some(offset + 1);
        self.read_head(context).map_err(Failure::fatal)?;
        Ok(())
    }

    /// Nothing that waits is before `position`, where the next record is to be read: behind the last one there may be
    /// markers of transactions, which are nobody's work. Whether there is more to commit.
    pub(crate) fn pass(&mut self, position: i64) -> bool {
        let is_behind = self.len() == 0 && self.next_offset.is_some_and(|next| next < position);
        if is_behind {
            self.next_offset = Some(position);
        }
        is_behind
    }

    /// What to commit; none when nothing was taken.
    pub(crate) fn committable(
        &self,
        emitted_close_times_ms: &BTreeMap<Arc<str>, i64>,
    ) -> Option<CommittableOffset> {
        Some(CommittableOffset {
            topic: Arc::clone(&self.topic),
            partition: self.partition,
            offset: self.next_offset?,
            partition_time_ms: self.partition_time_ms,
            emitted_close_times_ms: emitted_close_times_ms.clone(),
        })
    }
}
