//! The consumer: reads the records of topics, alone or as a member of a group.
//!
//! ```text
//!   application            background
//!   poll ── events ──── Membership <── joining ──> coordinator      (lane of its own)
//!     └── records ───── Fetcher    <── fetching ─> leaders          (one Fetch at a time each)
//! ```
//!
//! Brokers are read ahead of the application, and its membership kept alive, by two tasks. What
//! the application must have a say in happens within [`Consumer::poll`]: partitions come and go,
//! positions move. So what one poll returned counts as processed at the next one, and positions are
//! committed then and not before.

pub mod assignors;
mod committed_offset;
mod config;
mod coordinator;
mod error;
mod fetcher;
mod fetching;
mod group_membership_operation;
mod group_metadata;
mod heartbeat_membership;
mod heartbeating;
mod joining;
mod member;
mod membership;
mod offsets;
mod partition_streams;
mod pending_commit;
mod rebalance;
mod records;
mod shared;
mod stream;
mod streams_consumer;
mod streams_group;
mod turns;
mod unresponsive_brokers;

pub use assignors::{
    Assignment, Assignor, Member, PartitionAssignor, Subscription as MemberSubscription, Topics,
};
pub use committed_offset::{CommittedOffset, Offsets};
pub use config::{ConsumerConfig, GroupProtocol, IsolationLevel};
pub use fetcher::OffsetReset;
pub use group_membership_operation::GroupMembershipOperation;
pub use group_metadata::{GroupMembership, GroupMetadata};
pub use offsets::OffsetAndTimestamp;
pub use partition_streams::{PartitionStream, PartitionStreams};
pub use pending_commit::PendingCommit;
pub use rebalance::RebalanceListener;
pub use record::{Header, Headers, TimestampType};
pub use records::{ConsumerRecord, OwnedRecord, Records};
pub use stream::RecordStream;
pub use streams_group::{
    CopartitionGroup, StreamsEndpoint, StreamsListener, StreamsMember, StreamsStatus,
    StreamsStatusCode, StreamsSubtopology, StreamsTasks, StreamsTopic, StreamsTopology, TaskSet,
};

use crate::Error;
use crate::cluster::Deadline;
use fetcher::{EARLIEST, LATEST, Position};
use model::TopicPartition;
use offsets::Commit;
use partition_streams::Streams;
use records::SpareWorkspace;
use shared::{Shared, State, Subscription};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Reads records. Dropping it ends it as a crash would: call [`Consumer::close`] to commit and to
/// leave the group at once.
pub struct Consumer {
    shared: Arc<Shared>,
    tasks: [AbortHandle; 2],
    /// Where tasks run, also those that are started when a call is cancelled.
    runtime: Handle,
    listener: Option<Arc<dyn rebalance::Listener>>,
    /// What the listener is being told.
    listening: Option<rebalance::Listening>,
    spare: SpareWorkspace,
    /// The event that a poll was dealing with when it was cancelled.
    interrupted_event: Option<membership::Event>,
    /// Partitions of which the listener knows that they are revoked, and what it wants committed.
    giving_up: rebalance::GivingUp,
    /// What [`Consumer::next`] has left of the last poll.
    pending: VecDeque<OwnedRecord>,
    pending_batches: Option<Records>,
    /// What [`Consumer::partition_streams`] has given out.
    streams: Streams,
    next_commit: Instant,
}

impl Consumer {
    /// A consumer that reads nothing yet. Must be called within a tokio runtime, whose tasks read
    /// ahead and keep its membership; connects to brokers in the background.
    ///
    /// # Errors
    /// [`Error::Configuration`] for settings that contradict each other.
    pub fn new(config: ConsumerConfig) -> Result<Self, Error> {
        Ok(Self::with(Shared::new(config)?))
    }

