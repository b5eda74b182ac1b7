//! Partitions on their way from one log directory to another (KIP-113).
//!
//! ```text
//!   AlterReplicaLogDirs ─> B/topic-0.<id>-future     a copy that follows the log in A
//!   caught up: the metadata say that it is in B
//!   log locked: the rest is copied and synced
//!     B/topic-0.<id>-future ─> B/topic-0             from here on both are complete
//!     A/topic-0             ─> A/topic-0.<id>-delete
//!   log unlocked: checkpoints
//! ```
//!
//! The controller knows before the log is in B, so that B never fails unnoticed (KIP-858).
//! `num.replica.alter.log.dirs.threads` partitions are copied side by side, as many as there are
//! directories if it is not set, and share `replica.alter.log.dirs.io.max.bytes.per.second`. A
//! restart goes on with the copies that it finds; a crash between the two renames leaves two logs
//! that are equal, see `found_logs`. A log that is copied is not compacted meanwhile, since the copy
//! may be older than what the cleaner's checkpoint says: each move has a pause of its own, from
//! before it begins until all of it is done. Of one partition's moves the next one runs when the
//! one before has ended.

mod beginning;
mod claim;
mod debt;
mod given_up;
mod place;

pub(crate) use self::beginning::begin;
pub(crate) use self::given_up::GivenUp;

use self::beginning::{Beginnings, create, first_offset, future_path};
use self::claim::Claim;
use self::debt::Debt;
use crate::logs::checkpoint_files::Kind;
use crate::logs::cleaner::Pause;
use crate::logs::directory_sync::sync_directory;
use crate::logs::log_directories::LogDirectory;
use crate::logs::preferred_log_dirs::PreferredLogDirs;
use crate::logs::{Logs, checkpoints, new_partitions};
use crate::scheduling::clock::{monotonic, now_ms, random_uuid};
use metadata::ConfigResource;
use model::{LeaderEpoch, Offset, Uuid};
use parking_lot::{Condvar, Mutex};
use replication::{Isolation, Moving, Partition, ReadRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use storage::log_directory::{PartitionDirectory, PartitionDirectoryState};
use storage::{
    AppendError, Disk, Log, LogOpening, OpenError, RealDisk, StorageError, TruncateError,
};
use tokio::sync::Notify;

/// What a copy reads and writes at once.
const COPY_BYTES: usize = 1 << 20;
/// The limit of bytes a second.
const RATE_KEY: &str = "replica.alter.log.dirs.io.max.bytes.per.second";
/// A copy that has to wait looks this often whether it still is to go on.
const PACE_MS: u64 = 50;

/// Every partition that is moved.
#[derive(Debug, Default)]
pub(crate) struct FutureReplicas {
    known: Mutex<Known>,
    beginnings: Beginnings,
    changed: Notify,
    /// A task has no move in hand any more.
    ended: Condvar,
    is_stopped: AtomicBool,
    /// Where partitions go that are not there yet.
    pub(crate) destinations: PreferredLogDirs,
    debt: Mutex<Debt>,
}

#[derive(Debug, Default)]
struct Known {
    by_partition: BTreeMap<(Uuid, i32), Arc<Move>>,
    /// The moves that a task has in hand, one of a partition, be it to end one that is cancelled.
    running: BTreeMap<(Uuid, i32), Arc<Move>>,
    /// By the places of log directories, how many logs may be leaving at this moment.
    leaving: BTreeMap<usize, usize>,
}

/// A log that may be leaving its log directory, until this is dropped.
struct LastStep<'m> {
    future_replicas: &'m FutureReplicas,
    directory_index: usize,
}

impl Drop for LastStep<'_> {
    fn drop(&mut self) {
        let mut known = self.future_replicas.known.lock();
        if let Some(count) = known.leaving.get_mut(&self.directory_index) {
            *count -= 1;
            if *count == 0 {
                known.leaving.remove(&self.directory_index);
            }
        }
        self.future_replicas.ended.notify_all();
    }
}

