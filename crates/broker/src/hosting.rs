//! Logs of partitions: opened at start, made and removed as the metadata says.
//!
//! ```text
//!   image at start ──> find_all: scan log directories; open_all: recover logs on several threads
//!   delta          ──> apply: deleted topics ──> `removals`
//!                            created partitions ──> `creations`, directory noted in the metadata
//!                            changed configurations ──> settings of logs
//! ```

use crate::Broker;
use crate::broker::ConfigLayers;
use crate::clock::{monotonic, now_ms, random_uuid};
use crate::groups::OFFSETS_TOPIC;
use crate::idle_logs::{is_settled, read_settled};
use crate::live_config::tell_change;
use crate::log_directories::{LogDirectory, warn_of_missing};
use crate::owners::is_known;
use crate::partitions::{Absence, HostedTopic};
use crate::start_error::StartError;
use crate::{checkpoints, creations, maintenance, moves, removals};
use config::topic_settings::{TopicDefaults, TopicSettings};
use metadata::{
    ConfigResourceType, MIGRATING_DIRECTORY, MetadataDelta, MetadataImage, MetadataRecord,
    PartitionChange, Topic, UNASSIGNED_DIRECTORY,
};
use model::{TopicPartition, Uuid};
use parking_lot::Mutex;
use replication::Partition;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use storage::checkpoint::OffsetCheckpoint;
use storage::log_directory::{PartitionDirectory, PartitionDirectoryState, scan_log_directory};
use storage::partition_metadata::read_partition_metadata;
use storage::settled_logs::{SettledLog, SettledLogs};
use storage::{Disk, FileError, Log, LogConfig, LogOpening, OpenError, RealDisk, StorageError};

/// How often opening a log is tried while there is no file descriptor left.
const OPEN_ATTEMPTS: usize = 20;
/// The pause between two of them.
const OPEN_PAUSE: Duration = Duration::from_millis(200);

/// The metadata log lies among the partitions and is not one of them.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// The settings that a topic has on this broker: its own over `defaults`.
pub(crate) fn topic_settings(
    image: &MetadataImage,
    defaults: &TopicDefaults,
    topic: &str,
) -> TopicSettings {
    let none = config::ConfigMap::new();
    let overrides = image.configs.of_topic(topic).map_or(&none, |set| &**set);
    defaults.settings(overrides).unwrap_or_else(|error| {
        tracing::warn!(topic, %error, "the topic's configuration is unusable; defaults hold");
        defaults
            .settings(&none)
            .unwrap_or_else(|_| TopicSettings::kafka_defaults())
    })
}

fn topic_defaults(broker: &Broker, image: &MetadataImage) -> TopicDefaults {
    let layers = ConfigLayers::of(&broker.config, image);
    TopicDefaults::of_broker(&layers.layers())
        .unwrap_or_else(|_| broker.config.topic_defaults.clone())
}

/// What a log directory knew of its partitions when it was left.
struct Found {
    directory: Arc<LogDirectory>,
    recovery_points: OffsetCheckpoint,
    log_start_offsets: OffsetCheckpoint,
    settled: SettledLogs,
    is_clean: bool,
}

/// A log to open: where it is, or that it has to be made.
struct Opening {
    topic: Arc<HostedTopic>,
    index: i32,
    leader_epoch: i32,
    found: usize,
    existing: Existing,
}

/// What there is of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existing {
    /// Nothing.
    None,
    /// A directory.
    Directory,
    /// A directory that is as `settled-logs` says.
    Settled,
}

/// Where the partitions of this broker are.
#[derive(Default)]
pub(crate) struct Places {
    /// Says so where the metadata says otherwise.
    pub(crate) records: Vec<MetadataRecord>,
    founds: Vec<Found>,
    /// Topic id and index, with the place in `log.dirs` and what there is of the log.
    partitions: BTreeMap<(Uuid, i32), (usize, Existing)>,
    /// Copies that were on their way into a log directory, with its place.
    futures: Vec<(usize, PartitionDirectory)>,
    /// Partitions of a directory that is not there, or cannot be used.
    lost: BTreeSet<(Uuid, i32)>,
}

