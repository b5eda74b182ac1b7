//! The group coordinator: `GroupShard` in the coordinators' runtime, one for each partition of
//! `__consumer_offsets`, and what groups need beside it: metadata, settings, regular expressions, and the end of
//! what belongs to deleted topics.

use super::runtime::{
    Coordination, CoordinatorContext, CoordinatorRuntime, Nobody, PendingResponse,
    QUICK_PARTITIONS, Room, ServedPartition, Slot, unparked,
};
use crate::scheduling::clock;
use crate::scheduling::log_rate_limit::LogRateLimit;
use coordinator::Decision;
use coordinator::group::{GroupConfig, GroupShard};
use coordinator::runtime::TransactionMarker;
use metadata::MetadataImage;
use model::{ErrorCode, LeaderEpoch, MonotonicTime, Now, Offset};
use parking_lot::{Mutex, RwLock};
use record::Compression;
use replication::{Partition, PartitionKey, VerificationGuard};
use std::sync::Arc;
use std::time::Duration;

mod regexes;
mod topic_deletions;

use self::topic_deletions::NotedTopics;

/// The topic that holds groups and offsets.
pub(crate) const OFFSETS_TOPIC: &str = controller::internal_topics::CONSUMER_OFFSETS;

/// A producer whose transaction a decision's records belong to.
pub(crate) type TransactionalWriter = coordinator::runtime::TransactionalWriter<VerificationGuard>;

/// The group coordinator of this broker.
#[derive(Debug)]
pub(crate) struct Groups {
    runtime: CoordinatorRuntime<GroupCoordination>,
}

/// Room for a request in the partition of its group.
pub(crate) type GroupRoom = Room<GroupCoordination>;

type GroupSlot = Slot<GroupCoordination>;
type GroupSeat = ServedPartition<GroupCoordination>;

/// What the partitions of groups share.
#[derive(Debug)]
pub(crate) struct GroupCoordination {
    environment: RwLock<Environment>,
    /// `offsets.topic.compression.codec`.
    compression: Compression,
    /// `offsets.commit.timeout.ms`.
    answer_limit: Duration,
    /// Lines about offsets of deleted topics that cannot be deleted.
    refused_deletions: LogRateLimit,
}

/// What shards obey and see, as of now.
#[derive(Debug, Clone, Default)]
struct Environment {
    config: Arc<GroupConfig>,
    /// The newest metadata of the cluster.
    image: Arc<MetadataImage>,
}

/// What a shard knows of the world.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// What it was told last.
    environment: Environment,
    /// When offsets of deleted topics are deleted again, which the log has refused.
    deletion_due: Option<MonotonicTime>,
}

impl Coordination for GroupCoordination {
    type Shard = GroupShard;
    type Known = Known;
    /// Topics that were deleted, if their offsets have yet to be.
    type Noted = Mutex<NotedTopics>;
    const SUBJECT: &'static str = "groups";

    fn new_shard(&self) -> GroupShard {
        GroupShard::new(GroupConfig::clone(&self.environment.read().config))
    }

    fn note_skipped(partition: &Partition, offset: Offset, reason: &str) {
        tracing::warn!(%partition, offset = offset.0, error = reason, "a group record is skipped");
    }

    fn compression(&self) -> Compression {
        self.compression
    }

    fn answer_limit(&self) -> Duration {
        self.answer_limit
    }

    fn equip(&self, shard: &mut GroupShard, known: &mut Known) {
        let environment = self.environment.read();
        // Each request looks, and hardly any finds something new.
        if !Arc::ptr_eq(&known.environment.config, &environment.config) {
            shard.set_config(GroupConfig::clone(&environment.config));
            known.environment.config = Arc::clone(&environment.config);
        }
        if !Arc::ptr_eq(&known.environment.image, &environment.image) {
            shard.set_metadata(Arc::clone(&environment.image));
            known.environment.image = Arc::clone(&environment.image);
        }
    }

    fn has_news(&self, slot: &GroupSlot, served: &GroupSeat) -> bool {
        let environment = self.environment.read();
        let known = &served.known.environment;
        !Arc::ptr_eq(&known.config, &environment.config)
            || !Arc::ptr_eq(&known.image, &environment.image)
            || !slot.noted.lock().is_empty()
    }

