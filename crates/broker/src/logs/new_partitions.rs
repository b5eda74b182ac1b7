//! Logs of new partitions: made in a log directory that is online.
//!
//! ```text
//!   delta ──> create: the directory that the metadata name, else the one with the fewest
//!                │      partitions; one that fails goes offline, and the next one is tried
//!                ├─ no file descriptor, no room, no directory, or a disk that is stuck: clients get
//!                │  KAFKA_STORAGE_ERROR, and create_missing tries again
//!                └─ a disk that is late: whoever has asked for the partition waits
//! ```
//!
//! The metadata loader waits for a disk no longer than a moment, as all that is committed comes after.
//! What is not made by then is made when the disk has answered; the request that has asked for it has its
//! answer when that is so, or when the disk is known as stuck.

use crate::logs::directory_sync::sync_directory;
use crate::logs::log_dir_queue::{Handed, LogDirTask};
use crate::logs::log_directories::LogDirectory;
use crate::logs::owners::holds_batches;
use crate::logs::partitions::{HostedTopic, Unavailable};
use crate::logs::{Logs, checkpoints, directory_choice, hosting, idle_logs, scan};
use crate::scheduling::clock::now_ms;
use crate::scheduling::disk_watch::{DiskSpeed, STUCK};
use controller::AssignReplicasToDirectories;
use controller::directories::DirectoryAssignment;
use metadata::{LOST_DIRECTORY, MetadataImage};
use model::{Offset, TopicPartition, Uuid};
use parking_lot::Mutex;
use replication::{PartitionKey, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use storage::disk::OpenMode;
use storage::log_directory::PartitionDirectory;
use storage::partition_metadata::{read_partition_metadata, sync_partition_metadata};
use storage::{Context, Disk, FileError, Log, LogOpening, RealDisk, StorageError};
use tokio::sync::Notify;
use tokio::time::timeout;

/// New partitions, by topic id and index, that something is left to be done for.
#[derive(Debug, Default)]
pub(crate) struct NewPartitions {
    /// Their logs could not be made yet.
    unmade: Mutex<BTreeMap<PartitionKey, Unmade>>,
    /// The metadata do not say yet where their logs are.
    unnoted: Mutex<BTreeMap<PartitionKey, Unnoted>>,
    /// Of who tells the controller.
    telling: tokio::sync::Mutex<()>,
    /// That the controller is told has been asked for, and has not begun.
    is_telling_asked: AtomicBool,
    /// What is left to be done has changed.
    changed: Notify,
    /// An attempt to make what is unmade has been asked for, and has not begun.
    is_asked: AtomicBool,
    /// Why the next logs cannot be made.
    #[cfg(test)]
    refusals: Mutex<Vec<StorageError>>,
    /// What happens while the next log is made.
    #[cfg(test)]
    interruption: Mutex<Option<Interruption>>,
}

/// What another thread does meanwhile.
#[cfg(test)]
struct Interruption(Box<dyn FnOnce(&Logs) + Send>);

#[cfg(test)]
impl std::fmt::Debug for Interruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interruption").finish_non_exhaustive()
    }
}

/// How it comes that the metadata do not say where a log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unnoted {
    /// It is being made, in the directory of this id.
    Making(Uuid),
    /// The controller has yet to be told.
    PendingLogUpdate,
    /// The controller has been told, and has not taken it: it is told again.
    Told,
}

/// A partition whose log could not be made yet.
#[derive(Debug, Clone, Copy)]
struct Unmade {
    /// Whether it is likely to be made in a moment.
    is_late: bool,
    /// Whether an operator has been told.
    is_told: bool,
}

impl NewPartitions {
    /// Whether a partition waits for its log.
    pub(crate) fn has(&self, topic_id: Uuid, index: i32) -> bool {
        self.unmade.lock().contains_key(&(topic_id, index))
    }

    /// Whether the controller has yet to be told where a partition's log is, or that it is lost.
    pub(crate) fn is_unnoted(&self, key: PartitionKey) -> bool {
        self.unnoted.lock().contains_key(&key)
    }

