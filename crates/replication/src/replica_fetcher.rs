//! What a follower's fetcher asks a leader, and what it makes of the answers: one for each leader and number of
//! a fetcher, with any number of partitions.
//!
//! ```text
//!   add, remove ──> partitions ──> poll_request ──────────> Fetch | ListOffsets, encoded
//!                       ^
//!                       └──────── take_steps <── handle_response <── the answer, its bytes borrowed
//! ```
//!
//! What is fetched is kept as an incremental session (KIP-227) whose cost follows what has changed: a request
//! names the partitions whose position is another one since the last, an answer those that the leader has
//! something to say of, and nothing here looks at the others. A partition that is not to be fetched for a while
//! leaves the session.
//!
//! The caller does with each log what [`ReplicaFetcher::take_steps`] says, and tells what came of it at once, or
//! later if a disk takes long; until then the partition is not asked for.
//!
//! Invariants:
//! - One request at a time. What answers another offset or leader epoch than was asked for is passed by, and an
//!   answer that names a partition which was not asked for is not looked at any further.
//! - In the steady state nothing is allocated.

mod answered;
mod answers;
mod followed;
mod fuzz;
mod messages;
mod session;
mod slot_index;
mod step;

pub use answered::AnswerError;
pub use fuzz::fuzz_fetch_answers;
pub use messages::{FetcherSettings, FetcherVersions};
pub use step::{Step, StepAction, StepOutcome, StepToken};

use crate::following::FetchPosition;
use crate::partition_key::PartitionKey;
use answered::{AnsweredPartition, PartitionOutcome};
use followed::{Followed, InSession, NO_INDEX, Named, Stage};
use messages::FetchMessage;
use model::{ErrorCode, LeaderEpoch, MonotonicTime, Offset, Uuid};
use session::Session;
use slot_index::SlotIndex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use wire::fetch_request::FetchRequestWriter;

/// A partition to be fetched from a leader.
#[derive(Debug, Clone)]
pub struct FollowedPartition<R> {
    /// What the caller knows it by: its log.
    pub replica: R,
    /// The topic's id.
    pub topic_id: Uuid,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's index.
    pub index: i32,
    /// The epoch of the leader.
    pub leader_epoch: LeaderEpoch,
    /// Where to begin.
    pub position: FetchPosition,
    /// Whether its replication is throttled.
    pub is_throttled: bool,
}

/// Which request was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetcherRequest {
    /// Fetch.
    Fetch,
    /// ListOffsets.
    ListOffsets,
}

/// The request that is not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InFlight {
    /// Of so many partitions.
    FullFetch {
        partition_count: usize,
    },
    IncrementalFetch,
    ListOffsets,
}

/// What one follower's fetcher and its leader are about.
#[derive(Debug)]
pub struct ReplicaFetcher<R> {
    settings: FetcherSettings,
    /// By slot, as the names are.
    partitions: Vec<Followed>,
    names: Vec<Named<R>>,
    index: SlotIndex,
    free: Vec<u32>,
    session: Session,
    in_session_count: usize,
    in_flight: Option<InFlight>,
    /// No request before.
    retry_at: MonotonicTime,
    /// Answers that were of no use, since there were many of use in a row; and how many of use there have been since
    /// the last of them.
    useless_count: u32,
    useful_count: u32,
    /// Slots of which the next request may have to say something.
    listed: Vec<u32>,
    /// The slots of the last request, and where among them each topic begins; at last, where they end.
    sent: Vec<u32>,
    sent_topics: Vec<u32>,
    forgotten: Vec<u32>,
    /// Those of the forgotten that come back with the next request.
    returning: Vec<u32>,
    /// Slots that wait for an answer to ListOffsets, and those of the last such request.
    asking: Vec<u32>,
    asked: Vec<u32>,
    /// Partitions that are delayed, by the ends of the delays, with their generations; the first is the greatest.
    delays: BinaryHeap<Reverse<(MonotonicTime, u32, u32)>>,
    /// What the last answer is about, and how much of it has been done.
    answered: Vec<AnsweredPartition>,
    /// What the answer to ListOffsets says.
    offsets: Vec<PartitionOutcome>,
    /// The version of an answer to Fetch.
    answer_version: Option<i16>,
    done_count: usize,
    /// The slot that was answered first in an answer before: a guess.
    first_slot: u32,
    /// The slot of the last partition that an answer had records of.
    served_last: u32,
    /// What the last answer refuses of partitions.
    errors: Vec<(u32, ErrorCode)>,
    throttled: Vec<u32>,
    is_over_quota: bool,
    /// How many partitions were refused the last time.
    refused_count: usize,
    failed_count: usize,
    partition_count: usize,
}

