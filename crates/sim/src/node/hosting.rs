//! The partitions of a node: logs opened at the start, made and retired as the metadata change, with
//! the checkpoints of their directory.
//!
//! ```text
//!   image at start ──> scan: strays set aside ──> checkpoints ──> logs opened or made
//!   delta          ──> deleted: retired, off the checkpoints; created: made, or put off for a lack
//! ```

use super::compaction::Cleaning;
use super::log_directory::{LogDirectory, Places};
use crate::halted::Halted;
use crate::partition::SimPartition;
use crate::planted::Planted;
use crate::random::Random;
use crate::schedule::KEYED;
use config::{ConfigMap, TopicDefaults, topic_settings::TopicSettings};
use controller::metadata_log::METADATA_LOG_FOLDER;
use metadata::{MetadataDelta, MetadataImage, Topic};
use model::{LeaderEpoch, MonotonicTime, Offset, TopicPartition, Uuid};
use record::{TargetCompression, TimestampType, ValidationRules};
use replication::{LogHost, Partition, PartitionKey};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::checkpoint::{LOG_START_OFFSET_CHECKPOINT, OffsetCheckpoint, read_checkpoint};
use storage::log_directory::{PartitionDirectory, PartitionDirectoryState};
use storage::partition_metadata::{read_partition_metadata, sync_partition_metadata};
use storage::sim::SimDisk;
use storage::{
    CleanupPolicy, Disk, FileError, Log, LogConfig, LogOpening, OpenFiles, StorageError,
};

/// Small, so that logs have several.
const SEGMENT_BYTES: u32 = 6_000;
/// Of topics that are compacted, at one time or another.
const KEYED_SEGMENT_BYTES: u32 = 2_600;
/// So many files are open at most, unless more are in use.
const OPEN_FILES: usize = 40;
/// After so long no producer sends again what it has heard nothing of.
const GIVEN_UP_MS: i64 = 600_000;

/// The partitions of a node.
#[derive(Debug)]
pub(super) struct Hosting {
    pub(super) disk: SimDisk,
    pub(super) host: Arc<LogHost<SimDisk>>,
    pub(super) directories: Vec<LogDirectory>,
    pub(super) partitions: BTreeMap<PartitionKey, Arc<SimPartition>>,
    /// In a directory that is not there, or has failed.
    pub(super) lost: BTreeSet<PartitionKey>,
    /// Their logs could not be made yet.
    unmade: BTreeSet<PartitionKey>,
    /// Those of them that were tried in vain.
    put_off: BTreeSet<PartitionKey>,
    /// The metadata do not say yet in which directory they are.
    pub(super) untold_places: BTreeSet<PartitionKey>,
    /// Directories that the controller takes for well.
    pub(super) untold_failures: Vec<Uuid>,
    pub(super) removals: Vec<(MonotonicTime, PathBuf)>,
    pub(super) cleaning: Cleaning,
    /// Whether the checkpoints may name logs that are not there any more.
    pub(super) has_leftovers: bool,
    pub(super) planted: Planted,
}

/// The defaults of topics, and the time.
#[derive(Debug)]
pub(super) struct TopicContext<'a> {
    pub(super) defaults: &'a TopicDefaults,
    pub(super) now_ms: i64,
}

impl Hosting {
    /// The partitions of directories that nobody has looked at yet.
    pub(super) fn new(disk: &SimDisk, directories: Vec<LogDirectory>, planted: Planted) -> Self {
        let open_files = Arc::new(OpenFiles::new(OPEN_FILES));
        Self {
            disk: disk.clone(),
            host: Arc::new(LogHost::new(disk.clone(), open_files)),
            directories,
            partitions: BTreeMap::new(),
            lost: BTreeSet::new(),
            unmade: BTreeSet::new(),
            put_off: BTreeSet::new(),
            untold_places: BTreeSet::new(),
            untold_failures: Vec::new(),
            removals: Vec::new(),
            cleaning: Cleaning::default(),
            has_leftovers: false,
            planted,
        }
    }

