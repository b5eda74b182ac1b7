//! Each partition as a stream of its own, for applications that work on partitions side by side.
//!
//! ```text
//!   PartitionStreams::next ── rebalances, commits, errors
//!        │ fills                    ends
//!        ▼                           ▼
//!   Slot of a partition ── records ──> PartitionStream ──> a task of the application
//! ```
//!
//! A partition is read on when its stream has given out all it has: a slow one holds up itself, and
//! its share of `fetch.max.bytes`.

use super::shared::Shared;
use super::{Consumer, OwnedRecord, Records};
use crate::Error;
use futures_core::Stream;
use model::TopicPartition;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// A [`Consumer`] whose partitions are read each by a stream of its own. Made by
/// [`Consumer::partition_streams`].
///
/// Dropping it ends the streams; the consumer goes on with the first record of each that was not
/// processed.
pub struct PartitionStreams<'a> {
    consumer: &'a mut Consumer,
}

/// The records of one partition, in order; independent of the consumer's life, so that a task may own
/// it. It ends when the consumer loses the partition.
///
/// A record counts as processed when the next one is asked for. What was not processed when the stream
/// ends is read again, here or by the member that gets the partition. A stream that is dropped before
/// it ends leaves the rest of the partition unread.
pub struct PartitionStream {
    partition: Arc<TopicPartition>,
    slot: Arc<Slot>,
    shared: Arc<Shared>,
}

/// The streams that a consumer has given out.
#[derive(Default)]
pub(super) struct Streams(BTreeMap<Arc<TopicPartition>, Arc<Slot>>);

/// What a stream shares with its consumer.
#[derive(Default)]
struct Slot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    /// What the stream has yet to give.
    records: VecDeque<OwnedRecord>,
    /// The offset of the record that it has given last, until the next is asked for.
    in_hand: Option<i64>,
    is_ended: bool,
    waker: Option<Waker>,
}

impl Slot {
    fn has_room(&self) -> bool {
        let state = self.0.lock();
        state.records.is_empty() && !state.is_ended
    }

    fn fill(&self, record: OwnedRecord) {
        let mut state = self.0.lock();
        state.records.push_back(record);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn end(&self) {
        let mut state = self.0.lock();
        state.is_ended = true;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The offset of the first record that is not processed, if there is one here.
    fn start(&self) -> Option<i64> {
        let state = self.0.lock();
        let first = state.records.front().map(|record| record.offset);
        state.in_hand.or(first)
    }
}

impl Streams {
    /// Ends the streams of these partitions: they give no more records.
    pub(super) fn end(&self, partitions: &[TopicPartition]) {
        for name in partitions {
            if let Some(slot) = self.0.get(name) {
                slot.end();
            }
        }
    }

    /// Forgets partitions that are not the consumer's any more, and their streams' records.
    pub(super) fn forget(&mut self, partitions: &[TopicPartition]) {
        for name in partitions {
            if let Some(slot) = self.0.remove(name) {
                slot.end();
            }
        }
    }

    /// Ends every stream; returns the first record of each that is not processed.
    pub(super) fn end_all(&mut self) -> Vec<(Arc<TopicPartition>, i64)> {
        let starts = self.starts().collect();
        for slot in std::mem::take(&mut self.0).into_values() {
            slot.end();
        }
        starts
    }

    /// Partitions, and the first record of each that is not processed.
    pub(super) fn starts(&self) -> impl Iterator<Item = (Arc<TopicPartition>, i64)> {
        let slots = self.0.iter();
        slots.filter_map(|(name, slot)| Some((name.clone(), slot.start()?)))
    }
}

impl Consumer {
    /// The partitions that come from here on, and those that this consumer has, each as a stream of
    /// its own.
    ///
    /// ```no_run
    /// # async fn example(mut consumer: riverrun_client::consumer::Consumer) -> Result<(), riverrun_client::Error> {
    /// let mut streams = consumer.partition_streams();
    /// loop {
    ///     let mut stream = streams.next().await?;
    ///     tokio::spawn(async move {
    ///         while let Some(record) = stream.next().await {
    ///             println!("{} at {}", record.partition, record.offset);
    ///         }
    ///     });
    /// }
    /// # }
    /// ```
    pub fn partition_streams(&mut self) -> PartitionStreams<'_> {
        self.forget_pending(|_| true);
        PartitionStreams { consumer: self }
    }
}

impl PartitionStreams<'_> {
    /// The stream of the next partition that comes. Call it again and again: rebalances, automatic
    /// commits and the flow of records to the streams happen within. Cancelling it loses nothing.
    ///
    /// # Errors
    /// As [`Consumer::poll`]; the streams, and further calls, go on.
    pub async fn next(&mut self) -> Result<PartitionStream, Error> {
        let consumer = &mut *self.consumer;
        consumer.refuse_without_subscription()?;
        loop {
            let shared = consumer.shared.clone();
            let woken = shared.application.notified();
            consumer.handle_events().await?;
            consumer.commit_at_interval();
            if let Some(stream) = consumer.open_stream() {
                return Ok(stream);
            }
            consumer.check_troubles()?;
            consumer.fill_streams()?;
            let config = &shared.config;
            let mut patience_ms = config.client.request_timeout_ms;
            patience_ms = patience_ms.min((config.max_poll_interval_ms / 3).max(1));
            if config.commits_automatically() {
                patience_ms = patience_ms.min(config.auto_commit_interval_ms.max(1));
            }
            let look_at = Instant::now() + Duration::from_millis(patience_ms);
            let _ = tokio::time::timeout_at(look_at, woken).await;
        }
    }

