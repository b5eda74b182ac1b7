//! Opening a replica: from files to a log whose voters are known, and to what this node is in the
//! quorum.

use crate::damage;
use crate::error::OpenError;
use crate::observer::Observer;
use crate::quorum_log::{QuorumLog, QuorumLogParts};
use crate::quorum_state_file;
use crate::replica::{OpenedReplica, QuorumMembership, Replica, ReplicaOptions, RoleState};
use crate::snapshot_pace::SnapshotPace;
use crate::snapshots::Snapshots;
use crate::voter_set::VoterHistory;
use config::server::MetadataLogConfig;
use metadata::{SnapshotId, check_snapshot, read_quorum_records};
use model::{BrokerId, LeaderEpoch, Offset, TopicPartition, Uuid};
use record::Batches;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use storage::disk::Disk;
use storage::{CleanupPolicy, Context, Log, LogConfig, LogOpening, RecoveryEvent, StorageError};

/// The folder of the log in its log directory.
pub const METADATA_LOG_FOLDER: &str = "__cluster_metadata-0";
/// How much of the log is read at a time.
const READ_BYTES: usize = 4 << 20;

impl<D: Disk> Replica<D> {
    /// Opens the log of a prepared log directory, or makes it. A torn tail is cut and the rest is
    /// synced; beside that nothing is written.
    ///
    /// Of the log of the one voter all is committed: nobody else could have voted for anything else.
    /// Of an observer's the newest snapshot is, and what its leader had told an earlier run, until it says more.
    ///
    /// # Errors
    /// When files are damaged beyond what a crash explains, hold what this build does not know, or
    /// belong to a quorum of others; when the disk fails.
    pub fn open(disk: D, options: ReplicaOptions) -> Result<OpenedReplica<D>, OpenError> {
        let folder = options.directory.join(METADATA_LOG_FOLDER);
        let now_ms = options.now.wall_ms;
        let is_voter = matches!(options.standing, QuorumMembership::Voter(_));
        if is_voter {
            damage::check(&disk, &options.directory, &folder)?;
        }
        let state = quorum_state_file::read(&disk, &folder)?;
        // Without configuration, the voters are those that the node last ran with.
        let recorded = state.as_ref().and_then(|state| state.fixed_voters.clone());
        let fixed_voters = options.fixed_voters.clone().or(recorded);
        if let QuorumMembership::Voter(local) = &options.standing {
            check_has_voters(&disk, &options.directory, local.id, fixed_voters.as_deref())?;
        }
        let (mut log, events) = open_log(&disk, &options, &folder)?;
        let mut snapshots = Snapshots::open(&disk, &folder)?;
        snapshots.check_size()?;
        check_snapshots(&mut log, &snapshots, is_voter, now_ms)?;
        snapshots.remove_left_over(log.log_start_offset())?;
        let (voters, log_bytes) = read_voters(&log, &snapshots)?;
        let epochs = [
            state.as_ref().map(|state| state.leader_epoch),
            log.leader_epochs().latest(),
            snapshots.newest().map(|id| id.epoch),
        ];
        let epoch = epochs.into_iter().flatten().max().unwrap_or(LeaderEpoch(0));
        let mut log = QuorumLog::new(QuorumLogParts {
            disk,
            folder,
            log,
            snapshots,
            voters,
            config: options.config,
            pace: SnapshotPace::new(log_bytes, now_ms),
        });
        if let QuorumMembership::Voter(local) = &options.standing {
            local.check_is_alone(log.voters.newest(), fixed_voters.as_deref())?;
        }
        // Of what an earlier run has left nobody knows whether it was synced.
        log.flush(now_ms)?;
        let role = match &options.standing {
            QuorumMembership::Voter(_) => {
                log.commit(log.log.log_end_offset());
                RoleState::Voter
            }
            QuorumMembership::Observer { id, timeouts } => {
                // What an earlier run has noted as committed stays so, if it is here.
                let noted = damage::noted(&log.disk, &log.folder)?;
                if let Some(end_offset) = noted.filter(|noted| *noted <= log.log.log_end_offset()) {
                    log.commit(end_offset);
                }
                let leader = state.filter(|state| state.leader_epoch == epoch);
                let leader = leader.and_then(|state| state.leader_id);
                let leader = leader.filter(|leader| leader != id);
                let observer = Observer::new(*timeouts, leader, options.now.monotonic);
                RoleState::Observer(observer)
            }
        };
        let replica = Self {
            log,
            epoch,
            standing: options.standing,
            role,
            fixed_voters,
        };
        Ok(OpenedReplica { replica, events })
    }
}

/// The names of the segments and snapshots in the folder of the log; none when there is no folder.
///
/// # Errors
/// When the disk fails.
pub fn log_files<D: Disk>(disk: &D, directory: &Path) -> Result<Vec<String>, StorageError> {
    let folder = directory.join(METADATA_LOG_FOLDER);
    let entries = match disk.list(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.context("list", &folder)?,
    };
    let names = entries.into_iter().map(|entry| entry.name);
    let is_content = |name: &String| name.ends_with(".log") || name.ends_with(".checkpoint");
    Ok(names.filter(is_content).collect())
}

