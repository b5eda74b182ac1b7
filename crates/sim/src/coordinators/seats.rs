//! The partitions of a coordinator's topic that a node hosts: taken over when it leads them, and left when it does
//! not any more, as the shell around the product's runtime does.

use super::log::{CoordinatorMistakes, Hosted, poll_answer, unloaded};
use super::{CoordinatorCaller, Tenure};
use crate::partition::SimPartition;
use coordinator::partition_for;
use coordinator::runtime::{CoordinatorShard, Waiter};
use metadata::MetadataImage;
use model::{ErrorCode, LeaderEpoch, MonotonicTime};
use replication::PartitionKey;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The partitions of one topic.
pub(super) struct Seats<S: CoordinatorShard, C: Waiter<S>> {
    seats: BTreeMap<i32, Seat<S, C>>,
    /// Whoever waits there is told to look elsewhere.
    left: Vec<Hosted<S, C>>,
    partition_count: i32,
    tenure_count: u64,
}

/// A partition that is hosted.
pub(super) struct Seat<S: CoordinatorShard, C: Waiter<S>> {
    pub(super) hosted: Hosted<S, C>,
    pub(super) tenure: Tenure,
    /// Answers were refused of decisions that the log has, as it was not replicated in time.
    is_refused: bool,
}

impl<S: CoordinatorShard, C: Waiter<S>> std::fmt::Debug for Seats<S, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenures = self.seats.iter().map(|(at, seat)| (at, seat.tenure));
        f.debug_map().entries(tenures).finish()
    }
}

impl<S: CoordinatorShard, C: Waiter<S>> Default for Seats<S, C> {
    fn default() -> Self {
        Self {
            seats: BTreeMap::new(),
            left: Vec::new(),
            partition_count: 0,
            tenure_count: 0,
        }
    }
}

impl<S: CoordinatorShard, C: Waiter<S>> Seats<S, C> {
    /// Obeys what the newest image says of the topic.
    pub(super) fn follow(&mut self, image: &MetadataImage, topic: &str) {
        let topic = image.topics.by_name(topic);
        let count = topic.map_or(0, |topic| topic.partition_count());
        self.partition_count = i32::try_from(count).unwrap_or(0);
    }

    /// Takes a place for a partition that is led in this epoch; its log has yet to be replayed. False where it is
    /// served on, as nobody else has led it since.
    pub(super) fn take(
        &mut self,
        partition: &Arc<SimPartition>,
        leader_epoch: LeaderEpoch,
        mistakes: CoordinatorMistakes,
    ) -> bool {
        let index = partition.index();
        if let Some(seat) = self.seats.get_mut(&index)
            && seat.hosted.log().is_led_on(partition)
        {
            seat.tenure.leader_epoch = seat.tenure.leader_epoch.max(leader_epoch);
            return false;
        }
        self.leave(partition.key());
        self.tenure_count += 1;
        let tenure = Tenure {
            number: self.tenure_count,
            leader_epoch,
        };
        let seat = Seat {
            hosted: unloaded(partition, mistakes),
            tenure,
            is_refused: false,
        };
        self.seats.insert(index, seat);
        true
    }

    /// The partition is not led here any more.
    pub(super) fn leave(&mut self, key: PartitionKey) {
        let is_it = |seat: &Seat<S, C>| seat.hosted.log().partition.key() == key;
        if self.seats.get(&key.1).is_some_and(is_it)
            && let Some(mut seat) = self.seats.remove(&key.1)
        {
            seat.hosted.unload();
            self.left.push(seat.hosted);
        }
    }

    /// Which partition holds an id.
    pub(super) fn index_of(&self, id: &str) -> Result<i32, ErrorCode> {
        if self.partition_count <= 0 {
            return Err(ErrorCode::NotCoordinator);
        }
        let index = partition_for(id, self.partition_count);
        match self.seats.contains_key(&index) {
            true => Ok(index),
            false => Err(ErrorCode::NotCoordinator),
        }
    }

    pub(super) fn seat(&mut self, index: i32) -> Result<&mut Seat<S, C>, ErrorCode> {
        self.seats.get_mut(&index).ok_or(ErrorCode::NotCoordinator)
    }

    pub(super) fn seat_of(&mut self, id: &str) -> Result<&mut Seat<S, C>, ErrorCode> {
        self.seat(self.index_of(id)?)
    }

    pub(super) fn hosted(&self) -> impl Iterator<Item = (i32, &Hosted<S, C>)> {
        self.seats
            .iter()
            .map(|(index, seat)| (*index, &seat.hosted))
    }

    pub(super) fn hosted_mut(&mut self) -> impl Iterator<Item = &mut Hosted<S, C>> {
        self.seats.values_mut().map(|seat| &mut seat.hosted)
    }

    pub(super) fn indexes(&self) -> Vec<i32> {
        self.seats.keys().copied().collect()
    }

    /// Whether an answer waits for a disk, or for replicas.
    pub(super) fn is_holding(&self) -> bool {
        let mut hosted = self.hosted();
        hosted.any(|(_, one)| one.awaited_offset().is_some() || one.is_loading())
    }

    /// Refuses answers that have waited for replicas since before `made_by`. Gives partitions where answers were
    /// refused of what is replicated by now: it is to go on.
    pub(super) fn refuse_late(&mut self, made_by: MonotonicTime) -> Vec<i32> {
        let mut recovered = Vec::new();
        for (index, seat) in &mut self.seats {
            if seat
                .hosted
                .held_since()
                .is_some_and(|since| since <= made_by)
            {
                seat.hosted.waited_too_long(made_by);
                seat.is_refused = true;
            }
            if seat.is_refused && seat.hosted.end_offset() <= seat.hosted.log().replicated() {
                seat.is_refused = false;
                recovered.push(*index);
            }
        }
        recovered
    }

    /// Since when an answer has waited.
    pub(super) fn held_since(&self) -> Option<MonotonicTime> {
        self.hosted().filter_map(|(_, one)| one.held_since()).min()
    }
}

impl<S, C> Seats<S, C>
where
    S: CoordinatorShard,
    C: CoordinatorCaller + Waiter<S, Answer = Option<<C as CoordinatorCaller>::Next>>,
{
    /// What the node goes on with.
    pub(super) fn poll_answer(&mut self) -> Option<C::Next> {
        let left = self.left.iter_mut();
        let seats = self.seats.values_mut().map(|seat| &mut seat.hosted);
        let answer = poll_answer(left.chain(seats));
        if answer.is_none() {
            self.left.clear();
        }
        answer
    }
}