/// Looks for the log of every partition of the image that has a replica here. A partition of a
/// directory that is not there, or cannot be used, has no place.
///
/// `clean` tells for each log directory whether it was left in order.
///
/// # Errors
/// A [`StartError`] for a directory that cannot be listed, if it is that of the metadata.
pub(crate) fn find_all(
    broker: &Broker,
    image: &MetadataImage,
    clean: &[bool],
) -> Result<Places, StartError> {
    let mut places = Places::default();
    let mut seen: BTreeMap<TopicPartition, (usize, Existing)> = BTreeMap::new();
    for (at, (directory, is_clean)) in broker.log_directories.iter().zip(clean).enumerate() {
        let mut found = Found::nothing(directory, *is_clean);
        let Some(scanned) = scan_or_fail(broker, image, &mut found)? else {
            places.founds.push(Found::nothing(directory, false));
            continue;
        };
        places.founds.push(found);
        places
            .futures
            .extend(scanned.futures.into_iter().map(|found| (at, found)));
        for (found, existing) in scanned.current {
            let name = found.topic_partition.clone();
            let other = seen.insert(name.clone(), (at, existing));
            if let Some((other, _)) = other {
                let kept = settle_duplicate(broker, image, &found, [other, at]);
                seen.insert(name, (kept, Existing::Directory));
            }
        }
    }
    promote_futures(broker, image, &mut places.futures, &mut seen);
    read_checkpoints(broker, &mut places.founds, &seen);
    let mut counts = vec![0usize; broker.log_directories.len()];
    for (at, _) in seen.values() {
        counts[*at] += 1;
    }
    let mut missing: BTreeMap<Uuid, Vec<TopicPartition>> = BTreeMap::new();
    for topic in image.topics.iter() {
        for (index, partition) in topic.partitions.iter() {
            let Some(directory_id) = partition.directory_of(broker.node_id) else {
                continue;
            };
            let name = TopicPartition::new(&*topic.name, *index);
            let place = seen.get(&name).copied();
            let is_known = broker
                .log_directories
                .iter()
                .any(|one| one.is_usable() && one.id() == directory_id);
            // Its records are where they were: an empty log in their place would lose them.
            if place.is_none() && !is_known && !is_unplaced(directory_id) {
                missing.entry(directory_id).or_default().push(name);
                places.lost.insert((topic.id, *index));
                continue;
            }
            let (found, existing) = place.unwrap_or_else(|| {
                let at = choose_directory(broker, directory_id, |at| counts[at]);
                counts[at] += 1;
                (at, Existing::None)
            });
            let id = broker.log_directories[found].id();
            if id != directory_id {
                let record = placement(topic.id, *index, broker.node_id, partition, id);
                places.records.push(record);
            }
            let key = (topic.id, *index);
            places.partitions.insert(key, (found, existing));
        }
    }
    warn_of_missing(&missing);
    Ok(places)
}

/// Reads what the checkpoints say of the logs that are there. What they say of others, of an earlier
/// topic's maybe, must not be applied to a log that is made now.
fn read_checkpoints(
    broker: &Broker,
    founds: &mut [Found],
    seen: &BTreeMap<TopicPartition, (usize, Existing)>,
) {
    for (at, found) in founds.iter_mut().enumerate() {
        let is_there =
            |name: &TopicPartition| seen.get(name).is_some_and(|(place, _)| *place == at);
        if !found.directory.is_offline() {
            let read = checkpoints::read_at_start(broker, &found.directory, &is_there);
            (found.recovery_points, found.log_start_offsets) = read;
        }
    }
}

