//! What a start finds in a log directory.
//!
//! ```text
//!   names ──> several threads: whose is it, is it as `settled-logs` says? ──> Scanned
//! ```
//!
//! A partition is kept as its topic's id and index: there may be very many of them.

use crate::logs::Logs;
use crate::logs::idle_logs::is_settled;
use crate::logs::log_directories::LogDirectory;
use crate::logs::owners::{Owner, owner_of};
use crate::scheduling::clock::{monotonic, random_uuid};
use crate::settings::start_error::StartError;
use metadata::MetadataImage;
use model::TopicPartition;
use parking_lot::Mutex;
use replication::PartitionKey;
use storage::log_directory::{PartitionDirectory, PartitionDirectoryState, check_entry};
use storage::settled_logs::SettledLogs;
use storage::{Context, Disk, RealDisk, StorageError};

/// The metadata log lies among the partitions and is not one of them.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// What there is of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Nothing.
    None,
    /// A directory.
    Directory,
    /// A directory that is as `settled-logs` says.
    Settled,
}

/// The partitions of the cluster in a log directory.
#[derive(Default)]
pub(crate) struct Scanned {
    pub(crate) current: Vec<(PartitionKey, Existing)>,
    /// Copies that were being made.
    pub(crate) futures: Vec<PartitionDirectory>,
    /// Directories that have a partition's name and are not its log.
    pub(crate) taken: Vec<NameTaken>,
}

/// Why a directory that has the name of a partition is not its log.
pub(crate) enum NameTaken {
    /// It was deleted or set aside, now or before.
    ByOther(TopicPartition),
    /// It does not say whose it is, for this reason, and was left where it is.
    ByUnknown(PartitionKey, PartitionDirectory, String),
}

/// Looks at what a log directory holds, on several threads. What was deleted is to be removed, and what the
/// cluster does not know is set aside as `-stray`.
///
/// # Errors
/// A [`StartError`] when the directory cannot be listed or a file in it cannot be read.
pub(crate) fn scan(
    logs: &Logs,
    image: &MetadataImage,
    directory: &LogDirectory,
    settled: &SettledLogs,
) -> Result<Scanned, StartError> {
    /// What a thread takes at once.
    const SHARE: usize = 256;
    let entries = RealDisk.list(directory.path());
    let entries = entries.context("list", directory.path())?;
    for entry in entries.iter().filter(|entry| entry.failure.is_some()) {
        check_entry(directory.path(), entry)?;
        let path = directory.path().join(&entry.name);
        tracing::warn!(path = %path.display(), "cannot be examined, and is left alone: a link to nothing?");
    }
    let log = &logs.node.live_config().log;
    let threads = log.num_recovery_threads_per_data_dir.max(1) as usize;
    let shares = Mutex::new(entries.chunks(SHARE));
    let all = Mutex::new(Ok(Scanned::default()));
    let work = || {
        let mut scanned = Scanned::default();
        loop {
            let Some(share) = shares.lock().next() else {
                break;
            };
            for entry in share.iter().filter(|entry| entry.is_directory) {
                let looked = look_at(logs, image, (directory, settled), &entry.name, &mut scanned);
                if let Err(error) = looked {
                    *all.lock() = Err(error);
                    return;
                }
            }
        }
        if let Ok(all) = &mut *all.lock() {
            all.current.append(&mut scanned.current);
            all.futures.append(&mut scanned.futures);
            all.taken.append(&mut scanned.taken);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(entries.len().div_ceil(SHARE)) {
            scope.spawn(work);
        }
        work();
    });
    let mut scanned = all.into_inner()?;
    scanned.futures.sort();
    Ok(scanned)
}

/// Looks at one directory in a log directory.
fn look_at(
    logs: &Logs,
    image: &MetadataImage,
    (directory, settled): (&LogDirectory, &SettledLogs),
    name: &str,
    scanned: &mut Scanned,
) -> Result<(), StartError> {
    let Some(found) = PartitionDirectory::parse(name) else {
        return Ok(());
    };
    let TopicPartition { topic, partition } = &found.topic_partition;
    if topic == METADATA_TOPIC {
        return Ok(());
    }
    let key = image.topics.id_of(topic).map(|id| (id, *partition));
    let path = directory.path().join(name);
    if found.state == PartitionDirectoryState::Current
        && let Some(key) = key
        && is_settled(logs, image, &found, &path, settled)
    {
        scanned.current.push((key, Existing::Settled));
        return Ok(());
    }
    match found.state {
        PartitionDirectoryState::Deleted => logs.removals.remove(path, monotonic()),
        PartitionDirectoryState::Stray => {}
        state => match (owner_of(logs, image, &found, &path)?, key) {
            (Owner::Known, Some(key)) => {
                match state {
                    PartitionDirectoryState::Current => {
                        scanned.current.push((key, Existing::Directory));
                    }
                    _ => scanned.futures.push(found),
                }
                return Ok(());
            }
            (Owner::Unknown(reason), Some(key)) => {
                scanned.taken.push(NameTaken::ByUnknown(key, found, reason));
                return Ok(());
            }
            _ => set_aside_or_say(&found, &path),
        },
    }
    // Of a topic that the cluster does not have there is no partition that could be taken for it.
    if key.is_some() {
        scanned
            .taken
            .push(NameTaken::ByOther(found.topic_partition));
    }
    Ok(())
}

/// Gives a directory a name under which it is nobody's.
///
/// # Errors
/// When the disk fails.
pub(crate) fn set_aside(
    found: &PartitionDirectory,
    path: &std::path::Path,
) -> Result<(), StorageError> {
    let state = PartitionDirectoryState::Stray;
    let name = PartitionDirectory::marked_name(&found.topic_partition, state, random_uuid());
    tracing::warn!(
        directory = %path.display(),
        renamed = name,
        "this is the log of no partition of this broker: its directory is set aside"
    );
    RealDisk
        .rename(path, &path.with_file_name(name))
        .context("rename", path)
}

/// [`set_aside`]; a failure is logged.
pub(crate) fn set_aside_or_say(found: &PartitionDirectory, path: &std::path::Path) {
    if let Err(error) = set_aside(found, path) {
        tracing::error!(%error, "a directory cannot be set aside");
    }
}
