//! The group coordinator of a node: hosted partitions of `__consumer_offsets`.

use super::log::{Asking, CoordinatorMistakes, load};
use super::seats::Seats;
use super::{CoordinatorCaller, OFFSETS_TOPIC};
use crate::halted::Halted;
use crate::partition::SimPartition;
use crate::protocol::{Answer, SESSION_TIMEOUT_MS};
use coordinator::Decision;
use coordinator::group::{
    ConsumerGroupConfig, ConsumerGroupTimes, DeletedTopic, GroupConfig, GroupShard,
};
use coordinator::runtime::{HostedPartition, TransactionMarker};
use metadata::MetadataImage;
use model::{ErrorCode, LeaderEpoch, MonotonicTime, Now, Offset};
use replication::{PartitionKey, VerificationGuard};
use std::cell::Cell;
use std::sync::Arc;

/// How often a member of the consumer protocol says that it lives.
const HEARTBEAT_INTERVAL_MS: i32 = 500;

/// A producer whose transaction a decision's records belong to.
pub(crate) type TransactionalWriter = coordinator::runtime::TransactionalWriter<VerificationGuard>;

/// The group coordinator.
#[derive(Debug)]
pub(crate) struct Groups<C: CoordinatorCaller> {
    seats: Seats<GroupShard, C>,
}

impl<C: CoordinatorCaller> Default for Groups<C> {
    fn default() -> Self {
        let seats = Seats::default();
        Self { seats }
    }
}

impl<C: CoordinatorCaller> Groups<C> {
    pub(crate) fn follow(&mut self, image: &MetadataImage) {
        self.seats.follow(image, OFFSETS_TOPIC);
    }

    /// Takes a place for a partition that is led in this epoch. Whether its log has to be replayed.
    pub(crate) fn take(
        &mut self,
        partition: &Arc<SimPartition>,
        leader_epoch: LeaderEpoch,
        mistakes: CoordinatorMistakes,
    ) -> bool {
        self.seats.take(partition, leader_epoch, mistakes)
    }

    /// Replays the log of a partition, then serves it.
    pub(crate) fn load(
        &mut self,
        index: i32,
        image: &Arc<MetadataImage>,
        mistakes: CoordinatorMistakes,
        now: Now,
    ) -> Result<(), Halted> {
        let Ok(seat) = self.seats.seat(index) else {
            return Ok(());
        };
        let config = GroupConfig {
            initial_rebalance_delay_ms: 100,
            consumer: ConsumerGroupConfig {
                times: ConsumerGroupTimes {
                    session_timeout_ms: SESSION_TIMEOUT_MS,
                    heartbeat_interval_ms: HEARTBEAT_INTERVAL_MS,
                    assignment_interval_ms: 0,
                },
                ..ConsumerGroupConfig::default()
            },
            ..GroupConfig::default()
        };
        let shard = GroupShard::new(config);
        load(&mut seat.hosted, shard, mistakes, now, |shard| {
            shard.set_metadata(image.clone());
        })?;
        // What the log does not take now is deleted at the next start.
        let _ = self.act(index, now, GroupShard::delete_offsets_of_absent_topics)?;
        Ok(())
    }

    /// The partition is not led here any more.
    pub(crate) fn unload(&mut self, key: PartitionKey) {
        self.seats.leave(key);
    }

