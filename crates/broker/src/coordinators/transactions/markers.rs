//! The markers of every transaction whose end is decided: written at once, and again until each partition that
//! still exists has its own; then the transaction is complete.

use super::endings::{Endings, UnderWay};
use super::{TransactionCoordination, TransactionSlot};
use crate::coordinators::Coordinators;
use crate::coordinators::runtime::{OneAsker, Parked, ReadyResponse, Seat};
use crate::scheduling::apart::in_steps;
use coordinator::runtime::{Asker, TransactionMarker};
use coordinator::transaction::{NeedsProducerId, PreparedTransaction, TransactionShard};
use model::{ErrorCode, TopicPartition};
use replication::Partition;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// How long a partition that took no marker is left alone.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// An end that is decided, on its way to its last marker.
#[derive(Debug)]
struct Ending {
    prepared: PreparedTransaction,
    marker: TransactionMarker,
    /// Partitions that have no marker yet.
    left: Vec<TopicPartition>,
    /// Where the decision is.
    log: Arc<Partition>,
    /// Nobody else sees to it.
    _under_way: UnderWay,
}

impl Ending {
    fn new(prepared: PreparedTransaction, log: &Arc<Partition>, endings: &Endings) -> Self {
        let marker = TransactionMarker {
            producer_id: prepared.producer.producer_id,
            producer_epoch: prepared.producer.producer_epoch,
            coordinator_epoch: log.offsets().leader_epoch.0,
            is_commit: prepared.committed,
        };
        Self {
            marker,
            left: prepared.partitions.clone(),
            _under_way: endings.begin(&prepared),
            prepared,
            log: log.clone(),
        }
    }
}

/// What a shard decides about a transactional id, and whether that has records.
pub(super) type Decided<R> = Result<(R, bool), NeedsProducerId>;

/// Who waits for a decision about a transactional id, by which a transaction may end: the answer goes when
/// every marker was tried once.
pub(super) struct EndAsker<R> {
    pub(super) coordinators: Arc<Coordinators>,
    pub(super) transactional_id: Arc<str>,
    pub(super) log: Arc<Partition>,
    pub(super) endings: Endings,
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
                let ending = Ending::new(prepared, &self.log, &self.endings);
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
        seat: &mut Seat<TransactionCoordination>,
        prepared: PreparedTransaction,
    ) {
        let endings = &slot.noted.endings;
        if endings.have(&prepared) {
            return;
        }
        let ending = Ending::new(prepared, &slot.partition, endings);
        let resumed = Resumed(self.clone(), ending);
        let now = crate::scheduling::clock::now();
        seat.hosted.read(resumed, now, |_, _| ());
    }

    /// Writes the markers of a transaction whose end cannot be lost any more, in a task that goes on when
    /// nobody waits for it. The answer leaves when every marker has been tried once.
    fn finish(self: Arc<Self>, mut ending: Ending, answer: Option<ReadyResponse>) {
        let runtime = self.node.runtime.clone();
        drop(runtime.spawn(in_steps(async move {
            let mut is_finished = self.try_finish(&mut ending).await;
            if let Some(answer) = answer {
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
                if ending.log.is_failed() || !self.transactions.has(&ending.log) {
                    return;
                }
                is_finished = self.try_finish(&mut ending).await;
            }
        })));
    }

    /// Writes the markers that are left; completes the transaction when none is. Returns whether
    /// there is nothing more to do.
    async fn try_finish(self: &Arc<Self>, ending: &mut Ending) -> bool {
        let prepared = &ending.prepared;
        let version = prepared.client_transaction_version;
        let outcomes = self
            .write_transaction_markers(ending.marker, &ending.left, version)
            .await;
        let mut outcomes = outcomes.into_iter();
        let left_before = ending.left.len();
        ending.left.retain(|partition| {
            let error = outcomes.next().and_then(Result::err);
            error.is_some_and(|error| self.needs_marker_again(partition, error))
        });
        if !ending.left.is_empty() {
            if ending.left.len() < left_before {
                self.transactions.note_unmarked(prepared, &ending.left);
            }
            return false;
        }
        // A log that has no room or no descriptor for the completion takes it later.
        self.complete(prepared).await.is_ok()
    }

    fn needs_marker_again(&self, partition: &TopicPartition, error: ErrorCode) -> bool {
        match error {
            // What is deleted has no transactions.
            ErrorCode::UnknownTopicOrPartition => self.transactions.is_in_metadata(partition),
            // The partition has seen a later end: whatever is to be said about this one has been.
            ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced => {
                tracing::warn!(%partition, %error, "a transaction marker is out of date");
                false
            }
            _ => true,
        }
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
