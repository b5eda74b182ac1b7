//! The group coordinator of a node: a shard for each partition of `__consumer_offsets`, loaded from its
//! log, and the wiring around what it decides: append, replay, who waits.

use super::coordinator_log::{LogEntry, TransactionMarker, batch_of, replay_log};
use super::{Caller, Halted, SimPartition};
use crate::planted::Planted;
use coordinator::group::{
    DeletedTopic, GroupConfig, GroupShard, RecordOrigin, ReplayError, append_error,
};
use coordinator::{CoordinatorRecord, Decision, GroupResponse, Reply, Token, partition_for};
use metadata::MetadataImage;
use model::{ErrorCode, MonotonicTime, Now};
use record::BatchHeader;
use replication::{AppendError, Appended, VerificationGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The topic that holds groups and offsets.
pub(super) const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// The group coordinator.
#[derive(Debug, Default)]
pub(super) struct Groups {
    shards: BTreeMap<i32, Shard>,
    partition_count: i32,
}

#[derive(Debug)]
struct Shard {
    partition: Arc<SimPartition>,
    shard: GroupShard,
    waiting: BTreeMap<Token, Caller>,
}

/// A producer whose transaction a decision's records belong to.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransactionalWriter {
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    pub(super) verification: Option<VerificationGuard>,
}