    fn with(shared: Shared) -> Self {
        let interval = Duration::from_millis(shared.config.auto_commit_interval_ms);
        let shared = Arc::new(shared);
        let fetching = tokio::spawn(fetching::run(shared.clone()));
        let joining = tokio::spawn(joining::run(shared.clone()));
        Self {
            shared,
            tasks: [fetching.abort_handle(), joining.abort_handle()],
            runtime: Handle::current(),
            listener: None,
            listening: None,
            streams: Streams::default(),
            interrupted_event: None,
            giving_up: rebalance::GivingUp::default(),
            spare: SpareWorkspace::default(),
            pending: VecDeque::new(),
            pending_batches: None,
            next_commit: Instant::now() + interval,
        }
    }

    /// Tells `listener` of partitions that come and go.
    pub fn set_rebalance_listener(&mut self, listener: impl RebalanceListener + 'static) {
        self.listening = None;
        self.listener = Some(Arc::new(listener));
    }

    /// Reads these topics from here on, sharing their partitions with the other members of the
    /// group. Replaces any subscription before.
    ///
    /// # Errors
    /// [`Error::Invalid`] without `group.id`, and for an empty name.
    pub fn subscribe<T: Into<String>>(
        &mut self,
        topics: impl IntoIterator<Item = T>,
    ) -> Result<(), Error> {
        self.shared.group_id()?;
        let topics: BTreeSet<String> = topics.into_iter().map(Into::into).collect();
        if topics.iter().any(String::is_empty) {
            return Err(Error::Invalid("the name of a topic is empty".to_owned()));
        }
        self.change_subscription(Subscription::Topics(topics.clone()), |state| {
            if let Some(membership) = state.membership.as_mut() {
                membership.subscribe(topics);
            }
        })
    }

    /// Reads the topics whose whole name matches the regular expression, those that are made later
    /// too. With `group.protocol` = `consumer` the coordinator matches, by the rules of RE2.
    ///
    /// # Errors
    /// [`Error::Invalid`] without `group.id`, and for what is no regular expression.
    pub fn subscribe_pattern(&mut self, pattern: &str) -> Result<(), Error> {
        self.shared.group_id()?;
        if self.shared.config.group_protocol == GroupProtocol::Consumer {
            let subscription = Subscription::RemotePattern;
            return self.change_subscription(subscription, |state| {
                if let Some(member) = state.membership.as_mut() {
                    member.subscribe_pattern(pattern);
                }
            });
        }
        let whole = regex_lite::Regex::new(&format!("^(?:{pattern})$"));
        let whole = whole.map_err(|error| Error::Invalid(format!("`{pattern}`: {error}")))?;
        self.change_subscription(Subscription::Pattern(whole), |_| ())?;
        self.shared.spread_metadata();
        Ok(())
    }

