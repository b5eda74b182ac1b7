//! The transaction coordinator of a node: a shard for each partition of `__transaction_state`, loaded
//! from its log, and the wiring around what it decides.

use super::coordinator_log::{LogEntry, TransactionMarker, batch_of, replay_log};
use super::{Halted, SimPartition};
use crate::planted::Planted;
use coordinator::group::append_error;
use coordinator::transaction::{
    Moment, NeedsProducerId, PreparedTransaction, TransactionConfig, TransactionDecision,
    TransactionShard,
};
use coordinator::{CoordinatorRecord, partition_for};
use metadata::{MetadataImage, TRANSACTION_VERSION_FEATURE};
use model::{ErrorCode, Now, TopicPartition};
use record::BatchHeader;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The topic that holds the states of transactional ids.
pub(super) const TRANSACTION_TOPIC: &str = "__transaction_state";

/// The transaction coordinator.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    shards: BTreeMap<i32, Shard>,
    partition_count: i32,
    transaction_version: i16,
}

#[derive(Debug)]
struct Shard {
    partition: Arc<SimPartition>,
    shard: TransactionShard,
}

/// A decision that is carried out.
#[derive(Debug)]
pub(super) struct Decided<R> {
    pub(super) reply: R,
    /// The answer waits until everything below is durable.
    pub(super) until: (Arc<SimPartition>, i64),
    pub(super) prepared: Option<Finishing>,
}

/// An end that is decided, on its way to its markers.
#[derive(Debug, Clone)]
pub(super) struct Finishing {
    pub(super) prepared: PreparedTransaction,
    pub(super) marker: TransactionMarker,
    /// Partitions that have no marker yet.
    pub(super) left: Vec<TopicPartition>,
}

impl Finishing {
    fn new(prepared: PreparedTransaction, coordinator_epoch: i32) -> Self {
        let marker = TransactionMarker {
            producer_id: prepared.producer.producer_id,
            producer_epoch: prepared.producer.producer_epoch,
            coordinator_epoch,
            is_commit: prepared.committed,
        };
        Self {
            marker,
            left: prepared.partitions.clone(),
            prepared,
        }
    }
}

impl Transactions {
    pub(super) fn follow(&mut self, image: &MetadataImage) {
        let topic = image.topics.by_name(TRANSACTION_TOPIC);
        let count = topic.map_or(0, |topic| topic.partition_count());
        self.partition_count = i32::try_from(count).unwrap_or(0);
        self.transaction_version = image.features.level(TRANSACTION_VERSION_FEATURE);
    }

    /// Takes over a partition; gives the ends whose markers a stop has prevented.
    pub(super) fn load(
        &mut self,
        partition: &Arc<SimPartition>,
        planted: Planted,
        now: Now,
    ) -> Result<Vec<Finishing>, Halted> {
        let mut shard = TransactionShard::new(TransactionConfig::default());
        replay_log(partition, planted, |entry| match entry {
            LogEntry::Record { key, value, .. } => Ok(shard.replay(now, key, value)?),
            LogEntry::TransactionEnd { .. } => Ok(()),
        })?;
        let epoch = partition.offsets().leader_epoch;
        let prepared = shard.prepared().into_iter();
        let prepared = prepared.map(|one| Finishing::new(one, epoch)).collect();
        let loaded = Shard {
            partition: partition.clone(),
            shard,
        };
        self.shards.insert(partition.index(), loaded);
        Ok(prepared)
    }

    fn shard_of(&mut self, transactional_id: &str) -> Result<&mut Shard, ErrorCode> {
        if self.partition_count <= 0 {
            return Err(ErrorCode::NotCoordinator);
        }
        let index = partition_for(transactional_id, self.partition_count);
        self.shards.get_mut(&index).ok_or(ErrorCode::NotCoordinator)
    }

    /// Lets the shard of a transactional id decide, and carries the decision out. The inner result is
    /// without a decision when that needs a producer id.
    pub(super) fn decide<R>(
        &mut self,
        transactional_id: &str,
        (now, fresh_producer_id): (Now, Option<i64>),
        decide: impl FnOnce(
            &mut TransactionShard,
            &Moment,
        ) -> Result<TransactionDecision<R>, NeedsProducerId>,
    ) -> Result<Result<Option<Decided<R>>, ErrorCode>, Halted> {
        let transaction_version = self.transaction_version;
        let shard = match self.shard_of(transactional_id) {
            Ok(shard) => shard,
            Err(error) => return Ok(Err(error)),
        };
        let moment = Moment {
            now,
            transaction_version,
            fresh_producer_id,
        };
        let Ok(decision) = decide(&mut shard.shard, &moment) else {
            return Ok(Ok(None));
        };
        if let Err(error) = shard.commit(&decision.records, now)? {
            return Ok(Err(error));
        }
        let offsets = shard.partition.offsets();
        let has_records = !decision.records.is_empty();
        let prepared = has_records.then(|| shard.shard.prepared_of(transactional_id));
        let prepared = prepared.flatten();
        Ok(Ok(Some(Decided {
            reply: decision.reply,
            until: (shard.partition.clone(), offsets.log_end_offset),
            prepared: prepared.map(|one| Finishing::new(one, offsets.leader_epoch)),
        })))
    }

    /// Lets administrators see which partitions still have no marker.
    pub(super) fn note_unmarked(&mut self, finishing: &Finishing) {
        let id = &*finishing.prepared.transactional_id;
        if let Ok(shard) = self.shard_of(id) {
            let producer = finishing.prepared.producer;
            shard.shard.note_unmarked(id, producer, &finishing.left);
        }
    }

    /// The transactional ids whose transactions have taken longer than they may.
    pub(super) fn timed_out(&self, now: Now) -> Vec<Arc<str>> {
        let shards = self.shards.values();
        shards
            .flat_map(|one| one.shard.timed_out(now.monotonic))
            .collect()
    }

    /// Forgets the transactional ids that have rested for too long.
    pub(super) fn expire_ids(&mut self, now: Now) -> Result<(), Halted> {
        for shard in self.shards.values_mut() {
            let records = shard.shard.expire_ids(now).records;
            let _ = shard.commit(&records, now)?;
        }
        Ok(())
    }
}

impl Shard {
    fn commit(
        &mut self,
        records: &[CoordinatorRecord],
        now: Now,
    ) -> Result<Result<(), ErrorCode>, Halted> {
        if records.is_empty() {
            return Ok(Ok(()));
        }
        let mut batch = batch_of(BatchHeader::default(), records, now.wall_ms);
        match self
            .partition
            .append_as_coordinator(&mut batch, now.wall_ms)
        {
            Ok(_) => {}
            Err(error) if error.is_disk_failure() => return Err(error.into()),
            Err(error) => return Ok(Err(append_error(error.code()))),
        }
        for record in records {
            let replayed = self.shard.replay(now, &record.key, record.value.as_deref());
            replayed.expect("a shard can read what it has written");
        }
        Ok(Ok(()))
    }
}