    fn refresh(&self, slot: &Arc<GroupSlot>, served: &mut GroupSeat) {
        let Ok(shard) = served.hosted.shard() else {
            return;
        };
        // Before the metadata are looked at, which are newer then.
        let deleted = std::mem::take(&mut *slot.noted.lock());
        self.equip(shard, &mut served.known);
        self.forget_deleted(slot, served, &deleted);
    }

    fn begin(&self, slot: &Arc<GroupSlot>, served: &mut GroupSeat) {
        self.refresh(slot, served);
        self.delete_offsets_of_absent_topics(slot, served);
    }

    fn give_up(&self, slot: &Arc<GroupSlot>) {
        *slot.noted.lock() = NotedTopics::Needless;
    }

    fn next_deadline(served: &GroupSeat) -> Option<MonotonicTime> {
        let deadlines = served.hosted.next_deadline().into_iter();
        deadlines.chain(served.known.deletion_due).min()
    }

    fn expire(&self, slot: &Arc<GroupSlot>, served: &mut GroupSeat) {
        let now = clock::now();
        served.hosted.decide(Nobody, None, now, GroupShard::expire);
        self.retry_deletion(slot, served, now.monotonic);
        if let Ok(shard) = served.hosted.shard() {
            for resolution in shard.take_resolutions() {
                regexes::resolve(slot, resolution);
            }
        }
    }
}

impl Groups {
    pub(crate) fn new(
        config: GroupConfig,
        compression: Compression,
        answer_limit: Duration,
        surroundings: CoordinatorContext,
    ) -> Self {
        let coordination = GroupCoordination {
            compression,
            answer_limit,
            environment: RwLock::new(Environment {
                config: Arc::new(config),
                image: Arc::default(),
            }),
            refused_deletions: LogRateLimit::once_a_minute(),
        };
        Self {
            runtime: CoordinatorRuntime::new(coordination, surroundings),
        }
    }

    /// All the room of the partition of a group.
    #[cfg(test)]
    pub(crate) async fn take_room_of(&self, id: &str) -> tokio::sync::OwnedSemaphorePermit {
        self.runtime.slot_of(id).unwrap().take_room().await
    }

    /// Sees the newest image, and obeys what it says of the topic.
    pub(crate) fn follow(&self, image: &Arc<MetadataImage>) {
        self.set_metadata(image);
        self.runtime.follow(image, OFFSETS_TOPIC);
    }

    /// Takes over a partition.
    pub(crate) fn load(&self, partition: Arc<Partition>, leader_epoch: LeaderEpoch) {
        self.runtime.load(partition, leader_epoch);
    }

    /// The partition is deleted, or its log directory lost.
    pub(crate) fn unload(&self, key: PartitionKey, leader_epoch: LeaderEpoch) {
        self.runtime.unload(key, leader_epoch);
    }

    /// Acts on what is due, for ever.
    pub(crate) async fn keep_time(self: Arc<Self>) {
        self.runtime.keep_time().await;
    }

    /// Obeys other settings from now on.
    pub(crate) fn set_config(&self, config: GroupConfig) {
        self.coordination().environment.write().config = Arc::new(config);
    }

    /// The cluster's metadata have changed.
    fn set_metadata(&self, image: &Arc<MetadataImage>) {
        self.coordination().environment.write().image = Arc::clone(image);
    }

    fn coordination(&self) -> &GroupCoordination {
        self.runtime.coordination()
    }

    /// Waits for room in the partition of `group_id` for a request of so many bytes.
    ///
    /// # Errors
    /// `NotCoordinator` when its partition is not here.
    pub(crate) async fn room_for(
        &self,
        group_id: &str,
        bytes: usize,
    ) -> Result<GroupRoom, ErrorCode> {
        Ok(self.runtime.slot_of(group_id)?.room_for(bytes).await)
    }

