//! The group coordinator of a node: hosted partitions of `__consumer_offsets`.

use super::coordinator_log::{Asking, Hosted, load, poll_answer};
use super::frames::is_of_frame;
use super::frames_of_groups::body_of_released;
use super::serve_groups::answer_of;
use super::{Caller, Halted, SimPartition, Then};
use crate::planted::Planted;
use crate::protocol::SESSION_TIMEOUT_MS;
use coordinator::group::{
    ConsumerGroupConfig, ConsumerGroupTimes, DeletedTopic, GroupConfig, GroupShard,
};
use coordinator::runtime::{TransactionMarker, Waiter};
use coordinator::{Decision, GroupResponse, partition_for};
use metadata::MetadataImage;
use model::{ErrorCode, MonotonicTime, Now};
use replication::VerificationGuard;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The topic that holds groups and offsets.
pub(super) const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// How often a member of the consumer protocol says that it lives.
const HEARTBEAT_INTERVAL_MS: i32 = 500;

/// A producer whose transaction a decision's records belong to.
pub(super) type TransactionalWriter = coordinator::runtime::TransactionalWriter<VerificationGuard>;

/// The group coordinator.
#[derive(Debug, Default)]
pub(super) struct Groups {
    hosted: BTreeMap<i32, Hosted<GroupShard>>,
    partition_count: i32,
}

impl Waiter<GroupShard> for Caller {
    type Answer = Option<Then>;

    fn released(self, response: GroupResponse) -> Option<Then> {
        let answer = match is_of_frame(&self) {
            true => body_of_released(&response),
            false => answer_of(response),
        };
        Some(Then::Answer(self, answer))
    }

    fn abandoned(self, _: ErrorCode) -> Option<Then> {
        None
    }

    /// Nobody answers, and the client asks again.
    fn refused(_: Option<Then>, _: ErrorCode) -> Option<Then> {
        None
    }
}

impl Groups {
    pub(super) fn follow(&mut self, image: &MetadataImage) {
        let topic = image.topics.by_name(OFFSETS_TOPIC);
        let count = topic.map_or(0, |topic| topic.partition_count());
        self.partition_count = i32::try_from(count).unwrap_or(0);
    }

    /// Takes over a partition: replays its log, then serves it.
    pub(super) fn load(
        &mut self,
        partition: &Arc<SimPartition>,
        image: &Arc<MetadataImage>,
        planted: Planted,
        now: Now,
    ) -> Result<(), Halted> {
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
        let loaded = load(partition, shard, planted, now, |shard| {
            shard.set_metadata(image.clone());
        })?;
        let index = partition.index();
        self.hosted.insert(index, loaded);
        let deleted = self.act(index, now, GroupShard::delete_offsets_of_absent_topics)?;
        deleted.map_err(|error| format!("offsets of deleted topics stay: {error}").into())
    }

    /// Deletes the offsets of topics that are gone, before anybody asks or decides anything.
    pub(super) fn set_metadata(
        &mut self,
        image: &Arc<MetadataImage>,
        deleted: &[DeletedTopic<'_>],
        now: Now,
    ) -> Result<(), Halted> {
        let indexes: Vec<i32> = self.hosted.keys().copied().collect();
        for index in indexes {
            if let Some(Ok(shard)) = self.hosted.get_mut(&index).map(Hosted::shard) {
                shard.set_metadata(image.clone());
            }
            if !deleted.is_empty() {
                let _ = self.act(index, now, |shard| shard.delete_topic_offsets(deleted))?;
            }
        }
        Ok(())
    }

    /// What the node goes on with.
    pub(super) fn poll_answer(&mut self) -> Option<Then> {
        poll_answer(self.hosted.values_mut())
    }

    /// Whether an answer waits for a disk.
    pub(super) fn is_holding(&self) -> bool {
        let mut hosted = self.hosted.values();
        hosted.any(|one| one.awaited_offset().is_some())
    }

    fn index_of(&self, group: &str) -> Result<i32, ErrorCode> {
        if self.partition_count <= 0 {
            return Err(ErrorCode::NotCoordinator);
        }
        let index = partition_for(group, self.partition_count);
        match self.hosted.contains_key(&index) {
            true => Ok(index),
            false => Err(ErrorCode::NotCoordinator),
        }
    }

    /// The partition that holds a group.
    pub(super) fn partition_of(&self, group: &str) -> Result<Arc<SimPartition>, ErrorCode> {
        Ok(self.hosted[&self.index_of(group)?].log().partition.clone())
    }

    /// Lets the shard of a group decide; the caller is answered when that may be. An error is told at once.
    pub(super) fn decide<R>(
        &mut self,
        group: &str,
        writer: Option<&TransactionalWriter>,
        (now, caller): (Now, Caller),
        decide: impl FnOnce(&mut GroupShard, Now) -> Decision<R>,
        then: impl FnOnce(R) -> super::Answer,
    ) -> Result<Result<(), ErrorCode>, Halted> {
        let index = match self.index_of(group) {
            Ok(index) => index,
            Err(error) => return Ok(Err(error)),
        };
        let Some(hosted) = self.hosted.get_mut(&index) else {
            return Ok(Err(ErrorCode::NotCoordinator));
        };
        let refused = Cell::new(None);
        let asking = Asking {
            caller: Some(caller),
            refused: &refused,
            then: |_: &_, reply| Some(Then::Answer(caller, then(reply))),
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
        let Some(hosted) = self.hosted.get_mut(&index) else {
            return Ok(Err(ErrorCode::NotCoordinator));
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
    pub(super) fn expire(&mut self, now: Now) -> Result<(), Halted> {
        let is_due = |hosted: &Hosted<GroupShard>| {
            let deadline = hosted.next_deadline();
            deadline.is_some_and(|at| at <= now.monotonic)
        };
        let due = self.hosted.iter().filter(|(_, hosted)| is_due(hosted));
        let due: Vec<i32> = due.map(|(index, _)| *index).collect();
        for index in due {
            let _ = self.act(index, now, |shard| shard.expire(now))?;
        }
        Ok(())
    }

    pub(super) fn next_deadline(&self) -> Option<MonotonicTime> {
        let hosted = self.hosted.values();
        hosted.filter_map(Hosted::next_deadline).min()
    }

    /// Ends a transaction in one partition; gives the offset after the marker.
    pub(super) fn end_transaction(
        &mut self,
        index: i32,
        marker: TransactionMarker,
        transaction_version: i16,
        now: Now,
    ) -> Result<Result<i64, ErrorCode>, Halted> {
        let Some(hosted) = self.hosted.get_mut(&index) else {
            return Ok(Err(ErrorCode::NotLeaderOrFollower));
        };
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