/// A decision that is carried out, but for its flush.
#[derive(Debug)]
pub(super) struct Decided<R> {
    /// None when the caller waits for others.
    pub(super) reply: Option<R>,
    pub(super) released: Vec<(Caller, GroupResponse)>,
    /// What has to be durable before anybody hears of it.
    pub(super) until: Option<(Arc<SimPartition>, i64)>,
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
            ..GroupConfig::default()
        };
        let mut shard = GroupShard::new(config);
        replay_log(partition, planted, |entry| match entry {
            LogEntry::Record {
                offset,
                producer_id,
                key,
                value,
            } => {
                let origin = RecordOrigin {
                    offset,
                    producer_id,
                };
                Ok::<(), ReplayError>(shard.replay(origin, key, value)?).map_err(Halted::from)
            }
            LogEntry::TransactionEnd {
                producer_id,
                is_commit,
            } => {
                shard.replay_transaction_end(producer_id, is_commit);
                Ok(())
            }
        })?;
        shard.set_metadata(image.clone());
        shard.start(now);
        let loaded = Shard {
            partition: partition.clone(),
            shard,
            waiting: BTreeMap::new(),
        };
        self.shards.insert(partition.index(), loaded);
        let index = partition.index();
        let decided = self.decide_in(index, None, now, None, |shard, _| {
            shard.delete_offsets_of_absent_topics()
        })?;
        decided.map_err(|error| format!("offsets of deleted topics stay: {error}"))?;
        Ok(())
    }

    /// Deletes the offsets of topics that are gone, before anybody asks or decides anything.
    pub(super) fn set_metadata(
        &mut self,
        image: &Arc<MetadataImage>,
        deleted: &[DeletedTopic<'_>],
        now: Now,
    ) -> Result<Vec<(Arc<SimPartition>, i64)>, Halted> {
        let indexes: Vec<i32> = self.shards.keys().copied().collect();
        let mut untils = Vec::new();
        for index in indexes {
            if let Some(shard) = self.shards.get_mut(&index) {
                shard.shard.set_metadata(image.clone());
            }
            if deleted.is_empty() {
                continue;
            }
            let decided = self.decide_in(index, None, now, None, |shard, _| {
                shard.delete_topic_offsets(deleted)
            })?;
            untils.extend(decided.ok().and_then(|decided| decided.until));
        }
        Ok(untils)
    }

    fn index_of(&self, group: &str) -> Result<i32, ErrorCode> {
        if self.partition_count <= 0 {
            return Err(ErrorCode::NotCoordinator);
        }
        let index = partition_for(group, self.partition_count);
        match self.shards.contains_key(&index) {
            true => Ok(index),
            false => Err(ErrorCode::NotCoordinator),
        }
    }

    /// The partition that holds a group.
    pub(super) fn partition_of(&self, group: &str) -> Result<Arc<SimPartition>, ErrorCode> {
        Ok(self.shards[&self.index_of(group)?].partition.clone())
    }

    /// Lets the shard of a group decide, and carries the decision out.
    pub(super) fn decide<R>(
        &mut self,
        group: &str,
        writer: Option<&TransactionalWriter>,
        (now, caller): (Now, Caller),
        decide: impl FnOnce(&mut GroupShard, Now) -> Decision<R>,
    ) -> Result<Result<Decided<R>, ErrorCode>, Halted> {
        match self.index_of(group) {
            Ok(index) => self.decide_in(index, writer, now, Some(caller), decide),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Asks the shard of a group without changing it.
    pub(super) fn read<R>(
        &mut self,
        group: &str,
        read: impl FnOnce(&mut GroupShard) -> R,
    ) -> Result<R, ErrorCode> {
        let index = self.index_of(group)?;
        let shard = self
            .shards
            .get_mut(&index)
            .ok_or(ErrorCode::NotCoordinator)?;
        Ok(read(&mut shard.shard))
    }

    fn decide_in<R>(
        &mut self,
        index: i32,
        writer: Option<&TransactionalWriter>,
        now: Now,
        caller: Option<Caller>,
        decide: impl FnOnce(&mut GroupShard, Now) -> Decision<R>,
    ) -> Result<Result<Decided<R>, ErrorCode>, Halted> {
        let Some(shard) = self.shards.get_mut(&index) else {
            return Ok(Err(ErrorCode::NotCoordinator));
        };
        let decision = decide(&mut shard.shard, now);
        shard.carry_out(writer, decision, now, caller)
    }

    /// Does what is due.
    pub(super) fn expire(&mut self, now: Now) -> Result<Vec<Decided<()>>, Halted> {
        let mut all = Vec::new();
        let is_due = |shard: &Shard| {
            let deadline = shard.shard.next_deadline();
            deadline.is_some_and(|at| at <= now.monotonic)
        };
        let due = self.shards.iter().filter(|(_, shard)| is_due(shard));
        let due: Vec<i32> = due.map(|(index, _)| *index).collect();
        for index in due {
            all.extend(self.decide_in(index, None, now, None, GroupShard::expire)?);
        }
        Ok(all)
    }

    pub(super) fn next_deadline(&self) -> Option<MonotonicTime> {
        let shards = self.shards.values();
        shards.filter_map(|one| one.shard.next_deadline()).min()
    }

    /// Ends a transaction in one partition.
    pub(super) fn end_transaction(
        &mut self,
        index: i32,
        marker: &TransactionMarker,
        transaction_version: i16,
        now_ms: i64,
    ) -> Result<Result<Appended, AppendError>, ErrorCode> {
        let shard = self.shards.get_mut(&index);
        let shard = shard.ok_or(ErrorCode::NotLeaderOrFollower)?;
        let appended = marker.append_to(&shard.partition, transaction_version, now_ms);
        if appended.is_ok() {
            let ended = &mut shard.shard;
            ended.replay_transaction_end(marker.producer_id, marker.is_commit);
        }
        Ok(appended)
    }
}

impl Shard {
    /// Appends and replays what the shard has decided.
    fn carry_out<R>(
        &mut self,
        writer: Option<&TransactionalWriter>,
        mut decision: Decision<R>,
        now: Now,
        caller: Option<Caller>,
    ) -> Result<Result<Decided<R>, ErrorCode>, Halted> {
        if let (Reply::Parked(token), Some(caller)) = (&decision.reply, caller) {
            self.waiting.insert(*token, caller);
        }
        match self.commit(writer, &decision, now.wall_ms) {
            Ok(is_flush_due) => {
                let end = self.partition.offsets().log_end_offset;
                let until = is_flush_due.then(|| (self.partition.clone(), end));
                Ok(Ok(Decided {
                    released: self.released(decision.released),
                    reply: match decision.reply {
                        Reply::Now(reply) => Some(reply),
                        Reply::Parked(_) => None,
                    },
                    until,
                }))
            }
            Err((appended_count, error)) => {
                if error.is_disk_failure() {
                    return Err(error.into());
                }
                let code = append_error(error.code());
                decision.records.drain(..appended_count);
                let is_parked = matches!(decision.reply, Reply::Parked(_));
                let released = self.shard.append_failed(decision, code, now);
                let released = self.released(released);
                if !is_parked && released.is_empty() {
                    return Ok(Err(code));
                }
                // Whoever asked waits on, or tries again when nobody answers.
                Ok(Ok(Decided {
                    reply: None,
                    released,
                    until: None,
                }))
            }
        }
    }

    fn commit<R>(
        &mut self,
        writer: Option<&TransactionalWriter>,
        decision: &Decision<R>,
        now_ms: i64,
    ) -> Result<bool, (usize, AppendError)> {
        let batch_bytes_max = GroupConfig::default().batch_bytes_max;
        let (mut is_flush_due, mut count) = (false, 0);
        while count < decision.records.len() {
            let end = decision.batch_end(count, batch_bytes_max);
            let appended = self.append(writer, &decision.records[count..end], now_ms);
            is_flush_due |= appended.map_err(|error| (count, error))?.is_flush_due;
            count = end;
        }
        Ok(is_flush_due)
    }

    fn append(
        &mut self,
        writer: Option<&TransactionalWriter>,
        records: &[CoordinatorRecord],
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let header = writer.map_or_else(BatchHeader::default, |writer| BatchHeader {
            producer_id: writer.producer_id,
            producer_epoch: writer.producer_epoch,
            is_transactional: true,
            ..BatchHeader::default()
        });
        let mut batch = batch_of(header, records, now_ms);
        let verification = writer.and_then(|writer| writer.verification);
        let partition = &self.partition;
        let appended =
            partition.append_transactional_as_coordinator(&mut batch, verification, now_ms)?;
        for (offset, record) in (appended.base_offset..).zip(records) {
            let origin = RecordOrigin {
                offset,
                producer_id: header.producer_id,
            };
            let replayed = self
                .shard
                .replay(origin, &record.key, record.value.as_deref());
            replayed.expect("a shard can read what it has written");
        }
        Ok(appended)
    }

    fn released(&mut self, released: Vec<(Token, GroupResponse)>) -> Vec<(Caller, GroupResponse)> {
        let waiting = &mut self.waiting;
        let released = released.into_iter();
        released
            .filter_map(|(token, response)| Some((waiting.remove(&token)?, response)))
            .collect()
    }
}
