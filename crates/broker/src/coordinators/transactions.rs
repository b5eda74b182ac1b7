//! The transaction coordinator: `TransactionShard` in the coordinators' runtime, one for each partition of
//! `__transaction_state`.
//!
//! ```text
//!   handler ──> decide ──> append, replay ──> high watermark ──> answer
//!   time    ──> abort, forget ──┘                    │
//!                                 an end is prepared ┴──> markers ──> answer, complete
//! ```
//!
//! Markers are written by a task of their own, which nobody can cancel by leaving; a restart begins it
//! again. It begins when the end that they speak of cannot be lost any more.

mod endings;
mod markers;
mod requests;
mod time;

pub(crate) use time::keep_time;

use self::endings::Endings;
use super::runtime::{Coordination, CoordinatorContext, CoordinatorRuntime, ServedPartition, Slot};
use crate::coordinators::Coordinators;
use crate::scheduling::clock;
use config::ServerConfig;
use coordinator::transaction::{
    DecisionContext, PartitionsByLeader, TransactionConfig, TransactionShard, coordinator_of,
    is_led_by_others,
};
use metadata::{MetadataImage, TRANSACTION_VERSION_FEATURE};
use model::{BrokerId, ErrorCode, LeaderEpoch, Offset, ProducerId, TopicPartition};
use record::Compression;
use replication::{Partition, PartitionKey};
use std::sync::atomic::{AtomicBool, AtomicI16, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// The topic that holds the states of transactional ids.
pub(crate) const TRANSACTION_TOPIC: &str = controller::internal_topics::TRANSACTION_STATE;

/// The transaction coordinator of this broker.
#[derive(Debug)]
pub(crate) struct Transactions {
    runtime: CoordinatorRuntime<TransactionCoordination>,
}

type TransactionSlot = Slot<TransactionCoordination>;

/// What the partitions of transactions share.
#[derive(Debug)]
pub(crate) struct TransactionCoordination {
    config: TransactionConfig,
    /// `request.timeout.ms`: who asks waits no longer.
    answer_limit: Duration,
    /// The newest metadata of the cluster.
    image: watch::Sender<Arc<MetadataImage>>,
    /// The level of `transaction.version` there.
    transaction_version: AtomicI16,
    /// Who writes markers.
    coordinators: OnceLock<Weak<Coordinators>>,
}

/// What is noted for a partition.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// It is to be looked for ids that nobody uses.
    is_expiry_asked: AtomicBool,
    /// Ends whose markers are being written.
    endings: Endings,
}

impl Coordination for TransactionCoordination {
    type Shard = TransactionShard;
    type Known = ();
    type Noted = Noted;
    const SUBJECT: &'static str = "transactions";

    fn new_shard(&self) -> TransactionShard {
        TransactionShard::new(self.config)
    }

    fn note_skipped(partition: &Partition, offset: Offset, reason: &str) {
        tracing::error!(
            %partition, offset = offset.0, error = reason,
            "a transactional id is forgotten; end what it may have left open with \
             `riverrun transaction find-hanging` and `abort`"
        );
    }

    fn compression(&self) -> Compression {
        // No key sets a codec for this topic but its own.
        Compression::None
    }

    fn answer_limit(&self) -> Duration {
        self.answer_limit
    }

    fn begin(&self, slot: &Arc<TransactionSlot>, served: &mut ServedPartition<Self>) {
        let coordinators = self.coordinators.get().and_then(Weak::upgrade);
        let Some(coordinators) = coordinators else {
            return;
        };
        // What is found in the log was durable before, or is seen by nobody until it is.
        for prepared in served
            .hosted
            .shard()
            .map_or_else(|_| Vec::new(), |shard| shard.prepared())
        {
            coordinators.resume(slot, served, prepared);
        }
    }

    fn recover(&self, slot: &Arc<TransactionSlot>, served: &mut ServedPartition<Self>) {
        // Of an end that was refused nobody writes the markers.
        self.begin(slot, served);
    }
}

impl Transactions {
    pub(crate) fn new(config: &ServerConfig, surroundings: CoordinatorContext) -> Self {
        let transactions = &config.transactions;
        let coordination = TransactionCoordination {
            config: TransactionConfig {
                timeout_max_ms: transactions.max_timeout_ms,
                transactional_id_expiration_ms: transactions.transactional_id_expiration_ms,
                two_phase_commit_enable: transactions.two_phase_commit_enable,
            },
            answer_limit: Duration::from_millis(
                config.peers.request_timeout_ms.max(1).unsigned_abs().into(),
            ),
            image: watch::Sender::default(),
            transaction_version: AtomicI16::new(0),
            coordinators: OnceLock::new(),
        };
        Self {
            runtime: CoordinatorRuntime::new(coordination, surroundings),
        }
    }

