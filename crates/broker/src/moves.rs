//! Partitions on their way from one log directory to another (KIP-113).
//!
//! ```text
//!   AlterReplicaLogDirs ─> B/topic-0.<id>-future     a copy that follows the log in A
//!   caught up: the metadata say that it is in B
//!   log locked: the rest is copied and synced
//!     B/topic-0.<id>-future ─> B/topic-0             from here on both are complete
//!     A/topic-0             ─> A/topic-0.<id>-delete
//!   log unlocked: checkpoints
//! ```
//!
//! The controller knows before the log is in B, so that B never fails unnoticed (KIP-858).
//! `num.replica.alter.log.dirs.threads` partitions are copied side by side, as many as there are
//! directories if it is not set, and share `replica.alter.log.dirs.io.max.bytes.per.second`. A
//! restart goes on with the copies that it finds; a crash between the two renames leaves two logs
//! that are equal, see `hosting`. A log that is copied is not compacted meanwhile, since the copy
//! may be older than what the cleaner's checkpoint says.

use crate::Broker;
use crate::clock::{now_ms, random_uuid, steady_ms};
use crate::hosting;
use crate::log_directories::LogDirectory;
use crate::maintenance;
use crate::partitions::Absence;
use metadata::{ConfigResource, MetadataRecord};
use model::{ErrorCode, TopicPartition, Uuid};
use parking_lot::{Mutex, RwLock};
use replication::{Isolation, Partition, ReadRequest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use storage::log_directory::{PartitionDirectory, PartitionDirectoryState};
use storage::{AppendError, Disk, Log, LogOpening, RealDisk, StorageError, TruncateError};
use tokio::sync::Notify;

/// Longest name of a directory.
const NAME_LENGTH_MAX: usize = 255;
/// What a copy reads and writes at once.
const COPY_BYTES: usize = 1 << 20;
/// The limit of bytes a second.
const RATE_KEY: &str = "replica.alter.log.dirs.io.max.bytes.per.second";
/// A copy that has to wait looks this often whether it still is to go on.
const PACE_MS: u64 = 50;

/// Every partition that is moved.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    by_partition: Mutex<BTreeMap<(Uuid, i32), Arc<Move>>>,
    changed: Notify,
    is_stopped: AtomicBool,
    /// Read while a partition is copied, written by who stops it all.
    copying: RwLock<()>,
    /// When the bytes that were copied are paid for.
    paid_until_ms: Mutex<i64>,
}

/// One partition that is moved.
#[derive(Debug)]
struct Move {
    partition: Arc<Partition>,
    destination: Arc<LogDirectory>,
    /// The copy; taken when it becomes the log, or is given up.
    copy: Mutex<Option<Log<RealDisk>>>,
    shown: Mutex<CopyState>,
    /// Whether a task has taken it up.
    is_begun: AtomicBool,
    is_cancelled: AtomicBool,
}

/// How far a copy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyState {
    /// The log directory it is in.
    pub(crate) directory: String,
    /// Its size.
    pub(crate) size_bytes: u64,
    /// The offset after its last record.
    pub(crate) end_offset: i64,
}

