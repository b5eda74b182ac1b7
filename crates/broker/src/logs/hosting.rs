//! Logs of partitions: opened at the start, and handed on as the metadata change.
//!
//! ```text
//!   image at start ──> find_all: `scan` log directories; open_all: recover logs on several threads
//!   delta          ──> apply: partitions that are added, changed or removed ──> `roles`
//!                            changed configurations ──> settings of logs
//! ```

use crate::logs::Logs;
use crate::logs::checkpoints::OffsetsAtStart;
use crate::logs::idle_logs::read_settled;
use crate::logs::log_directories::{LogDirectory, warn_of_missing};
use crate::logs::owners::holds_batches;
use crate::logs::partitions::{Absence, HostedTopic};
use crate::logs::scan::{Existing, Scanned, scan, set_aside_or_say};
use crate::logs::unplaced::{Unplaced, outcome_of_unplaced};
use crate::logs::untold_logs::Telling;
use crate::runtime::clock::now_ms;
use crate::settings::node::ConfigLayers;
use crate::settings::start_error::StartError;
use crate::{logs::checkpoints, logs::cleaner, logs::maintenance, logs::moves, logs::roles};
use config::topic_settings::{TopicDefaults, TopicSettings};
use controller::directories::DirectoryAssignment;
use metadata::{
    ConfigResourceType, MIGRATING_DIRECTORY, MetadataDelta, MetadataImage, Topic,
    UNASSIGNED_DIRECTORY,
};
use model::{TopicPartition, Uuid};
use parking_lot::Mutex;
use replication::{Partition, PartitionKey, Role};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use storage::checkpoint::OffsetCheckpoint;
use storage::log_directory::PartitionDirectory;
use storage::partition_metadata::{read_partition_metadata, sync_partition_metadata};
use storage::settled_logs::{SettledLog, SettledLogs};
use storage::{Disk, FileError, Log, LogConfig, LogOpening, OpenError, RealDisk, StorageError};

/// How often opening a log is tried while there is no file descriptor left.
const OPEN_ATTEMPTS: usize = 20;
/// The pause between two of them.
const OPEN_PAUSE: Duration = Duration::from_millis(200);

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

fn topic_defaults(logs: &Logs, image: &MetadataImage) -> TopicDefaults {
    let layers = ConfigLayers::of(&logs.node.config, image);
    TopicDefaults::of_broker(&layers.layers())
        .unwrap_or_else(|_| logs.node.config.topic_defaults.clone())
}

/// What a log directory knew of its partitions when it was left.
struct Found {
    directory: Arc<LogDirectory>,
    offsets: OffsetsAtStart,
    settled: SettledLogs,
    is_clean: bool,
}

/// A log to open: where it is, or that it has to be made.
struct Opening {
    topic: Arc<HostedTopic>,
    index: i32,
    found: usize,
    existing: Existing,
}

/// Where a log is: the place of its directory in `log.dirs`, and what there is of it.
type Place = (u32, Existing);

/// Where the partitions of this broker are.
#[derive(Default)]
pub(crate) struct Places {
    /// Says so where the metadata says otherwise.
    pub(crate) found: Vec<DirectoryAssignment>,
    founds: Vec<Found>,
    partitions: HashMap<PartitionKey, Place>,
    /// Copies that were on their way into a log directory, with its place.
    futures: Vec<(usize, PartitionDirectory)>,
    /// Partitions of a directory that is not there, or cannot be used.
    lost: BTreeSet<(Uuid, i32)>,
}

impl Places {
    fn note(&mut self, (topic_id, partition_id): PartitionKey, directory: Uuid) {
        self.found.push(DirectoryAssignment {
            directory,
            topic_id,
            partition_id,
        });
    }
}