/// A copy that the metadata name, while there is no log: the directory that the log was moved out of
/// is gone. The copy was complete but for what was written last, and becomes the log.
fn promote_futures(
    broker: &Broker,
    image: &MetadataImage,
    futures: &mut Vec<(usize, PartitionDirectory)>,
    seen: &mut BTreeMap<TopicPartition, (usize, Existing)>,
) {
    futures.retain(|(at, found)| {
        let directory = &broker.log_directories[*at];
        let TopicPartition { topic, partition } = &found.topic_partition;
        let topic = image.topics.by_name(topic);
        let named = topic
            .and_then(|topic| topic.partition(*partition))
            .and_then(|partition| partition.directory_of(broker.node_id));
        if named != Some(directory.id()) || seen.contains_key(&found.topic_partition) {
            return true;
        }
        let from = directory.path().join(&found.name);
        let to = directory.path().join(found.topic_partition.to_string());
        let renamed = RealDisk
            .rename(&from, &to)
            .and_then(|()| RealDisk.sync_directory(directory.path()));
        match renamed {
            Ok(()) => {
                tracing::warn!(
                    partition = %found.topic_partition,
                    directory = directory.name(),
                    "the log has not come back, and its copy takes its place; what was written \
                     to it last may be missing"
                );
                let place = (*at, Existing::Directory);
                seen.insert(found.topic_partition.clone(), place);
                false
            }
            Err(error) => {
                tracing::error!(directory = %from.display(), %error, "partition directory could not be renamed");
                true
            }
        }
    });
}

/// Whether the metadata leaves open where a replica is.
fn is_unplaced(directory_id: Uuid) -> bool {
    [UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY].contains(&directory_id)
}

/// Opens the logs that have been found, and makes those that are missing. A log directory that
/// fails meanwhile is offline, and its partitions have no leader.
///
/// # Errors
/// A [`StartError`] when the directory of the metadata fails, for a log in an old format, and when
/// the process runs out of file descriptors.
pub(crate) fn open_all(
    broker: &Arc<Broker>,
    image: &MetadataImage,
    places: Places,
) -> Result<(), StartError> {
    let defaults = topic_defaults(broker, image);
    let mut openings = Vec::new();
    for topic in image.topics.iter() {
        let hosted = host(broker, image, &defaults, topic);
        for (index, partition) in topic.partitions.iter() {
            let leader_epoch = partition.leader_epoch;
            let Some((found, existing)) = places.partitions.get(&(topic.id, *index)) else {
                if places.lost.contains(&(topic.id, *index)) {
                    hosted.lose(*index, Absence::NotLed { leader_epoch });
                }
                continue;
            };
            openings.push(Opening {
                topic: hosted.clone(),
                index: *index,
                leader_epoch,
                found: *found,
                existing: *existing,
            });
        }
    }
    let failures = open_in_parallel(broker, &places.founds, openings)?;
    for (found, reason) in failures {
        let directory = &broker.log_directories[found];
        if broker.holds_metadata(directory) {
            return Err(StartError::MetadataDirectory {
                path: directory.path().to_owned(),
                reason,
            });
        }
        broker.fail_directory(directory.name(), &reason);
    }
    for found in places.founds.iter().filter(|found| !found.is_clean) {
        checkpoints::settle_at_start(broker, &found.directory);
    }
    let futures = places.futures.into_iter();
    for (at, found) in futures.filter(|(at, _)| broker.log_directories[*at].is_usable()) {
        moves::resume(broker, &broker.log_directories[at], &found);
    }
    Ok(())
}

/// A partition of which two directories hold a log: a crash has come while one was moved, when the
/// copy was complete and the original had not gone yet. What the metadata names stays; the other is
/// set aside.
fn settle_duplicate(
    broker: &Broker,
    image: &MetadataImage,
    found: &PartitionDirectory,
    places: [usize; 2],
) -> usize {
    let TopicPartition { topic, partition } = &found.topic_partition;
    let topic = image.topics.by_name(topic);
    let named = topic
        .and_then(|topic| topic.partition(*partition))
        .and_then(|partition| partition.directory_of(broker.node_id));
    let [first, second] = places;
    let (kept, other) = match Some(broker.log_directories[second].id()) == named {
        true => (second, first),
        false => (first, second),
    };
    let path = broker.log_directories[other].path().join(&found.name);
    set_aside_or_say(found, &path);
    kept
}