impl<R> ReplicaFetcher<R> {
    /// A fetcher with nothing to fetch.
    pub fn new(settings: FetcherSettings) -> Self {
        Self {
            settings,
            partitions: Vec::new(),
            names: Vec::new(),
            index: SlotIndex::default(),
            free: Vec::new(),
            session: Session::FIRST,
            in_session_count: 0,
            in_flight: None,
            retry_at: MonotonicTime::MIN,
            useless_count: 0,
            useful_count: 0,
            listed: Vec::new(),
            sent: Vec::new(),
            sent_topics: Vec::new(),
            forgotten: Vec::new(),
            returning: Vec::new(),
            asking: Vec::new(),
            asked: Vec::new(),
            delays: BinaryHeap::new(),
            answered: Vec::new(),
            offsets: Vec::new(),
            answer_version: None,
            done_count: 0,
            first_slot: 0,
            served_last: u32::MAX,
            errors: Vec::new(),
            throttled: Vec::new(),
            is_over_quota: false,
            refused_count: 0,
            failed_count: 0,
            partition_count: 0,
        }
    }

    /// How many partitions it has, those that have failed among them.
    pub const fn len(&self) -> usize {
        self.partition_count
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.partition_count == 0
    }

    /// How many partitions have failed: they wait for their next leader epoch.
    pub const fn failed_count(&self) -> usize {
        self.failed_count
    }

    /// Whether a request waits for its answer.
    pub const fn is_waiting(&self) -> bool {
        self.in_flight.is_some()
    }

    /// The lag of a partition; `None` if it is not here, or nobody knows.
    pub fn lag(&self, key: PartitionKey) -> Option<i64> {
        self.followed(key)?.lag()
    }

    /// Follows a partition from here on, or follows it in another leader epoch. One that is followed in this
    /// epoch already, and has not failed, goes on as it is. Whether something has changed.
    pub fn add(&mut self, added: FollowedPartition<R>) -> bool {
        let key = (added.topic_id, added.index);
        let known = self.slot_of(key);
        if let Some(slot) = known {
            let partition = self.at(slot);
            let is_here = !matches!(partition.stage, Stage::Failed | Stage::Removed);
            if is_here && partition.leader_epoch == added.leader_epoch {
                return false;
            }
        }
        let slot = known.unwrap_or_else(|| self.take_slot(key, &added.topic));
        let partition = &mut self.partitions[slot as usize];
        self.failed_count -= usize::from(partition.stage == Stage::Failed);
        let is_new = matches!(partition.stage, Stage::Removed | Stage::Vacant);
        self.partition_count += usize::from(is_new);
        partition.generation = partition.generation.wrapping_add(1);
        partition.move_to(added.position);
        partition.leader_epoch = added.leader_epoch;
        partition.leader_high_watermark = Offset::NONE;
        partition.note_change();
        partition.begin_fetching_anew();
        self.names[slot as usize].replica = Some(added.replica);
        self.set_refusals(slot, 0);
        if known.is_none() {
            let partitions = &self.partitions;
            self.index
                .insert(slot, |slot| partitions[slot as usize].key());
        }
        self.list(slot);
        self.set_throttled(key, added.is_throttled);
        true
    }

    /// Follows a partition no more; gives what it was known by.
    pub fn remove(&mut self, key: PartitionKey) -> Option<R> {
        let slot = self.slot_of(key)?;
        let partition = &mut self.partitions[slot as usize];
        if partition.stage == Stage::Removed {
            return None;
        }
        self.failed_count -= usize::from(partition.stage == Stage::Failed);
        self.partition_count -= 1;
        partition.stage = Stage::Removed;
        partition.generation = partition.generation.wrapping_add(1);
        let replica = self.names[slot as usize].replica.take();
        self.set_refusals(slot, 0);
        self.list(slot);
        self.set_throttled(key, false);
        replica
    }