/// Looks for the log of every partition of the image that has a replica here. A partition of a
/// directory that is not there, or cannot be used, has no place.
///
/// `clean` tells for each log directory whether it was shut down cleanly.
///
/// # Errors
/// A [`StartError`] for a directory that cannot be listed, if it is that of the metadata.
pub(crate) fn find_all(
    logs: &Logs,
    image: &MetadataImage,
    clean: &[bool],
) -> Result<Places, StartError> {
    let mut places = Places::default();
    for (at, (directory, is_clean)) in logs.directories.iter().zip(clean).enumerate() {
        let mut found = Found::nothing(directory, *is_clean);
        let Some(scanned) = scan_or_fail(logs, image, &mut found)? else {
            places.founds.push(Found::nothing(directory, false));
            continue;
        };
        places.founds.push(found);
        places
            .futures
            .extend(scanned.futures.into_iter().map(|found| (at, found)));
        places.partitions.reserve(scanned.current.len());
        for (key, existing) in scanned.current {
            let other = places.partitions.insert(key, (at as u32, existing));
            if let Some((other, _)) = other {
                let kept = settle_duplicate(logs, image, key, [other as usize, at]);
                let place = (kept as u32, Existing::Directory);
                places.partitions.insert(key, place);
            }
        }
    }
    promote_futures(logs, image, &mut places);
    read_checkpoints(logs, image, &mut places);
    place_all(logs, image, &mut places);
    Ok(places)
}

/// Chooses a directory for each partition that has no log yet; one whose log may be in a directory that
/// is not there has no place.
fn place_all(logs: &Logs, image: &MetadataImage, places: &mut Places) {
    let mut counts = vec![0usize; logs.directories.len()];
    for (at, _) in places.partitions.values() {
        counts[*at as usize] += 1;
    }
    let mut missing: BTreeMap<Uuid, Vec<TopicPartition>> = BTreeMap::new();
    let unplaced = unplaced_at_start(logs, image);
    for topic in image.topics.iter() {
        for (index, partition) in topic.partitions.iter() {
            let Some(directory_id) = partition.directory_of(logs.node.id) else {
                continue;
            };
            let key = (topic.id, *index);
            let place = places.partitions.get(&key).copied();
            let is_known = || named_place(logs, directory_id).is_some();
            let may_be_new = match is_unplaced(directory_id) {
                true => unplaced == Unplaced::New,
                false => is_known(),
            };
            // Its records are where they were: an empty log in their place would lose them.
            if place.is_none() && !may_be_new {
                let name = TopicPartition::new(&*topic.name, *index);
                let away = match unplaced {
                    Unplaced::NotedIn(away) if is_unplaced(directory_id) => {
                        places.note(key, away);
                        away
                    }
                    _ => directory_id,
                };
                missing.entry(away).or_default().push(name);
                places.lost.insert(key);
                continue;
            }
            let (found, _) = *places.partitions.entry(key).or_insert_with(|| {
                let at = choose_directory(logs, directory_id, |at| counts[at]);
                counts[at] += 1;
                (at as u32, Existing::None)
            });
            let id = logs.directories[found as usize].id();
            if id != directory_id {
                places.note(key, id);
            }
        }
    }
    warn_of_missing(&missing);
}

/// What becomes of partitions for which the metadata name no directory, and of which there is no log.
fn unplaced_at_start(logs: &Logs, image: &MetadataImage) -> Unplaced {
    let configured = logs.directories.iter();
    let configured: Vec<_> = configured
        .map(|one| (one.known_id(), one.is_usable()))
        .collect();
    let registration = image.cluster.broker(logs.node.id);
    outcome_of_unplaced(&configured, registration.map(|one| &*one.directories))
}

