//! Loading a shard, and the markers of every transaction whose end is decided: written at once,
//! and again until each partition that still exists has its own; then the transaction is complete.

use super::{Flushing, Shard, State};
use crate::coordinators::Coordinators;
use crate::coordinators::coordinator_log::{GroupCommit, REPLAY_PAUSE};
use crate::coordinators::transaction_markers::TransactionMarker;
use crate::runtime::apart::in_steps;
use coordinator::transaction::PreparedTransaction;
use model::{ErrorCode, TopicPartition};
use parking_lot::Mutex;
use replication::Partition;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long a partition that took no marker is left alone.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The decision that a transaction ends, as its shard's log has it.
#[derive(Debug)]
pub(super) struct EndDecision {
    partition: Arc<Partition>,
    /// It is below.
    end_offset: i64,
    /// Done when it is durable; none where nothing has to be flushed.
    flushing: Option<Flushing>,
}

impl EndDecision {
    pub(super) const fn new(
        partition: Arc<Partition>,
        end_offset: i64,
        flushing: Option<Flushing>,
    ) -> Self {
        Self {
            partition,
            end_offset,
            flushing,
        }
    }

    /// One that a start has found in the log.
    fn read_back(shard: &Shard) -> Self {
        Self::new(shard.partition.clone(), 0, None)
    }

    /// `None` when it will not become durable: the log has failed, or is closed.
    fn is_durable(&self) -> Option<bool> {
        if self.partition.offsets().high_watermark >= self.end_offset {
            return Some(true);
        }
        let has_ended = self.partition.is_failed() || self.partition.is_closed();
        (!has_ended).then_some(false)
    }
}

impl Coordinators {
    /// Takes over a partition of `__transaction_state`: replays its log on a thread for blocking
    /// work, then serves it and writes the markers that a stop has prevented.
    pub(crate) fn load_transactions(self: &Arc<Self>, index: i32, partition: Arc<Partition>) {
        let shard = Arc::new(Shard {
            partition,
            state: Mutex::new(State::Loading),
            group_commit: GroupCommit::default(),
        });
        let shards = &self.transactions.shards;
        shards.write().insert(index, shard.clone());
        self.replay_transactions(shard);
    }

    fn replay_transactions(self: &Arc<Self>, shard: Arc<Shard>) {
        let coordinators = self.clone();
        self.transactions.runtime.spawn_blocking(move || {
            let Some(prepared) = shard.load(coordinators.transactions.config) else {
                let runtime = coordinators.transactions.runtime.clone();
                runtime.spawn(async move {
                    tokio::time::sleep(REPLAY_PAUSE).await;
                    coordinators.replay_transactions(shard);
                });
                return;
            };
            let coordinator_epoch = shard.partition.offsets().leader_epoch;
            for one in prepared {
                let decision = EndDecision::read_back(&shard);
                drop(coordinators.finish(one, coordinator_epoch, decision));
            }
        });
    }

    /// Writes the markers of a transaction once its end is durable, in a task that goes on when
    /// nobody waits for it. The handle is done when every marker has been tried once, or the end
    /// could not be made durable yet.
    pub(super) fn finish(
        self: &Arc<Self>,
        prepared: PreparedTransaction,
        coordinator_epoch: i32,
        mut decision: EndDecision,
    ) -> JoinHandle<Result<(), ErrorCode>> {
        let marker = TransactionMarker {
            producer_id: prepared.producer.producer_id,
            producer_epoch: prepared.producer.producer_epoch,
            coordinator_epoch,
            is_commit: prepared.committed,
        };
        let coordinators = self.clone();
        tokio::spawn(in_steps(async move {
            // A marker must not outlive the end that it speaks of.
            let outcome = durable(decision.flushing.take()).await;
            let mut left = prepared.partitions.clone();
            if outcome.is_err() || !coordinators.try_finish(&prepared, marker, &mut left).await {
                tokio::spawn(in_steps(
                    coordinators.go_on_finishing(prepared, marker, left, decision),
                ));
            }
            outcome
        }))
    }

    async fn go_on_finishing(
        self: Arc<Self>,
        prepared: PreparedTransaction,
        marker: TransactionMarker,
        mut left: Vec<TopicPartition>,
        decision: EndDecision,
    ) {
        let mut stop = self.node.stop.subscribe();
        loop {
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => {}
                // The next start begins again.
                _ = stop.wait_for(|is_stopping| *is_stopping) => return,
            }
            // Without a file descriptor the end was not made durable for a while.
            match decision.is_durable() {
                Some(true) => {}
                Some(false) => continue,
                None => return,
            }
            if self.try_finish(&prepared, marker, &mut left).await {
                return;
            }
        }
    }

    /// Writes the markers that are left; completes the transaction when none is. Returns whether
    /// there is nothing more to do.
    async fn try_finish(
        &self,
        prepared: &PreparedTransaction,
        marker: TransactionMarker,
        left: &mut Vec<TopicPartition>,
    ) -> bool {
        let version = prepared.client_transaction_version;
        let outcomes = self.write_transaction_markers(marker, left, version).await;
        let mut outcomes = outcomes.into_iter();
        let left_before = left.len();
        left.retain(|partition| {
            let error = outcomes.next().and_then(Result::err);
            error.is_some_and(|error| self.needs_marker_again(partition, error))
        });
        let id = &*prepared.transactional_id;
        if !left.is_empty() {
            if left.len() < left_before {
                self.transactions.note_unmarked(prepared, left);
            }
            return false;
        }
        let completed = self.transactions.decide(id, None, |shard, moment| {
            Ok(shard.complete(id, prepared.producer, moment))
        });
        match completed.await {
            // Another coordinator writes the markers, or a human must look.
            Ok(_) | Err(ErrorCode::NotCoordinator) => true,
            Err(_) => false,
        }
    }

    fn needs_marker_again(&self, partition: &TopicPartition, error: ErrorCode) -> bool {
        match error {
            ErrorCode::UnknownTopicOrPartition => {
                let image = self.node.image();
                let topic = image.topics.by_name(&partition.topic);
                // What is deleted has no transactions.
                topic.is_some_and(|topic| topic.partition(partition.partition).is_some())
            }
            // The partition has seen a later end: whatever is to be said about this one has been.
            ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced => {
                tracing::warn!(%partition, %error, "a transaction marker is out of date");
                false
            }
            _ => true,
        }
    }
}

/// Waits until a decision is durable.
///
/// # Errors
/// When it cannot be made so.
pub(super) async fn durable(flushing: Option<Flushing>) -> Result<(), ErrorCode> {
    match flushing {
        // The task ends without an outcome when the server stops.
        Some(flushing) => flushing.await.unwrap_or(Err(ErrorCode::NotCoordinator)),
        None => Ok(()),
    }
}
