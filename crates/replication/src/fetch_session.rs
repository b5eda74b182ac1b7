//! One incremental fetch session (KIP-227): the partitions a client fetches, and what it has been
//! told about each, so that requests and responses name only what changes.
//!
//! ```text
//!           added, updated, marked               take_changed
//! unchanged ----------------------> changed  --------------------> taken
//!     ^                                ^                             |
//!     |  answer: nothing left to say   |  answer: records, an error  |
//!     +--------------------------------+-----------------------------+
//! ```
//!
//! A partition is read only while it is changed. Every partition that is not is therefore watched
//! ([`FetchSession::watch`]) from what its last read has seen of its progress on.

use std::sync::Arc;

use model::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Offset, Uuid};

mod partition_index;

use crate::follower::SessionTime;
use crate::progress::{Changes, Progress, Seen, Watches};
use partition_index::PartitionIndex;

/// A topic as a request names it: by id from version 13 on, by name before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicRef<'a> {
    /// By id.
    Id(Uuid),
    /// By name.
    Name(&'a str),
}

/// A topic as a session remembers it; partitions of a topic share its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionTopic {
    /// By id.
    Id(Uuid),
    /// By name.
    Name(Arc<str>),
}

impl SessionTopic {
    /// The topic for a look-up.
    pub fn as_ref(&self) -> TopicRef<'_> {
        match self {
            Self::Id(id) => TopicRef::Id(*id),
            Self::Name(name) => TopicRef::Name(name),
        }
    }
}

/// What a client asks of one partition. A session keeps it until the client changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// Epoch of the leader the client knows, -1 for none.
    pub current_leader_epoch: LeaderEpoch,
    /// Offset to read from.
    pub fetch_offset: Offset,
    /// Epoch of the client's last record, -1 for none.
    pub last_fetched_epoch: LeaderEpoch,
    /// Log start offset of a follower, -1 of a consumer.
    pub log_start_offset: Offset,
    /// Most bytes to return.
    pub max_bytes: i32,
}

/// The number of a partition within its session. It is used again after the partition has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionSlot(pub u32);

/// What a read of a partition has found, as far as it decides whether the response says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOutcome {
    /// The partition's error code.
    pub error: ErrorCode,
    /// The high watermark, -1 with an error.
    pub high_watermark: Offset,
    /// The log start offset, -1 with an error.
    pub log_start_offset: Offset,
    /// Whether there is at least a byte of records.
    pub has_records: bool,
    /// Whether the client's log has diverged from the leader's.
    pub has_diverging_epoch: bool,
    /// Whether the client had better read from another replica.
    pub has_preferred_read_replica: bool,
}

impl ReadOutcome {
    /// The outcome that is an error and nothing else.
    pub const fn error(error: ErrorCode) -> Self {
        Self {
            error,
            high_watermark: Offset::NONE,
            log_start_offset: Offset::NONE,
            has_records: false,
            has_diverging_epoch: false,
            has_preferred_read_replica: false,
        }
    }

    /// Whether the client must hear of it even if no offset has moved, and again at the next
    /// fetch unless that finds otherwise.
    fn must_be_told(&self) -> bool {
        self.has_records
            || self.has_diverging_epoch
            || self.has_preferred_read_replica
            || self.error != ErrorCode::None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A read would tell the client nothing.
    Unchanged,
    /// To be read by the next fetch; listed in `changed`.
    Changed,
    /// Being read by the current fetch; listed in `taken`.
    Taken,
}

/// One partition of a session.
#[derive(Clone, Debug)]
pub struct SessionPartition {
    /// The topic.
    pub topic: SessionTopic,
    /// The partition's index within the topic.
    pub partition: i32,
    /// What the client asks.
    pub request: FetchPartition,
    /// The high watermark that the client has been told.
    high_watermark: Offset,
    /// The log start offset that the client has been told.
    log_start_offset: Offset,
    /// Place in the order of reading; unique within the session.
    position: u64,
    state: State,
    /// The slot that a request named after this one before: a guess.
    next_asked: u32,
}

/// Which partitions a request has added to and removed from its session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionUpdate {
    /// Partitions whose changes must be marked from here on.
    pub added: Vec<PartitionSlot>,
    /// Partitions that have left; each slot may be used again.
    pub removed: Vec<(PartitionSlot, SessionTopic, i32)>,
}