    /// Whether nothing is left to be done.
    pub(crate) fn is_empty(&self) -> bool {
        self.unmade.lock().is_empty() && self.unnoted.lock().is_empty()
    }

    /// Asks for the controller to be told of places that the metadata do not say. Returns whether there
    /// are any, and nobody yet who will begin to tell of them after this.
    pub(crate) fn ask_to_tell(&self) -> bool {
        !self.unnoted.lock().is_empty() && !self.is_telling_asked.swap(true, Ordering::AcqRel)
    }

    /// Whether there are partitions in a directory whose place the metadata do not have yet.
    pub(crate) fn has_unnoted_in(&self, logs: &Logs, directory: Uuid) -> bool {
        let unnoted = self.unnoted.lock().clone();
        unnoted.into_iter().any(|(key, state)| {
            if let Unnoted::Making(id) = state {
                return id == directory;
            }
            let partition = logs.partitions.by_key(key);
            let place = partition.map(|one| one.log_directory());
            let mut directories = logs.directories.iter();
            directories
                .any(|one| one.id() == directory && Some(one.shared_name()) == place.as_ref())
        })
    }

    /// Asks for an attempt to make what is unmade. Returns whether there is none yet that will begin
    /// after this.
    pub(crate) fn ask(&self) -> bool {
        !self.is_asked.swap(true, Ordering::AcqRel)
    }

    /// Waits until the new partitions of these topics have their logs, and the metadata say where, or
    /// until it is known that this takes longer; no longer than `limit`.
    pub(crate) async fn wait_for(&self, topic_ids: &[Uuid], limit: Duration) {
        let is_of_them = |key: &PartitionKey| topic_ids.contains(&key.0);
        let all = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                let is_late = {
                    let unmade = self.unmade.lock();
                    let mut late = unmade.iter().filter(|(_, one)| one.is_late);
                    late.any(|(key, _)| is_of_them(key))
                };
                let is_being_told = || {
                    let unnoted = self.unnoted.lock();
                    let mut told = unnoted.iter().filter(|(_, one)| **one != Unnoted::Told);
                    told.any(|(key, _)| is_of_them(key))
                };
                if !is_late && !is_being_told() {
                    return;
                }
                changed.await;
            }
        };
        let _ = timeout(limit.min(STUCK), all).await;
    }

    fn remove(&self, key: PartitionKey) {
        if self.unmade.lock().remove(&key).is_some() {
            self.changed.notify_waiters();
        }
    }

    /// Lets nobody tell the controller, until it is dropped.
    #[cfg(test)]
    pub(crate) async fn hold_telling(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.telling.lock().await
    }

    /// The next log cannot be made.
    #[cfg(test)]
    pub(crate) fn refuse_next(&self, error: StorageError) {
        self.refusals.lock().push(error);
    }

    /// What happens while the next log is made.
    #[cfg(test)]
    pub(crate) fn interrupt_next(&self, happens: impl FnOnce(&Logs) + Send + 'static) {
        *self.interruption.lock() = Some(Interruption(Box::new(happens)));
    }

    /// Keeps in mind that the metadata have another place for a log, before it is made: from here on it is
    /// not reported that its directory has failed.
    fn begin(&self, misplaced: PartitionKey, directory: Uuid) {
        let making = Unnoted::Making(directory);
        self.unnoted.lock().insert(misplaced, making);
    }

    /// There is a log, which cannot be opened: the controller is to be told that it is in no directory.
    pub(crate) fn note_lost(&self, key: PartitionKey) {
        self.end(key);
    }

    /// The log is made: the controller is to be told where.
    fn end(&self, misplaced: PartitionKey) {
        self.unnoted
            .lock()
            .insert(misplaced, Unnoted::PendingLogUpdate);
    }

    /// It is not made there.
    fn take_back(&self, misplaced: PartitionKey) {
        if self.unnoted.lock().remove(&misplaced).is_some() {
            self.changed.notify_waiters();
        }
    }
}

