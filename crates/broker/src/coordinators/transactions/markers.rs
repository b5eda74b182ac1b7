//! The markers of every transaction whose end is decided: written at once, and again until each partition that
//! still exists has its own; then the transaction is complete.
//!
//! ```text
//!   Ending ──> leaders of its partitions, as the newest metadata have them
//!                ├─ this broker ──> their logs, and the group coordinator
//!                ├─ others ───────> TransactionPeers
//!                ├─ nobody ───────> later
//!                └─ no such partition: nothing is left of the transaction there
//! ```
//!
//! The coordinator epoch of a marker is the epoch in which the coordinator leads its partition when the marker is
//! sent: partitions that have heard of a later coordinator refuse it.

use super::endings::UnderWay;
use super::{TransactionCoordination, TransactionSlot};
use crate::coordinators::Coordinators;
use crate::coordinators::runtime::{OneAsker, Parked, ReadyResponse, ServedPartition};
use crate::coordinators::transaction_peers::Outcomes;
use crate::scheduling::apart::in_steps;
use coordinator::runtime::{Asker, TransactionMarker};
use coordinator::transaction::{
    MarkerFate, MarkersToWrite, NeedsProducerId, PreparedTransaction, TransactionShard,
};
use model::{BrokerId, ErrorCode, TopicPartition};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a partition that took no marker is left alone.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How long an answer waits for replicas and other brokers when every marker is in its log here. Who asks again
/// before all of them are written is told to wait.
const ANSWER_PATIENCE: Duration = Duration::from_millis(100);

/// An end that is decided, on its way to its last marker.
struct Ending {
    prepared: PreparedTransaction,
    /// Partitions that have no marker yet.
    left: Vec<TopicPartition>,
    /// Where the decision is.
    slot: Arc<TransactionSlot>,
    /// Nobody else sees to it.
    _under_way: UnderWay,
}

impl Ending {
    fn new(prepared: PreparedTransaction, slot: &Arc<TransactionSlot>) -> Self {
        Self {
            left: prepared.partitions.clone(),
            _under_way: slot.noted.endings.begin(&prepared),
            prepared,
            slot: slot.clone(),
        }
    }

    /// What its markers say from now on.
    fn marker(&self) -> TransactionMarker {
        TransactionMarker {
            producer_id: self.prepared.producer.producer_id,
            producer_epoch: self.prepared.producer.producer_epoch,
            coordinator_epoch: self.slot.leader_epoch().0,
            is_commit: self.prepared.committed,
        }
    }
}

/// Partitions that another broker was asked to write markers to.
struct SentMarkers {
    leader: BrokerId,
    partitions: Vec<TopicPartition>,
    outcomes: Outcomes,
}

/// What a shard decides about a transactional id, and whether that has records.
pub(super) type Decided<R> = Result<(R, bool), NeedsProducerId>;

/// Who waits for a decision about a transactional id, by which a transaction may end: the answer goes when
/// every marker was tried once, or other brokers take their time.
pub(super) struct EndAsker<R> {
    pub(super) coordinators: Arc<Coordinators>,
    pub(super) transactional_id: Arc<str>,
    pub(super) slot: Arc<TransactionSlot>,
    pub(super) asker: OneAsker<Result<R, NeedsProducerId>, Infallible>,
}

impl<R: Send + 'static> Asker<TransactionShard, Decided<R>, Parked<Infallible>> for EndAsker<R> {
    fn answered(
        self,
        outcome: Result<(&TransactionShard, Decided<R>), ErrorCode>,
    ) -> ReadyResponse {
        let (shard, decided) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => return self.asker.with(Err(error)),
        };
        let (reply, has_records) = match decided {
            Ok((reply, has_records)) => (Ok(reply), has_records),
            Err(needs) => (Err(needs), false),
        };
        let prepared = has_records.then(|| shard.prepared_of(&self.transactional_id));
        match prepared.flatten() {
            None => self.asker.with(Ok(reply)),
            Some(prepared) => {
                let (asker, room) = self.asker.without_room();
                let answer = asker.with(Ok(reply));
                let ending = Ending::new(prepared, &self.slot);
                let coordinators = self.coordinators;
                ReadyResponse::new(move |refusal| {
                    // Markers may take as long as the disk of any partition is stuck.
                    drop(room);
                    match refusal {
                        None => coordinators.finish(ending, Some(answer)),
                        // Whoever replays the log finds the end, or does not.
                        Some(error) => answer.refuse(error),
                    }
                })
            }
        }
    }

    fn parked(self) -> Parked<Infallible> {
        unreachable!("no transaction waits for another one")
    }
}

impl Coordinators {
    /// Has the markers written of an end that was found in the log, once it cannot be lost any more, unless
    /// they are being written.
    pub(super) fn resume(
        self: &Arc<Self>,
        slot: &Arc<TransactionSlot>,
        served: &mut ServedPartition<TransactionCoordination>,
        prepared: PreparedTransaction,
    ) {
        if slot.noted.endings.have(&prepared) {
            return;
        }
        let resumed = Resumed(self.clone(), Ending::new(prepared, slot));
        let now = crate::scheduling::clock::now();
        served.hosted.read(resumed, now, |_, _| ());
    }