/// The epoch that follows; 2147483647 is followed by 1, since 0 starts a session.
pub const fn next_session_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

/// The follower that a session is of.
#[derive(Clone, Debug)]
pub struct SessionFollower {
    /// Its broker, with the epoch of the registration.
    pub replica: (BrokerId, BrokerEpoch),
    /// When the session has fetched last.
    pub time: Arc<SessionTime>,
}

/// The partitions of one client and what it knows of them.
///
/// Created and found through [`FetchSessionCache`](crate::FetchSessionCache). `changed` holds the
/// partitions in state `Changed`, each once under its position, and others that are passed by;
/// `taken` holds at least those in state `Taken`. In the steady state nothing is allocated.
#[derive(Debug)]
pub struct FetchSession {
    epoch: i32,
    uses_topic_ids: bool,
    follower: Option<SessionFollower>,
    slots: Vec<Option<SessionPartition>>,
    free_slots: Vec<u32>,
    index: PartitionIndex,
    /// Position and slot, as they were marked: mostly in the order of reading, which they are given when they
    /// are taken.
    changed: Vec<(u64, u32)>,
    taken: Vec<u32>,
    /// By slot.
    watches: Watches,
    /// By slot: what is told with the next answer, and wakes nobody.
    quiet_watches: Watches,
    next_position: u64,
    /// The slot that a request named first before: a guess.
    first_asked: u32,
}

impl FetchSession {
    /// An empty session whose client has just made its full fetch.
    pub(crate) fn new(uses_topic_ids: bool) -> Self {
        Self {
            epoch: 1,
            uses_topic_ids,
            follower: None,
            slots: Vec::new(),
            free_slots: Vec::new(),
            index: PartitionIndex::default(),
            changed: Vec::new(),
            taken: Vec::new(),
            watches: Watches::default(),
            quiet_watches: Watches::default(),
            next_position: 0,
            first_asked: 0,
        }
    }

    /// The session of a full fetch whose answer lists every partition.
    ///
    /// Every partition starts as changed, so nothing that happens before the caller follows them
    /// is lost. A partition that is there twice counts once, with its last parameters.
    pub fn answered<'a>(
        uses_topic_ids: bool,
        partitions: impl Iterator<Item = (TopicRef<'a>, i32, FetchPartition, ReadOutcome)>,
    ) -> Self {
        let mut session = Self::new(uses_topic_ids);
        for (topic, partition, request, outcome) in partitions {
            session.add_answered(topic, partition, request, &outcome);
        }
        session
    }

    /// The same as the session of a replica.
    #[must_use]
    pub fn of_follower(self, replica: (BrokerId, BrokerEpoch)) -> Self {
        let time = Arc::default();
        Self {
            follower: Some(SessionFollower { replica, time }),
            ..self
        }
    }

    /// The follower, if it is not the session of a consumer.
    pub const fn follower(&self) -> Option<&SessionFollower> {
        self.follower.as_ref()
    }

    /// The epoch that the next request must carry.
    pub const fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(crate) const fn set_epoch(&mut self, epoch: i32) {
        self.epoch = epoch;
    }

    /// Whether requests name topics by id.
    pub const fn uses_topic_ids(&self) -> bool {
        self.uses_topic_ids
    }