    /// Lets the shard of `group_id` decide about something of so many bytes, and gives the answer when it may
    /// leave.
    ///
    /// # Errors
    /// Why the coordinator cannot decide: it loads, has no such partition, or cannot write.
    pub(crate) async fn decide<R: Send + 'static>(
        &self,
        group_id: &str,
        bytes: usize,
        decide: impl FnOnce(&mut GroupShard, Now) -> Decision<R> + Send + 'static,
    ) -> Result<R, ErrorCode> {
        let room = self.room_for(group_id, bytes).await?;
        room.decide(None, decide, unparked).answer().await
    }

    /// Asks the shard of `group_id` without changing it. The answer is to be awaited when all has been asked
    /// for that is wanted.
    ///
    /// # Errors
    /// `NotCoordinator` when its partition is not here.
    pub(crate) async fn read<R: Send + 'static>(
        &self,
        group_id: &str,
        bytes: usize,
        read: impl FnOnce(&mut GroupShard, Now) -> R + Send + 'static,
    ) -> Result<PendingResponse<R>, ErrorCode> {
        let slot = self.runtime.slot_of(group_id)?;
        Ok(slot.read(bytes, read).await)
    }

    /// Asks every shard that is loaded; the error of one that is not comes beside.
    pub(crate) async fn read_all<R: Send + 'static>(
        &self,
        read: impl Fn(&GroupShard) -> R + Clone + Send + 'static,
    ) -> (Vec<R>, ErrorCode) {
        let mut asked = Vec::new();
        for slot in self.runtime.all_slots() {
            let read = read.clone();
            asked.push(slot.read(0, move |shard, _| read(shard)).await);
        }
        let (mut answers, mut error) = (Vec::new(), ErrorCode::None);
        for one in asked {
            match one.answer().await {
                Ok(answer) => answers.push(answer),
                Err(of_shard) => error = of_shard,
            }
        }
        (answers, error)
    }

    /// The partition of `__consumer_offsets` that holds `group_id`.
    ///
    /// # Errors
    /// `NotCoordinator` when it is not here.
    pub(crate) fn partition_of(&self, group_id: &str) -> Result<Arc<Partition>, ErrorCode> {
        Ok(self.runtime.slot_of(group_id)?.partition.clone())
    }

    /// The next flush of the partition of a group does not come to an end.
    #[cfg(test)]
    pub(crate) fn refuse_flush_of(&self, id: &str, refusal: fn() -> storage::StorageError) {
        self.runtime.slot_of(id).unwrap().refuse_flush(refusal);
    }

    /// How many wait for others in the partition of a group.
    #[cfg(test)]
    pub(crate) fn parked_count(&self, group_id: &str) -> usize {
        let slot = self.runtime.slot_of(group_id).unwrap();
        let (told, count) = std::sync::mpsc::channel();
        slot.push(move |_, served| told.send(served.hosted.parked_count()).unwrap());
        count.recv().unwrap()
    }

    /// How many events of the partition of a group wait for who has it.
    #[cfg(test)]
    pub(crate) fn queued_count(&self, group_id: &str) -> usize {
        self.runtime.slot_of(group_id).unwrap().queued_count()
    }

    /// Whether somebody has, or is to have, the partition of a group.
    #[cfg(test)]
    pub(crate) fn is_at_work(&self, group_id: &str) -> bool {
        let slot = self.runtime.slot_of(group_id);
        slot.is_ok_and(|slot| slot.is_scheduled())
    }

    /// Ends a transaction in one partition of `__consumer_offsets`: the marker goes to its log, and
    /// the offsets that the transaction holds take effect or are dropped. The inner error is that of a log that
    /// refuses the marker.
    ///
    /// # Errors
    /// `NotCoordinator` when the partition is not here.
    pub(crate) async fn end_transaction(
        &self,
        index: i32,
        marker: TransactionMarker,
        transaction_version: i16,
    ) -> Result<PendingResponse<Result<(), ErrorCode>>, ErrorCode> {
        let slot = self.runtime.slot_at(index)?;
        let none = |_| Err(ErrorCode::UnknownServerError);
        let (asker, asked) = slot.asker(0, none).await;
        let is_quick =
            |shard: &GroupShard| shard.has_at_most_pending(marker.producer_id, QUICK_PARTITIONS);
        slot.push_quick(&is_quick, move |_, served| {
            let now = clock::now();
            served
                .hosted
                .end_transaction(asker, marker, transaction_version, now);
        });
        Ok(asked)
    }
}