    /// Says who writes markers.
    pub(super) fn set_coordinators(&self, coordinators: Weak<Coordinators>) {
        let _ = self.runtime.coordination().coordinators.set(coordinators);
    }

    /// Sees the newest image, and obeys what it says of the topic and of the protocol's version.
    pub(crate) fn follow(&self, image: &Arc<MetadataImage>) {
        self.runtime.follow(image, TRANSACTION_TOPIC);
        let level = image.features.level(TRANSACTION_VERSION_FEATURE);
        let coordination = self.runtime.coordination();
        coordination.image.send_replace(image.clone());
        coordination
            .transaction_version
            .store(level, Ordering::Relaxed);
    }

    /// Takes over a partition, and writes the markers that a stop has prevented.
    pub(crate) fn load(&self, partition: Arc<Partition>, leader_epoch: LeaderEpoch) {
        self.runtime.load(partition, leader_epoch);
    }

    /// The partition is deleted, or its log directory lost.
    pub(crate) fn unload(&self, key: PartitionKey, leader_epoch: LeaderEpoch) {
        self.runtime.unload(key, leader_epoch);
    }

    /// Nothing is coordinated here, as it seems, until the next metadata come.
    #[cfg(test)]
    pub(crate) fn know_no_partition(&self) {
        let image = MetadataImage::default();
        self.runtime.follow(&image, TRANSACTION_TOPIC);
    }

    /// All the room of the partition of a transactional id.
    #[cfg(test)]
    pub(crate) async fn take_room_of(&self, id: &str) -> tokio::sync::OwnedSemaphorePermit {
        self.runtime.slot_of(id).unwrap().take_room().await
    }

    /// A mistake in an event of the partition of a transactional id, which leaves another state behind.
    #[cfg(test)]
    pub(crate) fn fail_at(&self, id: &str) {
        let slot = self.runtime.slot_of(id).unwrap();
        let empty = self.runtime.coordination().new_shard();
        slot.push(move |_, served| {
            *served.hosted.shard().unwrap() = empty;
            panic!("a test of this");
        });
    }

    /// The next flush of the partition of a transactional id does not come to an end.
    #[cfg(test)]
    pub(crate) fn refuse_flush_of(&self, id: &str, refusal: fn() -> storage::StorageError) {
        self.runtime.slot_of(id).unwrap().refuse_flush(refusal);
    }

    /// How many ends of the partition of a transactional id are under way.
    #[cfg(test)]
    pub(crate) fn ending_count(&self, id: &str) -> usize {
        self.runtime.slot_of(id).unwrap().noted.endings.count()
    }

    /// Whether the metadata that it knows have a topic.
    #[cfg(test)]
    pub(crate) fn knows_topic(&self, name: &str) -> bool {
        self.image().topics.by_name(name).is_some()
    }

    fn image(&self) -> Arc<MetadataImage> {
        self.runtime.coordination().image.borrow().clone()
    }

    /// Partitions by who leads them.
    fn by_leader(&self, partitions: Vec<TopicPartition>, this: BrokerId) -> PartitionsByLeader {
        let by_leader = PartitionsByLeader::of(partitions, &self.image(), this);
        for partition in &by_leader.gone {
            tracing::info!(%partition, "a deleted partition needs no transaction marker");
        }
        by_leader
    }

    /// Returns when one of these partitions is not led by this broker any more.
    async fn led_by_others(&self, leader: BrokerId, partitions: &[TopicPartition]) {
        let mut images = self.runtime.coordination().image.subscribe();
        let is_moved = |image: &Arc<MetadataImage>| is_led_by_others(partitions, image, leader);
        let _ = images.wait_for(is_moved).await;
    }

    /// The broker that coordinates a transactional id.
    ///
    /// # Errors
    /// `CoordinatorNotAvailable` where there is none.
    fn coordinator_of(&self, transactional_id: &str) -> Result<BrokerId, ErrorCode> {
        coordinator_of(&self.image(), TRANSACTION_TOPIC, transactional_id)
    }

    fn context(&self, fresh_producer_id: Option<ProducerId>) -> DecisionContext {
        let level = &self.runtime.coordination().transaction_version;
        DecisionContext {
            now: clock::now(),
            transaction_version: level.load(Ordering::Relaxed),
            fresh_producer_id,
        }
    }
}