    /// How many partitions the client fetches.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free_slots.len()
    }

    /// How many partitions the session has room for beyond those that it has.
    pub(crate) const fn spare_slots(&self) -> usize {
        self.free_slots.len()
    }

    /// Whether the client fetches nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The partition of a slot, unless it has left.
    pub fn partition(&self, slot: PartitionSlot) -> Option<&SessionPartition> {
        self.slots.get(slot.0 as usize)?.as_ref()
    }

    /// All partitions by slot, in no useful order.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionSlot, &SessionPartition)> {
        self.slots
            .iter()
            .zip(0..)
            .filter_map(|(partition, slot)| Some((PartitionSlot(slot), partition.as_ref()?)))
    }

    /// Says that a read of a partition may come out differently from the last one.
    pub fn mark_changed(&mut self, slot: PartitionSlot) {
        mark(&mut self.slots, &mut self.changed, slot);
    }

    /// Marks a partition as changed once it has moved on from what was seen of it before it was read.
    pub fn watch(&mut self, slot: PartitionSlot, progress: &Progress, seen: Seen) {
        if self.partition(slot).is_some() {
            self.watches.watch(slot.0, progress, seen);
        }
    }

    /// The same for a progress that the client hears of with the next answer: it wakes nobody.
    pub fn watch_quietly(&mut self, slot: PartitionSlot, progress: &Progress, seen: Seen) {
        if self.partition(slot).is_some() {
            self.quiet_watches.watch(slot.0, progress, seen);
        }
    }

    /// To wait until a watched partition changes; it is among those taken next.
    pub const fn changes(&self) -> &Arc<Changes> {
        self.watches.changes()
    }

    /// Takes the partitions to read, in the order in which they share the bytes of the response.
    ///
    /// Each is to be answered. Those that are not, because the response was full, throttled or
    /// never sent, are read by the next fetch.
    pub fn take_changed(&mut self) -> impl Iterator<Item = (PartitionSlot, &SessionPartition)> {
        let (slots, changed) = (&mut self.slots, &mut self.changed);
        for watches in [&mut self.watches, &mut self.quiet_watches] {
            watches.take_changed(|slot| mark(slots, changed, PartitionSlot(slot)));
        }
        let first = self.taken.len();
        changed.sort_unstable();
        for (position, slot) in changed.drain(..) {
            if let Some(partition) = changed_at(slots, (position, slot)) {
                partition.state = State::Taken;
                self.taken.push(slot);
            }
        }
        self.taken[first..].iter().filter_map(|slot| {
            let slot = PartitionSlot(*slot);
            Some((slot, self.partition(slot)?))
        })
    }

    /// Whether the response lists a partition, given what its read has found. The client is then
    /// assumed to know it. A partition with records goes to the end of the order, so that all get
    /// their share of limited responses.
    pub fn answer(&mut self, slot: PartitionSlot, outcome: &ReadOutcome) -> bool {
        let Some(Some(partition)) = self.slots.get_mut(slot.0 as usize) else {
            return false;
        };
        let is_told = partition.tell(outcome);
        let was_marked_since = partition.state == State::Changed;
        if outcome.has_records {
            partition.position = self.next_position;
            self.next_position += 1;
        }
        if !was_marked_since && !outcome.must_be_told() {
            partition.state = State::Unchanged;
            return is_told;
        }
        partition.state = State::Changed;
        // One that was marked at another position is passed by there.
        if !was_marked_since || outcome.has_records {
            self.changed.push((partition.position, slot.0));
        }
        is_told
    }

    /// Applies a request: adds or updates partitions, then forgets some.
    pub(crate) fn update<'a>(
        &mut self,
        partitions: impl Iterator<Item = (TopicRef<'a>, i32, FetchPartition)>,
        forgotten: impl Iterator<Item = (TopicRef<'a>, i32)>,
    ) -> SessionUpdate {
        self.give_back_taken();
        let mut update = SessionUpdate::default();
        let mut before = None;
        for (topic, partition, request) in partitions {
            before = Some(match self.slot_after(before, topic, partition) {
                Some(slot) => {
                    self.change_request(slot, request);
                    slot
                }
                None => {
                    let slot = self.add(topic, partition, request);
                    update.added.push(slot);
                    slot.0
                }
            });
        }
        for (topic, partition) in forgotten {
            if let Some(slot) = self.index.remove(topic, partition) {
                update.removed.push(self.remove(slot));
            }
        }
        update
    }

    /// Adds a partition, to be read.
    pub(crate) fn add(
        &mut self,
        topic: TopicRef<'_>,
        partition: i32,
        request: FetchPartition,
    ) -> PartitionSlot {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        let position = self.next_position;
        self.next_position += 1;
        self.slots[slot as usize] = Some(SessionPartition {
            topic: self.index.insert(topic, partition, slot),
            partition,
            request,
            high_watermark: Offset::NONE,
            log_start_offset: Offset::NONE,
            position,
            state: State::Changed,
            next_asked: slot + 1,
        });
        self.changed.push((position, slot));
        PartitionSlot(slot)
    }

    /// Adds a partition of a full fetch whose answer lists every partition.
    fn add_answered(
        &mut self,
        topic: TopicRef<'_>,
        partition: i32,
        request: FetchPartition,
        outcome: &ReadOutcome,
    ) {
        let slot = match self.index.slot(topic, partition) {
            Some(slot) => slot,
            None => self.add(topic, partition, request).0,
        };
        let known = self.slots[slot as usize]
            .as_mut()
            .expect("an indexed partition has a slot");
        known.request = request;
        known.tell(outcome);
    }

    /// The slot of a partition that a request names after another: mostly the one that did so before.
    fn slot_after(
        &mut self,
        before: Option<u32>,
        topic: TopicRef<'_>,
        partition: i32,
    ) -> Option<u32> {
        let known = |slots: &[Option<SessionPartition>], slot: u32| {
            let one = slots.get(slot as usize).and_then(Option::as_ref);
            one.is_some_and(|one| one.partition == partition && one.topic.as_ref() == topic)
        };
        let previous = before.and_then(|slot| self.slots.get(slot as usize)?.as_ref());
        let guess = previous.map_or(self.first_asked, |one| one.next_asked);
        if known(&self.slots, guess) {
            return Some(guess);
        }
        let slot = self.index.slot(topic, partition)?;
        match before.and_then(|slot| self.slots.get_mut(slot as usize)?.as_mut()) {
            Some(previous) => previous.next_asked = slot,
            None => self.first_asked = slot,
        }
        Some(slot)
    }

    fn change_request(&mut self, slot: u32, request: FetchPartition) {
        let partition = self.slots[slot as usize].as_mut();
        partition.expect("an indexed partition has a slot").request = request;
        self.mark_changed(PartitionSlot(slot));
    }

    fn remove(&mut self, slot: u32) -> (PartitionSlot, SessionTopic, i32) {
        let partition = self.slots[slot as usize]
            .take()
            .expect("an indexed partition has a slot");
        self.watches.unwatch(slot);
        self.quiet_watches.unwatch(slot);
        self.free_slots.push(slot);
        (PartitionSlot(slot), partition.topic, partition.partition)
    }

    /// Marks what the previous fetch has taken and not answered.
    fn give_back_taken(&mut self) {
        let (slots, changed) = (&mut self.slots, &mut self.changed);
        for slot in self.taken.drain(..) {
            if let Some(Some(partition)) = slots.get(slot as usize)
                && partition.state == State::Taken
            {
                mark(slots, changed, PartitionSlot(slot));
            }
        }
        // What requests add and forget again without a fetch that takes it does not pile up.
        if changed.len() > 2 * slots.len() {
            changed.retain(|one| changed_at(slots, *one).is_some());
        }
    }
}

