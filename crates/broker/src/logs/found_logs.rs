//! Where a start finds the logs of this broker: each directory is scanned, and what is wrong with what is
//! there is settled before anybody lives by it.
//!
//! ```text
//!   log directories ──> `scan` ──> one log for each partition ──> checkpoints ──> Places ──> `opening`
//!                                                                                   └─> the controller
//! ```

use crate::logs::boots;
use crate::logs::checkpoints::OffsetsAtStart;
use crate::logs::cordoning::is_named;
use crate::logs::directory_choice::{choose_directory, is_unplaced, named_directory_index};
use crate::logs::idle_logs::read_settled;
use crate::logs::log_directories::{LogDirectory, warn_of_missing};
use crate::logs::missing_logs::{Traces, find_lost};
use crate::logs::owners::{holds_batches, is_held_by_others};
use crate::logs::scan::{Existing, Scanned, scan, set_aside_or_say};
use crate::logs::unplaced::{Unplaced, outcome_of_unplaced};
use crate::logs::{Logs, checkpoints};
use crate::settings::start_error::StartError;
use controller::directories::DirectoryAssignment;
use metadata::{LOST_DIRECTORY, MetadataImage};
use model::{Offset, TopicPartition, Uuid};
use replication::{PartitionKey, Role};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use storage::checkpoint::OffsetCheckpoint;
use storage::log_directory::PartitionDirectory;
use storage::settled_logs::SettledLogs;
use storage::{Disk, RealDisk};

/// What a log directory knew of its partitions when it was left.
pub(super) struct Found {
    pub(super) directory: Arc<LogDirectory>,
    pub(super) offsets: OffsetsAtStart,
    pub(super) settled: SettledLogs,
    pub(super) is_clean: bool,
    /// Whether what was not synced may be lost.
    pub(super) has_machine_stopped: bool,
}

/// Where a log is: the place of its directory in `log.dirs`, and what there is of it.
pub(super) type Place = (u32, Existing);