/// Reads what the checkpoints say of the logs that are there. What they say of others, of an earlier
/// topic's maybe, must not be applied to a log that is made now.
fn read_checkpoints(logs: &Logs, image: &MetadataImage, places: &mut Places) {
    let Places {
        founds, partitions, ..
    } = places;
    let existing_in = |at: usize, name: &TopicPartition| {
        let topic_id = image.topics.id_of(&name.topic)?;
        let (place, existing) = partitions.get(&(topic_id, name.partition))?;
        (*place as usize == at).then_some(*existing)
    };
    for (at, found) in founds.iter_mut().enumerate() {
        let is_there = |name: &TopicPartition| existing_in(at, name).is_some();
        let is_opened = |name: &TopicPartition| {
            existing_in(at, name).is_some_and(|existing| existing != Existing::Settled)
        };
        // With another one that is in sync, or as a follower, a replica does not know by itself.
        let is_asked_for = |name: &TopicPartition| {
            let partition = image.topics.partition(&name.topic, name.partition);
            let role = partition.map(|partition| Role::of(partition, logs.node.id));
            is_there(name) && role.is_some_and(|role| !role.is_all_replicated())
        };
        if !found.directory.is_offline() {
            let wanted = checkpoints::WantedAtStart {
                is_there: &is_there,
                recovery_point: &is_opened,
                high_watermark: &is_asked_for,
            };
            found.offsets = checkpoints::read_at_start(logs, &found.directory, &wanted);
        }
    }
}