    /// Opens the logs of every partition of the image that has a place.
    pub(super) fn open(
        &mut self,
        image: &MetadataImage,
        places: &Places,
        surroundings: &TopicContext<'_>,
    ) -> Result<(), Halted> {
        let mut checkpoints = Vec::new();
        for at in 0..self.directories.len() {
            checkpoints.push(self.read_checkpoints(at, |name| {
                let id = image.topics.id_of(&name.topic);
                let place = id.and_then(|id| places.found.get(&(id, name.partition)));
                place == Some(&at)
            })?);
        }
        for topic in image.topics.iter() {
            let config = log_config(image, surroundings.defaults, &topic.name);
            for (index, partition) in topic.partitions.iter() {
                let (key, name) = (
                    (topic.id, *index),
                    TopicPartition::new(&*topic.name, *index),
                );
                let (at, log) = match (places.found.get(&key), places.new.get(&key)) {
                    (Some(at), _) => {
                        let known = &checkpoints[*at];
                        let mut opening =
                            self.opening(*at, (topic.id, &name), &config, surroundings);
                        let of = |all: &OffsetCheckpoint| {
                            all.get(&name).copied().unwrap_or(Offset::ZERO)
                        };
                        opening.recovery_point = of(&known.recovery_points);
                        opening.log_start_offset = of(&known.log_start_offsets);
                        opening.is_clean = self.directories[*at].is_clean;
                        opening.has_machine_stopped = self.directories[*at].has_machine_stopped;
                        let is_clean = opening.is_clean;
                        let mut log = Log::open(opening)?.log;
                        if !is_clean && self.planted == Planted::TakesGapsForDamage {
                            cut_at_gap(&mut log, surroundings.now_ms)?;
                        }
                        (*at, log)
                    }
                    (None, Some(at)) => {
                        let place = (topic.id, &name);
                        (*at, self.make(*at, place, &config, surroundings)?)
                    }
                    (None, None) => continue,
                };
                let epoch = partition.leader_epoch;
                self.lead(at, log, topic.id, epoch, surroundings.now_ms)?;
            }
        }
        self.lost.clone_from(&places.lost);
        self.write_checkpoints()?;
        self.note_boot_ids()?;
        self.read_cleaner_offsets()
    }