/// Where the partitions of this broker are.
#[derive(Default)]
pub(crate) struct Places {
    /// Says so where the metadata says otherwise.
    pub(crate) found: Vec<DirectoryAssignment>,
    pub(super) founds: Vec<Found>,
    pub(super) partitions: HashMap<PartitionKey, Place>,
    /// Copies that were on their way into a log directory, with its place.
    pub(super) futures: Vec<(usize, PartitionDirectory)>,
    /// Partitions whose log, or the directory that it was in, is not there or cannot be used.
    pub(super) lost: BTreeSet<(Uuid, i32)>,
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
/// `clean` tells for each log directory whether it was shut down cleanly, and `registered` is what the last run
/// had registered, if it had.
///
/// # Errors
/// A [`StartError`] for a directory that cannot be listed, if it is that of the metadata.
pub(crate) fn find_all(
    logs: &Logs,
    image: &MetadataImage,
    clean: &[bool],
    registered: Option<&[Uuid]>,
) -> Result<Places, StartError> {
    let mut places = Places::default();
    let mut taken = Vec::new();
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
        taken.extend(scanned.taken.into_iter().map(|one| (at, one)));
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
    let traces = places.founds.iter().map(|found| Traces {
        settled: &found.settled,
        is_unclean: !found.is_clean,
    });
    let traces: Vec<_> = traces.collect();
    let has_log = |key| places.partitions.contains_key(&key);
    places.lost = find_lost(logs, image, taken, &traces, &has_log);
    read_checkpoints(logs, image, &mut places);
    place_all(logs, image, registered, &mut places);
    Ok(places)
}

/// Chooses a directory for each partition that has no log yet; one whose log may be in a directory that
/// is not there has no place.
fn place_all(logs: &Logs, image: &MetadataImage, registered: Option<&[Uuid]>, places: &mut Places) {
    let mut counts = vec![0usize; logs.directories.len()];
    for (at, _) in places.partitions.values() {
        counts[*at as usize] += 1;
    }
    let mut missing: BTreeMap<Uuid, Vec<TopicPartition>> = BTreeMap::new();
    let mut replaced = Vec::new();
    let is_complete = logs.directories.iter().all(|one| one.is_usable());
    let unplaced = unplaced_at_start(logs, registered);
    // No image is in force yet, nor what it says of this broker's configuration.
    let config = logs.node.config_as_of(image);
    let config = config.unwrap_or_else(|_| logs.node.config.clone());
    for topic in image.topics.iter() {
        for (index, partition) in topic.partitions.iter() {
            let Some(directory_id) = partition.directory_of(logs.node.id) else {
                continue;
            };
            let key = (topic.id, *index);
            let place = places.partitions.get(&key).copied();
            let is_known = || named_directory_index(logs, directory_id).is_some();
            let may_be_new = match is_unplaced(directory_id) {
                true => unplaced == Unplaced::New,
                false => is_known(),
            };
            if may_be_new && places.lost.contains(&key) {
                places.note(key, LOST_DIRECTORY);
                continue;
            }
            let is_lost = place.is_none() && !may_be_new;
            if is_lost && is_complete && is_held_by_others(partition, logs.node.id) {
                replaced.push(TopicPartition::new(&*topic.name, *index));
            } else if is_lost {
                // Its records are where they were: an empty log in their place would lose them.
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
                let is_cordoned = |at: usize| is_named(&config, &logs.directories[at]);
                let at = choose_directory(logs, directory_id, is_cordoned, |at| counts[at]);
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
    if let Some(first) = replaced.first() {
        let count = replaced.len();
        tracing::warn!(count, %first, "partitions are replicated anew: their log directory is not configured any more");
    }
}

/// What becomes of partitions for which the metadata name no directory, and of which there is no log.
fn unplaced_at_start(logs: &Logs, registered: Option<&[Uuid]>) -> Unplaced {
    let configured = logs.directories.iter();
    let configured: Vec<_> = configured
        .map(|one| (one.known_id(), one.is_usable()))
        .collect();
    outcome_of_unplaced(&configured, registered)
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

impl Found {
    /// Whether a log was found not to be what was known of it.
    pub(super) fn is_changed(&self, name: &TopicPartition) -> bool {
        let settled = self.settled.find(name);
        settled.is_some_and(|settled| settled.is_changed())
    }

    pub(super) fn recovery_point(&self, name: &TopicPartition) -> Offset {
        match self.is_changed(name) {
            true => Offset::ZERO,
            false => offset_of(&self.offsets.recovery_points, name),
        }
    }

    /// Whether a gap in the log is a loss. Of a log without a recovery point that may be compacted nobody knows.
    pub(super) fn is_gap_loss(&self, name: &TopicPartition, is_compacted: bool) -> bool {
        let is_known = !is_compacted || self.offsets.recovery_points.contains_key(name);
        self.has_machine_stopped && is_known && !self.is_changed(name)
    }

    fn nothing(directory: &Arc<LogDirectory>, is_clean: bool) -> Self {
        Self {
            directory: directory.clone(),
            offsets: OffsetsAtStart::default(),
            settled: SettledLogs::default(),
            is_clean,
            has_machine_stopped: false,
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
    let scanned = scan(logs, image, &directory, &found.settled).and_then(|scanned| {
        found.has_machine_stopped = !found.is_clean && boots::has_machine_stopped(&directory)?;
        Ok(scanned)
    });
    match scanned {
        Ok(scanned) => Ok(Some(scanned)),
        Err(error) if error.is_disk_failure() && !logs.holds_metadata(&directory) => {
            directory.fail(&error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What a checkpoint says of a partition: zero, if nothing.
pub(super) fn offset_of(checkpoint: &OffsetCheckpoint, name: &TopicPartition) -> Offset {
    checkpoint.get(name).copied().unwrap_or(Offset::ZERO)
}
