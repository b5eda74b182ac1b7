//! The transaction coordinator of a node: hosted partitions of `__transaction_state`.

use super::log::{Asking, CoordinatorMistakes, load};
use super::seats::Seats;
use super::{CoordinatorCaller, TRANSACTION_TOPIC, Tenure};
use crate::halted::Halted;
use crate::partition::SimPartition;
use coordinator::Decision;
use coordinator::runtime::TransactionMarker;
use coordinator::transaction::{
    DecisionContext, NeedsProducerId, PreparedTransaction, ProducerIdAndEpoch, TransactionConfig,
    TransactionDecision, TransactionShard,
};
use metadata::{MetadataImage, TRANSACTION_VERSION_FEATURE};
use model::{ErrorCode, LeaderEpoch, MonotonicTime, Now, ProducerId, TopicPartition};
use replication::PartitionKey;
use std::cell::Cell;
use std::sync::{Arc, Weak};

/// The transaction coordinator.
#[derive(Debug)]
pub(crate) struct Transactions<C: CoordinatorCaller> {
    seats: Seats<TransactionShard, C>,
    transaction_version: i16,
    under_way: UnderWay,
}

impl<C: CoordinatorCaller> Default for Transactions<C> {
    fn default() -> Self {
        Self {
            seats: Seats::default(),
            transaction_version: 0,
            under_way: UnderWay::default(),
        }
    }
}

/// The ends that somebody sees to. To write their markers twice could end the next transaction.
#[derive(Debug, Default)]
struct UnderWay(Vec<(Arc<str>, ProducerIdAndEpoch, u64, Weak<()>)>);

/// An end that is decided, on its way to its markers.
#[derive(Debug, Clone)]
pub(crate) struct Finishing {
    pub(crate) prepared: PreparedTransaction,
    /// Partitions that have no marker yet.
    pub(crate) left: Vec<TopicPartition>,
    /// Where it was decided, and when.
    index: i32,
    tenure: u64,
    _under_way: Arc<()>,
}

impl UnderWay {
    fn begin(&mut self, prepared: PreparedTransaction, index: i32, tenure: Tenure) -> Finishing {
        self.0.retain(|one| one.3.strong_count() > 0);
        let under_way = Arc::new(());
        let id = prepared.transactional_id.clone();
        let weak = Arc::downgrade(&under_way);
        self.0.push((id, prepared.producer, tenure.number, weak));
        Finishing {
            left: prepared.partitions.clone(),
            prepared,
            index,
            tenure: tenure.number,
            _under_way: under_way,
        }
    }

    fn has(&self, prepared: &PreparedTransaction, tenure: Tenure) -> bool {
        self.0.iter().any(|(id, producer, number, weak)| {
            *id == prepared.transactional_id
                && *producer == prepared.producer
                && *number == tenure.number
                && weak.strong_count() > 0
        })
    }
}