    /// Commits what the streams have processed, as [`Consumer::commit`].
    ///
    /// # Errors
    /// As [`Consumer::commit`].
    pub async fn commit(&mut self) -> Result<(), Error> {
        self.consumer.commit().await
    }

    /// The consumer, to be asked where it stands.
    pub const fn consumer(&self) -> &Consumer {
        self.consumer
    }
}

impl Consumer {
    /// A stream of a partition that has none.
    fn open_stream(&mut self) -> Option<PartitionStream> {
        let partition = {
            let state = self.shared.state.lock();
            let mut assigned = state.fetcher.assigned();
            assigned
                .find(|name| !self.streams.0.contains_key(*name))?
                .clone()
        };
        let slot = Arc::new(Slot::default());
        self.streams.0.insert(partition.clone(), slot.clone());
        Some(PartitionStream {
            partition,
            slot,
            shared: self.shared.clone(),
        })
    }

    /// Gives records to the streams that have none left.
    fn fill_streams(&self) -> Result<(), Error> {
        let mut deliveries = Vec::new();
        {
            let mut state = self.shared.state.lock();
            let open = self.streams.0.iter().filter(|(_, slot)| slot.has_room());
            for (name, _) in open {
                let count_max = self.shared.config.max_poll_records;
                deliveries.extend(state.fetcher.take_of(name, count_max));
            }
        }
        if deliveries.is_empty() {
            return Ok(());
        }
        // There is room to read further ahead.
        self.shared.fetching.notify_one();
        let mut records = Records::new(deliveries, &self.spare);
        let mut filled = Ok(());
        loop {
            match records.next_owned_batch() {
                Ok(Some(batch)) => {
                    for record in batch {
                        if let Some(slot) = self.streams.0.get(&record.partition) {
                            slot.fill(record);
                        }
                    }
                }
                Ok(None) => return filled,
                // The other batches are delivered all the same.
                Err(error) => filled = Err(error),
            }
        }
    }
}

impl Drop for PartitionStreams<'_> {
    fn drop(&mut self) {
        self.consumer.forget_pending(|_| true);
    }
}

impl PartitionStream {
    /// The partition.
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The next record; `None` when the partition is the consumer's no more. Cancelling it loses
    /// nothing.
    pub async fn next(&mut self) -> Option<OwnedRecord> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for PartitionStream {
    type Item = OwnedRecord;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<OwnedRecord>> {
        let mut state = self.slot.0.lock();
        state.in_hand = None;
        if state.is_ended {
            return Poll::Ready(None);
        }
        let Some(record) = state.records.pop_front() else {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        state.in_hand = Some(record.offset);
        let is_last = state.records.is_empty();
        drop(state);
        if is_last {
            // The consumer fetches more while the application is at work on this one.
            self.shared.application.notify_one();
        }
        Poll::Ready(Some(record))
    }
}

impl fmt::Debug for PartitionStreams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.consumer.streams.0.keys();
        f.debug_set()
            .entries(names.map(ToString::to_string))
            .finish()
    }
}

impl fmt::Debug for PartitionStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PartitionStream")
            .field(&self.partition)
            .finish()
    }
}