    /// Follows nothing any more; gives what the partitions were known by.
    pub fn remove_all(&mut self) -> Vec<R> {
        let keys: Vec<_> = self.partitions.iter().map(Followed::key).collect();
        keys.into_iter()
            .filter_map(|key| self.remove(key))
            .collect()
    }

    /// Takes another registration of this broker.
    pub const fn set_replica_epoch(&mut self, replica_epoch: model::BrokerEpoch) {
        self.settings.replica_epoch = replica_epoch;
    }

    /// Whether the replication of a partition is throttled from here on.
    pub fn set_throttled(&mut self, key: PartitionKey, is_throttled: bool) {
        let Some(slot) = self.slot_of(key) else {
            return;
        };
        let named = &mut self.names[slot as usize];
        if std::mem::replace(&mut named.is_throttled, is_throttled) == is_throttled {
            return;
        }
        match is_throttled {
            true => self.throttled.push(slot),
            false => self.throttled.retain(|one| *one != slot),
        }
        self.list(slot);
    }

    /// Whether more has been replicated than may be: throttled partitions that are not in sync are left out of
    /// requests meanwhile.
    pub fn set_over_quota(&mut self, is_over_quota: bool) {
        if std::mem::replace(&mut self.is_over_quota, is_over_quota) == is_over_quota {
            return;
        }
        for at in 0..self.throttled.len() {
            self.list(self.throttled[at]);
        }
    }

    /// Writes the next request into `out`, if there is something to ask for now. The answer, or that there is
    /// none, comes by [`Self::handle_response`] or [`Self::handle_failure`]. `None` while a request waits for its
    /// answer, and where the leader does not serve the versions.
    pub fn poll_request(
        &mut self,
        now: MonotonicTime,
        versions: FetcherVersions,
        out: &mut Vec<u8>,
    ) -> Option<FetcherRequest> {
        if self.in_flight.is_some() || now < self.retry_at {
            return None;
        }
        self.retry_at = MonotonicTime::MIN;
        self.end_delays(now);
        if self.write_list_offsets(versions, out) {
            self.in_flight = Some(InFlight::ListOffsets);
            return Some(FetcherRequest::ListOffsets);
        }
        let writer = FetchRequestWriter::new(versions.fetch)?;
        match self.session.is_full() {
            true => self.choose_all(),
            false => self.choose_changed(),
        }
        if self.in_session_count == 0 && self.forgotten.is_empty() {
            return None;
        }
        let message = FetchMessage {
            settings: &self.settings,
            max_wait_ms: self.max_wait_ms(now),
            session: self.session.id_and_epoch(),
            partitions: &self.partitions,
            sent: (&self.sent, &self.sent_topics),
            forgotten: &self.forgotten,
        };
        message.write(writer, out);
        self.free_forgotten();
        self.in_flight = Some(match self.session.is_full() {
            true => InFlight::FullFetch {
                partition_count: self.in_session_count,
            },
            false => InFlight::IncrementalFetch,
        });
        Some(FetcherRequest::Fetch)
    }

    /// How long the leader may wait: no longer than until there are more partitions to ask for.
    fn max_wait_ms(&self, now: MonotonicTime) -> i32 {
        let max_wait_ms = self.settings.max_wait_ms;
        if !self.returning.is_empty() {
            return 0;
        }
        self.delays
            .peek()
            .map_or(max_wait_ms, |Reverse((until, ..))| {
                let delay_ms = until.ms_since(now).max(0);
                i32::try_from(delay_ms).map_or(max_wait_ms, |delay_ms| delay_ms.min(max_wait_ms))
            })
    }

    /// When there may be a request that there is none for now, whatever else happens.
    pub fn next_deadline(&self) -> Option<MonotonicTime> {
        match self.retry_at {
            MonotonicTime::MIN => self.delays.peek().map(|Reverse((until, ..))| *until),
            retry_at => Some(retry_at),
        }
    }

    /// The request was not answered: nothing is asked for a while, and the session begins anew.
    pub fn handle_failure(&mut self, now: MonotonicTime) {
        self.interrupt();
        self.retry_at = now.plus_ms(self.settings.backoff_ms);
    }

    /// The answer is not waited for any more: the session begins anew.
    pub fn interrupt(&mut self) {
        if self
            .in_flight
            .take()
            .is_some_and(|one| one != InFlight::ListOffsets)
        {
            self.session.renew();
        }
        self.asking.append(&mut self.asked);
    }

