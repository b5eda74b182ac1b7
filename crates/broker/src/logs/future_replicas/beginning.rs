//! How a move begins: as the only one of its partition, and beside those of others.
//!
//! To begin is to make a copy, which may take as long as the disk of the log, or of the copy, is stuck. So
//! whoever begins a move has two turns: that of its partition, and that of all moves from one log directory
//! to another. Both are had before a thread is blocked: of such threads there are no more than pairs of
//! directories.

use super::GivenUp;
use crate::logs::Logs;
use crate::logs::log_dir_queue::Handed;
use crate::logs::log_directories::LogDirectory;
use crate::logs::partitions::Unavailable;
use crate::scheduling::clock::{now_ms, random_uuid};
use model::{ErrorCode, Offset, TopicPartition};
use parking_lot::Mutex;
use replication::Partition;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use storage::log_directory::{PartitionDirectory, PartitionDirectoryState};
use storage::partition_metadata::sync_partition_metadata;
use storage::{Log, LogOpening, RealDisk, StorageError};

/// Longest name of a directory.
const NAME_LENGTH_MAX: usize = 255;

/// A turn that is waited for without a thread.
type Turn = Arc<tokio::sync::Mutex<()>>;

/// The turns of those who begin moves.
#[derive(Debug, Default)]
pub(super) struct Beginnings {
    by_partition: Mutex<BTreeMap<TopicPartition, Turn>>,
    /// By the places of the log directories that moves are from, and to.
    by_pair: Mutex<BTreeMap<(usize, usize), Turn>>,
}

impl Beginnings {
    fn of_partition(&self, name: &TopicPartition) -> Turn {
        let mut turns = self.by_partition.lock();
        turns.entry(name.clone()).or_default().clone()
    }

    fn of_pair(&self, from: usize, to: usize) -> Turn {
        self.by_pair.lock().entry((from, to)).or_default().clone()
    }

    /// Forgets the turn of a partition that nobody has or waits for.
    fn forget(&self, name: &TopicPartition) {
        let mut turns = self.by_partition.lock();
        if turns
            .get(name)
            .is_some_and(|turn| Arc::strong_count(turn) == 1)
        {
            turns.remove(name);
        }
    }
}

/// Begins to move a partition, or stops moving it when it is asked back to where it is.
///
/// # Errors
/// The codes of AlterReplicaLogDirs.
pub(crate) async fn begin(
    logs: &Arc<Logs>,
    name: &TopicPartition,
    destination: &str,
) -> Result<(), ErrorCode> {
    // No topic has such a name, which may be as long as the request: it is not kept for a turn.
    if name.topic.len() > NAME_LENGTH_MAX {
        return Err(ErrorCode::InvalidTopicException);
    }
    let beginnings = &logs.future_replicas.beginnings;
    let turn = beginnings.of_partition(name).lock_owned().await;
    let begun = begin_alone(logs, name, destination).await;
    drop(turn);
    beginnings.forget(name);
    begun
}

/// [`begin`] of who has the turn of the partition.
async fn begin_alone(
    logs: &Arc<Logs>,
    name: &TopicPartition,
    destination: &str,
) -> Result<(), ErrorCode> {
    let mut directories = logs.directories.iter();
    let to = directories
        .position(|one| one.name() == destination)
        .ok_or(ErrorCode::LogDirNotFound)?;
    let directory = &logs.directories[to];
    let path = future_path(directory, name);
    let future_name = path.file_name().unwrap_or_default();
    if future_name.len() > NAME_LENGTH_MAX {
        return Err(ErrorCode::InvalidTopicException);
    }
    if directory.is_offline() {
        return Err(ErrorCode::KafkaStorageError);
    }
    if logs.is_cordoned(directory) {
        return Err(ErrorCode::InvalidReplicaAssignment);
    }
    let partition = find(logs, name).inspect_err(|error| {
        // It may come here.
        if matches!(
            error,
            ErrorCode::UnknownTopicOrPartition | ErrorCode::ReplicaNotAvailable
        ) {
            logs.future_replicas.destinations.note(name, directory);
        }
    })?;
    // What has its name there is not out of the way yet.
    if directory.leaving_for(name).is_some() {
        return Err(ErrorCode::KafkaStorageError);
    }
    if let Some(known) = logs.future_replicas.of(&partition) {
        if known.destination.name() == destination {
            return Ok(());
        }
        end(logs, &partition).await;
    }
    if *partition.log_directory() == *destination {
        return Ok(());
    }
    // Otherwise a copy could be left behind in the directory that is offline.
    if logs.directories.iter().any(|one| one.is_offline()) {
        return Err(ErrorCode::KafkaStorageError);
    }
    let turn = logs
        .future_replicas
        .beginnings
        .of_pair(partition.directory_index(), to);
    let turn = turn.lock_owned().await;
    let (logs, directory) = (logs.clone(), directory.clone());
    let begin = move || {
        let _turn = turn;
        begin_copy(&logs, &partition, &directory, path)
    };
    // It is not begun any more when the server stops.
    let begun = tokio::task::spawn_blocking(begin).await;
    begun.unwrap_or(Err(ErrorCode::KafkaStorageError))
}