impl<C: CoordinatorCaller> Transactions<C> {
    pub(crate) fn follow(&mut self, image: &MetadataImage) {
        self.seats.follow(image, TRANSACTION_TOPIC);
        self.transaction_version = image.features.level(TRANSACTION_VERSION_FEATURE);
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

    /// Replays the log of a partition; the node goes on with the ends whose markers a stop has prevented.
    pub(crate) fn load(
        &mut self,
        index: i32,
        mistakes: CoordinatorMistakes,
        now: Now,
    ) -> Result<(), Halted> {
        let Ok(seat) = self.seats.seat(index) else {
            return Ok(());
        };
        let shard = TransactionShard::new(TransactionConfig::default());
        load(&mut seat.hosted, shard, mistakes, now, |_| {})?;
        self.resume(index, now);
        Ok(())
    }

    /// Has the markers written of the ends that the log has, once these cannot be lost any more.
    fn resume(&mut self, index: i32, now: Now) {
        let Ok(seat) = self.seats.seat(index) else {
            return;
        };
        let prepared = seat
            .hosted
            .shard()
            .map_or_else(|_| Vec::new(), |shard| shard.prepared());
        for one in prepared {
            if self.under_way.has(&one, seat.tenure) {
                continue;
            }
            let finishing = self.under_way.begin(one, index, seat.tenure);
            let asking = Asking {
                caller: None,
                refused: &Cell::new(None),
                then: |_: &_, ()| Some(C::resumed(finishing)),
            };
            seat.hosted.read(asking, now, |_, _| ());
        }
    }

    /// The partition is not led here any more.
    pub(crate) fn unload(&mut self, key: PartitionKey) {
        self.seats.leave(key);
    }

    /// What the node goes on with.
    pub(crate) fn poll_answer(&mut self) -> Option<C::Next> {
        self.seats.poll_answer()
    }

    /// Whether an answer waits.
    pub(crate) fn is_holding(&self) -> bool {
        self.seats.is_holding()
    }

    /// Refuses answers that have waited for replicas since before `made_by`; ends of which that was so go on when they
    /// are replicated.
    pub(crate) fn refuse_late(&mut self, made_by: MonotonicTime, now: Now) {
        for index in self.seats.refuse_late(made_by) {
            self.resume(index, now);
        }
    }

    /// Since when an answer has waited.
    pub(crate) fn held_since(&self) -> Option<MonotonicTime> {
        self.seats.held_since()
    }

    /// What markers of an end say by now; none where another coordinator writes them.
    pub(crate) fn marker_of(&mut self, finishing: &Finishing) -> Option<TransactionMarker> {
        let seat = self.seats.seat(finishing.index).ok()?;
        let producer = finishing.prepared.producer;
        (seat.tenure.number == finishing.tenure).then_some(TransactionMarker {
            producer_id: producer.producer_id,
            producer_epoch: producer.producer_epoch,
            coordinator_epoch: seat.tenure.leader_epoch.0,
            is_commit: finishing.prepared.committed,
        })
    }

    /// Lets the shard of a transactional id decide. The node goes on with what `then` makes of the reply, and
    /// of the end that the decision has prepared, when that may be. The inner result is none when the decision
    /// needs a producer id; an error is told at once.
    pub(crate) fn decide<R>(
        &mut self,
        transactional_id: &str,
        (now, fresh_producer_id): (Now, Option<ProducerId>),
        decide: impl FnOnce(
            &mut TransactionShard,
            &DecisionContext,
        ) -> Result<TransactionDecision<R>, NeedsProducerId>,
        then: impl FnOnce(R, Option<Finishing>) -> Option<C::Next>,
    ) -> Result<Result<Option<()>, ErrorCode>, Halted> {
        let transaction_version = self.transaction_version;
        let index = self.seats.index_of(transactional_id);
        let (index, seat) = match index.and_then(|index| Ok((index, self.seats.seat(index)?))) {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let context = DecisionContext {
            now,
            transaction_version,
            fresh_producer_id,
        };
        let (refused, needs_id, has_records) =
            (Cell::new(None), Cell::new(false), Cell::new(false));
        let (tenure, under_way) = (seat.tenure, &mut self.under_way);
        let asking = Asking {
            caller: None,
            refused: &refused,
            then: |shard: &TransactionShard, reply: Option<R>| {
                let prepared = has_records
                    .get()
                    .then(|| shard.prepared_of(transactional_id));
                let prepared = prepared.flatten();
                then(
                    reply?,
                    prepared.map(|one| under_way.begin(one, index, tenure)),
                )
            },
        };
        seat.hosted.decide(asking, None, now, |shard, _| {
            let Ok(decision) = decide(shard, &context) else {
                needs_id.set(true);
                return Decision::reply(None);
            };
            has_records.set(!decision.records.is_empty());
            let TransactionDecision { records, reply } = decision;
            let reply = Some(reply);
            TransactionDecision { records, reply }.into()
        });
        seat.hosted.log().check()?;
        Ok(match refused.take() {
            Some(error) => Err(error),
            None => Ok((!needs_id.get()).then_some(())),
        })
    }

    /// Lets the shard decide that a transaction has all of its markers. False where it is to be tried again.
    pub(crate) fn complete(&mut self, finishing: &Finishing, now: Now) -> Result<bool, Halted> {
        if self.marker_of(finishing).is_none() {
            return Ok(true);
        }
        let id = &*finishing.prepared.transactional_id;
        let producer = finishing.prepared.producer;
        let complete =
            |shard: &mut TransactionShard, context: &_| Ok(shard.complete(id, producer, context));
        let decided = self.decide(id, (now, None), complete, |_, _| None)?;
        Ok(decided.is_ok())
    }

    /// Lets administrators see which partitions still have no marker.
    pub(crate) fn note_unmarked(&mut self, finishing: &Finishing) {
        let id = &*finishing.prepared.transactional_id;
        if let Ok(seat) = self.seats.seat_of(id)
            && let Ok(shard) = seat.hosted.shard()
        {
            let producer = finishing.prepared.producer;
            shard.note_unmarked(id, producer, &finishing.left);
        }
    }

    /// The transactional ids whose transactions have taken longer than they may.
    pub(crate) fn timed_out(&mut self, now: Now) -> Vec<Arc<str>> {
        let hosted = self.seats.hosted_mut();
        let shards = hosted.filter_map(|hosted| hosted.shard().ok());
        shards
            .flat_map(|one| one.timed_out(now.monotonic))
            .collect()
    }

    /// Forgets the transactional ids that have rested for too long.
    pub(crate) fn expire_ids(&mut self, now: Now) -> Result<(), Halted> {
        for hosted in self.seats.hosted_mut() {
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