    /// The partitions that have their logs in a directory, with its place. What was deleted is removed,
    /// and what the image does not know is set aside.
    pub(super) fn scan(
        &self,
        image: &MetadataImage,
        random: &mut Random,
    ) -> Result<BTreeMap<PartitionKey, usize>, Halted> {
        let mut found = BTreeMap::new();
        for (at, one) in self.directories.iter().enumerate() {
            for entry in self.disk.list(&one.path)? {
                let Some(directory) = PartitionDirectory::parse(&entry.name) else {
                    continue;
                };
                if entry.name == METADATA_LOG_FOLDER || !entry.is_directory {
                    continue;
                }
                let path = one.path.join(&entry.name);
                match directory.state {
                    PartitionDirectoryState::Deleted => self.disk.remove_directory(&path)?,
                    PartitionDirectoryState::Current => {
                        let name = &directory.topic_partition;
                        let topic = image.topics.by_name(&name.topic);
                        let topic = topic.filter(|one| one.partition(name.partition).is_some());
                        match topic {
                            Some(topic) if self.is_of(&path, topic.id)? => {
                                let key = (topic.id, name.partition);
                                let other = found.insert(key, at);
                                if let Some(other) = other {
                                    let kept = self.settle(image, key, [other, at], random)?;
                                    found.insert(key, kept);
                                }
                            }
                            _ => self.set_aside(name, &path, random)?,
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(found)
    }

    /// Two directories have a log of a partition: an attempt to make it has left one. What the metadata
    /// name stays, as the broker decides it; the other one is set aside.
    fn settle(
        &self,
        image: &MetadataImage,
        key: PartitionKey,
        [first, second]: [usize; 2],
        random: &mut Random,
    ) -> Result<usize, StorageError> {
        let Some(topic) = image.topics.by_id(key.0) else {
            return Ok(first);
        };
        let named = topic
            .partition(key.1)
            .and_then(|one| one.directories.first());
        let (kept, other) = match Some(&self.directories[second].id) == named {
            true => (second, first),
            false => (first, second),
        };
        let name = TopicPartition::new(&*topic.name, key.1);
        let path = self.directories[other].path.join(name.to_string());
        self.set_aside(&name, &path, random)?;
        Ok(kept)
    }

    /// Whether a directory is that of a topic: one that does not say is, unless it has records.
    fn is_of(&self, path: &Path, topic_id: Uuid) -> Result<bool, Halted> {
        match read_partition_metadata(&self.disk, path) {
            Ok(id) => Ok(id.is_none_or(|id| id == topic_id)),
            Err(FileError::Storage(error)) => Err(error.into()),
            Err(FileError::Damaged { .. }) => Ok(!self.holds_batches(path)?),
        }
    }

    fn holds_batches(&self, path: &Path) -> Result<bool, StorageError> {
        let context = |source| StorageError {
            operation: "list",
            file: path.to_owned(),
            source,
        };
        for entry in self.disk.list(path).map_err(context)? {
            let status = self.disk.status(&path.join(&entry.name));
            if entry.name.contains(".log") && status.map_err(context)?.length > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn set_aside(
        &self,
        name: &TopicPartition,
        path: &Path,
        random: &mut Random,
    ) -> Result<(), StorageError> {
        let id = Uuid::from_bytes(random.bytes());
        let name = PartitionDirectory::marked_name(name, PartitionDirectoryState::Stray, id);
        let renamed = self.disk.rename(path, &path.with_file_name(name));
        renamed.map_err(|source| StorageError {
            operation: "rename",
            file: path.to_owned(),
            source,
        })
    }

    fn opening(
        &self,
        at: usize,
        (topic_id, name): (Uuid, &TopicPartition),
        config: &Arc<LogConfig>,
        surroundings: &TopicContext<'_>,
    ) -> LogOpening<SimDisk> {
        LogOpening {
            topic_id: Some(topic_id),
            config: config.clone(),
            open_files: self.host.open_files().clone(),
            now_ms: surroundings.now_ms,
            ..LogOpening::new(
                self.disk.clone(),
                self.directories[at].path.join(name.to_string()),
                name.clone(),
            )
        }
    }

    /// Makes the log of a new partition, which is known as its topic's before it has a record.
    fn make(
        &self,
        at: usize,
        (topic_id, name): (Uuid, &TopicPartition),
        config: &Arc<LogConfig>,
        surroundings: &TopicContext<'_>,
    ) -> Result<Log<SimDisk>, StorageError> {
        let mut opening = self.opening(at, (topic_id, name), config, surroundings);
        if self.planted == Planted::CheckpointsByName {
            let path = self.directories[at].path.join(LOG_START_OFFSET_CHECKPOINT);
            let starts = read_checkpoint(&self.disk, &path).unwrap_or_default();
            opening.log_start_offset = starts.get(name).copied().unwrap_or(Offset::ZERO);
        }
        let path = opening.directory.clone();
        let log = Log::create(opening)?;
        sync_partition_metadata(&self.disk, &path)?;
        Ok(log)
    }

    fn lead(
        &mut self,
        at: usize,
        mut log: Log<SimDisk>,
        topic_id: Uuid,
        leader_epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        if self.planted == Planted::ForgetsProducers {
            log.producer_state_mut().expire(i64::MAX, 0);
        }
        let (name, directory) = (
            log.topic_partition().clone(),
            self.directories[at].name.clone(),
        );
        let idle = match log.awaits_retries(now_ms) {
            true => None,
            false => log.idle(now_ms, false)?,
        };
        let partition = match idle {
            Some(idle) => {
                let place = (directory, log.config().clone());
                Partition::lead_idle(&self.host, name, topic_id, idle, false, place, leader_epoch)
            }
            None => Partition::lead(&self.host, log, topic_id, directory, leader_epoch)?,
        };
        let partition = Arc::new(partition);
        self.partitions.insert(partition.key(), partition);
        Ok(())
    }

    pub(super) fn by_id(&self, topic_id: Uuid, index: i32) -> Option<&Arc<SimPartition>> {
        self.partitions.get(&(topic_id, index))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<SimPartition>> {
        self.partitions.values()
    }

    /// Serves what has changed between two images; gives the partitions that are new.
    pub(super) fn apply(
        &mut self,
        delta: &MetadataDelta,
        surroundings: &TopicContext<'_>,
        now: MonotonicTime,
        random: &mut Random,
    ) -> Result<Vec<Arc<SimPartition>>, Halted> {
        let deleted: Vec<Uuid> = delta.deleted_topics().map(|topic| topic.id).collect();
        if !deleted.is_empty() && self.planted != Planted::ServesDeletedTopics {
            self.retire(&deleted, now, random)?;
        }
        for changed in delta.partitions() {
            let Some(after) = changed.after else { continue };
            let key = (changed.topic.id, changed.partition_id);
            match self.partitions.get(&key) {
                Some(partition) => partition.set_leader_epoch(after.leader_epoch)?,
                None if self.lost.contains(&key) => {}
                None => drop(self.unmade.insert(key)),
            }
        }
        for changed in delta.configs() {
            let topic = delta.after.topics.by_name(&changed.key.name);
            let Some(topic) = topic else { continue };
            let config = log_config(&delta.after, surroundings.defaults, &topic.name);
            for partition in self.all().filter(|one| one.topic_id() == topic.id) {
                partition.set_config(config.clone());
            }
        }
        self.make_missing(&delta.after, surroundings, random)
    }

    fn retire(
        &mut self,
        topics: &[Uuid],
        now: MonotonicTime,
        random: &mut Random,
    ) -> Result<(), Halted> {
        let gone = self.partitions.keys().filter(|key| topics.contains(&key.0));
        let gone: Vec<PartitionKey> = gone.copied().collect();
        self.forget_compaction(&gone)?;
        for key in gone {
            let Some(partition) = self.partitions.remove(&key) else {
                continue;
            };
            let name = partition.topic_partition();
            let id = Uuid::from_bytes(random.bytes());
            let state = PartitionDirectoryState::Deleted;
            let marked = PartitionDirectory::marked_name(name, state, id);
            let delay_ms = partition.config().file_delete_delay_ms;
            let at = self.place_of(&partition);
            match partition.retire(&marked) {
                Ok(path) => self.removals.push((now.plus_ms(delay_ms), path)),
                Err(error) if at > 0 && !error.is_passing() => self.fail_directory(at),
                Err(error) => return Err(error.into()),
            }
            partition.notify();
        }
        for keys in [&mut self.unmade, &mut self.lost, &mut self.untold_places] {
            keys.retain(|key| !topics.contains(&key.0));
        }
        if self.planted == Planted::CheckpointsByName {
            return Ok(());
        }
        self.has_leftovers = true;
        self.settle_leftovers()
    }

    /// Sees to it that the checkpoints say nothing of logs that are gone; where there is no descriptor
    /// or no room for that, later.
    fn settle_leftovers(&mut self) -> Result<(), Halted> {
        if !self.has_leftovers {
            return Ok(());
        }
        match self.write_checkpoints() {
            Err(halted) if halted.is_passing => Ok(()),
            outcome => outcome,
        }
    }

    /// Makes the logs that are missing; those that cannot be made for a lack that passes wait.
    pub(super) fn make_missing(
        &mut self,
        image: &MetadataImage,
        surroundings: &TopicContext<'_>,
        random: &mut Random,
    ) -> Result<Vec<Arc<SimPartition>>, Halted> {
        self.settle_leftovers()?;
        let mut made = Vec::new();
        let keys: Vec<PartitionKey> = self.unmade.iter().copied().collect();
        for key in keys {
            let topic = image.topics.by_id(key.0);
            let partition = topic.and_then(|topic| topic.partition(key.1));
            let (Some(topic), Some(partition)) = (topic, partition) else {
                self.unmade.remove(&key);
                continue;
            };
            if self.has_leftovers {
                continue;
            }
            let epoch = partition.leader_epoch;
            let wanted = partition.directories.first().copied().unwrap_or_default();
            let at = self.choose_directory(wanted, &topic.name, |at| self.partition_count(at));
            match self.make_and_lead(image, (topic, key.1, at), epoch, surroundings, random) {
                Ok(()) => {
                    if self.directories[at].id != wanted {
                        self.untold_places.insert(key);
                    }
                    // The mistake forgets it only when it is made at the first attempt.
                    let is_kept = self.planted == Planted::MakesLogsAnew;
                    if !(is_kept && self.put_off.contains(&key)) {
                        self.put_off.remove(&key);
                        self.unmade.remove(&key);
                    }
                    made.extend(self.partitions.get(&key).cloned());
                }
                Err(error) if error.is_passing() => drop(self.put_off.insert(key)),
                // The next attempt takes another one.
                Err(_) if at > 0 => self.fail_directory(at),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(made)
    }

    fn make_and_lead(
        &mut self,
        image: &MetadataImage,
        (topic, index, at): (&Topic, i32, usize),
        leader_epoch: LeaderEpoch,
        surroundings: &TopicContext<'_>,
        random: &mut Random,
    ) -> Result<(), StorageError> {
        let name = TopicPartition::new(&*topic.name, index);
        let path = self.directories[at].path.join(name.to_string());
        self.free_name(&name, &path, topic.id, random)?;
        let config = log_config(image, surroundings.defaults, &topic.name);
        let made = self.make(at, (topic.id, &name), &config, surroundings);
        let now_ms = surroundings.now_ms;
        let led = made.and_then(|log| self.lead(at, log, topic.id, leader_epoch, now_ms));
        if led.is_err() {
            // What there is of it would be in the way of the next attempt.
            let _ = self.free_name(&name, &path, topic.id, random);
        }
        led
    }

    /// Makes the name of a new partition free: a leftover of an attempt to make it is removed, the log
    /// of another topic set aside.
    fn free_name(
        &self,
        name: &TopicPartition,
        path: &Path,
        topic_id: Uuid,
        random: &mut Random,
    ) -> Result<(), StorageError> {
        if self.disk.status(path).is_err() {
            return Ok(());
        }
        let is_of_other = match read_partition_metadata(&self.disk, path) {
            Ok(id) => id.is_some_and(|id| id != topic_id),
            Err(FileError::Storage(error)) => return Err(error),
            Err(FileError::Damaged { .. }) => false,
        };
        let is_kept = is_of_other || self.holds_batches(path)?;
        if is_kept && self.planted != Planted::MakesLogsAnew {
            return self.set_aside(name, path, random);
        }
        let removed = self.disk.remove_directory(path);
        removed.map_err(|source| StorageError {
            operation: "remove",
            file: path.to_owned(),
            source,
        })
    }

    /// Removes the directories whose delay is over.
    pub(super) fn remove_due(&mut self, now: MonotonicTime) -> Result<(), Halted> {
        let is_due = |(at, _): &(MonotonicTime, PathBuf)| *at <= now;
        let (due, later) = std::mem::take(&mut self.removals)
            .into_iter()
            .partition(is_due);
        self.removals = later;
        let due: Vec<(MonotonicTime, PathBuf)> = due;
        for (_, path) in due {
            let removed = self.disk.remove_directory(&path);
            let reason = format!("{}: {removed:?}", path.display());
            if removed.is_err() {
                self.do_without(reason.into())?;
            }
        }
        Ok(())
    }

    /// Closes logs that nobody uses, as if their producers had given up: a world ends before they do, and logs would
    /// hardly ever close.
    pub(super) fn rest(&self, now_ms: i64) -> Result<(), Halted> {
        for partition in self.all() {
            match partition.become_idle(now_ms + GIVEN_UP_MS, false) {
                Err(error) if error.is_out_of_files() => {}
                outcome => drop(outcome?),
            }
        }
        Ok(())
    }

    pub(super) fn close(&mut self, now_ms: i64) -> Result<(), Halted> {
        let all: Vec<_> = self.all().cloned().collect();
        for partition in all {
            if let Err(error) = partition.close(now_ms, true) {
                self.do_without(error.into())?;
            }
        }
        self.write_checkpoints()
    }
}

fn log_config(image: &MetadataImage, defaults: &TopicDefaults, topic: &str) -> Arc<LogConfig> {
    let none = ConfigMap::new();
    let overrides = image.configs.of_topic(topic).map_or(&none, |set| &**set);
    let settings = defaults.settings(overrides);
    let settings = settings.unwrap_or_else(|_| TopicSettings::kafka_defaults());
    let mut config = log_config_of(&settings);
    if topic == KEYED || topic.starts_with("__") {
        config.segment_bytes = KEYED_SEGMENT_BYTES;
    }
    Arc::new(config)
}

fn log_config_of(settings: &TopicSettings) -> LogConfig {
    LogConfig {
        segment_bytes: SEGMENT_BYTES,
        segment_ms: settings.segment_ms,
        index_interval_bytes: 200,
        retention_ms: settings.retention_ms,
        retention_bytes: settings.retention_bytes,
        max_message_bytes: settings.max_message_bytes.unsigned_abs(),
        flush_messages: settings.flush_messages,
        flush_ms: settings.flush_ms,
        file_delete_delay_ms: 500,
        cleanup_policy: CleanupPolicy {
            delete: settings.cleanup_policy.delete,
            compact: settings.cleanup_policy.compact,
        },
        min_cleanable_dirty_ratio: 0.1,
        delete_retention_ms: 1_000,
        ..LogConfig::default()
    }
}

/// The mistake of a start that takes a gap between offsets for damage: it cuts the log there.
fn cut_at_gap(log: &mut Log<SimDisk>, now_ms: i64) -> Result<(), Halted> {
    let (mut expected, end) = (log.log_start_offset(), log.log_end_offset());
    let mut bytes = Vec::new();
    while expected < end && !log.config().cleanup_policy.compact {
        bytes.clear();
        log.read_into(expected, 1 << 20, end, &mut bytes)?;
        for batch in record::Batches::new(&bytes) {
            let batch = batch?;
            if batch.base_offset() > expected {
                log.truncate_to(expected, now_ms)?;
                return Ok(());
            }
            expected = batch.next_offset();
        }
    }
    Ok(())
}

/// What a produced batch must obey.
pub(super) fn rules_of(config: &LogConfig) -> ValidationRules {
    ValidationRules {
        max_message_bytes: config.max_message_bytes as usize,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: config.timestamp_before_max_ms,
        timestamp_after_max_ms: config.timestamp_after_max_ms,
        is_compacted: config.cleanup_policy.compact,
        compression: TargetCompression::Producer,
        decompressed_max_bytes: 1 << 20,
    }
}