#[inline]
fn mark(
    slots: &mut [Option<SessionPartition>],
    changed: &mut Vec<(u64, u32)>,
    slot: PartitionSlot,
) {
    if let Some(Some(partition)) = slots.get_mut(slot.0 as usize)
        && partition.state != State::Changed
    {
        partition.state = State::Changed;
        changed.push((partition.position, slot.0));
    }
}

/// The partition that was marked at a position, if it is to be read there still.
#[inline]
fn changed_at(
    slots: &mut [Option<SessionPartition>],
    (position, slot): (u64, u32),
) -> Option<&mut SessionPartition> {
    let partition = slots.get_mut(slot as usize)?.as_mut()?;
    let is_changed = partition.state == State::Changed && partition.position == position;
    is_changed.then_some(partition)
}

impl SessionPartition {
    /// Compares an outcome with what the client knows, which it then is.
    fn tell(&mut self, outcome: &ReadOutcome) -> bool {
        let is_told = outcome.must_be_told()
            || self.high_watermark != outcome.high_watermark
            || self.log_start_offset != outcome.log_start_offset;
        self.log_start_offset = outcome.log_start_offset;
        self.high_watermark = if outcome.error == ErrorCode::None {
            outcome.high_watermark
        } else {
            // The first answer after the error is then never left out.
            Offset::NONE
        };
        is_told
    }
}