fn host(
    broker: &Broker,
    image: &MetadataImage,
    defaults: &TopicDefaults,
    topic: &Topic,
) -> Arc<HostedTopic> {
    if let Some(hosted) = broker.partitions.topic_by_id(topic.id) {
        return hosted;
    }
    let settings = topic_settings(image, defaults, &topic.name);
    let hosted = Arc::new(HostedTopic::new(topic.name.clone(), topic.id, settings));
    broker.partitions.insert(hosted.clone());
    hosted
}

impl Found {
    fn nothing(directory: &Arc<LogDirectory>, is_clean: bool) -> Self {
        Self {
            directory: directory.clone(),
            recovery_points: OffsetCheckpoint::new(),
            log_start_offsets: OffsetCheckpoint::new(),
            settled: SettledLogs::default(),
            is_clean,
        }
    }
}

/// The partitions of the cluster in a log directory.
#[derive(Default)]
struct Scanned {
    current: Vec<(PartitionDirectory, Existing)>,
    /// Copies that were being made.
    futures: Vec<PartitionDirectory>,
}

/// Looks at what a log directory holds. What was deleted is removed, and what the cluster does not
/// know is set aside as `-stray`.
fn scan(
    broker: &Broker,
    image: &MetadataImage,
    directory: &LogDirectory,
    settled: &SettledLogs,
) -> Result<Scanned, StartError> {
    let content = scan_log_directory(&RealDisk, directory.path())?;
    let mut scanned = Scanned::default();
    for found in content.partitions {
        if found.topic_partition.topic == METADATA_TOPIC {
            continue;
        }
        let path = directory.path().join(&found.name);
        match found.state {
            PartitionDirectoryState::Deleted => broker.removals.remove(path, monotonic()),
            PartitionDirectoryState::Stray => {}
            PartitionDirectoryState::Current
                if is_settled(broker, image, &found, &path, settled) =>
            {
                scanned.current.push((found, Existing::Settled));
            }
            _ if !is_known(broker, image, &found, &path)? => set_aside_or_say(&found, &path),
            PartitionDirectoryState::Current => {
                scanned.current.push((found, Existing::Directory));
            }
            PartitionDirectoryState::Future => scanned.futures.push(found),
        }
    }
    Ok(scanned)
}