/// Why a partition is not moved.
#[derive(Debug, thiserror::Error)]
enum MoveError {
    #[error("the log cannot be read: {0}")]
    Read(#[from] replication::ReadError),
    #[error("the log cannot be read: {0}")]
    Source(StorageError),
    #[error("the copy cannot be written: {0}")]
    Append(#[from] AppendError),
    #[error("the copy cannot be written: {0}")]
    Copy(#[from] StorageError),
    #[error("the copy cannot begin anew: {0}")]
    Restart(#[from] TruncateError),
    #[error("the log ends above its last record")]
    Gap,
    #[error("the metadata do not take its new place: {0}")]
    Place(ErrorCode),
    #[error("the move is cancelled")]
    Cancelled,
}

/// Starts the tasks that copy; they end when the broker stops.
pub(crate) fn start(broker: &Arc<Broker>) {
    let asked = broker.config.log.num_replica_alter_log_dirs_threads;
    let count = asked.and_then(|count| usize::try_from(count).ok());
    for _ in 0..count.unwrap_or(broker.log_directories.len()).max(1) {
        tokio::spawn(run(Arc::downgrade(broker)));
    }
}

async fn run(weak: Weak<Broker>) {
    let Some(broker) = weak.upgrade() else { return };
    let mut stop = broker.stop.subscribe();
    drop(broker);
    loop {
        let Some(broker) = weak.upgrade() else { return };
        let Some(next) = broker.moves.next() else {
            let changed = broker.moves.changed.notified();
            tokio::select! {
                () = changed => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            continue;
        };
        // There may be work for another task.
        broker.moves.changed.notify_one();
        let done = tokio::task::spawn_blocking(move || next.run(&broker)).await;
        if let Err(error) = done {
            tracing::error!(%error, "moving a partition failed");
        }
        if *stop.borrow() {
            return;
        }
    }
}

/// Begins to move a partition, or stops moving it when it is asked back to where it is.
///
/// # Errors
/// The codes of AlterReplicaLogDirs.
pub(crate) fn begin(
    broker: &Broker,
    name: &TopicPartition,
    destination: &str,
) -> Result<(), ErrorCode> {
    let state = PartitionDirectoryState::Future;
    let future_name = PartitionDirectory::marked_name(name, state, random_uuid());
    if future_name.len() > NAME_LENGTH_MAX {
        return Err(ErrorCode::InvalidTopicException);
    }
    let mut directories = broker.log_directories.iter();
    let directory = directories
        .find(|one| one.name() == destination)
        .ok_or(ErrorCode::LogDirNotFound)?;
    if directory.is_offline() {
        return Err(ErrorCode::KafkaStorageError);
    }
    if broker.is_cordoned(directory) {
        return Err(ErrorCode::InvalidReplicaAssignment);
    }
    let partition = find(broker, name)?;
    let known = broker.moves.of(&partition);
    if let Some(known) = known {
        if known.destination.name() == destination {
            return Ok(());
        }
        broker.moves.cancel(broker, &partition);
    }
    if *partition.log_directory() == *destination {
        return Ok(());
    }
    // Otherwise a copy could be left behind in the directory that is offline.
    if broker.log_directories.iter().any(|one| one.is_offline()) {
        return Err(ErrorCode::KafkaStorageError);
    }
    broker
        .cleaner
        .pause(partition.topic_id(), partition.index());
    let path = directory.path().join(future_name);
    let created = create(&partition, path);
    match created {
        Ok(copy) => {
            tracing::info!(%partition, destination, "the partition is being moved");
            broker.moves.insert(partition, directory.clone(), copy);
            Ok(())
        }
        Err(error) => {
            broker
                .cleaner
                .resume(partition.topic_id(), partition.index());
            broker.report_directory_error(destination, &error);
            Err(ErrorCode::KafkaStorageError)
        }
    }
}

fn find(broker: &Broker, name: &TopicPartition) -> Result<Arc<Partition>, ErrorCode> {
    match broker.partitions.find(&name.topic, name.partition) {
        Ok(partition) if partition.with_log(|log| log.is_failed()) => {
            Err(ErrorCode::KafkaStorageError)
        }
        Ok(partition) => Ok(partition),
        Err(Absence::NotLed { .. }) => Err(ErrorCode::ReplicaNotAvailable),
        Err(absence) => Err(absence.into()),
    }
}

fn create(partition: &Partition, path: PathBuf) -> Result<Log<RealDisk>, StorageError> {
    let (config, start) =
        partition.with_log(|log| (log.config().clone(), log.first_segment_base_offset()));
    Log::create(LogOpening {
        topic_id: Some(partition.topic_id()),
        config,
        log_start_offset: start,
        now_ms: now_ms(),
        ..LogOpening::new(RealDisk, path, partition.topic_partition().clone())
    })
}

/// Goes on with a copy that an earlier run of the server has left.
pub(crate) fn resume(broker: &Broker, directory: &Arc<LogDirectory>, found: &PartitionDirectory) {
    let path = directory.path().join(&found.name);
    let name = &found.topic_partition;
    let partition = broker.partitions.find(&name.topic, name.partition).ok();
    let wanted = partition.filter(|partition| {
        *partition.log_directory() != *directory.name() && broker.moves.of(partition).is_none()
    });
    let Some(partition) = wanted else {
        remove(&path);
        return;
    };
    let config = partition.with_log(|log| log.config().clone());
    let opened = Log::open(LogOpening {
        topic_id: Some(partition.topic_id()),
        config,
        now_ms: now_ms(),
        ..LogOpening::new(RealDisk, path.clone(), name.clone())
    });
    match opened {
        Ok(opened) => {
            broker
                .cleaner
                .pause(partition.topic_id(), partition.index());
            broker
                .moves
                .insert(partition, directory.clone(), opened.log);
        }
        Err(error) => {
            tracing::warn!(%partition, %error, "a copy cannot be gone on with; it is removed");
            remove(&path);
        }
    }
}

fn remove(path: &Path) {
    if let Err(error) = RealDisk.remove_directory(path) {
        tracing::warn!(path = %path.display(), %error, "cannot be removed");
    }
}

const fn key(partition: &Partition) -> (Uuid, i32) {
    (partition.topic_id(), partition.index())
}

impl Moves {
    /// The copy that a partition is being moved to.
    pub(crate) fn copy_of(&self, partition: &Partition) -> Option<CopyState> {
        let shown = self.of(partition)?.shown.lock().clone();
        (*partition.log_directory() != *shown.directory).then_some(shown)
    }

    /// Moves a partition no more; the copy is removed.
    pub(crate) fn cancel(&self, broker: &Broker, partition: &Partition) {
        let Some(found) = self.by_partition.lock().remove(&key(partition)) else {
            return;
        };
        found.is_cancelled.store(true, Ordering::Release);
        found.discard();
        broker
            .cleaner
            .resume(partition.topic_id(), partition.index());
    }

    /// Gives up what is moved into or out of a log directory that has failed.
    pub(crate) fn cancel_in(&self, directory: &str) {
        for one in self.by_partition.lock().values() {
            if one.destination.name() == directory || *one.partition.log_directory() == *directory {
                one.is_cancelled.store(true, Ordering::Release);
            }
        }
        self.changed.notify_one();
    }

    /// Stops; what is being copied goes on at the next start.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        drop(self.copying.write());
    }

    fn of(&self, partition: &Partition) -> Option<Arc<Move>> {
        self.by_partition.lock().get(&key(partition)).cloned()
    }

    /// Takes up a move that no task has taken up.
    fn next(&self) -> Option<Arc<Move>> {
        let moves = self.by_partition.lock();
        let mut moves = moves.values();
        let next = moves.find(|one| !one.is_begun.swap(true, Ordering::AcqRel));
        next.cloned()
    }

    /// Pays for bytes; returns when that is done.
    fn pay(&self, bytes: usize, bytes_per_second: i64) -> i64 {
        let cost_ms = (bytes as i64).saturating_mul(1000) / bytes_per_second.max(1);
        let mut paid_until_ms = self.paid_until_ms.lock();
        *paid_until_ms = (*paid_until_ms).max(steady_ms()).saturating_add(cost_ms);
        *paid_until_ms
    }

    fn insert(
        &self,
        partition: Arc<Partition>,
        destination: Arc<LogDirectory>,
        copy: Log<RealDisk>,
    ) {
        let shown = CopyState {
            directory: destination.name().to_owned(),
            size_bytes: copy.size_bytes(),
            end_offset: copy.log_end_offset(),
        };
        let one = Arc::new(Move {
            partition: partition.clone(),
            destination,
            copy: Mutex::new(Some(copy)),
            shown: Mutex::new(shown),
            is_begun: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
        });
        self.by_partition.lock().insert(key(&partition), one);
        self.changed.notify_one();
    }

    /// Whether `one` is still what is to be done with its partition.
    fn forget(&self, one: &Arc<Move>) {
        let mut moves = self.by_partition.lock();
        let key = key(&one.partition);
        if moves.get(&key).is_some_and(|known| Arc::ptr_eq(known, one)) {
            moves.remove(&key);
        }
    }
}

impl Move {
    /// Copies all there is, and puts the copy in the place of the log.
    fn run(self: &Arc<Self>, broker: &Broker) {
        let _copying = broker.moves.copying.read();
        let is_stopped = || broker.moves.is_stopped.load(Ordering::Acquire);
        let moved = loop {
            if is_stopped() {
                return;
            }
            match self.copy_some() {
                Ok(0) => break self.take_over(broker),
                Ok(bytes) => self.pace(bytes, broker),
                Err(error) => break Err(error),
            }
        };
        match moved {
            Ok(old) => self.settle(broker, old),
            // The next start goes on with it.
            Err(_) if is_stopped() => {}
            Err(error) => {
                self.discard();
                broker.moves.forget(self);
                broker
                    .cleaner
                    .resume(self.partition.topic_id(), self.partition.index());
                self.report(broker, &error);
            }
        }
    }

    fn report(&self, broker: &Broker, error: &MoveError) {
        let partition = &self.partition;
        match error {
            MoveError::Cancelled => tracing::debug!(%partition, "no longer moved"),
            MoveError::Append(AppendError::Storage(failure)) | MoveError::Copy(failure) => {
                tracing::error!(%partition, %error, "the partition is not moved");
                broker.report_directory_error(self.destination.name(), failure);
            }
            error => tracing::error!(%partition, %error, "the partition is not moved"),
        }
    }

    /// Copies some batches; returns how many bytes, 0 when there are no more.
    fn copy_some(&self) -> Result<usize, MoveError> {
        let mut copy = self.copy.lock();
        let log = copy.as_mut().ok_or(MoveError::Cancelled)?;
        if self.is_cancelled.load(Ordering::Acquire) {
            return Err(MoveError::Cancelled);
        }
        let first = self
            .partition
            .with_log(|source| source.first_segment_base_offset());
        if first > log.log_end_offset() {
            // Retention has removed everything that has been copied.
            log.restart_at(first, now_ms())?;
        }
        let start = self.partition.offsets().log_start_offset;
        let read = self.partition.read(&ReadRequest {
            current_leader_epoch: -1,
            fetch_offset: log.log_end_offset().max(start),
            last_fetched_epoch: -1,
            max_bytes: COPY_BYTES,
            at_least_one_batch: true,
            isolation: Isolation::LogEnd,
        })?;
        let Some(slice) = read.records else {
            return Ok(0);
        };
        let mut bytes = Vec::new();
        let path = self.partition.log_directory();
        slice.read_into(&mut bytes).map_err(|source| {
            MoveError::Source(StorageError {
                operation: "read",
                file: PathBuf::from(&*path),
                source,
            })
        })?;
        log.append_as_follower(&bytes, i32::MAX, now_ms())?;
        let mut shown = self.shown.lock();
        shown.size_bytes = log.size_bytes();
        shown.end_offset = log.log_end_offset();
        Ok(bytes.len())
    }

    /// Waits as long as `replica.alter.log.dirs.io.max.bytes.per.second` asks for.
    fn pace(&self, bytes: usize, broker: &Broker) {
        let until_ms = broker.moves.pay(bytes, bytes_per_second(broker));
        let is_over = || {
            self.is_cancelled.load(Ordering::Acquire)
                || broker.moves.is_stopped.load(Ordering::Acquire)
        };
        loop {
            let left_ms = until_ms - steady_ms();
            if left_ms <= 0 || is_over() {
                return;
            }
            let pause_ms = left_ms.unsigned_abs().min(PACE_MS);
            std::thread::sleep(Duration::from_millis(pause_ms));
        }
    }

    /// Puts the copy in the place of the log, in the metadata first; returns what was the log
    /// before, retired.
    fn take_over(&self, broker: &Broker) -> Result<Log<RealDisk>, MoveError> {
        let from = self.partition.log_directory();
        self.place(broker, self.destination.id())?;
        let completed = self.complete();
        let mut directories = broker.log_directories.iter();
        let source = directories.find(|one| *one.name() == *from);
        if let (Err(_), Some(source)) = (&completed, source)
            && let Err(error) = self.place(broker, source.id())
        {
            let partition = &self.partition;
            tracing::error!(%partition, %error, "its place is told at the next start");
        }
        completed
    }

    /// Tells the controller where the partition is, and waits until the metadata say so.
    fn place(&self, broker: &Broker, directory: Uuid) -> Result<(), MoveError> {
        let (topic_id, index) = (self.partition.topic_id(), self.partition.index());
        let node_id = broker.node_id;
        let told = broker.controller.run(move |controller| {
            let image = controller.log.image().clone();
            let Some(record) = placed(&image, topic_id, index, node_id, directory) else {
                return Ok(());
            };
            controller.commit(&[record]).map_err(|error| {
                tracing::error!(%error, "the metadata log takes no records");
                ErrorCode::KafkaStorageError
            })
        });
        let told = broker.runtime.block_on(told);
        told.and_then(|committed| committed)
            .map_err(MoveError::Place)
    }

    /// Makes the copy the log; returns what was the log before, retired.
    fn complete(&self) -> Result<Log<RealDisk>, MoveError> {
        let mut copy = self.copy.lock().take().ok_or(MoveError::Cancelled)?;
        // Most of the copy is made durable before the log is locked.
        if let Err(error) = copy.flush(now_ms()) {
            *self.copy.lock() = Some(copy);
            return Err(error.into());
        }
        let directory = self.destination.name().into();
        self.partition
            .move_log(directory, |source| self.finish(source, copy))
    }

    /// Copies the rest, and changes the names.
    fn finish(
        &self,
        source: &mut Log<RealDisk>,
        mut copy: Log<RealDisk>,
    ) -> Result<Log<RealDisk>, MoveError> {
        let result = self.copy_rest(source, &mut copy);
        if let Err(error) = result {
            *self.copy.lock() = Some(copy);
            return Err(error);
        }
        let name = self.partition.topic_partition();
        copy.rename_directory(&name.to_string())?;
        let state = PartitionDirectoryState::Deleted;
        source
            .retire(&PartitionDirectory::marked_name(name, state, random_uuid()))
            .map_err(MoveError::Source)?;
        if let Some(parent) = source.directory().parent() {
            // From here on records go to the copy: the old log must not come back.
            RealDisk.sync_directory(parent).map_err(|error| {
                MoveError::Source(StorageError {
                    operation: "sync",
                    file: parent.to_owned(),
                    source: error,
                })
            })?;
        }
        Ok(copy)
    }

    fn copy_rest(&self, source: &Log<RealDisk>, copy: &mut Log<RealDisk>) -> Result<(), MoveError> {
        if self.is_cancelled.load(Ordering::Acquire) || source.is_failed() {
            return Err(MoveError::Cancelled);
        }
        let end_offset = source.log_end_offset();
        while copy.log_end_offset() < end_offset {
            let from = copy.log_end_offset().max(source.log_start_offset());
            let mut bytes = Vec::new();
            source
                .read_into(from, COPY_BYTES, i64::MAX, &mut bytes)
                .map_err(replication::ReadError::from)?;
            match bytes.is_empty() {
                false => copy
                    .append_as_follower(&bytes, i32::MAX, now_ms())
                    .map(drop)?,
                true if source.log_start_offset() == end_offset => {
                    copy.restart_at(end_offset, now_ms())?;
                }
                true => return Err(MoveError::Gap),
            }
        }
        copy.take_over(source)?;
        Ok(copy.flush(now_ms())?)
    }

    /// What follows when the copy is the log.
    fn settle(self: &Arc<Self>, broker: &Broker, old: Log<RealDisk>) {
        let partition = &self.partition;
        let delay_ms = old.config().file_delete_delay_ms;
        let path = old.directory().to_owned();
        drop(old);
        broker
            .removals
            .schedule(path, now_ms().saturating_add(delay_ms));
        broker.moves.forget(self);
        let name = partition.topic_partition();
        broker
            .cleaner
            .move_checkpoint(broker, name, self.destination.name());
        broker
            .cleaner
            .resume(partition.topic_id(), partition.index());
        maintenance::checkpoint_recovery_points(broker);
        maintenance::checkpoint_log_start_offsets(broker);
        tracing::info!(%partition, destination = self.destination.name(), "the partition is moved");
    }

    /// Removes the copy.
    fn discard(&self) {
        if let Some(copy) = self.copy.lock().take() {
            let path = copy.directory().to_owned();
            drop(copy);
            remove(&path);
        }
    }
}

/// The limit in force; it can only be set while the server runs.
fn bytes_per_second(broker: &Broker) -> i64 {
    let image = broker.image();
    let resources = [
        ConfigResource::broker(broker.node_id),
        ConfigResource::all_brokers(),
    ];
    let mut values = resources
        .iter()
        .filter_map(|resource| image.configs.of(resource)?.get(RATE_KEY)?.parse().ok());
    values.next().unwrap_or(i64::MAX)
}

fn placed(
    image: &metadata::MetadataImage,
    topic_id: Uuid,
    index: i32,
    node_id: i32,
    directory: Uuid,
) -> Option<MetadataRecord> {
    let partition = image.topics.by_id(topic_id)?.partition(index)?;
    Some(hosting::placement(
        topic_id, index, node_id, partition, directory,
    ))
}