    /// The errors of partitions in the last answer, with what they are known by, once its steps are taken.
    pub fn take_errors(&mut self, mut error: impl FnMut(&R, ErrorCode)) {
        for (slot, code) in self.errors.drain(..) {
            if let Some(replica) = &self.names[slot as usize].replica {
                error(replica, code);
            }
        }
    }

    /// Every partition in the session anew, in the order of their topics.
    fn choose_all(&mut self) {
        self.begin_choice();
        self.listed.clear();
        for slot in 0..self.partitions.len() as u32 {
            let partition = &mut self.partitions[slot as usize];
            partition.is_listed = false;
            partition.session = InSession::Absent;
            if partition.stage == Stage::Returning {
                partition.stage = Stage::Fetching;
            }
            if self.is_fetched(slot) {
                self.partitions[slot as usize].session = InSession::Current;
                self.sent.push(slot);
            } else if self.at(slot).stage == Stage::Removed {
                self.vacate(slot);
            }
        }
        let partitions = &self.partitions;
        let key_of = |slot: &u32| partitions[*slot as usize].key();
        self.sent.sort_unstable_by_key(key_of);
        // Where the leader keeps no session, those that had none of the bytes of the last answer come first.
        let served_last = partitions.get(self.served_last as usize);
        let served_last = served_last.map(Followed::key);
        let served = self
            .sent
            .partition_point(|slot| Some(key_of(slot)) <= served_last);
        self.sent.rotate_left(served);
        let mut topic_id = None;
        for (at, slot) in (0..).zip(&self.sent) {
            let other = Some(partitions[*slot as usize].topic_id);
            if std::mem::replace(&mut topic_id, other) != other {
                self.sent_topics.push(at);
            }
        }
        self.sent_topics.push(self.sent.len() as u32);
        self.in_session_count = self.sent.len();
    }

    /// What has changed since the last request.
    fn choose_changed(&mut self) {
        self.begin_choice();
        let mut listed = std::mem::take(&mut self.listed);
        let mut topics = std::mem::take(&mut self.sent_topics);
        let (mut topic_id, mut sent_count) = (Uuid::ZERO, 0);
        // Those that are sent move to the front.
        for at in 0..listed.len() {
            let slot = listed[at];
            let is_fetched = self.is_fetched(slot);
            let partition = &mut self.partitions[slot as usize];
            partition.is_listed = false;
            if !is_fetched {
                self.leave_out(slot);
                continue;
            }
            let before = std::mem::replace(&mut partition.session, InSession::Current);
            if before == InSession::Current {
                continue;
            }
            self.in_session_count += usize::from(before == InSession::Absent);
            if topic_id != partition.topic_id || sent_count == 0 {
                topic_id = partition.topic_id;
                topics.push(sent_count);
            }
            listed[sent_count as usize] = slot;
            sent_count += 1;
        }
        listed.truncate(sent_count as usize);
        topics.push(sent_count);
        self.sent_topics = topics;
        // What is listed from here on is for the request after.
        std::mem::swap(&mut self.sent, &mut listed);
        self.listed = listed;
        for at in 0..self.returning.len() {
            self.list(self.returning[at]);
        }
        let partitions = &self.partitions;
        self.forgotten
            .sort_unstable_by_key(|slot| partitions[*slot as usize].key());
    }

    /// A partition that is not asked for leaves the session.
    #[cold]
    fn leave_out(&mut self, slot: u32) {
        let partition = &mut self.partitions[slot as usize];
        if partition.session != InSession::Absent {
            partition.session = InSession::Absent;
            self.in_session_count -= 1;
            self.forgotten.push(slot);
        } else if partition.stage == Stage::Removed {
            self.vacate(slot);
        }
        let partition = &mut self.partitions[slot as usize];
        if partition.stage == Stage::Returning {
            partition.stage = Stage::Fetching;
            self.returning.push(slot);
        }
    }

    /// Whether the next request asks for a partition.
    #[inline]
    fn is_fetched(&self, slot: u32) -> bool {
        let partition = self.at(slot);
        let is_held = self.is_over_quota
            && self.names[slot as usize].is_throttled
            && partition.lag() != Some(0);
        partition.stage == Stage::Fetching && !is_held
    }