/// What the controller has to be told of places that the metadata do not know, those of earlier attempts
/// too. A place is noted once the metadata have it, or name another directory that can be used.
fn untold_places(logs: &Logs) -> Vec<DirectoryAssignment> {
    let mut unnoted = logs.new_partitions.unnoted.lock();
    let image = logs.node.image();
    let mut untold = Vec::new();
    unnoted.retain(|&key, state| {
        if matches!(state, Unnoted::Making(_)) {
            return true;
        }
        // A log is made before requests see its topic: who sees to that asks for another attempt.
        let topic = image.topics.by_id(key.0);
        if topic.and_then(|topic| topic.partition(key.1)).is_none() {
            return logs.partitions.by_key(key).is_some();
        }
        let assignment = misplaced(logs, &image, key);
        *state = Unnoted::PendingLogUpdate;
        untold.extend(assignment);
        assignment.is_some()
    });
    drop(unnoted);
    logs.new_partitions.changed.notify_waiters();
    untold
}

/// Nobody waits any more for the places that the controller has been told of; those that it has not taken
/// stay to be told of again.
fn forget_told(logs: &Logs, assignments: &[DirectoryAssignment]) {
    let told = assignments.iter();
    let told: BTreeSet<PartitionKey> = told.map(|one| (one.topic_id, one.partition_id)).collect();
    let image = logs.node.image();
    logs.new_partitions.unnoted.lock().retain(|key, state| {
        // What is being made by now is another replica of the partition.
        if matches!(state, Unnoted::Making(_)) || !told.contains(key) {
            return true;
        }
        *state = Unnoted::Told;
        misplaced(logs, &image, *key).is_some()
    });
    logs.new_partitions.changed.notify_waiters();
}

/// Tells the controller of the places that the metadata do not know, if there are any, one attempt after
/// the other. What cannot be noted for now is tried again: without it nobody could tell at the next start
/// in which directory a partition is.
pub(crate) async fn note_places(logs: &Logs) {
    let _turn = logs.new_partitions.telling.lock().await;
    // What is asked for from here on may come too late for this attempt.
    let is_asked = &logs.new_partitions.is_telling_asked;
    is_asked.swap(false, Ordering::AcqRel);
    let assignments = untold_places(logs);
    if assignments.is_empty() {
        return;
    }
    let request = AssignReplicasToDirectories {
        broker_id: logs.node.id,
        broker_epoch: logs.node.broker_epoch(),
        assignments: assignments.clone(),
    };
    let noted = logs.controller.request(request).await;
    let refusal = match noted {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(code) => Some(code.to_string()),
    };
    if let Some(error) = refusal {
        tracing::warn!(%error, "places of new partitions are not noted for now");
    }
    forget_told(logs, &assignments);
}

/// What the controller is to be told of a partition whose place `image` does not know.
fn misplaced(
    logs: &Logs,
    image: &MetadataImage,
    (topic_id, partition_id): PartitionKey,
) -> Option<DirectoryAssignment> {
    if !image.metadata_version().supports_directory_assignment() {
        return None;
    }
    let partition = image.topics.by_id(topic_id)?.partition(partition_id)?;
    let named = partition.directory_of(logs.node.id)?;
    let topic = logs.partitions.topic_by_id(topic_id)?;
    let directory = match topic.partition(partition_id) {
        Some(hosted) => {
            let mut usable = logs.directories.iter().filter(|one| one.is_usable());
            if usable.any(|one| one.id() == named) {
                return None;
            }
            let place = hosted.log_directory();
            let mut directories = logs.directories.iter();
            directories.find(|one| *one.name() == *place)?.id()
        }
        None => {
            topic.loss_of(partition_id)?;
            LOST_DIRECTORY
        }
    };
    (directory != named).then_some(DirectoryAssignment {
        directory,
        topic_id,
        partition_id,
    })
}