/// Whether a directory holds a record of the log, or a snapshot. A log may be there without one:
/// Kafka makes it and waits for somebody who leads.
fn has_records<D: Disk>(disk: &D, directory: &Path) -> Result<bool, StorageError> {
    let folder = directory.join(METADATA_LOG_FOLDER);
    for name in log_files(disk, directory)? {
        let path = folder.join(name);
        if disk.status(&path).context("read", &path)?.length > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Checks that somebody votes: in what the log or a snapshot holds, or as it is fixed.
fn check_has_voters<D: Disk>(
    disk: &D,
    directory: &Path,
    node_id: BrokerId,
    fixed_voters: Option<&[BrokerId]>,
) -> Result<(), OpenError> {
    let is_fixed = fixed_voters.is_some_and(|voters| !voters.is_empty());
    // Where there are records and no voters, somebody has led: nobody else than this node.
    match is_fixed || has_records(disk, directory)? {
        true => Ok(()),
        false => Err(OpenError::NoVoters {
            directory: directory.to_owned(),
            node_id,
        }),
    }
}

fn open_log<D: Disk>(
    disk: &D,
    options: &ReplicaOptions,
    folder: &Path,
) -> Result<(Log<D>, Vec<RecoveryEvent>), OpenError> {
    let mut opening = log_opening(disk, folder, &options.config, options.now.wall_ms);
    // Nothing ever leaves a gap in this log. An observer writes several batches before it syncs them,
    // and its leader has what is lost; a leader cuts nothing that was whole.
    opening.has_machine_stopped = matches!(options.standing, QuorumMembership::Observer { .. });
    match disk.status(folder) {
        Ok(_) => {
            let opened = Log::open(opening).map_err(|error| OpenError::Log(error.to_string()))?;
            Ok((opened.log, opened.events))
        }
        Err(source) if source.kind() == ErrorKind::NotFound => {
            let log = Log::create(opening)?;
            let synced = disk.sync_directory(&options.directory);
            synced.context("sync", &options.directory)?;
            Ok((log, Vec::new()))
        }
        Err(source) => Ok(Err(source).context("open", folder)?),
    }
}

pub(crate) fn log_opening<D: Disk>(
    disk: &D,
    folder: &Path,
    config: &MetadataLogConfig,
    now_ms: i64,
) -> LogOpening<D> {
    LogOpening {
        topic_id: Some(Uuid::METADATA_TOPIC),
        config: Arc::new(log_config(config)),
        now_ms,
        ..LogOpening::new(
            disk.clone(),
            folder.to_owned(),
            TopicPartition::new("__cluster_metadata", 0),
        )
    }
}

/// The settings of the log: it is cut only below a snapshot.
fn log_config(config: &MetadataLogConfig) -> LogConfig {
    LogConfig {
        segment_bytes: config.segment_bytes.unsigned_abs(),
        segment_ms: config.segment_ms,
        max_message_bytes: config.max_batch_size_bytes.unsigned_abs(),
        file_delete_delay_ms: config.delete_delay_ms,
        retention_ms: -1,
        retention_bytes: -1,
        cleanup_policy: CleanupPolicy {
            delete: true,
            compact: false,
        },
        verify_transactions: false,
        ..LogConfig::default()
    }
}

/// The snapshots must reach the log, and the log must reach the snapshots.
fn check_snapshots<D: Disk>(
    log: &mut Log<D>,
    snapshots: &Snapshots<D>,
    is_voter: bool,
    now_ms: i64,
) -> Result<(), OpenError> {
    let log_start_offset = log.log_start_offset();
    let newest = snapshots.newest();
    if log_start_offset > Offset::ZERO && newest.is_none_or(|id| id.end_offset < log_start_offset) {
        return Err(OpenError::MissingSnapshot { log_start_offset });
    }
    // A snapshot beyond the log stands for all of it: a node that was a follower fetched it.
    if let Some(id) = newest
        && (is_beyond(id, log) || !is_voter && is_apart(id, log))
    {
        // Nothing goes for a snapshot that says nothing.
        check_snapshot(&snapshots.read(id)?).map_err(|error| OpenError::Snapshot { id, error })?;
        log.restart_at(id.end_offset, now_ms)
            .map_err(|error| OpenError::Log(error.to_string()))?;
    }
    Ok(())
}

fn is_beyond<D: Disk>(id: SnapshotId, log: &Log<D>) -> bool {
    let latest_epoch = log.leader_epochs().latest().unwrap_or(LeaderEpoch(0));
    id.epoch > latest_epoch || id.end_offset > log.log_end_offset()
}

/// Whether the log is one that a snapshot was to take the place of: it holds what another leader has
/// written there.
fn is_apart<D: Disk>(id: SnapshotId, log: &Log<D>) -> bool {
    let own_epoch = log.leader_epochs().epoch_for_offset(id.end_offset - 1);
    own_epoch.is_some_and(|own| own != id.epoch)
}

/// Who votes, and how many bytes of the log are beyond the newest snapshot.
fn read_voters<D: Disk>(
    log: &Log<D>,
    snapshots: &Snapshots<D>,
) -> Result<(VoterHistory, u64), OpenError> {
    let mut voters = VoterHistory::default();
    let mut log_bytes = 0;
    let mut offset = log.log_start_offset();
    if let Some(id) = snapshots.newest() {
        voters = VoterHistory::new(snapshots.voters(id)?);
        offset = offset.max(id.end_offset);
    }
    let of_log = |error: String| OpenError::Log(error);
    let mut buffer = Vec::new();
    while offset < log.log_end_offset() {
        buffer.clear();
        let next_offset = log
            .read_into(offset, READ_BYTES, log.log_end_offset(), &mut buffer)
            .map_err(|error| of_log(error.to_string()))?;
        if next_offset <= offset {
            break;
        }
        for batch in Batches::new(&buffer) {
            let batch = batch.map_err(|error| of_log(error.to_string()))?;
            log_bytes += batch.size_in_bytes() as u64;
            if batch.is_control() {
                voters.replay(batch.next_offset(), &read_quorum_records(&batch)?);
            }
        }
        offset = next_offset;
    }
    Ok((voters, log_bytes))
}
