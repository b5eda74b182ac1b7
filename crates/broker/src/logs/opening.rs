//! Logs opened at a start, those that the metadata have and the directories do not made: on several threads, as
//! each may have to be recovered.

use crate::logs::file_shortage::open_with_patience;
use crate::logs::found_logs::{Found, Places, offset_of};
use crate::logs::hosting::{host_log, topic_defaults, topic_log_config};
use crate::logs::partitions::{HostedTopic, Unavailable};
use crate::logs::scan::Existing;
use crate::logs::{Logs, boots, checkpoints, future_replicas, roles};
use crate::scheduling::clock::now_ms;
use crate::settings::start_error::StartError;
use metadata::MetadataDelta;
use model::TopicPartition;
use parking_lot::Mutex;
use replication::Partition;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use storage::partition_metadata::{read_partition_metadata, sync_partition_metadata};
use storage::settled_logs::SettledLog;
use storage::{Disk, FileError, Log, LogOpening, OpenError, RealDisk};

/// A log to open: where it is, or that it has to be made.
struct Opening {
    topic: Arc<HostedTopic>,
    index: i32,
    found: usize,
    existing: Existing,
}

/// Opens the logs that have been found, and makes those that are missing. A log directory that
/// fails meanwhile is offline, and its partitions have no leader.
///
/// # Errors
/// A [`StartError`] when the directory of the metadata fails, and when the process runs out of file
/// descriptors.
pub(crate) fn open_all(
    logs: &Arc<Logs>,
    delta: &MetadataDelta,
    places: Places,
) -> Result<(), StartError> {
    let defaults = topic_defaults(logs, &delta.after);
    let mut openings = Vec::new();
    for (hosted, change) in roles::at_start(logs, delta, &defaults) {
        let Some((found, existing)) = places.partitions.get(&change.key) else {
            if places.lost.contains(&change.key) {
                hosted.lose(change.key.1, Unavailable::not_led(&change.after));
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
    for found in &places.founds {
        if checkpoints::settle_at_start(logs, &found.directory, found.is_clean) {
            boots::note(logs, &found.directory);
        }
    }
    let clean = places.founds.iter().filter(|found| found.is_clean);
    let clean = clean.map(|found| found.directory.name()).collect();
    let futures = places.futures.into_iter();
    for (at, found) in futures.filter(|(at, _)| logs.directories[*at].is_usable()) {
        future_replicas::resume(logs, &logs.directories[at], &found, &clean);
    }
    Ok(())
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
                            let key = (opening.topic.id, opening.index);
                            logs.new_partitions.note_lost(key);
                        }
                        Err(OpenFailure::Refused(error)) => {
                            *refused.lock() = Some(error);
                            return;
                        }
                    }
                    let role = opening.topic.role(opening.index);
                    let absence = Unavailable::not_led(&role);
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
    /// It alone is to be done without, which the controller has to know: another replica leads, or none.
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
    let is_compacted = config.cleanup_policy.compact;
    let log_opening = LogOpening {
        topic_id: Some(topic.id),
        config,
        open_files: logs.host.open_files().clone(),
        log_start_offset: offset_of(&found.offsets.log_start_offsets, &name),
        recovery_point: found.recovery_point(&name),
        is_clean: found.is_clean && !found.is_changed(&name),
        has_machine_stopped: found.is_gap_loss(&name, is_compacted),
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