/// Makes the log of a new partition, for which the metadata name a directory. Where it is in another one,
/// that is [noted](note_places) next.
pub(crate) fn create(logs: &Arc<Logs>, topic: &Arc<HostedTopic>, index: i32, directory_id: Uuid) {
    let name = TopicPartition::new(&*topic.name, index);
    // It is wanted there until it is made, however often that is tried.
    let wanted = logs.future_replicas.destinations.of(&name);
    let choose = || directory_choice::choose_online(logs, directory_id, wanted.as_ref());
    while let Some(directory) = choose() {
        if let Err(unready) = make_ready(logs, &directory, &name) {
            if directory.is_offline() {
                continue;
            }
            put_off(logs, topic, index, &unready);
            return;
        }
        let Some(created) = create_noted(logs, topic, index, (&directory, directory_id)) else {
            continue;
        };
        match created {
            Ok(()) => {
                logs.future_replicas.destinations.remove(&name);
                logs.new_partitions.remove((topic.id, index));
                return;
            }
            // A descriptor may be free in a moment.
            Err(error) if error.is_out_of_files() => {
                logs.report_directory_error(directory.name(), &error);
                put_off(logs, topic, index, &Unready::Told);
                return;
            }
            // Other logs go on, and there may be room later.
            Err(error) if error.is_passing() => {
                put_off(logs, topic, index, &Unready::Refused(&error));
                return;
            }
            // It never can be, in any directory.
            Err(error) if error.is_name_too_long() => {
                topic.lose(index, Unavailable::Offline);
                logs.new_partitions.remove((topic.id, index));
                logs.future_replicas.destinations.remove(&name);
                tracing::error!(partition = %name, %error, "the log of a new partition cannot be made");
                return;
            }
            Err(error) => logs.fail_directory(directory.name(), &error),
        }
    }
    let unready = Unready::Refused(&"there is no log directory");
    put_off(logs, topic, index, &unready);
}

/// Finds out whether the disk answers.
const PROBE: LogDirTask = LogDirTask {
    name: "probe",
    run: |logs, directory_index| ask_disk(logs, &logs.directories[directory_index]),
};

/// Clears the checkpoints of what is left in them.
const LEFTOVERS: LogDirTask = LogDirTask {
    name: "leftovers",
    run: |logs, directory_index| {
        checkpoints::settle_or_report(logs, &logs.directories[directory_index])
    },
};

/// Asks the disks whether they answer, before the metadata loader makes logs on them: a log directory
/// whose disk does not is behind from here on. The disk of the metadata has just been written to.
pub(crate) fn probe(logs: &Arc<Logs>) {
    let directories = logs.directories.iter().enumerate();
    let asked = directories.filter(|(directory_index, one)| {
        one.is_usable()
            && logs.pace(*directory_index) == DiskSpeed::Prompt
            && !logs.holds_metadata(one)
    });
    let asked = asked.map(|(directory_index, _)| directory_index).collect();
    Handed::new(logs).task(&asked, PROBE).wait();
}

/// A file by which a disk is asked; a crash may leave it, and it is nobody's.
const PROBE_FILE: &str = ".probe.tmp";

/// Returns when the disk of a log directory has answered. There is something new for it to take: what it
/// has already is synced without it.
pub(crate) fn ask_disk(logs: &Logs, directory: &LogDirectory) {
    let probe = directory.path().join(PROBE_FILE);
    let written = RealDisk.open(&probe, OpenMode::Replace).map(drop);
    let written = written.and_then(|()| RealDisk.remove_file(&probe));
    let written = written.context("write", &probe);
    if let Err(error) = written.and_then(|()| sync_directory(directory.path())) {
        // Where there is no room or no descriptor, the disk has answered.
        if !error.is_passing() {
            logs.report_directory_error(directory.name(), &error);
        }
    }
}

/// Why a new partition has to wait.
#[derive(Clone, Copy)]
enum Unready<'a> {
    /// For what its disk has before it.
    Late,
    Refused(&'a dyn Display),
    /// For a reason that has been told.
    Told,
}