    /// Reads exactly these partitions from here on, whatever others read. With `group.id` it
    /// starts from, and may commit, the group's offsets.
    ///
    /// # Errors
    /// [`Error::Invalid`] after a subscription: unsubscribe first.
    pub fn assign(
        &mut self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<(), Error> {
        let partitions: BTreeSet<TopicPartition> = partitions.into_iter().collect();
        self.change_subscription(Subscription::Partitions, |state| {
            let before: Vec<_> = state.fetcher.assigned().cloned().collect();
            for name in before.iter().filter(|name| !partitions.contains(&***name)) {
                state.fetcher.unassign(name);
            }
            for name in &partitions {
                state.fetcher.assign(name);
            }
        })?;
        self.wake();
        Ok(())
    }

    fn change_subscription(
        &mut self,
        subscription: Subscription,
        change: impl FnOnce(&mut State),
    ) -> Result<(), Error> {
        let state = self.shared.state.lock();
        if self.shared.streams.is_some() {
            let reason = "a member of a streams group reads what its tasks read";
            return Err(Error::Invalid(reason.to_owned()));
        }
        let is_partitions = |s: &Subscription| matches!(s, Subscription::Partitions);
        let is_other = is_partitions(&state.subscription) != is_partitions(&subscription);
        if is_other && !matches!(state.subscription, Subscription::None) {
            let reason = "a consumer either subscribes to topics or is assigned partitions: \
                          unsubscribe first";
            return Err(Error::Invalid(reason.to_owned()));
        }
        drop(state);
        self.forget_pending(|_| true);
        let mut state = self.shared.state.lock();
        state.subscription = subscription;
        change(&mut state);
        drop(state);
        self.shared.want_topics();
        self.shared.joining.notify_one();
        Ok(())
    }

    /// Reads nothing any more, and leaves the group. Positions are committed first if
    /// `enable.auto.commit` says so; what [`Consumer::next`] has not returned yet is not among them
    /// and is dropped. Cancelled, it ends the subscription without waiting.
    ///
    /// # Errors
    /// What the commit meets; the subscription has ended all the same.
    pub async fn unsubscribe(&mut self) -> Result<(), Error> {
        let deadline = self.shared.api_deadline();
        let ending = rebalance::Ending(self);
        let ended = ending.0.give_up_all(deadline).await;
        let operation = GroupMembershipOperation::Default;
        ending.0.leave(operation, deadline).await;
        drop(ending);
        ended
    }

    /// The records that have come since the last poll, of up to `max.poll.records`; waits for the
    /// first one until `timeout`. None are no error.
    ///
    /// Rebalances happen within: partitions are given up, committed and taken over here, so poll at
    /// least each `max.poll.interval.ms`. Cancelling it loses nothing.
    ///
    /// # Errors
    /// What keeps partitions from being read, once for each; at the end of `timeout` what keeps the
    /// consumer from reaching any broker; and what a broker that it needs has met since it answered
    /// last, each `request.timeout.ms`. Polling again goes on, but for [`Error::Closed`]: the runtime
    /// that the consumer was made in has ended.
    pub async fn poll(&mut self, timeout: Duration) -> Result<Records, Error> {
        let end = Instant::now() + timeout.min(Duration::from_secs(100 * 365 * 86_400));
        self.forget_pending(|_| true);
        self.refuse_without_subscription()?;
        self.commit_at_interval();
        loop {
            self.refuse_without_tasks()?;
            let shared = self.shared.clone();
            let woken = shared.application.notified();
            self.handle_events().await?;
            if let Some(records) = self.take()? {
                return Ok(records);
            }
            // What fails meanwhile is looked at in between; and the group is told that the
            // application, which waits here, is alive.
            let patience_ms = shared.config.client.request_timeout_ms;
            let patience_ms = patience_ms.min((shared.config.max_poll_interval_ms / 3).max(1));
            let look_at = Instant::now() + Duration::from_millis(patience_ms);
            let is_woken = tokio::time::timeout_at(end.min(look_at), woken)
                .await
                .is_ok();
            if !is_woken && Instant::now() >= end {
                return self.empty(timeout);
            }
        }
    }

    /// Nobody reads ahead, or keeps the membership, once the runtime has ended.
    fn refuse_without_tasks(&self) -> Result<(), Error> {
        if self.tasks.iter().any(AbortHandle::is_finished) {
            return Err(Error::Closed("consumer"));
        }
        Ok(())
    }

    fn refuse_without_subscription(&self) -> Result<(), Error> {
        if matches!(self.shared.state.lock().subscription, Subscription::None) {
            let reason = "nothing to poll: subscribe to topics or assign partitions first";
            return Err(Error::Invalid(reason.to_owned()));
        }
        Ok(())
    }

    /// The next record, however long that takes: a poll whenever there is none left.
    ///
    /// # Errors
    /// As [`Consumer::poll`], but for brokers that cannot be reached: those are waited for.
    pub async fn next(&mut self) -> Result<OwnedRecord, Error> {
        loop {
            if let Some(record) = self.pending.pop_front() {
                return Ok(record);
            }
            if let Some(batches) = &mut self.pending_batches {
                match batches.next_owned_batch()? {
                    Some(batch) => {
                        self.pending = batch.into();
                        continue;
                    }
                    None => self.pending_batches = None,
                }
            }
            match self.poll(Duration::from_secs(3_600)).await {
                Ok(records) => self.pending_batches = Some(records),
                Err(
                    error @ (Error::Unreachable { .. }
                    | Error::TimedOut { .. }
                    | Error::Disconnected { .. }),
                ) => tracing::warn!(%error, "no records yet"),
                Err(error) => return Err(error),
            }
        }
    }

    /// Records that [`Consumer::next`] has not returned yet are read again: what a poll returned
    /// counts as processed at the next call, and these were not.
    fn forget_pending(&mut self, is_meant: impl Fn(&TopicPartition) -> bool) {
        let mut first: BTreeMap<Arc<TopicPartition>, i64> = BTreeMap::new();
        self.pending.retain(|record| {
            let is_meant = is_meant(&record.partition);
            if is_meant {
                let name = record.partition.clone();
                first.entry(name).or_insert(record.offset);
            }
            !is_meant
        });
        let batches = self.pending_batches.as_mut();
        let forgotten = batches.map(|batches| batches.forget(is_meant));
        let streamed = self.streams.end_all();
        for (name, offset) in forgotten.into_iter().flatten().chain(streamed) {
            first.entry(name).or_insert(offset);
        }
        let mut state = self.shared.state.lock();
        for (name, offset) in first {
            if state.fetcher.is_assigned(&name) {
                state.fetcher.seek(&name, Position::at(offset));
            }
        }
    }

    fn take(&self) -> Result<Option<Records>, Error> {
        self.check_troubles()?;
        let deliveries = {
            let mut state = self.shared.state.lock();
            state.fetcher.take(self.shared.config.max_poll_records)
        };
        if deliveries.is_empty() {
            return Ok(None);
        }
        // There is room to read further ahead.
        self.shared.fetching.notify_one();
        Ok(Some(Records::new(deliveries, &self.spare)))
    }

    /// What keeps the consumer from reading, for the application; each once.
    fn check_troubles(&self) -> Result<(), Error> {
        let mut state = self.shared.state.lock();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        let now_ms = self.shared.now_ms();
        if let Some((name, error)) = state.fetcher.poll_error(now_ms) {
            return Err(error::of_partition(&name, error));
        }
        if let Some(error) = self.shared.trouble(&mut state, now_ms) {
            return Err(error);
        }
        let member = state.membership.as_mut();
        match member.and_then(|member| member.take_refusal().or(member.failure())) {
            Some(code) => Err(self.shared.refusal_with(code, state.refusal.clone())),
            None => Ok(()),
        }
    }

    /// No records in time: an error when no broker was ever reached.
    fn empty(&self, timeout: Duration) -> Result<Records, Error> {
        if self.shared.brokers.metadata().updates() == 0
            && let Some((_, error)) = self.shared.brokers.failing()
        {
            return Err(match error {
                Error::Unreachable {
                    address, reason, ..
                } => Error::Unreachable {
                    address,
                    waited_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
                    reason,
                },
                error => error,
            });
        }
        Ok(Records::new(Vec::new(), &self.spare))
    }

    fn wake(&self) {
        self.shared.spread_metadata();
        self.shared.fetching.notify_one();
        self.shared.joining.notify_one();
    }

    /// Commits the offsets of all that was returned before the last poll began and by it.
    ///
    /// # Errors
    /// What the coordinator says, for good or until `default.api.timeout.ms`. After an error that
    /// speaks of a rebalance others may have the partitions already; so they may when a consumer that
    /// is subscribed is no member of its group, which is refused without asking.
    pub async fn commit(&mut self) -> Result<(), Error> {
        let offsets = self.offsets();
        self.commit_offsets(offsets).await
    }

    /// Commits these offsets: each of the next record to process.
    ///
    /// # Errors
    /// As [`Consumer::commit`].
    pub async fn commit_offsets(&mut self, offsets: Offsets) -> Result<(), Error> {
        self.shared.group_id()?;
        let deadline = self.shared.api_deadline();
        let commit = Commit::begin(&self.shared, offsets)?;
        commit.send(&self.shared, deadline).await
    }

    /// Commits as [`Consumer::commit`] in the background, in the order of the calls. The future
    /// tells how it went, to whoever awaits it; dropping it does not take the commit back.
    ///
    /// # Errors
    /// [`Error::Invalid`] without `group.id`.
    pub fn commit_in_background(&mut self) -> Result<PendingCommit, Error> {
        self.shared.group_id()?;
        let commit = Commit::begin(&self.shared, self.offsets());
        let (shared, deadline) = (self.shared.clone(), self.shared.api_deadline());
        Ok(PendingCommit::of(self.runtime.spawn(async move {
            let committed = match commit {
                Ok(commit) => commit.send(&shared, deadline).await,
                Err(error) => Err(error),
            };
            if let Err(error) = &committed {
                tracing::warn!(%error, "offsets are not committed");
            }
            committed
        })))
    }

    /// Where each partition stands, but for records that [`Consumer::next`] has yet to return: what
    /// [`Consumer::commit`] would commit, for who commits it otherwise.
    pub fn offsets(&self) -> Offsets {
        let positions = self.shared.state.lock().fetcher.positions();
        let mut offsets: Offsets = positions
            .into_iter()
            .map(|(name, position)| {
                let offset = CommittedOffset {
                    offset: position.offset,
                    leader_epoch: position.leader_epoch.0,
                    metadata: String::new(),
                };
                ((*name).clone(), offset)
            })
            .collect();
        let batches = self.pending_batches.iter().flat_map(Records::starts);
        let pending = self.pending.iter().map(|r| (r.partition.clone(), r.offset));
        for (name, offset) in pending.chain(batches).chain(self.streams.starts()) {
            if let Some(found) = offsets
                .get_mut(&*name)
                .filter(|found| found.offset > offset)
            {
                *found = CommittedOffset::new(offset);
            }
        }
        offsets
    }

    /// Commits the positions if it is time for that and they differ from those committed last. A
    /// commit that has failed leaves them different: the next interval repeats it.
    fn commit_at_interval(&mut self) {
        let config = &self.shared.config;
        if !config.commits_automatically() || Instant::now() < self.next_commit {
            return;
        }
        let offsets = self.offsets();
        {
            let state = self.shared.state.lock();
            // One that is still tried goes on; after it comes the next.
            if state.is_auto_committing {
                return;
            }
            self.next_commit =
                Instant::now() + Duration::from_millis(config.auto_commit_interval_ms);
            if offsets.is_empty() || offsets == state.auto_committed {
                return;
            }
        }
        let commit = match Commit::begin(&self.shared, offsets.clone()) {
            Ok(commit) => commit,
            Err(error) => return tracing::warn!(%error, "offsets are not committed"),
        };
        self.shared.state.lock().is_auto_committing = true;
        let (shared, deadline) = (self.shared.clone(), self.shared.api_deadline());
        self.runtime.spawn(async move {
            let committed = commit.send(&shared, deadline).await;
            let mut state = shared.state.lock();
            state.is_auto_committing = false;
            match committed {
                Ok(()) => state.auto_committed = offsets,
                Err(error) => tracing::warn!(%error, "offsets are not committed"),
            }
        });
    }

    /// The committed offsets of those of `partitions` that have one.
    ///
    /// # Errors
    /// [`Error::Invalid`] without `group.id`; what the coordinator says, for good or until
    /// `default.api.timeout.ms`.
    pub async fn committed(&self, partitions: &[TopicPartition]) -> Result<Offsets, Error> {
        offsets::committed(&self.shared, partitions, self.shared.api_deadline()).await
    }

    /// The first offset whose record has each timestamp or a later one; none where there is no
    /// such record.
    ///
    /// # Errors
    /// What the leaders say, for good or until `default.api.timeout.ms`.
    pub async fn offsets_for_times(
        &self,
        timestamps_ms: &BTreeMap<TopicPartition, i64>,
    ) -> Result<BTreeMap<TopicPartition, OffsetAndTimestamp>, Error> {
        if let Some((name, time)) = timestamps_ms.iter().find(|(_, time)| **time < 0) {
            let reason = format!("the timestamp {time} of `{name}` is below zero");
            return Err(Error::Invalid(reason));
        }
        offsets::list(&self.shared, timestamps_ms, self.shared.api_deadline()).await
    }

    /// The first offset that each partition has.
    ///
    /// # Errors
    /// As [`Consumer::offsets_for_times`].
    pub async fn beginning_offsets(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, i64>, Error> {
        self.ends(partitions, EARLIEST).await
    }

    /// The offset after the last record of each partition; with `isolation.level` =
    /// `read_committed` before the first open transaction.
    ///
    /// # Errors
    /// As [`Consumer::offsets_for_times`].
    pub async fn end_offsets(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, i64>, Error> {
        self.ends(partitions, LATEST).await
    }

    async fn ends(
        &self,
        partitions: &[TopicPartition],
        timestamp: i64,
    ) -> Result<BTreeMap<TopicPartition, i64>, Error> {
        let wanted = partitions
            .iter()
            .map(|name| (name.clone(), timestamp))
            .collect();
        let found = offsets::list(&self.shared, &wanted, self.shared.api_deadline()).await?;
        Ok(found
            .into_iter()
            .map(|(name, offset)| (name, offset.offset))
            .collect())
    }

    /// The topics that are subscribed to, as far as they are known.
    pub fn subscription(&self) -> BTreeSet<String> {
        let state = self.shared.state.lock();
        match &state.subscription {
            Subscription::Topics(topics) => topics.clone(),
            Subscription::Pattern(pattern) => {
                let metadata = self.shared.brokers.metadata();
                let matching = metadata
                    .topics()
                    .filter(|topic| pattern.is_match(&topic.name));
                matching.map(|topic| topic.name.to_string()).collect()
            }
            // Only the coordinator knows; it shows by what it assigns.
            Subscription::RemotePattern | Subscription::Tasks => {
                let assigned = state.fetcher.assigned();
                assigned.map(|name| name.topic.clone()).collect()
            }
            Subscription::None | Subscription::Partitions => BTreeSet::new(),
        }
    }

    /// The partitions that are read.
    pub fn assignment(&self) -> BTreeSet<TopicPartition> {
        let state = self.shared.state.lock();
        state
            .fetcher
            .assigned()
            .map(|name| (**name).clone())
            .collect()
    }

    /// The offset of the next record that a poll returns, once that is known.
    pub fn position(&self, partition: &TopicPartition) -> Option<i64> {
        let position = self.shared.state.lock().fetcher.position(partition)?;
        let pending = self
            .pending
            .iter()
            .find(|record| *record.partition == *partition);
        let batches = self.pending_batches.iter().flat_map(Records::starts);
        let mut batches = batches.filter(|(name, _)| **name == *partition);
        let pending = pending
            .map(|record| record.offset)
            .or_else(|| Some(batches.next()?.1))
            .or_else(|| {
                let mut streamed = self.streams.starts();
                Some(streamed.find(|(name, _)| **name == *partition)?.1)
            });
        Some(pending.unwrap_or(position.offset))
    }

    /// How many offsets lie between the position and the end, as last heard from the broker.
    pub fn current_lag(&self, partition: &TopicPartition) -> Option<i64> {
        self.shared.state.lock().fetcher.lag(partition)
    }

    /// Goes on at `offset`. Takes effect at once; what was read ahead is dropped.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a partition that is not assigned and for a negative offset.
    pub fn seek(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), Error> {
        if offset < 0 {
            let reason = format!("the offset {offset} of `{partition}` is below zero");
            return Err(Error::Invalid(reason));
        }
        self.change(partition, |state, name| {
            state.fetcher.seek(name, Position::at(offset))
        })
    }

    /// Goes on at the first record there is.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a partition that is not assigned.
    pub fn seek_to_beginning(&mut self, partition: &TopicPartition) -> Result<(), Error> {
        self.change(partition, |state, name| {
            state.fetcher.seek_to(name, EARLIEST)
        })
    }

    /// Goes on after the last record.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a partition that is not assigned.
    pub fn seek_to_end(&mut self, partition: &TopicPartition) -> Result<(), Error> {
        self.change(partition, |state, name| state.fetcher.seek_to(name, LATEST))
    }

    /// Returns no records of the partition until it is resumed, not even those that
    /// [`Consumer::next`] has at hand.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a partition that is not assigned.
    pub fn pause(&mut self, partition: &TopicPartition) -> Result<(), Error> {
        self.forget_pending(|name| name == partition);
        let mut state = self.shared.state.lock();
        match state.fetcher.pause(partition) {
            true => Ok(()),
            false => Err(Shared::not_assigned(partition)),
        }
    }

    /// Returns records of the partition again.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a partition that is not assigned.
    pub fn resume(&mut self, partition: &TopicPartition) -> Result<(), Error> {
        let is_assigned = self.shared.state.lock().fetcher.resume(partition);
        self.shared.fetching.notify_one();
        self.shared.application.notify_one();
        match is_assigned {
            true => Ok(()),
            false => Err(Shared::not_assigned(partition)),
        }
    }

    /// The partitions that are paused.
    pub fn paused(&self) -> BTreeSet<TopicPartition> {
        let paused = self.shared.state.lock().fetcher.paused();
        paused.iter().map(|name| (**name).clone()).collect()
    }

    fn change(
        &mut self,
        partition: &TopicPartition,
        change: impl FnOnce(&mut State, &TopicPartition) -> bool,
    ) -> Result<(), Error> {
        self.forget_pending(|_| true);
        let is_assigned = change(&mut self.shared.state.lock(), partition);
        self.shared.fetching.notify_one();
        match is_assigned {
            true => Ok(()),
            false => Err(Shared::not_assigned(partition)),
        }
    }

    /// Asks the group for a rebalance, which a later poll goes through.
    pub fn enforce_rebalance(&mut self) {
        if let Some(membership) = self.shared.state.lock().membership.as_mut() {
            membership.enforce_rebalance();
        }
        self.shared.joining.notify_one();
    }

    /// Commits positions if `enable.auto.commit` says so, waits for the commits that are under way,
    /// gives all partitions up and leaves the group, so that others have them at once. A static
    /// member stays for its session.
    ///
    /// # Errors
    /// What the commit meets until `timeout`; the consumer is closed all the same.
    pub async fn close(self, timeout: Duration) -> Result<(), Error> {
        let operation = GroupMembershipOperation::Default;
        // Or the future would be larger than what it calls.
        Box::pin(self.close_with(operation, timeout)).await
    }

    /// As `close`, and does this with the membership in the group (KIP-1092).
    ///
    /// # Errors
    /// As `close`.
    pub async fn close_with(
        mut self,
        operation: GroupMembershipOperation,
        timeout: Duration,
    ) -> Result<(), Error> {
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let deadline = Deadline::after_ms(timeout_ms, "the timeout of close");
        let ended = self.give_up_all(deadline).await;
        self.leave(operation, deadline).await;
        ended
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("subscription", &self.shared.state.lock().subscription)
            .finish_non_exhaustive()
    }
}
