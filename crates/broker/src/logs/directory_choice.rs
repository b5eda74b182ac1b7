//! In which log directory a new partition's log is made.

use crate::logs::Logs;
use crate::logs::log_directories::LogDirectory;
use metadata::{MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY};
use model::Uuid;
use std::sync::Arc;

/// Whether the metadata leaves open where a replica is.
pub(crate) fn is_unplaced(directory_id: Uuid) -> bool {
    [UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY].contains(&directory_id)
}

/// Where to make the log of a new partition: where the metadata say, else where it is wanted, else in the
/// directory with the fewest. `None` when every directory is offline.
pub(crate) fn choose_online(
    logs: &Logs,
    directory_id: Uuid,
    wanted: Option<&Arc<LogDirectory>>,
) -> Option<Arc<LogDirectory>> {
    let directories = &logs.directories;
    let named = named_directory_index(logs, directory_id).map(|at| &directories[at]);
    let known = named.or(wanted.filter(|one| one.is_usable()));
    let chosen = known.unwrap_or_else(|| {
        let count = |at: usize| directories[at].partition_count();
        let is_cordoned = |at: usize| logs.is_cordoned(&directories[at]);
        &directories[choose_directory(logs, directory_id, is_cordoned, count)]
    });
    Some(chosen.clone()).filter(|one| !one.is_offline())
}

/// The place of the directory that the metadata say, if it can be used.
pub(super) fn named_directory_index(logs: &Logs, directory_id: Uuid) -> Option<usize> {
    let mut directories = logs.directories.iter();
    directories.position(|one| one.is_usable() && one.id() == directory_id)
}

/// The directory that the metadata say, or else of those that take new partitions, and whose disk
/// answers, the one with the fewest.
pub(super) fn choose_directory(
    logs: &Logs,
    directory_id: Uuid,
    is_cordoned: impl Fn(usize) -> bool,
    count: impl Fn(usize) -> usize,
) -> usize {
    let directories = &logs.directories;
    if let Some(at) = named_directory_index(logs, directory_id) {
        return at;
    }
    if directories.len() == 1 {
        return 0;
    }
    let online = (0..directories.len()).filter(|at| !directories[*at].is_offline());
    let reluctance = |at: usize| (is_cordoned(at), logs.pace(at));
    let fewest = online.min_by_key(|at| (reluctance(*at), count(*at)));
    fewest.unwrap_or(0)
}