/// One partition that is moved.
#[derive(Debug)]
struct Move {
    partition: Arc<Partition>,
    destination: Arc<LogDirectory>,
    /// The copy; taken when it has become the log, or is given up. Locked while it becomes the log.
    copy: Mutex<Option<Log<RealDisk>>>,
    shown: Mutex<CopyState>,
    /// Whether a task has taken it up.
    is_begun: AtomicBool,
    claim: Claim,
    /// The log directory that it begins in.
    source_directory_index: usize,
    /// How often the log had been cut when the copy began, or began anew.
    truncation_count: AtomicU64,
    /// Ends with the move, or when it is known that the copy never becomes the log.
    pause: Mutex<Option<Pause>>,
}

/// A move that a task has in hand; dropped when it has ended.
struct Running {
    logs: Arc<Logs>,
    one: Arc<Move>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let moves = &self.logs.future_replicas;
        moves.forget(&self.one);
        moves.known.lock().running.remove(&key(&self.one.partition));
        moves.ended.notify_all();
        // The partition's next one may have been waiting.
        moves.changed.notify_one();
        // Where the log would be was not known while a log directory failed.
        self.logs.fail_if_offline(&self.one.partition);
    }
}

/// How far a copy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyState {
    /// The log directory it is in.
    pub(crate) directory: String,
    /// Its size.
    pub(crate) size_bytes: u64,
    /// The offset after its last record.
    pub(crate) end_offset: Offset,
}