    /// Deletes the offsets of topics that are gone, before anybody asks or decides anything.
    pub(crate) fn set_metadata(
        &mut self,
        image: &Arc<MetadataImage>,
        deleted: &[DeletedTopic<'_>],
        now: Now,
    ) -> Result<(), Halted> {
        for index in self.seats.indexes() {
            if let Ok(seat) = self.seats.seat(index)
                && let Ok(shard) = seat.hosted.shard()
            {
                shard.set_metadata(image.clone());
            }
            if !deleted.is_empty() {
                let _ = self.act(index, now, |shard| shard.delete_topic_offsets(deleted))?;
            }
        }
        Ok(())
    }

    /// What the node goes on with.
    pub(crate) fn poll_answer(&mut self) -> Option<C::Next> {
        self.seats.poll_answer()
    }

    /// Whether an answer waits.
    pub(crate) fn is_holding(&self) -> bool {
        self.seats.is_holding()
    }

    /// Refuses answers that have waited for replicas since before `made_by`.
    pub(crate) fn refuse_late(&mut self, made_by: MonotonicTime) {
        drop(self.seats.refuse_late(made_by));
    }

    /// Since when an answer has waited.
    pub(crate) fn held_since(&self) -> Option<MonotonicTime> {
        self.seats.held_since()
    }

    /// The shard that holds a group, if it is here.
    pub(super) fn shard_of(&mut self, group: &str) -> Option<&mut GroupShard> {
        self.seats.seat_of(group).ok()?.hosted.shard().ok()
    }

    /// The partition that holds a group.
    pub(crate) fn partition_of(&mut self, group: &str) -> Result<Arc<SimPartition>, ErrorCode> {
        Ok(self.seats.seat_of(group)?.hosted.log().partition.clone())
    }

    /// Lets the shard of a group decide; the caller is answered when that may be. An error is told at once.
    pub(crate) fn decide<R>(
        &mut self,
        group: &str,
        writer: Option<&TransactionalWriter>,
        (now, caller): (Now, C),
        decide: impl FnOnce(&mut GroupShard, Now) -> Decision<R>,
        then: impl FnOnce(R) -> Answer,
    ) -> Result<Result<(), ErrorCode>, Halted> {
        let hosted = match self.seats.seat_of(group) {
            Ok(seat) => &mut seat.hosted,
            Err(error) => return Ok(Err(error)),
        };
        let refused = Cell::new(None);
        let asking = Asking {
            caller: Some(caller),
            refused: &refused,
            then: |_: &_, reply| Some(caller.told(then(reply))),
        };
        hosted.decide(asking, writer, now, decide);
        hosted.log().check()?;
        Ok(refused.take().map_or(Ok(()), Err))
    }

    /// Acts on a partition where nobody asks.
    fn act(
        &mut self,
        index: i32,
        now: Now,
        decide: impl FnOnce(&mut GroupShard) -> Decision<()>,
    ) -> Result<Result<(), ErrorCode>, Halted> {
        let hosted = match self.seats.seat(index) {
            Ok(seat) => &mut seat.hosted,
            Err(error) => return Ok(Err(error)),
        };
        let refused = Cell::new(None);
        let asking = Asking {
            caller: None,
            refused: &refused,
            then: |_: &_, ()| None,
        };
        hosted.decide(asking, None, now, |shard, _| decide(shard));
        hosted.log().check()?;
        Ok(refused.take().map_or(Ok(()), Err))
    }

    /// Does what is due.
    pub(crate) fn expire(&mut self, now: Now) -> Result<(), Halted> {
        let hosted = self.seats.hosted();
        let due = hosted.filter(|(_, hosted)| {
            let deadline = hosted.next_deadline();
            deadline.is_some_and(|at| at <= now.monotonic)
        });
        let due: Vec<i32> = due.map(|(index, _)| index).collect();
        for index in due {
            let _ = self.act(index, now, |shard| shard.expire(now))?;
        }
        Ok(())
    }

    pub(crate) fn next_deadline(&self) -> Option<MonotonicTime> {
        let hosted = self.seats.hosted();
        let deadlines = hosted.filter_map(|(_, hosted)| HostedPartition::next_deadline(hosted));
        deadlines.min()
    }

    /// Ends a transaction in one partition; gives the offset after the marker.
    pub(crate) fn end_transaction(
        &mut self,
        index: i32,
        marker: TransactionMarker,
        transaction_version: i16,
        now: Now,
    ) -> Result<Result<Offset, ErrorCode>, Halted> {
        let Ok(seat) = self.seats.seat(index) else {
            return Ok(Err(ErrorCode::NotLeaderOrFollower));
        };
        let hosted = &mut seat.hosted;
        let (refused, ended) = (Cell::new(None), Cell::new(Ok(())));
        let asking = Asking {
            caller: None,
            refused: &refused,
            then: |_: &_, outcome| {
                ended.set(outcome);
                None
            },
        };
        hosted.end_transaction(asking, marker, transaction_version, now);
        hosted.log().check()?;
        let end_offset = hosted.log().partition.offsets().log_end_offset;
        let refused = refused.take().map_or(Ok(()), Err);
        Ok(refused.and(ended.get()).map(|()| end_offset))
    }
}