/// Sees to it that a log directory, and its checkpoints, have nothing of a deleted topic that a new
/// partition could be taken for.
///
/// # Errors
/// Why the partition has to wait.
fn make_ready(
    logs: &Arc<Logs>,
    directory: &LogDirectory,
    name: &TopicPartition,
) -> Result<(), Unready<'static>> {
    let late_or = |is_late: bool, reason: &'static &str| match is_late {
        true => Unready::Late,
        false => Unready::Refused(reason),
    };
    if let Some(time) = directory.leaving_for(name) {
        let reason = &"the log of a deleted topic is still in its place";
        return Err(late_or(time < STUCK, reason));
    }
    let directory_index = logs.host.directory_index_of(directory.shared_name());
    let pace = logs.pace(directory_index);
    // Without the disk of the metadata nothing is decided in any case.
    if pace > DiskSpeed::Prompt && !logs.holds_metadata(directory) {
        let reason = &"the disk of its log directory does not answer";
        return Err(late_or(pace == DiskSpeed::Late, reason));
    }
    directory.checkpoints().give_up_lost(name);
    if directory.checkpoints().have_leftovers() {
        let handed = Handed::new(logs).task(&[directory_index].into(), LEFTOVERS);
        handed.wait();
    }
    match directory.checkpoints().have_leftovers() {
        true => {
            let reason = &"the checkpoints of its log directory cannot be written";
            Err(late_or(
                logs.pace(directory_index) == DiskSpeed::Late,
                reason,
            ))
        }
        false => Ok(()),
    }
}

/// Clients are refused until the log of a new partition can be made; while that is a matter of moments, as
/// by a broker that does not know of the partition yet.
fn put_off(logs: &Logs, topic: &HostedTopic, index: i32, unready: &Unready<'_>) {
    let is_late = matches!(unready, Unready::Late);
    topic.lose(
        index,
        match is_late {
            true => Unavailable::Unmade,
            false => Unavailable::Offline,
        },
    );
    let is_told = {
        let mut unmade = logs.new_partitions.unmade.lock();
        let one = unmade.entry((topic.id, index)).or_insert(Unmade {
            is_late,
            is_told: false,
        });
        one.is_late = is_late;
        let is_told = one.is_told;
        one.is_told |= !is_late;
        is_told
    };
    if is_late {
        return;
    }
    logs.new_partitions.changed.notify_waiters();
    if let Unready::Refused(reason) = unready
        && !is_told
    {
        let partition = TopicPartition::new(&*topic.name, index);
        tracing::error!(
            %partition,
            %reason,
            "the log of a new partition cannot be made for now"
        );
    }
}

/// Tries to make the logs that could not be made before.
pub(crate) fn create_missing(logs: &Arc<Logs>, image: &MetadataImage) {
    // What is asked for from here on may come too late for this attempt.
    logs.new_partitions.is_asked.swap(false, Ordering::AcqRel);
    let missing: Vec<PartitionKey> = logs.new_partitions.unmade.lock().keys().copied().collect();
    if !missing.is_empty() {
        probe(logs);
    }
    let mut created = Vec::new();
    let mut tried_in_vain = BTreeMap::new();
    for (topic_id, index) in missing {
        let topic = logs.partitions.topic_by_id(topic_id);
        let partition = image
            .topics
            .by_id(topic_id)
            .and_then(|topic| topic.partition(index));
        let named = partition.and_then(|partition| partition.directory_of(logs.node.id));
        match (topic, named) {
            (Some(topic), Some(named)) => {
                let name = TopicPartition::new(&*topic.name, index);
                let wanted = logs.future_replicas.destinations.of(&name);
                let choose = |id| directory_choice::choose_online(logs, id, wanted.as_ref());
                let directory = choose(named);
                // It waits alone.
                let is_leaving = |one: &Arc<LogDirectory>| one.leaving_for(&name).is_some();
                let waits_alone = directory.as_ref().is_some_and(is_leaving);
                let place = directory.map(|one| one.shared_name().clone());
                // The others there would fare no better.
                if let Some(is_late) = tried_in_vain.get(&place)
                    && !waits_alone
                {
                    let unready = match is_late {
                        true => Unready::Late,
                        false => Unready::Told,
                    };
                    put_off(logs, &topic, index, &unready);
                    continue;
                }
                create(logs, &topic, index, named);
                let unmade = logs
                    .new_partitions
                    .unmade
                    .lock()
                    .get(&(topic_id, index))
                    .copied();
                if let Some(unmade) = unmade
                    && !waits_alone
                {
                    tried_in_vain.insert(place, unmade.is_late);
                }
                created.extend(topic.partition(index));
            }
            // It has been removed meanwhile.
            _ => logs.new_partitions.remove((topic_id, index)),
        }
    }
    sync_topic_ids(logs, &created);
}