/// Why a partition is not moved.
#[derive(Debug, thiserror::Error)]
enum MoveError {
    #[error("the log cannot be read: {0}")]
    Read(#[from] replication::ReadError),
    #[error("the log cannot be read: {0}")]
    Source(StorageError),
    #[error("the copy cannot be written: {0}")]
    Append(#[from] AppendError),
    #[error("the copy cannot be written: {0}")]
    Copy(#[from] StorageError),
    #[error("the copy cannot begin anew: {0}")]
    Restart(#[from] TruncateError),
    #[error("the log ends above its last record")]
    Gap,
    #[error("the metadata do not take its new place: {0}")]
    Place(String),
    #[error("the move is cancelled")]
    Cancelled,
}

/// Starts the tasks that copy; they end when the broker stops.
pub(crate) fn start(logs: &Arc<Logs>) {
    let asked = logs.node.config.log.num_replica_alter_log_dirs_threads;
    let count = asked.and_then(|count| usize::try_from(count).ok());
    for _ in 0..count.unwrap_or(logs.directories.len()).max(1) {
        tokio::spawn(run(Arc::downgrade(logs)));
    }
}

async fn run(weak: Weak<Logs>) {
    let Some(logs) = weak.upgrade() else { return };
    let mut stop = logs.node.stop.subscribe();
    drop(logs);
    loop {
        let Some(logs) = weak.upgrade() else { return };
        let Some(next) = logs.future_replicas.next() else {
            let changed = logs.future_replicas.changed.notified();
            tokio::select! {
                () = changed => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            continue;
        };
        // There may be work for another task.
        logs.future_replicas.changed.notify_one();
        let running = Running { logs, one: next };
        let work = move || running.one.run(&running.logs);
        let done = tokio::task::spawn_blocking(work).await;
        if let Err(error) = done {
            tracing::error!(%error, "moving a partition failed");
        }
        if *stop.borrow() {
            return;
        }
    }
}

/// Goes on with a copy that an earlier run of the server has left. `clean` names the log directories
/// that were shut down cleanly.
///
/// Two disks write back on their own: after a power loss a log may end below its copy, and the offsets
/// in between go to other records. So a copy goes on only after a clean shutdown of both directories;
/// any other begins anew.
pub(crate) fn resume(
    logs: &Logs,
    directory: &Arc<LogDirectory>,
    found: &PartitionDirectory,
    clean: &BTreeSet<&str>,
) {
    let path = directory.path().join(&found.name);
    let name = &found.topic_partition;
    let partition = logs.partitions.find(&name.topic, name.partition).ok();
    let wanted = partition.filter(|partition| {
        *partition.log_directory() != *directory.name()
            && logs.future_replicas.of(partition).is_none()
    });
    let Some(partition) = wanted else {
        remove(&path);
        return;
    };
    let truncation_count = partition.truncation_count();
    let is_sound = clean.contains(directory.name()) && clean.contains(&*partition.log_directory());
    let copy = match is_sound.then(|| reopen(&partition, path.clone())) {
        Some(Ok(copy)) if copy.log_end_offset() <= partition.offsets().log_end_offset => Ok(copy),
        Some(Err(error)) => {
            tracing::warn!(%partition, %error, "a copy cannot resume; it is removed");
            return remove(&path);
        }
        _ => {
            let destination = directory.name();
            tracing::info!(%partition, destination, "a copy starts again after an unclean shutdown");
            remove(&path);
            let start = match first_offset(&partition) {
                Ok(start) => start,
                Err(error) => return logs.report_log_error(&partition, &error),
            };
            create(&partition, future_path(directory, name), start)
        }
    };
    match copy {
        Ok(copy) => {
            let pause = logs.cleaner.pause(&partition);
            let moves = &logs.future_replicas;
            let copy = (copy, truncation_count);
            moves.insert(partition, directory.clone(), copy, pause);
        }
        Err(error) => logs.report_directory_error(directory.name(), &error),
    }
}

fn reopen(partition: &Partition, path: PathBuf) -> Result<Log<RealDisk>, OpenError> {
    let opened = Log::open(LogOpening {
        topic_id: Some(partition.topic_id()),
        config: partition.config(),
        open_files: partition.open_files().clone(),
        now_ms: now_ms(),
        ..LogOpening::new(RealDisk, path, partition.topic_partition().clone())
    });
    opened.map(|opened| opened.log)
}

/// Removes a copy. It gets the name of something deleted first, durably: what a crash leaves of a copy
/// that is half removed has holes, and the next start must not go on with it.
fn remove(path: &Path) {
    if let Err(error) = remove_as_deleted(path) {
        tracing::warn!(path = %path.display(), %error, "directory of an abandoned copy could not be removed");
    }
}

fn remove_as_deleted(path: &Path) -> std::io::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name.and_then(|name| name.strip_suffix("-future")) else {
        return RealDisk.remove_directory(path);
    };
    let deleted = path.with_file_name(format!("{name}-delete"));
    RealDisk.rename(path, &deleted)?;
    if let Some(parent) = path.parent() {
        RealDisk.sync_directory(parent)?;
    }
    RealDisk.remove_directory(&deleted)
}

const fn key(partition: &Partition) -> (Uuid, i32) {
    (partition.topic_id(), partition.index())
}

impl FutureReplicas {
    /// The copy that a partition is being moved to.
    pub(crate) fn copy_of(&self, partition: &Partition) -> Option<CopyState> {
        let shown = self.of(partition)?.shown.lock().clone();
        (*partition.log_directory() != *shown.directory).then_some(shown)
    }

    /// Moves a partition no more; the copy is removed. When this returns, the copy has either
    /// become the log or never will.
    pub(crate) fn cancel(&self, partition: &Partition) {
        let found = self.known.lock().by_partition.remove(&key(partition));
        if let Some(found) = found {
            found.cancel();
            found.discard();
        }
    }

    /// [`Self::cancel`] for who waits for no disk: the move ends where it is looked at next. What is
    /// left of the copy is the caller's to discard.
    pub(crate) fn give_up(&self, partition: &Partition) -> Option<GivenUp> {
        let mut known = self.known.lock();
        let key = key(partition);
        // One that was given up before may be in its last step still.
        let found = known.by_partition.remove(&key);
        let found = found.or_else(|| known.running.get(&key).cloned())?;
        drop(known);
        let may_complete = !found.cancel();
        Some(GivenUp::new(found, may_complete))
    }

    /// Whether a task has a move of a partition in hand.
    pub(crate) fn is_running(&self, partition: &Partition) -> bool {
        self.known.lock().running.contains_key(&key(partition))
    }

    /// Whether a task has the copy of a partition in hand at this moment.
    #[cfg(test)]
    pub(crate) fn is_copying(&self, partition: &Partition) -> bool {
        let one = self.of(partition);
        one.is_some_and(|one| one.copy.try_lock().is_none())
    }

    /// Puts the copy of a log in its place, with something that comes between the claim and that. Says
    /// whether it became the log.
    #[cfg(test)]
    pub(crate) fn complete_after(
        &self,
        logs: &Logs,
        partition: &Partition,
        meanwhile: impl FnOnce(),
    ) -> bool {
        let one = self.of(partition).expect("it is moved");
        let mut copy = one.copy.lock();
        let _step = self.claim(&one).expect("it goes on");
        meanwhile();
        one.put_in_place(logs, &mut copy).is_ok()
    }

    /// Gives up what is moved into or out of a log directory that has failed.
    pub(crate) fn cancel_in(&self, directory: &str) {
        for one in self.known.lock().by_partition.values() {
            if one.destination.name() == directory || *one.partition.log_directory() == *directory {
                one.claim.cancel();
            }
        }
        self.changed.notify_one();
    }

    /// Stops: what is being copied goes on at the next start.
    pub(crate) fn stop(&self) {
        let _known = self.known.lock();
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Begins to put the copy of a move in the place of its log, unless that is cancelled, or all stop.
    fn claim(&self, one: &Move) -> Option<LastStep<'_>> {
        let mut known = self.known.lock();
        if self.is_stopped.load(Ordering::Acquire) || !one.claim.complete() {
            return None;
        }
        let directory_index = one.source_directory_index;
        *known.leaving.entry(directory_index).or_default() += 1;
        Some(LastStep {
            future_replicas: self,
            directory_index,
        })
    }

    /// Whether a log may be leaving the log directory in this place at this moment. None begins to once
    /// the moves are stopped.
    pub(crate) fn is_left(&self, directory_index: usize) -> bool {
        self.known.lock().leaving.contains_key(&directory_index)
    }

    /// Waits until nothing is copied into a log directory any more, and no log leaves it, once that is to
    /// stop. No longer than this: where a copy comes from or goes to may be stuck, and the next start
    /// checks the copy.
    pub(crate) fn wait_until_left(
        &self,
        directory: &LogDirectory,
        directory_index: usize,
        until: Instant,
    ) {
        let mut known = self.known.lock();
        let is_here = |one: &Arc<Move>| one.destination.name() == directory.name();
        while known.leaving.contains_key(&directory_index) || known.running.values().any(is_here) {
            if self.ended.wait_until(&mut known, until).timed_out() {
                return;
            }
        }
    }

    fn of(&self, partition: &Partition) -> Option<Arc<Move>> {
        let known = self.known.lock();
        known.by_partition.get(&key(partition)).cloned()
    }

    /// Takes up a move that no task has taken up, of a partition that no task has in hand.
    fn next(&self) -> Option<Arc<Move>> {
        let mut known = self.known.lock();
        if self.is_stopped.load(Ordering::Acquire) {
            return None;
        }
        let Known {
            by_partition,
            running,
            ..
        } = &mut *known;
        let mut moves = by_partition.iter();
        let (key, next) = moves.find(|(key, one)| {
            !running.contains_key(key) && !one.is_begun.swap(true, Ordering::AcqRel)
        })?;
        running.insert(*key, next.clone());
        Some(next.clone())
    }

    fn insert(
        &self,
        partition: Arc<Partition>,
        destination: Arc<LogDirectory>,
        (copy, truncation_count): (Log<RealDisk>, u64),
        pause: Pause,
    ) {
        let shown = CopyState {
            directory: destination.name().to_owned(),
            size_bytes: copy.size_bytes(),
            end_offset: copy.log_end_offset(),
        };
        let one = Arc::new(Move {
            partition: partition.clone(),
            destination,
            copy: Mutex::new(Some(copy)),
            shown: Mutex::new(shown),
            is_begun: AtomicBool::new(false),
            claim: Claim::default(),
            source_directory_index: partition.directory_index(),
            truncation_count: AtomicU64::new(truncation_count),
            pause: Mutex::new(Some(pause)),
        });
        let mut known = self.known.lock();
        known.by_partition.insert(key(&partition), one);
        drop(known);
        self.changed.notify_one();
    }

    /// Forgets a move that has ended, unless another one has its place already.
    fn forget(&self, one: &Arc<Move>) {
        let mut known = self.known.lock();
        let (moves, key) = (&mut known.by_partition, key(&one.partition));
        if moves.get(&key).is_some_and(|known| Arc::ptr_eq(known, one)) {
            moves.remove(&key);
        }
    }
}

impl Move {
    /// See [`Claim::cancel`]. Of a copy that never becomes the log something may be left for as long as its
    /// disk is stuck, and the log is compacted meanwhile.
    fn cancel(&self) -> bool {
        let never_completes = self.claim.cancel();
        if never_completes {
            drop(self.pause.lock().take());
        }
        never_completes
    }

    /// Copies all there is, and puts the copy in the place of the log.
    fn run(self: &Arc<Self>, logs: &Logs) {
        // The metadata take no new place any more before copies are told to stop.
        let is_stopped =
            || *logs.node.stop.borrow() || logs.future_replicas.is_stopped.load(Ordering::Acquire);
        let moved = loop {
            if is_stopped() {
                return;
            }
            match self.copy_some() {
                Ok(0) => break self.take_over(logs),
                Ok(bytes) => self.pace(bytes, logs),
                Err(error) => break Err(error),
            }
        };
        match moved {
            Ok(old) => self.settle(logs, old),
            // The next start goes on with it.
            Err(_) if is_stopped() => {}
            Err(error) => {
                self.discard();
                logs.future_replicas.forget(self);
                self.report(logs, &error);
            }
        }
    }

    fn report(&self, logs: &Logs, error: &MoveError) {
        let partition = &self.partition;
        match error {
            MoveError::Cancelled => tracing::debug!(%partition, "the partition is no longer moved"),
            MoveError::Append(AppendError::Storage(failure)) | MoveError::Copy(failure) => {
                tracing::error!(%partition, %error, "the partition is not moved");
                logs.report_directory_error(self.destination.name(), failure);
            }
            // The log may be gone.
            _ if self.claim.is_cancelled() => {
                tracing::debug!(%partition, %error, "the partition is no longer moved");
            }
            error => tracing::error!(%partition, %error, "the partition is not moved"),
        }
    }

    /// Copies some batches; returns how many bytes, 0 when there are no more.
    fn copy_some(&self) -> Result<usize, MoveError> {
        let mut copy = self.copy.lock();
        let log = copy.as_mut().ok_or(MoveError::Cancelled)?;
        if self.claim.is_cancelled() {
            return Err(MoveError::Cancelled);
        }
        let first = self
            .partition
            .with_log(|source| source.first_segment_base_offset())
            .map_err(MoveError::Source)?;
        // Retention has removed everything that has been copied, or a leader has what was not copied.
        if self.is_cut() || first > log.log_end_offset() {
            log.restart_at(first, now_ms())?;
        }
        let start = self.partition.offsets().log_start_offset;
        let read = self.partition.read_copy(&ReadRequest {
            current_leader_epoch: LeaderEpoch::NONE,
            fetch_offset: log.log_end_offset().max(start),
            last_fetched_epoch: LeaderEpoch::NONE,
            max_bytes: COPY_BYTES,
            at_least_one_batch: true,
            isolation: Isolation::LogEnd,
            is_leader_asked: false,
        })?;
        let Some(slice) = read.records else {
            return Ok(0);
        };
        let mut bytes = Vec::new();
        let path = self.partition.log_directory();
        slice.read_into(&mut bytes).map_err(|source| {
            MoveError::Source(StorageError {
                operation: "read",
                file: PathBuf::from(&*path),
                source,
            })
        })?;
        log.append_as_follower(&bytes, LeaderEpoch(i32::MAX), now_ms())?;
        let mut shown = self.shown.lock();
        shown.size_bytes = log.size_bytes();
        shown.end_offset = log.log_end_offset();
        Ok(bytes.len())
    }

    /// Waits as long as `replica.alter.log.dirs.io.max.bytes.per.second` asks for; a limit that is
    /// changed meanwhile holds from then on.
    fn pace(&self, bytes: usize, logs: &Logs) {
        let moves = &logs.future_replicas;
        let mut added_bytes = bytes as i64;
        loop {
            let rate = bytes_per_second(logs);
            let left_bytes = {
                let mut debt = moves.debt.lock();
                debt.settle(monotonic(), rate);
                debt.bytes += std::mem::take(&mut added_bytes);
                debt.bytes
            };
            let pause_ms = left_bytes.saturating_mul(1000) / rate.max(1);
            let is_over = self.claim.is_cancelled() || moves.is_stopped.load(Ordering::Acquire);
            if pause_ms == 0 || is_over {
                return;
            }
            let pause_ms = pause_ms.unsigned_abs().min(PACE_MS);
            std::thread::sleep(Duration::from_millis(pause_ms));
        }
    }

    /// Puts the copy in the place of the log, in the metadata first; returns what was the log
    /// before, retired.
    fn take_over(&self, logs: &Logs) -> Result<Log<RealDisk>, MoveError> {
        let from = self.partition.log_directory();
        self.place(logs, self.destination.id())?;
        let completed = self.complete(logs);
        let mut directories = logs.directories.iter();
        let source = directories.find(|one| *one.name() == *from);
        if let (Err(_), Some(source)) = (&completed, source)
            && let Err(error) = self.place(logs, source.id())
        {
            let partition = &self.partition;
            tracing::error!(%partition, %error, "new log directory not recorded in the metadata; retrying at the next start");
        }
        completed
    }

    /// Makes the copy the log; returns what was the log before, retired.
    fn complete(&self, logs: &Logs) -> Result<Log<RealDisk>, MoveError> {
        // Most of the copy is made durable before the log is locked.
        let flush = self.with_copy(|copy| copy.begin_flush(now_ms()))?;
        let outcome = flush.sync();
        self.with_copy(|copy| copy.complete_flush(flush, outcome))?;
        // Who cancels waits for this, and finds out on which side the partition is.
        let mut copy = self.copy.lock();
        // A move that goes no further changes nothing of the log, not for a moment either.
        let step = logs.future_replicas.claim(self);
        let _step = step.ok_or(MoveError::Cancelled)?;
        self.put_in_place(logs, &mut copy)
    }

    /// Makes the copy the log, as claimed.
    fn put_in_place(
        &self,
        logs: &Logs,
        copy: &mut Option<Log<RealDisk>>,
    ) -> Result<Log<RealDisk>, MoveError> {
        let from = self.partition.log_directory();
        let directory = self.destination.shared_name();
        let mut loose_end = None;
        // It may be idle by now. What keeps it from being opened is no fault of where it goes to.
        let opened = self.partition.with_log(|_| ());
        opened.map_err(MoveError::Source)?;
        let moved = self.partition.move_log(directory, |source, moving| {
            // Who stops has closed the log, or will: it stays where it is. Whoever has deleted its topic
            // while the log was waited for has retired it, and another may have its name.
            let is_stopped = logs.future_replicas.is_stopped.load(Ordering::Acquire);
            if is_stopped || self.claim.is_cancelled() {
                return Err(MoveError::Cancelled);
            }
            self.finish(source, moving, copy, &mut loose_end)
        });
        if let Some(error) = loose_end {
            logs.report_directory_error(&from, &error);
        }
        if moved.is_ok() {
            let mut directories = logs.directories.iter();
            let left = directories.find(|one| *one.name() == *from);
            left.into_iter().for_each(|one| one.uncount_partition());
            self.destination.count_partition();
        }
        moved
    }

    fn with_copy<R>(
        &self,
        call: impl FnOnce(&mut Log<RealDisk>) -> Result<R, StorageError>,
    ) -> Result<R, MoveError> {
        let mut copy = self.copy.lock();
        Ok(call(copy.as_mut().ok_or(MoveError::Cancelled)?)?)
    }

    /// Copies the rest, and changes the names. `loose_end` is what fails when the copy is the log
    /// already: the directory that the log has left is to blame.
    fn finish(
        &self,
        source: &mut Log<RealDisk>,
        moving: &Moving<'_, RealDisk>,
        slot: &mut Option<Log<RealDisk>>,
        loose_end: &mut Option<StorageError>,
    ) -> Result<Log<RealDisk>, MoveError> {
        let copy = slot.as_mut().ok_or(MoveError::Cancelled)?;
        self.copy_rest(source, copy)?;
        let name = self.partition.topic_partition();
        // What has the name there belongs to a topic that is gone, and could not be renamed.
        let path = self.destination.path().join(name.to_string());
        new_partitions::free_name(&path, self.partition.topic_id(), false)?;
        let state = PartitionDirectoryState::Deleted;
        let deleted = || PartitionDirectory::marked_name(name, state, random_uuid());
        if let Err(error) = copy.rename_directory(&name.to_string()) {
            // Records still go to the log: a crash must not leave two of which this one is named.
            let _ = copy.retire(&deleted());
            return Err(error.into());
        }
        // From here on the metadata and the destination say the same, and records go to the copy:
        // the old log must not come back. If it does, since its directory cannot be written, the
        // next start sets it aside.
        moving.leaves();
        let retired = source.retire(&deleted());
        let parent = source.directory().parent().map(Path::to_owned);
        let synced = parent.map_or(Ok(()), |parent| sync_directory(&parent));
        *loose_end = retired.and(synced).err();
        Ok(slot.take().expect("the copy is there, as above"))
    }

    /// Whether the log has been cut since this was last asked, as its leader has other records than were copied.
    fn is_cut(&self) -> bool {
        let count = self.partition.truncation_count();
        self.truncation_count.swap(count, Ordering::AcqRel) != count
    }

    fn copy_rest(&self, source: &Log<RealDisk>, copy: &mut Log<RealDisk>) -> Result<(), MoveError> {
        if source.is_failed() {
            return Err(MoveError::Cancelled);
        }
        if self.is_cut() {
            copy.restart_at(source.first_segment_base_offset(), now_ms())?;
        }
        let end_offset = source.log_end_offset();
        while copy.log_end_offset() < end_offset {
            let from = copy.log_end_offset().max(source.log_start_offset());
            let mut bytes = Vec::new();
            source
                .read_into(from, COPY_BYTES, Offset::MAX, &mut bytes)
                .map_err(replication::ReadError::from)?;
            match bytes.is_empty() {
                false => copy
                    .append_as_follower(&bytes, LeaderEpoch(i32::MAX), now_ms())
                    .map(drop)?,
                true if source.log_start_offset() == end_offset => {
                    copy.restart_at(end_offset, now_ms())?;
                }
                true => return Err(MoveError::Gap),
            }
        }
        copy.take_over(source)?;
        Ok(copy.flush(now_ms())?)
    }

    /// What follows when the copy is the log.
    fn settle(self: &Arc<Self>, logs: &Logs, old: Log<RealDisk>) {
        let partition = &self.partition;
        let delay_ms = old.config().file_delete_delay_ms;
        let path = old.directory().to_owned();
        drop(old);
        let left = path.parent().map(ToOwned::to_owned);
        // If it could not be renamed, its directory has failed and is left as it is.
        if !path.ends_with(partition.topic_partition().to_string()) {
            let at = monotonic().plus_ms(delay_ms);
            logs.removals.schedule(path, at);
        }
        let destination = self.destination.name();
        let directories = logs.directories.iter();
        let concerned = directories
            .filter(|one| one.name() == destination || left.as_deref() == Some(one.path()));
        let concerned: Vec<_> = concerned.collect();
        logs.cleaner
            .move_checkpoint(logs, partition, &concerned, destination);
        for directory in concerned {
            for kind in [Kind::RecoveryPoints, Kind::LogStartOffsets] {
                checkpoints::write_unless_written(logs, directory, kind);
            }
        }
        logs.future_replicas.forget(self);
        tracing::info!(%partition, destination, "the partition is moved");
    }

    /// Removes the copy.
    fn discard(&self) {
        discard(self.copy.lock().take());
    }
}

fn discard(copy: Option<Log<RealDisk>>) {
    if let Some(copy) = copy {
        let path = copy.directory().to_owned();
        drop(copy);
        remove(&path);
    }
}

/// The limit in force; it can only be set while the server runs.
fn bytes_per_second(logs: &Logs) -> i64 {
    let image = logs.node.image();
    let resources = [
        ConfigResource::broker(logs.node.id),
        ConfigResource::all_brokers(),
    ];
    let mut values = resources
        .iter()
        .filter_map(|resource| image.configs.of(resource)?.get(RATE_KEY)?.parse().ok());
    values.next().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
