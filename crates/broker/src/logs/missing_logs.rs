//! Logs that are not where they were, though their log directory is there: in their place no empty log may lead.
//!
//! ```text
//!   no log, and nobody else in sync has the records
//!     its directory does not say whose it is                                       ──> lost; the directory stays
//!     `settled-logs` has it, of this topic's id and not empty                      ──> lost
//!     a checkpoint has it with a record, no other directory has its name, and there
//!     was no clean shutdown or `settled-logs` does not have it                     ──> lost
//!     else                                                                         ──> new
//! ```
//!
//! A lost partition is noted in no directory (`LOST_DIRECTORY`), so that the controller has it led by nobody
//! here. A start that finds its log notes that, and it is as before. An empty directory of its name is a log that
//! an operator takes for lost for good.
//!
//! Invariant: what shows that a log is lost stays until the metadata say so or there is a log again. They may not hear
//! of it before the next crash, or have no place for it: the checkpoint of recovery points keeps the entry meanwhile.
//!
//! Checkpoints name no topic ids: of a topic of this name that is gone, a directory that was renamed or is of another
//! id is left, as long as they may have its entries.

use crate::logs::Logs;
use crate::logs::directory_choice::{is_unplaced, named_directory_index};
use crate::logs::owners::is_held_by_others;
use crate::logs::scan::{NameTaken, set_aside_or_say};
use metadata::MetadataImage;
use model::{Offset, TopicPartition, Uuid};
use replication::PartitionKey;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use storage::RealDisk;
use storage::checkpoint::{
    OffsetCheckpoint, RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT, for_each_offset,
};
use storage::settled_logs::SettledLogs;

/// What a log directory knew of the logs that were in it.
pub(super) struct Traces<'a> {
    pub(super) settled: &'a SettledLogs,
    /// Whether not every log is settled.
    pub(super) is_unclean: bool,
}

/// The partitions without a log whose log is known to have been here. `taken` are the directories, by the place of
/// their log directory, that have a partition's name and are not its log; `traces` are those of each log directory.
pub(super) fn find_lost(
    logs: &Logs,
    image: &MetadataImage,
    taken: Vec<(usize, NameTaken)>,
    traces: &[Traces<'_>],
    has_log: &dyn Fn(PartitionKey) -> bool,
) -> BTreeSet<PartitionKey> {
    let mut lost = BTreeSet::new();
    let mut others = BTreeSet::new();
    for (at, taken) in taken {
        match taken {
            NameTaken::ByOther(name) => drop(others.insert(name)),
            NameTaken::ByUnknown(key, found, reason) => {
                let path = logs.directories[at].path().join(&found.name);
                if has_log(key) {
                    set_aside_or_say(&found, &path);
                } else {
                    tell_of_unknown(&path, key, &found.topic_partition, &reason);
                    lost.insert(key);
                }
            }
        }
    }
    let without_log = without_log(logs, image, &|key| has_log(key) || lost.contains(&key));
    if without_log.is_empty() {
        return lost;
    }
    let mut missing: BTreeMap<&Path, Vec<&TopicPartition>> = BTreeMap::new();
    for (directory, traces) in logs.directories.iter().zip(traces) {
        let path = directory.path();
        let noted = match directory.is_offline() {
            true => OffsetCheckpoint::new(),
            false => noted_in(path, &without_log),
        };
        for (name, id) in &without_log {
            let settled = traces.settled.find(name);
            let settled = settled.filter(|one| one.topic_id == *id);
            // Apache Kafka, which may have stopped last, settles none.
            let is_asked = traces.is_unclean || settled.is_none();
            let noted = noted.get(name);
            let noted = noted.filter(|_| is_asked && !others.contains(name));
            let settled = settled.map_or(Offset::ZERO, |one| one.idle.log_end_offset);
            let offset = settled.max(noted.copied().unwrap_or_default());
            if offset > Offset::ZERO && lost.insert((*id, name.partition)) {
                missing.entry(path).or_default().push(name);
                directory.checkpoints().keep_lost(name.clone(), offset);
            }
        }
    }
    tell_of_missing(&missing);
    lost
}

/// The partitions of this broker whose log is not found, and that nobody in sync has.
fn without_log(
    logs: &Logs,
    image: &MetadataImage,
    is_told: &dyn Fn(PartitionKey) -> bool,
) -> BTreeMap<TopicPartition, Uuid> {
    let mut without = BTreeMap::new();
    for topic in image.topics.iter() {
        for (index, partition) in topic.partitions.iter() {
            let Some(directory_id) = partition.directory_of(logs.node.id) else {
                continue;
            };
            let key = (topic.id, *index);
            // One whose log directory is away is lost in any case.
            let may_be_new =
                is_unplaced(directory_id) || named_directory_index(logs, directory_id).is_some();
            if may_be_new && !is_told(key) && !is_held_by_others(partition, logs.node.id) {
                without.insert(TopicPartition::new(&*topic.name, *index), topic.id);
            }
        }
    }
    without
}

/// The offsets that the checkpoints of a log directory have of these partitions, where there is a record. A file that
/// cannot be read has none: it is reported when the offsets are read.
fn noted_in(log_directory: &Path, wanted: &BTreeMap<TopicPartition, Uuid>) -> OffsetCheckpoint {
    let mut noted = OffsetCheckpoint::new();
    for file in [RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT] {
        let _ = for_each_offset(&RealDisk, &log_directory.join(file), |name, offset| {
            if offset > Offset::ZERO && wanted.contains_key(&name) {
                noted.insert(name, offset);
            }
        });
    }
    noted
}

fn tell_of_unknown(path: &Path, (topic_id, _): PartitionKey, name: &TopicPartition, reason: &str) {
    tracing::error!(
        partition = %name,
        directory = %path.display(),
        error = reason,
        topic.id = %topic_id,
        "the partition has no leader here, and its directory stays as it is: nothing says that the records are of \
         the topic that has the name; if they are, remove `partition.metadata`, else delete the topic, and start again"
    );
}

/// One line for each log directory, however many logs it misses.
fn tell_of_missing(missing: &BTreeMap<&Path, Vec<&TopicPartition>>) {
    for (path, names) in missing {
        tracing::error!(
            log_directory = %path.display(),
            count = names.len(),
            first = %names[0],
            "partitions have no leader here: their logs were in the log directory and are missing; put their directories \
             back; only where no replica has the records any more, make empty ones; and start again"
        );
        for partition in names {
            tracing::debug!(%partition, "its log is missing");
        }
    }
}