/// Makes it durable which topics the directories of new logs belong to, before there is a record in
/// them: after a crash nobody could tell.
pub(crate) fn sync_topic_ids(logs: &Logs, partitions: &[Arc<replication::Partition>]) {
    for directory in logs.directories.iter().filter(|one| one.is_usable()) {
        let here = idle_logs::in_directory(partitions.iter().cloned(), directory);
        if here.len() > idle_logs::FEW && directory.sync_all(logs.host.open_files()) {
            continue;
        }
        let synced = here
            .iter()
            .try_for_each(|one| sync_partition_metadata(&RealDisk, &one.directory()));
        if let Err(error) = synced {
            logs.report_directory_error(directory.name(), &error);
        }
    }
}

/// Makes a log in a directory, which is to be noted before it is reported that the directory has failed, if
/// the metadata name another one. `None` where the directory has failed by now.
fn create_noted(
    logs: &Arc<Logs>,
    topic: &Arc<HostedTopic>,
    index: i32,
    (directory, named): (&LogDirectory, Uuid),
) -> Option<Result<(), StorageError>> {
    let key = (topic.id, index);
    let is_misplaced = directory.id() != named;
    if is_misplaced {
        logs.new_partitions.begin(key, directory.id());
        // That it has failed may have been reported without this.
        if directory.is_offline() {
            logs.new_partitions.take_back(key);
            return None;
        }
    }
    let created = create_in(logs, topic, index, directory);
    match &created {
        // Whoever waits for the log waits for this next.
        Ok(()) if is_misplaced => logs.new_partitions.end(key),
        Err(_) if is_misplaced => logs.new_partitions.take_back(key),
        _ => {}
    }
    Some(created)
}

fn create_in(
    logs: &Arc<Logs>,
    topic: &Arc<HostedTopic>,
    index: i32,
    directory: &LogDirectory,
) -> Result<(), StorageError> {
    #[cfg(test)]
    if let Some(error) = logs.new_partitions.refusals.lock().pop() {
        return Err(error);
    }
    let name = TopicPartition::new(&*topic.name, index);
    let path = directory.path().join(name.to_string());
    free_name(&path, topic.id, logs.new_partitions.has(topic.id, index))?;
    #[cfg(test)]
    if let Some(Interruption(happens)) = logs.new_partitions.interruption.lock().take() {
        happens(logs);
    }
    let made = make(logs, topic, directory, (name, &path));
    if let Err(error) = made {
        // What there is of it would be in the way of the next attempt.
        let _ = free_name(&path, topic.id, true);
        return Err(error);
    }
    let partition = topic.partition(index).expect("added just above");
    topic.regain(index);
    if let Role::Leader { leader_epoch, .. } = topic.role(index)
        && !directory.is_offline()
    {
        logs.users().led(partition.clone(), leader_epoch);
    }
    logs.follow(&partition);
    // Who has taken the directory offline meanwhile may not have seen the partition in it, or not yet who
    // keeps state there.
    logs.fail_if_offline(&partition);
    Ok(())
}