    /// Writes the markers of a transaction whose end cannot be lost any more, in a task that goes on when
    /// nobody waits for it. The answer leaves when every marker has been tried once.
    fn finish(self: Arc<Self>, mut ending: Ending, mut answer: Option<ReadyResponse>) {
        let runtime = self.node.runtime.clone();
        drop(runtime.spawn(in_steps(async move {
            let mut is_finished = self.try_finish(&mut ending, &mut answer).await;
            if let Some(answer) = answer.take() {
                answer.leave();
            }
            let mut stop = self.node.stop.subscribe();
            while !is_finished {
                tokio::select! {
                    () = tokio::time::sleep(RETRY_PAUSE) => {}
                    // The next start begins again.
                    _ = stop.wait_for(|is_stopping| *is_stopping) => return,
                }
                // Another coordinator writes the markers, or a human must look.
                if ending.slot.partition.is_failed() || ending.slot.has_left() {
                    return;
                }
                is_finished = self.try_finish(&mut ending, &mut answer).await;
            }
        })));
    }

    /// Writes the markers that are left; completes the transaction when none is. Returns whether
    /// there is nothing more to do.
    async fn try_finish(
        self: &Arc<Self>,
        ending: &mut Ending,
        answer: &mut Option<ReadyResponse>,
    ) -> bool {
        let left_before = ending.left.len();
        let by_leader = self
            .transactions
            .by_leader(std::mem::take(&mut ending.left), self.node.id);
        ending.left = by_leader.nowhere;
        let (marker, version) = (ending.marker(), ending.prepared.client_transaction_version);
        let elsewhere = by_leader.elsewhere.into_iter();
        let asked = elsewhere.map(|(leader, partitions)| {
            let markers = MarkersToWrite {
                marker,
                transaction_version: version,
                partitions: partitions.clone(),
            };
            SentMarkers {
                leader,
                partitions,
                outcomes: self.peers().write_markers(leader, markers),
            }
        });
        let asked: Vec<SentMarkers> = asked.collect();
        let begun = self.begin_transaction_markers(marker, &by_leader.here, version);
        let begun = begun.await;
        let rest = async {
            let written = self.end_transaction_markers(begun).await.into_iter();
            let written = written.map(|outcome| outcome.err().unwrap_or(ErrorCode::None));
            self.keep_unmarked(ending, by_leader.here, written);
            self.hear(ending, asked).await;
        };
        with_patience(rest, answer.take()).await;
        if !ending.left.is_empty() {
            if ending.left.len() < left_before {
                ending
                    .slot
                    .note_unmarked(&ending.prepared, ending.left.clone());
            }
            return false;
        }
        // A log that has no room or no descriptor for the completion takes it later.
        self.complete(&ending.slot, &ending.prepared).await.is_ok()
    }

    /// Waits for the outcomes of other brokers, unless the partitions are led by others meanwhile.
    async fn hear(&self, ending: &mut Ending, asked: Vec<SentMarkers>) {
        for one in asked {
            let SentMarkers {
                leader,
                partitions,
                outcomes,
            } = one;
            let outcomes = tokio::select! {
                outcomes = outcomes.all() => outcomes,
                () = self.transactions.led_by_others(leader, &partitions) => {
                    vec![ErrorCode::NotLeaderOrFollower; partitions.len()]
                }
            };
            self.keep_unmarked(ending, partitions, outcomes.into_iter());
        }
    }

    /// Keeps those partitions in mind that need a marker again.
    fn keep_unmarked(
        &self,
        ending: &mut Ending,
        partitions: Vec<TopicPartition>,
        outcomes: impl Iterator<Item = ErrorCode>,
    ) {
        let tried = partitions.into_iter().zip(outcomes);
        let unmarked =
            tried.filter(|(partition, outcome)| self.needs_marker_again(partition, *outcome));
        ending.left.extend(unmarked.map(|(partition, _)| partition));
    }

    fn needs_marker_again(&self, partition: &TopicPartition, outcome: ErrorCode) -> bool {
        let fate = MarkerFate::of(outcome, partition, &self.transactions.image());
        if fate == MarkerFate::OutOfDate {
            tracing::warn!(%partition, error = %outcome, "a transaction marker is out of date");
        }
        fate == MarkerFate::Unwritten
    }
}

/// Waits for `rest`; the answer leaves when there is no more patience.
async fn with_patience(rest: impl Future<Output = ()>, answer: Option<ReadyResponse>) {
    let mut rest = pin!(rest);
    let Some(answer) = answer else {
        return rest.await;
    };
    let is_over = tokio::time::timeout(ANSWER_PATIENCE, &mut rest).await;
    answer.leave();
    if is_over.is_err() {
        rest.await;
    }
}

impl TransactionSlot {
    /// Lets administrators see which partitions still have no marker.
    fn note_unmarked(
        self: &Arc<Self>,
        prepared: &PreparedTransaction,
        unmarked: Vec<TopicPartition>,
    ) {
        let id = prepared.transactional_id.clone();
        let producer = prepared.producer;
        self.push(move |_, served| {
            if let Ok(shard) = served.hosted.shard() {
                shard.note_unmarked(&id, producer, &unmarked);
            }
        });
    }
}

/// An end of before goes on when it is certain.
struct Resumed(Arc<Coordinators>, Ending);

impl Asker<TransactionShard, (), Parked<Infallible>> for Resumed {
    fn answered(self, _: Result<(&TransactionShard, ()), ErrorCode>) -> ReadyResponse {
        let Self(coordinators, ending) = self;
        ReadyResponse::new(move |refusal| {
            if refusal.is_none() {
                coordinators.finish(ending, None);
            }
        })
    }

    fn parked(self) -> Parked<Infallible> {
        unreachable!("a read waits for nobody")
    }
}