/// [`scan`]; `None` of a directory that cannot be used, or that fails and is offline then.
fn scan_or_fail(
    broker: &Broker,
    image: &MetadataImage,
    found: &mut Found,
) -> Result<Option<Scanned>, StartError> {
    let directory = found.directory.clone();
    if !directory.is_usable() {
        return Ok(None);
    }
    found.settled = read_settled(&directory);
    match scan(broker, image, &directory, &found.settled) {
        Ok(scanned) => Ok(Some(scanned)),
        Err(error) if error.is_disk_failure() && !broker.holds_metadata(&directory) => {
            directory.fail(&error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
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
        "the cluster does not know this partition: its directory is set aside"
    );
    RealDisk
        .rename(path, &path.with_file_name(name))
        .map_err(|source| StorageError {
            operation: "rename",
            file: path.to_owned(),
            source,
        })
}

fn set_aside_or_say(found: &PartitionDirectory, path: &std::path::Path) {
    if let Err(error) = set_aside(found, path) {
        tracing::error!(%error, "a directory cannot be set aside");
    }
}

/// Where to make the log of a new partition; `None` when every directory is offline.
pub(crate) fn choose_online(broker: &Broker, directory_id: Uuid) -> Option<Arc<LogDirectory>> {
    let chosen = choose_directory(broker, directory_id, |at| {
        broker.log_directories[at].partition_count()
    });
    Some(broker.log_directories[chosen].clone()).filter(|one| !one.is_offline())
}

/// The directory that the metadata says, or else of those that take new partitions the one with the
/// fewest.
fn choose_directory(broker: &Broker, directory_id: Uuid, count: impl Fn(usize) -> usize) -> usize {
    let directories = &broker.log_directories;
    let is_named = |one: &Arc<LogDirectory>| one.is_usable() && one.id() == directory_id;
    if let Some(at) = directories.iter().position(is_named) {
        return at;
    }
    if directories.len() == 1 {
        return 0;
    }
    let online = (0..directories.len()).filter(|at| !directories[*at].is_offline());
    let (cordoned, open): (Vec<_>, Vec<_>) =
        online.partition(|at| broker.is_cordoned(&directories[*at]));
    let candidates = if open.is_empty() { cordoned } else { open };
    let fewest = candidates.into_iter().min_by_key(|at| count(*at));
    fewest.unwrap_or(0)
}

pub(crate) fn placement(
    topic_id: Uuid,
    partition_id: i32,
    node_id: i32,
    partition: &metadata::Partition,
    directory: Uuid,
) -> MetadataRecord {
    let replicas = partition.replicas.iter().zip(&partition.directories);
    let directories = replicas
        .map(|(id, before)| if *id == node_id { directory } else { *before })
        .collect();
    MetadataRecord::PartitionChange(PartitionChange {
        directories: Some(directories),
        ..PartitionChange::of(topic_id, partition_id)
    })
}

/// Opens logs on several threads. Gives the directories that have failed, by their place, with the
/// reason.
fn open_in_parallel(
    broker: &Broker,
    founds: &[Found],
    openings: Vec<Opening>,
) -> Result<BTreeMap<usize, String>, StartError> {
    let per_directory = broker
        .live_config()
        .log
        .num_recovery_threads_per_data_dir
        .max(1) as usize;
    let threads = (per_directory * founds.len()).min(openings.len());
    let queue = Mutex::new(openings.into_iter());
    let failed = Mutex::new(BTreeMap::new());
    let refused = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(opening) = queue.lock().next() else {
                        return;
                    };
                    let directory = &founds[opening.found].directory;
                    let is_failed =
                        directory.is_offline() || failed.lock().contains_key(&opening.found);
                    let opened = match is_failed {
                        true => Ok(false),
                        false => open_one(broker, &founds[opening.found], &opening),
                    };
                    match opened {
                        Ok(true) => continue,
                        Ok(false) => {}
                        Err(OpenFailure::Disk(reason)) => {
                            failed.lock().entry(opening.found).or_insert(reason);
                        }
                        Err(OpenFailure::Refused(error)) => {
                            *refused.lock() = Some(error);
                            return;
                        }
                    }
                    let leader_epoch = opening.leader_epoch;
                    let absence = Absence::NotLed { leader_epoch };
                    opening.topic.lose(opening.index, absence);
                }
            });
        }
    });
    match refused.into_inner() {
        Some(error) => Err(error),
        None => Ok(failed.into_inner()),
    }
}

/// Why a log was not opened.
enum OpenFailure {
    /// Its log directory is to be done without.
    Disk(String),
    /// The server cannot start.
    Refused(StartError),
}