fn make(
    logs: &Logs,
    topic: &Arc<HostedTopic>,
    directory: &LogDirectory,
    (name, path): (TopicPartition, &Path),
) -> Result<(), StorageError> {
    let log = Log::create(LogOpening {
        topic_id: Some(topic.id),
        config: hosting::topic_log_config(logs, topic),
        open_files: logs.host.open_files().clone(),
        now_ms: now_ms(),
        ..LogOpening::new(RealDisk, path.to_owned(), name)
    })?;
    hosting::host_log(logs, topic, log, directory, Offset(0))
}

/// Makes the name of a new partition free. A directory that has it belongs to a topic that is gone,
/// and could not be renamed when that was deleted; or an earlier attempt has left it, if there was
/// one, and could not remove it without a descriptor.
pub(crate) fn free_name(
    path: &Path,
    topic_id: Uuid,
    is_tried_again: bool,
) -> Result<(), StorageError> {
    match RealDisk.status(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).context("read", path),
        Ok(_) if is_tried_again && is_leftover(path, topic_id)? => {
            RealDisk.remove_directory(path).context("remove", path)
        }
        Ok(_) => set_aside(path),
    }
}

/// Whether a directory is one that an attempt to make the log of a partition may leave: without a
/// record, and of no other topic.
fn is_leftover(path: &Path, topic_id: Uuid) -> Result<bool, StorageError> {
    let is_of_other = match read_partition_metadata(&RealDisk, path) {
        Ok(id) => id.is_some_and(|id| id != topic_id),
        Err(FileError::Storage(error)) => return Err(error),
        // The attempt may have ended before all of it was written.
        Err(FileError::Damaged { .. }) => false,
    };
    Ok(!is_of_other && !holds_batches(path)?)
}

fn set_aside(path: &Path) -> Result<(), StorageError> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(found) = name.and_then(PartitionDirectory::parse) else {
        return Ok(());
    };
    scan::set_aside(&found, path)?;
    path.parent().map_or(Ok(()), sync_directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const TOPIC_ID: Uuid = Uuid::from_u128(7);

    /// What becomes of a directory that has the name of a new partition, with a segment of these
    /// bytes and the id of a topic.
    fn freed(segment: &str, topic_id: Option<Uuid>, is_tried_again: bool) -> &'static str {
        let root = trials::directory();
        let path = root.path().join("topic-0");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("00000000000000000000.log"), segment).unwrap();
        if let Some(id) = topic_id {
            let text = format!("version: 0\ntopic_id: {id}");
            fs::write(path.join("partition.metadata"), text).unwrap();
        }
        free_name(&path, TOPIC_ID, is_tried_again).unwrap();
        assert!(!path.exists(), "the name is free");
        let mut left = fs::read_dir(root.path()).unwrap();
        let Some(left) = left.next() else {
            return "removed";
        };
        let left = left.unwrap().path();
        assert!(left.display().to_string().ends_with("-stray"));
        let kept = fs::read_to_string(left.join("00000000000000000000.log"));
        assert_eq!(kept.unwrap(), segment);
        "set aside"
    }

    #[test]
    fn only_what_an_earlier_attempt_has_left_is_removed_for_a_new_partition() {
        let (own, other) = (Some(TOPIC_ID), Some(Uuid::from_u128(8)));
        for id in [None, own] {
            assert_eq!(freed("", id, true), "removed");
            assert_eq!(freed("records", id, true), "set aside");
        }
        for segment in ["", "records"] {
            assert_eq!(freed(segment, other, true), "set aside");
            for id in [None, own, other] {
                assert_eq!(freed(segment, id, false), "set aside");
            }
        }
    }

    #[test]
    fn a_name_that_nobody_has_is_free() {
        let root = trials::directory();
        for is_tried_again in [false, true] {
            free_name(&root.path().join("topic-0"), TOPIC_ID, is_tried_again).unwrap();
        }
        let too_long = root.path().join("t".repeat(300));
        let error = free_name(&too_long, TOPIC_ID, false).unwrap_err();
        assert!(error.is_name_too_long());
    }
}