    fn begin_choice(&mut self) {
        self.sent.clear();
        self.sent_topics.clear();
        self.forgotten.clear();
        self.returning.clear();
    }

    /// The slots of partitions that have left, and whose leader is told so.
    fn free_forgotten(&mut self) {
        for at in 0..self.forgotten.len() {
            let slot = self.forgotten[at];
            if self.at(slot).stage == Stage::Removed {
                self.vacate(slot);
            }
        }
    }

    fn write_list_offsets(&mut self, versions: FetcherVersions, out: &mut Vec<u8>) -> bool {
        if self.asking.is_empty() {
            return false;
        }
        self.asked.clear();
        self.asked.append(&mut self.asking);
        let (partitions, names) = (&self.partitions, &self.names);
        let of = |slot: &u32| &partitions[*slot as usize];
        self.asked.retain(|slot| of(slot).is_asking());
        let name_of = |slot: &u32| &*names[*slot as usize].topic;
        self.asked
            .sort_unstable_by_key(|slot| (name_of(slot), of(slot).index));
        self.asked.dedup();
        if self.asked.is_empty() {
            return false;
        }
        let asker = (self.settings.replica_id, versions.list_offsets);
        messages::write_list_offsets(asker, (partitions, names), &self.asked, out);
        true
    }

    /// How often in a row a partition has been refused.
    fn set_refusals(&mut self, slot: u32, count: u8) {
        let named = &mut self.names[slot as usize];
        let before = std::mem::replace(&mut named.refusal_count, count);
        self.refused_count += usize::from(count > 0);
        self.refused_count -= usize::from(before > 0);
    }

    /// A partition is to be fetched again after a while.
    fn delay(&mut self, slot: u32, now: MonotonicTime) {
        self.delay_until(slot, now.plus_ms(self.settings.backoff_ms));
    }

    fn delay_until(&mut self, slot: u32, until: MonotonicTime) {
        let partition = &mut self.partitions[slot as usize];
        partition.stage = Stage::Delayed;
        self.delays
            .push(Reverse((until, slot, partition.generation)));
        self.list(slot);
    }

    fn end_delays(&mut self, now: MonotonicTime) {
        while let Some(Reverse((until, slot, generation))) = self.delays.peek().copied()
            && until <= now
        {
            self.delays.pop();
            let partition = &mut self.partitions[slot as usize];
            if partition.generation == generation && partition.stage == Stage::Delayed {
                partition.stage = Stage::Fetching;
                self.list(slot);
            }
        }
    }

    /// A partition is not fetched any more before its next leader epoch.
    fn fail(&mut self, slot: u32) {
        self.partitions[slot as usize].stage = Stage::Failed;
        self.failed_count += 1;
        self.list(slot);
    }

    #[inline]
    fn list(&mut self, slot: u32) {
        let partition = &mut self.partitions[slot as usize];
        if !std::mem::replace(&mut partition.is_listed, true) {
            self.listed.push(slot);
        }
    }

    #[inline]
    fn at(&self, slot: u32) -> &Followed {
        &self.partitions[slot as usize]
    }

    fn slot_of(&self, key: PartitionKey) -> Option<u32> {
        self.index.find(key, |slot| self.at(slot).key())
    }

    fn followed(&self, key: PartitionKey) -> Option<&Followed> {
        Some(self.at(self.slot_of(key)?))
    }

    /// A slot for a partition that is not here.
    fn take_slot(&mut self, key: PartitionKey, topic: &Arc<str>) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = self.partitions.len() as u32;
            self.partitions.push(Followed::vacant(slot));
            self.names.push(Named {
                replica: None,
                topic: topic.clone(),
                is_throttled: false,
                refusal_count: 0,
            });
            slot
        });
        let partition = &mut self.partitions[slot as usize];
        (partition.topic_id, partition.index) = key;
        self.names[slot as usize].topic = topic.clone();
        slot
    }

    fn vacate(&mut self, slot: u32) {
        let partitions = &self.partitions;
        self.index
            .remove(slot, |slot| partitions[slot as usize].key());
        let partition = &mut self.partitions[slot as usize];
        partition.stage = Stage::Vacant;
        // No answer is about it, so no guess finds it.
        partition.index = NO_INDEX;
        self.free.push(slot);
    }
}