/// Opens or makes a log, and leads its partition; true when that is done.
fn open_one(broker: &Broker, found: &Found, opening: &Opening) -> Result<bool, OpenFailure> {
    let topic = &opening.topic;
    let name = TopicPartition::new(&*topic.name, opening.index);
    let config = topic.log_config(&broker.live_config().transactions);
    if opening.existing == Existing::Settled && lead_settled(broker, found, opening, &config) {
        return Ok(true);
    }
    let directory: PathBuf = found.directory.path().join(name.to_string());
    let refused = |reason: String| {
        OpenFailure::Refused(StartError::Partition {
            partition: name.to_string(),
            directory: found.directory.path().to_owned(),
            reason,
        })
    };
    let failed = |error: OpenError| match error {
        OpenError::Storage(error) if error.is_out_of_files() => refused(format!(
            "{error}; raise the limit of open files (`ulimit -n`) and start again"
        )),
        OpenError::Storage(error) => OpenFailure::Disk(format!("{name}: {error}")),
        error => refused(error.to_string()),
    };
    let told = |offsets: &OffsetCheckpoint| offsets.get(&name).copied().unwrap_or(0);
    let log_opening = LogOpening {
        topic_id: Some(topic.id),
        config,
        open_files: broker.logs.open_files().clone(),
        log_start_offset: told(&found.log_start_offsets),
        recovery_point: told(&found.recovery_points),
        is_clean: found.is_clean,
        now_ms: now_ms(),
        ..LogOpening::new(RealDisk, directory, name.clone())
    };
    let open = || {
        // An attempt may have made it, unless it is another topic's that could not be set aside.
        let path = &log_opening.directory;
        let is_made = || match read_partition_metadata(&RealDisk, path) {
            Ok(id) => Ok(RealDisk.status(path).is_ok() && id.is_none_or(|id| id == topic.id)),
            Err(FileError::Storage(error)) => Err(error),
            Err(FileError::Damaged { .. }) => Ok(false),
        };
        let exists = opening.existing != Existing::None || is_made()?;
        let log = match exists {
            true => {
                let opened = Log::open(log_opening.clone())?;
                for event in &opened.events {
                    if event.is_loss() {
                        tracing::warn!(partition = %name, "{event}");
                    } else {
                        tracing::info!(partition = %name, "{event}");
                    }
                }
                opened.log
            }
            false => Log::create(log_opening.clone())?,
        };
        lead(broker, topic, log, &found.directory, opening.leader_epoch)?;
        Ok(())
    };
    open_with_patience(broker, open).map_err(failed)?;
    Ok(true)
}

/// Leads the partition of a log that is as `settled-logs` says, without opening it; false when it has
/// to be opened.
fn lead_settled(
    broker: &Broker,
    found: &Found,
    opening: &Opening,
    config: &Arc<LogConfig>,
) -> bool {
    let (topic, epoch) = (&opening.topic, opening.leader_epoch);
    let name = TopicPartition::new(&*topic.name, opening.index);
    let Some(SettledLog { mut idle, .. }) = found.settled.find(&name) else {
        return false;
    };
    if !idle.may_stay(config) {
        return false;
    }
    let checkpointed = found.log_start_offsets.get(&name).copied().unwrap_or(0);
    let start = checkpointed.min(idle.log_end_offset);
    idle.log_start_offset = idle.log_start_offset.max(start);
    let place = (found.directory.shared_name().clone(), config.clone());
    let partition = Partition::lead_idle(&broker.logs, name, topic.id, idle, true, place, epoch);
    found.directory.count_partition();
    topic.add(Arc::new(partition));
    true
}

/// Opens a log again while there is no file descriptor left: others close theirs meanwhile.
pub(crate) fn open_with_patience<T>(
    broker: &Broker,
    open: impl Fn() -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    for _ in 0..OPEN_ATTEMPTS {
        match open() {
            Err(OpenError::Storage(error)) if error.is_out_of_files() => {
                tracing::warn!(%error, "waits for other files to be closed");
            }
            result => return result,
        }
        // Files stay open for those who use them between two calls.
        maintenance::release_files(broker);
        std::thread::sleep(OPEN_PAUSE);
    }
    open()
}

pub(crate) fn topic_log_config(broker: &Broker, topic: &HostedTopic) -> Arc<LogConfig> {
    topic.log_config(&broker.live_config().transactions)
}

