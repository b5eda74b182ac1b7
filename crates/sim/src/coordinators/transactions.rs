//! The transaction coordinator of a node: hosted partitions of `__transaction_state`.

use super::coordinator_log::{Asking, Hosted, load, poll_answer};
use super::{Caller, Halted, SimPartition, Then};
use crate::planted::Planted;
use coordinator::runtime::{TransactionMarker, Waiter};
use coordinator::transaction::{
    Moment, NeedsProducerId, PreparedTransaction, TransactionConfig, TransactionDecision,
    TransactionShard,
};
use coordinator::{Decision, partition_for};
use metadata::{MetadataImage, TRANSACTION_VERSION_FEATURE};
use model::{ErrorCode, Now, ProducerId, TopicPartition};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

/// The topic that holds the states of transactional ids.
pub(super) const TRANSACTION_TOPIC: &str = "__transaction_state";

/// The transaction coordinator.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    hosted: BTreeMap<i32, Hosted<TransactionShard>>,
    partition_count: i32,
    transaction_version: i16,
}

/// An end that is decided, on its way to its markers.
#[derive(Debug, Clone)]
pub(crate) struct Finishing {
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

impl Waiter<TransactionShard> for Caller {
    type Answer = Option<Then>;

    fn released(self, response: Infallible) -> Option<Then> {
        match response {}
    }

    fn abandoned(self, _: ErrorCode) -> Option<Then> {
        None
    }

    fn refused(_: Option<Then>, _: ErrorCode) -> Option<Then> {
        None
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
        let shard = TransactionShard::new(TransactionConfig::default());
        let mut loaded = load(partition, shard, planted, now, |_| {})?;
        let epoch = partition.offsets().leader_epoch;
        let prepared = loaded
            .shard()
            .map_or_else(|_| Vec::new(), |shard| shard.prepared());
        self.hosted.insert(partition.index(), loaded);
        let prepared = prepared.into_iter();
        Ok(prepared.map(|one| Finishing::new(one, epoch.0)).collect())
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

    fn hosted_of(&mut self, id: &str) -> Result<&mut Hosted<TransactionShard>, ErrorCode> {
        if self.partition_count <= 0 {
            return Err(ErrorCode::NotCoordinator);
        }
        let index = partition_for(id, self.partition_count);
        self.hosted.get_mut(&index).ok_or(ErrorCode::NotCoordinator)
    }

    /// Lets the shard of a transactional id decide. The node goes on with what `then` makes of the reply, and
    /// of the end that the decision has prepared, when that may be. The inner result is none when the decision
    /// needs a producer id; an error is told at once.
    pub(super) fn decide<R>(
        &mut self,
        transactional_id: &str,
        (now, fresh_producer_id): (Now, Option<ProducerId>),
        decide: impl FnOnce(
            &mut TransactionShard,
            &Moment,
        ) -> Result<TransactionDecision<R>, NeedsProducerId>,
        then: impl FnOnce(R, Option<Finishing>) -> Option<Then>,
    ) -> Result<Result<Option<()>, ErrorCode>, Halted> {
        let transaction_version = self.transaction_version;
        let hosted = match self.hosted_of(transactional_id) {
            Ok(hosted) => hosted,
            Err(error) => return Ok(Err(error)),
        };
        let moment = Moment {
            now,
            transaction_version,
            fresh_producer_id,
        };
        let (refused, needs_id, has_records) =
            (Cell::new(None), Cell::new(false), Cell::new(false));
        let epoch = hosted.log().partition.offsets().leader_epoch;
        let asking = Asking {
            caller: None,
            refused: &refused,
            then: |shard: &TransactionShard, reply: Option<R>| {
                let prepared = has_records
                    .get()
                    .then(|| shard.prepared_of(transactional_id));
                let prepared = prepared.flatten();
                then(reply?, prepared.map(|one| Finishing::new(one, epoch.0)))
            },
        };
        hosted.decide(asking, None, now, |shard, _| {
            let Ok(decision) = decide(shard, &moment) else {
                needs_id.set(true);
                return Decision::reply(None);
            };
            has_records.set(!decision.records.is_empty());
            let TransactionDecision { records, reply } = decision;
            let reply = Some(reply);
            TransactionDecision { records, reply }.into()
        });
        hosted.log().check()?;
        Ok(match refused.take() {
            Some(error) => Err(error),
            None => Ok((!needs_id.get()).then_some(())),
        })
    }

    /// Lets administrators see which partitions still have no marker.
    pub(super) fn note_unmarked(&mut self, finishing: &Finishing) {
        let id = &*finishing.prepared.transactional_id;
        if let Ok(Ok(shard)) = self.hosted_of(id).map(Hosted::shard) {
            let producer = finishing.prepared.producer;
            shard.note_unmarked(id, producer, &finishing.left);
        }
    }

    /// The transactional ids whose transactions have taken longer than they may.
    pub(super) fn timed_out(&mut self, now: Now) -> Vec<Arc<str>> {
        let hosted = self.hosted.values_mut();
        let shards = hosted.filter_map(|hosted| hosted.shard().ok());
        shards
            .flat_map(|one| one.timed_out(now.monotonic))
            .collect()
    }

    /// Forgets the transactional ids that have rested for too long.
    pub(super) fn expire_ids(&mut self, now: Now) -> Result<(), Halted> {
        for hosted in self.hosted.values_mut() {
            let refused = Cell::new(None);
            let asking = Asking {
                caller: None,
                refused: &refused,
                then: |_: &_, _: usize| None,
            };
            hosted.decide(asking, None, now, |shard, now| shard.expire_ids(now).into());
            hosted.log().check()?;
        }
        Ok(())
    }
}