/// A copy that the metadata name, while there is no log: the directory that the log was moved out of
/// is gone. The copy was complete but for what was written last, and becomes the log.
fn promote_futures(logs: &Logs, image: &MetadataImage, places: &mut Places) {
    let Places {
        futures,
        partitions,
        ..
    } = places;
    futures.retain(|(at, found)| {
        let directory = &logs.directories[*at];
        let TopicPartition { topic, partition } = &found.topic_partition;
        let Some(topic) = image.topics.by_name(topic) else {
            return true;
        };
        let key = (topic.id, *partition);
        let named = named_directory(logs, image, key);
        if named != Some(directory.id()) || partitions.contains_key(&key) {
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
                partitions.insert(key, (*at as u32, Existing::Directory));
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
pub(crate) fn is_unplaced(directory_id: Uuid) -> bool {
    [UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY].contains(&directory_id)
}

/// Opens the logs that have been found, and makes those that are missing. A log directory that
/// fails meanwhile is offline, and its partitions have no leader.
///
/// # Errors
/// A [`StartError`] when the directory of the metadata fails, and when the process runs out of file
/// descriptors.
pub(crate) fn open_all(
    logs: &Arc<Logs>,
    image: &MetadataImage,
    places: Places,
) -> Result<(), StartError> {
    let defaults = topic_defaults(logs, image);
    let mut openings = Vec::new();
    for (hosted, change) in roles::at_start(logs, image, &defaults) {
        let Some((found, existing)) = places.partitions.get(&change.key) else {
            if places.lost.contains(&change.key) {
                hosted.lose(change.key.1, Absence::not_led(&change.after));
            }
            continue;
        };
        let opening = Opening {
            topic: hosted,
            index: change.key.1,
            found: *found as usize,
            existing: *existing,
        };
        let found = &places.founds[opening.found];
        if opening.existing != Existing::Settled || !host_settled(logs, found, &opening) {
            openings.push(opening);
        }
    }
    let failures = open_in_parallel(logs, &places.founds, openings)?;
    for (found, reason) in failures {
        let directory = &logs.directories[found];
        if logs.holds_metadata(directory) {
            return Err(StartError::MetadataDirectory {
                path: directory.path().to_owned(),
                reason,
            });
        }
        logs.fail_directory(directory.name(), &reason);
    }
    for found in places.founds.iter().filter(|found| !found.is_clean) {
        checkpoints::settle_at_start(logs, &found.directory);
    }
    let clean = places.founds.iter().filter(|found| found.is_clean);
    let clean = clean.map(|found| found.directory.name()).collect();
    let futures = places.futures.into_iter();
    for (at, found) in futures.filter(|(at, _)| logs.directories[*at].is_usable()) {
        moves::resume(logs, &logs.directories[at], &found, &clean);
    }
    Ok(())
}

/// A partition of which two directories hold a log: a crash has come while one was moved, when the
/// copy was complete and the original had not gone yet, or after an attempt to make it elsewhere. What the
/// metadata name stays, or else what holds batches; the other is set aside.
fn settle_duplicate(
    logs: &Logs,
    image: &MetadataImage,
    key: PartitionKey,
    places: [usize; 2],
) -> usize {
    let [first, second] = places;
    let Some(topic) = image.topics.by_id(key.0) else {
        return first;
    };
    let name = TopicPartition::new(&*topic.name, key.1).to_string();
    let path_in = |at: usize| logs.directories[at].path().join(&name);
    let named = named_directory(logs, image, key);
    let is_named = |at: usize| Some(logs.directories[at].id()) == named;
    // An attempt that could not make the log may have left its directory behind.
    let is_left = |at: usize| matches!(holds_batches(&path_in(at)), Ok(false));
    let (kept, other) = match is_named(second) || !is_named(first) && is_left(first) {
        true => (second, first),
        false => (first, second),
    };
    if let Some(found) = PartitionDirectory::parse(&name) {
        set_aside_or_say(&found, &path_in(other));
    }
    kept
}

/// The directory of this broker's replica, as the metadata say.
fn named_directory(logs: &Logs, image: &MetadataImage, key: PartitionKey) -> Option<Uuid> {
    let partition = image.topics.by_id(key.0)?.partition(key.1)?;
    partition.directory_of(logs.node.id)
}

/// The topic, as it is hosted from here on.
pub(crate) fn host(
    logs: &Logs,
    image: &MetadataImage,
    defaults: &TopicDefaults,
    topic: &Topic,
) -> Arc<HostedTopic> {
    if let Some(hosted) = logs.partitions.topic_by_id(topic.id) {
        return hosted;
    }
    let settings = topic_settings(image, defaults, &topic.name);
    let hosted = Arc::new(HostedTopic::new(topic.name.clone(), topic.id, settings));
    logs.partitions.insert(hosted.clone());
    hosted
}

impl Found {
    /// Whether a log was found not to be what was known of it.
    fn is_changed(&self, name: &TopicPartition) -> bool {
        let settled = self.settled.find(name);
        settled.is_some_and(|settled| settled.is_changed())
    }

    fn recovery_point(&self, name: &TopicPartition) -> i64 {
        match self.is_changed(name) {
            true => 0,
            false => offset_of(&self.offsets.recovery_points, name),
        }
    }

    fn nothing(directory: &Arc<LogDirectory>, is_clean: bool) -> Self {
        Self {
            directory: directory.clone(),
            offsets: OffsetsAtStart::default(),
            settled: SettledLogs::default(),
            is_clean,
        }
    }
}

/// [`scan`]; `None` of a directory that cannot be used, or that fails and is offline then.
fn scan_or_fail(
    logs: &Logs,
    image: &MetadataImage,
    found: &mut Found,
) -> Result<Option<Scanned>, StartError> {
    let directory = found.directory.clone();
    if !directory.is_usable() {
        return Ok(None);
    }
    found.settled = read_settled(&directory);
    match scan(logs, image, &directory, &found.settled) {
        Ok(scanned) => Ok(Some(scanned)),
        Err(error) if error.is_disk_failure() && !logs.holds_metadata(&directory) => {
            directory.fail(&error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Where to make the log of a new partition: where the metadata say, else where it is wanted, else in the
/// directory with the fewest. `None` when every directory is offline.
pub(crate) fn choose_online(
    logs: &Logs,
    directory_id: Uuid,
    wanted: Option<&Arc<LogDirectory>>,
) -> Option<Arc<LogDirectory>> {
    let directories = &logs.directories;
    let named = named_place(logs, directory_id).map(|at| &directories[at]);
    let known = named.or(wanted.filter(|one| one.is_usable()));
    let chosen = known.unwrap_or_else(|| {
        let count = |at: usize| directories[at].partition_count();
        &directories[choose_directory(logs, directory_id, count)]
    });
    Some(chosen.clone()).filter(|one| !one.is_offline())
}

/// The place of the directory that the metadata say, if it can be used.
fn named_place(logs: &Logs, directory_id: Uuid) -> Option<usize> {
    let mut directories = logs.directories.iter();
    directories.position(|one| one.is_usable() && one.id() == directory_id)
}

/// The directory that the metadata say, or else of those that take new partitions, and whose disk
/// answers, the one with the fewest.
fn choose_directory(logs: &Logs, directory_id: Uuid, count: impl Fn(usize) -> usize) -> usize {
    let directories = &logs.directories;
    if let Some(at) = named_place(logs, directory_id) {
        return at;
    }
    if directories.len() == 1 {
        return 0;
    }
    let online = (0..directories.len()).filter(|at| !directories[*at].is_offline());
    let reluctance = |at: usize| (logs.is_cordoned(&directories[at]), logs.pace(at));
    let fewest = online.min_by_key(|at| (reluctance(*at), count(*at)));
    fewest.unwrap_or(0)
}

/// Opens logs on several threads. Gives the directories that have failed, by their place, with the
/// reason.
fn open_in_parallel(
    logs: &Logs,
    founds: &[Found],
    openings: Vec<Opening>,
) -> Result<BTreeMap<usize, String>, StartError> {
    let per_directory = logs
        .node
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
                        false => open_one(logs, &founds[opening.found], &opening),
                    };
                    match opened {
                        Ok(true) => continue,
                        Ok(false) => {}
                        Err(OpenFailure::Disk(reason)) => {
                            failed.lock().entry(opening.found).or_insert(reason);
                        }
                        Err(OpenFailure::Log(reason)) => {
                            tracing::error!(reason, "a log cannot be opened");
                        }
                        Err(OpenFailure::Refused(error)) => {
                            *refused.lock() = Some(error);
                            return;
                        }
                    }
                    let role = opening.topic.role(opening.index);
                    let absence = Absence::not_led(&role);
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
    /// It alone is to be done without.
    Log(String),
    /// The server cannot start.
    Refused(StartError),
}

/// Opens or makes a log, and hosts its partition; true when that is done.
fn open_one(logs: &Logs, found: &Found, opening: &Opening) -> Result<bool, OpenFailure> {
    let topic = &opening.topic;
    let name = TopicPartition::new(&*topic.name, opening.index);
    let config = topic.log_config(&logs.node.live_config().transactions);
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
        OpenError::Storage(error) if error.is_name_too_long() => {
            OpenFailure::Log(format!("{name}: {error}"))
        }
        OpenError::Storage(error) => OpenFailure::Disk(format!("{name}: {error}")),
        error @ OpenError::OldFormat { .. } => {
            OpenFailure::Log(format!("{name} has no leader: {error}"))
        }
        error @ OpenError::TopicId { .. } => refused(error.to_string()),
    };
    let log_opening = LogOpening {
        topic_id: Some(topic.id),
        config,
        open_files: logs.host.open_files().clone(),
        log_start_offset: offset_of(&found.offsets.log_start_offsets, &name),
        recovery_point: found.recovery_point(&name),
        is_clean: found.is_clean && !found.is_changed(&name),
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
            false => {
                let log = Log::create(log_opening.clone())?;
                // Durable before the first record: after a crash nobody could tell whose they are.
                sync_partition_metadata(&RealDisk, path)?;
                log
            }
        };
        let high_watermark = offset_of(&found.offsets.high_watermarks, &name);
        host_log(logs, topic, log, &found.directory, high_watermark)?;
        Ok(())
    };
    open_with_patience(logs, open).map_err(failed)?;
    Ok(true)
}

/// Hosts the partition of a log that is as `settled-logs` says, without opening it; false when it has
/// to be opened.
fn host_settled(logs: &Logs, found: &Found, opening: &Opening) -> bool {
    if found.directory.is_offline() {
        return false;
    }
    let topic = &opening.topic;
    let role = topic.role(opening.index);
    let config = topic_log_config(logs, topic);
    let name = TopicPartition::new(&*topic.name, opening.index);
    let Some(SettledLog { mut idle, .. }) = found.settled.find(&name) else {
        return false;
    };
    let high_watermark = offset_of(&found.offsets.high_watermarks, &name);
    let is_replicated = role.is_all_replicated() || high_watermark >= idle.log_end_offset;
    if !is_replicated || !idle.may_stay(&config) {
        return false;
    }
    let checkpointed = offset_of(&found.offsets.log_start_offsets, &name);
    let start = checkpointed.min(idle.log_end_offset);
    idle.log_start_offset = idle.log_start_offset.max(start);
    let place = (found.directory.shared_name().clone(), config);
    let partition = Partition::host_idle(&logs.host, name, topic.id, (idle, true), place, role);
    found.directory.count_partition();
    topic.add(Arc::new(partition));
    true
}

/// Opens a log again while there is no file descriptor left: others close theirs meanwhile.
pub(crate) fn open_with_patience<T>(
    logs: &Logs,
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
        maintenance::release_files(logs);
        std::thread::sleep(OPEN_PAUSE);
    }
    open()
}

pub(crate) fn topic_log_config(logs: &Logs, topic: &HostedTopic) -> Arc<LogConfig> {
    topic.log_config(&logs.node.live_config().transactions)
}

/// Hosts the partition of a log, which is replicated up to the high watermark as far as is known. One that
/// is all replicated is opened again when it is first used.
///
/// # Errors
/// When the log cannot be written.
pub(crate) fn host_log(
    logs: &Logs,
    topic: &Arc<HostedTopic>,
    mut log: Log<RealDisk>,
    directory: &LogDirectory,
    high_watermark: i64,
) -> Result<(), StorageError> {
    let (logs, name) = (&logs.host, directory.shared_name().clone());
    let role = topic.role(log.topic_partition().partition);
    let idle = match role.is_all_replicated() || high_watermark >= log.log_end_offset() {
        true => log.idle(now_ms(), false)?,
        false => None,
    };
    let partition = match idle {
        Some(idle) => {
            let partition = log.topic_partition().clone();
            let place = (name, log.config().clone());
            Partition::host_idle(logs, partition, topic.id, (idle, false), place, role)
        }
        None => Partition::host(logs, log, topic.id, name, (role, high_watermark))?,
    };
    directory.count_partition();
    topic.add(Arc::new(partition));
    Ok(())
}

/// What a checkpoint says of a partition: zero, if nothing.
fn offset_of(checkpoint: &OffsetCheckpoint, name: &TopicPartition) -> i64 {
    checkpoint.get(name).copied().unwrap_or(0)
}

/// Makes this broker serve what changed between two images.
pub(crate) fn apply(logs: &Arc<Logs>, delta: &MetadataDelta) {
    for topic in delta.deleted_topics() {
        tracing::info!(topic = &*topic.name, id = %topic.id, "topic deleted");
    }
    for topic in delta.created_topics() {
        let partitions = topic.partition_count();
        tracing::info!(topic = &*topic.name, id = %topic.id, partitions, "topic created");
    }
    let defaults = topic_defaults(logs, &delta.after);
    roles::apply(logs, delta, &defaults);
    apply_configs(logs, delta, &defaults);
}

fn apply_configs(logs: &Arc<Logs>, delta: &MetadataDelta, defaults: &TopicDefaults) {
    let mut all = false;
    let mut topics = Vec::new();
    for changed in delta.configs() {
        match changed.key.resource_type {
            ConfigResourceType::Topic => topics.extend(logs.partitions.topic(&changed.key.name)),
            ConfigResourceType::Broker => all = true,
            _ => {}
        }
    }
    if all {
        topics = logs.partitions.all_topics();
    }
    let config = logs.node.live_config();
    let mut telling = Telling::new(logs);
    for topic in topics {
        let settings = topic_settings(&delta.after, defaults, &topic.name);
        topic.set_settings(&settings, &config.transactions);
        for partition in topic.partitions() {
            telling.settings(&partition);
        }
    }
    telling.tell();
    if all {
        cleaner::start(logs);
    }
}