/// Ends the move of a partition that is to go elsewhere. Its copy has become the log then, or never will.
async fn end(logs: &Arc<Logs>, partition: &Partition) {
    let Some(given_up) = logs.future_replicas.give_up(partition) else {
        return;
    };
    let directory_index = logs
        .host
        .directory_index_of(given_up.directory().shared_name());
    let wait = move || {
        given_up.wait_until_decided();
        given_up
    };
    if let Ok(given_up) = tokio::task::spawn_blocking(wait).await {
        let discard = |_: &Arc<Logs>, copy: GivenUp| copy.discard();
        let shares = [(directory_index, given_up)].into();
        Handed::new(logs).in_each(shares, discard).leave();
    }
}

/// Makes the copy of a log, which is moved from then on. Blocks.
fn begin_copy(
    logs: &Logs,
    partition: &Arc<Partition>,
    directory: &Arc<LogDirectory>,
    path: PathBuf,
) -> Result<(), ErrorCode> {
    let pause = logs.cleaner.pause(partition);
    let destination = directory.name();
    let truncation_count = partition.truncation_count();
    // What cannot be read is no fault of where it goes to.
    let start = first_offset(partition).map_err(|error| {
        logs.report_log_error(partition, &error);
        ErrorCode::KafkaStorageError
    })?;
    match create(partition, path, start) {
        Ok(copy) => {
            tracing::info!(%partition, destination, "the partition is being moved");
            let moves = &logs.future_replicas;
            let copy = (copy, truncation_count);
            moves.insert(partition.clone(), directory.clone(), copy, pause);
            // Its topic may have been deleted meanwhile, by who has found nothing to cancel then.
            if logs.partitions.topic_by_id(partition.topic_id()).is_none() {
                moves.cancel(partition);
                return Err(ErrorCode::UnknownTopicOrPartition);
            }
            Ok(())
        }
        Err(error) => {
            logs.report_directory_error(destination, &error);
            Err(ErrorCode::KafkaStorageError)
        }
    }
}

/// A new name for a copy.
pub(super) fn future_path(directory: &LogDirectory, name: &TopicPartition) -> PathBuf {
    let state = PartitionDirectoryState::Future;
    let name = PartitionDirectory::marked_name(name, state, random_uuid());
    directory.path().join(name)
}

fn find(logs: &Logs, name: &TopicPartition) -> Result<Arc<Partition>, ErrorCode> {
    match logs.find(&name.topic, name.partition) {
        Ok(partition) if partition.is_failed() => Err(ErrorCode::KafkaStorageError),
        Ok(partition) => Ok(partition),
        Err(Unavailable::NotLed { .. } | Unavailable::Elsewhere { .. }) => {
            Err(ErrorCode::ReplicaNotAvailable)
        }
        Err(absence) => Err(absence.into()),
    }
}

/// Where a copy of a log begins.
pub(super) fn first_offset(partition: &Partition) -> Result<Offset, StorageError> {
    partition.with_log(|log| log.first_segment_base_offset())
}

/// A copy that is empty.
pub(super) fn create(
    partition: &Partition,
    path: PathBuf,
    start: Offset,
) -> Result<Log<RealDisk>, StorageError> {
    let log = Log::create(LogOpening {
        topic_id: Some(partition.topic_id()),
        config: partition.config(),
        open_files: partition.open_files().clone(),
        log_start_offset: start,
        now_ms: now_ms(),
        ..LogOpening::new(RealDisk, path.clone(), partition.topic_partition().clone())
    })?;
    // Durable before the first record: after a crash nobody could tell whose they are.
    sync_partition_metadata(&RealDisk, &path)?;
    Ok(log)
}