/// Leads the partition of a log, which is opened again when it is first used.
///
/// # Errors
/// When the log cannot be written.
pub(crate) fn lead(
    broker: &Broker,
    topic: &Arc<HostedTopic>,
    mut log: Log<RealDisk>,
    directory: &LogDirectory,
    leader_epoch: i32,
) -> Result<(), StorageError> {
    let (logs, name) = (&broker.logs, directory.shared_name().clone());
    let partition = match log.idle(now_ms(), false)? {
        Some(idle) => {
            let partition = log.topic_partition().clone();
            let place = (name, log.config().clone());
            Partition::lead_idle(logs, partition, topic.id, idle, false, place, leader_epoch)
        }
        None => Partition::lead(logs, log, topic.id, name, leader_epoch)?,
    };
    directory.count_partition();
    topic.add(Arc::new(partition));
    Ok(())
}

/// Makes this broker serve what changed between two images. Returns records that say where new
/// partitions were put, when the metadata left that open.
pub(crate) fn apply(broker: &Arc<Broker>, delta: &MetadataDelta) -> Vec<MetadataRecord> {
    let deleted: Vec<&Topic> = delta.deleted_topics().map(|topic| &**topic).collect();
    for topic in &deleted {
        tracing::info!(topic = &*topic.name, id = %topic.id, "topic deleted");
    }
    if !deleted.is_empty() {
        removals::delete_topics(broker, &deleted);
    }
    for topic in delta.created_topics() {
        let partitions = topic.partition_count();
        tracing::info!(topic = &*topic.name, id = %topic.id, partitions, "topic created");
    }
    let defaults = topic_defaults(broker, &delta.after);
    let (mut placed, mut created) = (Vec::new(), Vec::new());
    for changed in delta.partitions() {
        let Some(after) = changed.after else { continue };
        let hosted = host(broker, &delta.after, &defaults, changed.topic);
        if let Some(partition) = hosted.partition(changed.partition_id) {
            // Nothing more is written where a write has failed.
            if partition.is_failed() {
                continue;
            }
            if let Err(error) = partition.set_leader_epoch(after.leader_epoch) {
                tracing::error!(%partition, %error, "a leader epoch cannot be noted");
            }
            continue;
        }
        let is_new = broker.creations.has(hosted.id, changed.partition_id);
        if !is_new && hosted.loss_of(changed.partition_id).is_some() {
            let leader_epoch = after.leader_epoch;
            hosted.lose(changed.partition_id, Absence::NotLed { leader_epoch });
            continue;
        }
        placed.extend(creations::create(
            broker,
            &hosted,
            changed.partition_id,
            after,
        ));
        created.extend(hosted.partition(changed.partition_id));
    }
    creations::sync_topic_ids(broker, &created);
    apply_configs(broker, delta, &defaults);
    placed
}

fn apply_configs(broker: &Arc<Broker>, delta: &MetadataDelta, defaults: &TopicDefaults) {
    let (mut all, mut groups) = (false, false);
    let mut topics = Vec::new();
    for changed in delta.configs() {
        tell_change(changed.key, changed.before, changed.after);
        match changed.key.resource_type {
            ConfigResourceType::Topic => {
                groups |= *changed.key.name == *OFFSETS_TOPIC;
                topics.extend(broker.partitions.topic(&changed.key.name));
            }
            ConfigResourceType::Broker => all = true,
            ConfigResourceType::Group => groups = true,
            _ => {}
        }
    }
    if all {
        broker.reconfigure(&delta.after);
        topics = broker.partitions.all_topics();
    }
    if all || groups {
        broker.configure_groups(&delta.after);
    }
    let config = broker.live_config();
    for topic in topics {
        let settings = topic_settings(&delta.after, defaults, &topic.name);
        topic.set_settings(&settings, &config.transactions);
    }
    if all {
        broker.reconfigure_cleaner();
    }
}
