//! The cleaner: threads that compact the logs of topics with `cleanup.policy=compact`, the dirtiest
//! first.
//!
//! ```text
//!   log.cleaner.threads × ─> choose ─> flush ─> storage::Compaction ─> replace ─> checkpoint
//!                              └ nothing due: sleep log.cleaner.backoff.ms
//! ```
//!
//! Each thread has its share of `log.cleaner.dedupe.buffer.size` and `log.cleaner.io.buffer.size`;
//! all of them together keep to `log.cleaner.io.max.bytes.per.second`. A log with damage is left
//! alone from then on, and said so once. One that cannot be compacted for now, since there is no room,
//! or a file cannot be read or is missing, lets the others go first, for longer each time: they may be
//! what frees the room. Settings are read anew for every round.
//!
//! Whoever copies a log or takes its directory away pauses its compaction; pauses of one log are
//! counted, and each ends when it is dropped.

use crate::logs::Logs;
use crate::logs::checkpoint_files::Kind;
use crate::logs::checkpoints;
use crate::logs::idle_logs::is_in;
use crate::logs::log_directories::LogDirectory;
use crate::scheduling::clock::{now_ms, random_bytes, retention_ms};
use config::server::CleanerConfig;
use model::{Offset, Uuid};
use parking_lot::{Condvar, Mutex};
use replication::Partition;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use storage::checkpoint::OffsetCheckpoint;
use storage::{CleanError, CleanStatistics, Cleanable, OffsetMap, ReadError, StorageError};

/// How long a log waits at most after it could not be compacted for now.
const DEFERRAL_MAX: Duration = Duration::from_mins(10);

/// A log that has changed each time for so many times the usual pause is told.
const REPEATED_BACKOFFS: u32 = 4;

/// How long a log is waited for that is looked at.
const LOOK_MOMENT: Duration = Duration::from_millis(20);

/// Somebody has the log, and may be in a call on a disk that is stuck.
struct Busy;

/// A log, whatever directory it is in: topic id and partition index.
type LogKey = (Uuid, i32);

/// The cleaner's threads and what they share.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    state: Mutex<State>,
    /// Something has changed: a thread has ended, or is to look again.
    changed: Condvar,
    /// One thread chooses at a time.
    choosing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    is_stopped: bool,
    /// Counts reasons to look again at once.
    wake_count: u64,
    /// The numbers of the threads that run.
    threads: BTreeSet<usize>,
    in_progress: BTreeSet<LogKey>,
    /// Logs that must not be compacted, with how many say so.
    paused: BTreeMap<LogKey, usize>,
    /// Logs that are left alone until the server is started again.
    uncleanable: BTreeSet<LogKey>,
    /// Logs that could not be compacted for now.
    deferred: BTreeMap<LogKey, Deferral>,
    /// When the bytes that were read and written are paid for.
    paid_until: Option<Instant>,
}

/// How often in a row a log could not be compacted, and when that is tried again.
#[derive(Debug, Clone, Copy)]
struct Deferral {
    failure_count: u32,
    until: Instant,
}

/// What is to be compacted.
struct Choice<'a> {
    partition: Arc<Partition>,
    cleanable: Cleanable,
    in_progress: InProgress<'a>,
}

/// A log that a thread compacts; dropped when that ends, however it does.
struct InProgress<'a> {
    cleaner: &'a Cleaner,
    key: LogKey,
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.cleaner.state.lock().in_progress.remove(&self.key);
        self.cleaner.changed.notify_all();
    }
}

/// A log is not compacted until this is dropped.
#[derive(Debug)]
#[must_use = "the pause ends when this is dropped"]
pub(crate) struct Pause {
    cleaner: Arc<Cleaner>,
    key: LogKey,
}

impl Drop for Pause {
    fn drop(&mut self) {
        let paused = &mut self.cleaner.state.lock().paused;
        if let Some(count) = paused.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                paused.remove(&self.key);
            }
        }
    }
}

/// What came of a compaction.
enum Outcome {
    /// The log is clean up to this offset.
    Cleaned(Offset, CleanStatistics),
    Failed(CleanError),
    /// An invariant is broken; the panic is in the log already.
    Panicked,
}

const fn key(partition: &Partition) -> LogKey {
    (partition.topic_id(), partition.index())
}

/// Starts the threads that are missing, and lets those that sleep look at the settings.
pub(crate) fn start(logs: &Arc<Logs>) {
    let cleaner = &logs.cleaner;
    let config = logs.node.live_config().log.cleaner;
    let mut state = cleaner.state.lock();
    state.wake_count += 1;
    cleaner.changed.notify_all();
    if !config.enable || state.is_stopped {
        return;
    }
    for number in 0..thread_count(&config) {
        if state.threads.insert(number) {
            let (cleaner, weak) = (cleaner.clone(), Arc::downgrade(logs));
            let started = std::thread::Builder::new()
                .name(format!("cleaner-{number}"))
                .spawn(move || run(&Registration { cleaner, number }, &weak));
            if let Err(error) = started {
                tracing::error!(%error, "no thread can be started to compact logs");
                state.threads.remove(&number);
            }
        }
    }
}

fn thread_count(config: &CleanerConfig) -> usize {
    config.threads.max(0).unsigned_abs() as usize
}

/// A thread that runs; dropped when it ends, however it does.
struct Registration {
    cleaner: Arc<Cleaner>,
    number: usize,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.cleaner.state.lock().threads.remove(&self.number);
        self.cleaner.changed.notify_all();
    }
}

fn run(registration: &Registration, weak: &Weak<Logs>) {
    let cleaner = &registration.cleaner;
    loop {
        let Some(logs) = weak.upgrade() else { return };
        let config = logs.node.live_config().log.cleaner;
        let wake_count = {
            let state = cleaner.state.lock();
            if state.is_stopped || registration.number >= thread_count(&config) {
                return;
            }
            state.wake_count
        };
        let has_worked = cleaner.clean_dirtiest(&logs, &config);
        drop(logs);
        if !has_worked {
            let pause = Duration::from_millis(config.backoff_ms.max(1).unsigned_abs());
            cleaner.sleep(pause, wake_count);
        }
    }
}

impl Cleaner {
    /// Stops: what is being compacted is given up.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// Whether a log is being compacted.
    #[cfg(test)]
    pub(crate) fn is_compacting(&self) -> bool {
        !self.state.lock().in_progress.is_empty()
    }

    /// Whether a log must not be compacted.
    #[cfg(test)]
    pub(crate) fn is_paused(&self, partition: &Partition) -> bool {
        self.state.lock().paused.contains_key(&key(partition))
    }

    /// Waits until no log in a directory is compacted any more, once that is to stop.
    pub(crate) fn wait_until_left(&self, logs: &Logs, directory: &LogDirectory) {
        let is_here = |key: &LogKey| {
            let partition = logs.partitions.by_key(*key);
            partition.is_some_and(|one| is_in(&one, directory))
        };
        let mut state = self.state.lock();
        while state.in_progress.iter().any(is_here) {
            self.changed.wait(&mut state);
        }
    }

    /// Compacts a log no more until what this returns is dropped; returns when nobody does.
    pub(crate) fn pause(self: &Arc<Self>, partition: &Partition) -> Pause {
        self.pause_log(key(partition))
    }

    fn pause_log(self: &Arc<Self>, key: LogKey) -> Pause {
        let mut state = self.state.lock();
        *state.paused.entry(key).or_default() += 1;
        // Who waits for what it may read or write looks up.
        self.changed.notify_all();
        while state.in_progress.contains(&key) {
            self.changed.wait(&mut state);
        }
        drop(state);
        Pause {
            cleaner: self.clone(),
            key,
        }
    }

    /// Takes the checkpoint of a log along from one of these log directories to another.
    pub(crate) fn move_checkpoint(
        &self,
        logs: &Logs,
        partition: &Partition,
        directories: &[&Arc<LogDirectory>],
        to: &str,
    ) {
        let name = partition.topic_partition();
        let mut moved = None;
        let directories = directories.iter();
        for directory in directories.clone().filter(|one| one.name() != to) {
            update_checkpoint(logs, directory, |offsets| {
                let found = offsets.remove(name);
                moved = found.or(moved);
                found.is_some()
            });
        }
        for directory in directories.filter(|one| one.name() == to) {
            update_checkpoint(logs, directory, |offsets| match moved {
                Some(offset) if is_hosted(logs, partition) => {
                    offsets.insert(name.clone(), offset) != moved
                }
                _ => offsets.remove(name).is_some(),
            });
        }
    }

    /// A log has been cut: what is appended there is not clean. Its compaction is paused, which would note what was.
    pub(crate) fn note_cut(
        &self,
        logs: &Logs,
        partition: &Partition,
        end_offset: Offset,
        pause: &Pause,
    ) {
        assert_eq!(
            pause.key,
            key(partition),
            "the compaction of the log that was cut is paused"
        );
        let name = partition.topic_partition();
        let Some(directory) = logs.directories.get(partition.directory_index()) else {
            return;
        };
        update_checkpoint(logs, directory, |offsets| {
            let known = offsets.get_mut(name).filter(|known| **known > end_offset);
            known.map(|known| *known = end_offset).is_some()
        });
    }

    /// Forgets logs of a directory that are deleted: others may get their names.
    pub(crate) fn forget(
        &self,
        logs: &Logs,
        directory: &LogDirectory,
        partitions: &[Arc<Partition>],
    ) {
        let mut state = self.state.lock();
        for partition in partitions {
            state.uncleanable.remove(&key(partition));
            state.deferred.remove(&key(partition));
        }
        drop(state);
        update_checkpoint(logs, directory, |offsets| {
            let count = offsets.len();
            for partition in partitions {
                offsets.remove(partition.topic_partition());
            }
            offsets.len() < count
        });
    }

    fn sleep(&self, pause: Duration, wake_count: u64) {
        let mut state = self.state.lock();
        let until = Instant::now() + pause;
        while !state.is_stopped && state.wake_count == wake_count {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }

    /// Compacts the log with the largest dirty share, if one is due. Whether to look for the next
    /// at once.
    fn clean_dirtiest(&self, logs: &Logs, config: &CleanerConfig) -> bool {
        let Some(choice) = self.choose(logs) else {
            return false;
        };
        let started = Instant::now();
        let outcome = attempt(|| self.clean(logs, &choice, config));
        let Choice {
            partition,
            in_progress,
            ..
        } = choice;
        let is_next = self.settle(logs, &partition, outcome, config, started);
        drop(in_progress);
        is_next
    }

    /// Acts on what came of a compaction, while the log still counts as being compacted.
    fn settle(
        &self,
        logs: &Logs,
        partition: &Partition,
        outcome: Outcome,
        config: &CleanerConfig,
        started: Instant,
    ) -> bool {
        let key = key(partition);
        match outcome {
            Outcome::Cleaned(end_offset, statistics) => {
                note_clean(logs, partition, end_offset);
                self.state.lock().deferred.remove(&key);
                report(partition, end_offset, &statistics, started);
                partition.notify();
                true
            }
            Outcome::Failed(error @ CleanError::Stopped) => {
                tracing::debug!(%partition, %error, "not compacted this time");
                false
            }
            // Retention comes in between now and then. Where it is not that, others go first.
            Outcome::Failed(error @ (CleanError::Changed | CleanError::Missing(_))) => {
                let pause = self.state.lock().defer(key, config.backoff_ms, started);
                match pause > REPEATED_BACKOFFS * backoff(config.backoff_ms) {
                    true => tell_deferred(partition, &error, pause),
                    false => tracing::debug!(%partition, %error, "not compacted this time"),
                }
                true
            }
            Outcome::Failed(error @ (CleanError::Corrupt { .. } | CleanError::TooLarge { .. })) => {
                self.give_up(partition, &error);
                true
            }
            Outcome::Panicked => {
                self.give_up(partition, &"compacting it has broken an invariant");
                true
            }
            Outcome::Failed(CleanError::Storage(error)) if is_no_room(partition, &error) => {
                let pause = self.state.lock().defer(key, config.backoff_ms, started);
                tell_deferred(partition, &error, pause);
                if error.is_out_of_files() {
                    // Files that nobody uses are closed for the next attempt.
                    logs.report_log_error(partition, &error);
                }
                true
            }
            Outcome::Failed(CleanError::Storage(error)) => {
                logs.report_log_error(partition, &error);
                false
            }
        }
    }

    /// Leaves a log alone from here on.
    fn give_up(&self, partition: &Partition, reason: &dyn std::fmt::Display) {
        self.state.lock().uncleanable.insert(key(partition));
        tracing::error!(
            %partition,
            %reason,
            "the log cannot be compacted and is left as it is until the server is started again"
        );
    }

    fn choose(&self, logs: &Logs) -> Option<Choice<'_>> {
        let _choosing = self.choosing.lock();
        let mut due: Vec<(f64, Arc<Partition>)> = Vec::new();
        // Where a log was not to be had.
        let mut busy = BTreeSet::new();
        for topic in logs.partitions.all_topics() {
            if !topic.settings().cleanup_policy.compact {
                continue;
            }
            for partition in topic.partitions() {
                if self.state.lock().is_barred(key(&partition), Instant::now()) {
                    continue;
                }
                let directory_index = partition.directory_index();
                let patience = match busy.contains(&directory_index) {
                    true => Duration::ZERO,
                    false => LOOK_MOMENT,
                };
                match self.due(logs, &partition, patience) {
                    Ok(Some(cleanable)) => due.push((cleanable.dirty_ratio(), partition)),
                    Ok(None) => {}
                    Err(Busy) => drop(busy.insert(directory_index)),
                }
            }
        }
        due.sort_by(|a, b| b.0.total_cmp(&a.0));
        due.into_iter().find_map(|(_, partition)| {
            let look = || self.due(logs, &partition, LOOK_MOMENT).ok().flatten();
            let (in_progress, cleanable) = self.take_up_if_due(key(&partition), look)?;
            Some(Choice {
                partition,
                cleanable,
                in_progress,
            })
        })
    }

    /// Takes up a log, and what a look at it finds then: it may have been moved, or compacted, since
    /// it was found to be due.
    fn take_up_if_due<C>(
        &self,
        key: LogKey,
        look: impl FnOnce() -> Option<C>,
    ) -> Option<(InProgress<'_>, C)> {
        let in_progress = self.take_up(key)?;
        let cleanable = look()?;
        Some((in_progress, cleanable))
    }

    /// Notes that a log is compacted from here on, unless it must not be.
    fn take_up(&self, key: LogKey) -> Option<InProgress<'_>> {
        let mut state = self.state.lock();
        if state.is_barred(key, Instant::now()) {
            return None;
        }
        state.in_progress.insert(key);
        drop(state);
        Some(InProgress { cleaner: self, key })
    }

    /// What is to be compacted of a log, if it is due. Waits no longer than this for who has the log.
    fn due(
        &self,
        logs: &Logs,
        partition: &Arc<Partition>,
        patience: Duration,
    ) -> Result<Option<Cleanable>, Busy> {
        let name = partition.log_directory();
        let Some(directory) = directory(logs, &name) else {
            return Ok(None);
        };
        let offsets = &directory.checkpoints().cleaner_offsets;
        let checkpoint = offsets.of(partition.topic_partition(), patience);
        let checkpoint = checkpoint.ok_or(Busy)?;
        // A log that is idle has nothing to compact.
        let candidate = partition.look_at_open_log(patience, |log, offsets| {
            log.compaction_candidate(checkpoint, offsets.last_stable_offset, retention_ms())
        });
        let Some(candidate) = candidate.ok_or(Busy)? else {
            return Ok(None);
        };
        Ok(match candidate {
            Ok(candidate) => {
                if candidate.cleanable.is_checkpoint_wrong {
                    note_clean(logs, partition, candidate.cleanable.first_dirty_offset);
                }
                candidate.is_due.then_some(candidate.cleanable)
            }
            Err(ReadError::Storage(error)) if error.is_out_of_files() => {
                logs.report_log_error(partition, &error);
                None
            }
            // The disk may answer later.
            Err(ReadError::Storage(error)) => {
                let backoff_ms = logs.node.live_config().log.cleaner.backoff_ms;
                let mut state = self.state.lock();
                let pause = state.defer(key(partition), backoff_ms, Instant::now());
                drop(state);
                tell_deferred(partition, &error, pause);
                None
            }
            Err(error) => {
                self.give_up(partition, &error);
                None
            }
        })
    }

    fn clean(
        &self,
        logs: &Logs,
        choice: &Choice<'_>,
        config: &CleanerConfig,
    ) -> Result<(Offset, CleanStatistics), CleanError> {
        let Choice {
            partition,
            cleanable,
            ..
        } = choice;
        let threads = thread_count(config).max(1);
        // A record goes only when the later one of its key is on the disk.
        partition.flush_up_to(cleanable.first_uncleanable_offset, now_ms())?;
        // A crash of the machine tells the gaps that stay from a loss by the recovery point.
        if let Some(directory) = directory(logs, &partition.log_directory())
            && let Some(error) =
                checkpoints::write_unless_written(logs, directory, Kind::RecoveryPoints)
        {
            return Err(CleanError::Storage(error));
        }
        let buffer_bytes = config.io_buffer_size.max(0).unsigned_abs() as usize / threads / 2;
        let mut compaction = partition
            .with_log(|log| log.begin_compaction(cleanable, retention_ms(), buffer_bytes))?;
        let seed: [u8; 16] = random_bytes();
        let (high, low) = seed.split_at(8);
        let word = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        let mut map = OffsetMap::new(
            config.dedupe_buffer_size.max(0).unsigned_abs() / threads as u64,
            config.io_buffer_load_factor,
            compaction.dirty_record_count_max(),
            [word(high), word(low)],
        );
        let key = key(partition);
        let pace = &mut |bytes: usize| self.pace(bytes, key, config.io_max_bytes_per_second);
        let end_offset = compaction.index_keys(&mut map, pace)?;
        while let Some(group) = compaction.next_group(&map) {
            let cleaned = compaction.clean_group(group, &map, pace)?;
            let replaced = partition.with_log(|log| log.replace_segments(cleaned, now_ms()))??;
            if !replaced {
                return Err(CleanError::Changed);
            }
            compaction.sync_directory()?;
        }
        Ok((end_offset, compaction.statistics()))
    }

    /// Waits until `bytes` more may be read or written; `false` when the compaction is to end.
    fn pace(&self, bytes: usize, key: LogKey, bytes_per_second: f64) -> bool {
        let mut state = self.state.lock();
        let seconds = bytes as f64 / bytes_per_second.max(1.0);
        // Faster than a byte a nanosecond is no limit.
        if bytes_per_second < 1e9 {
            let now = Instant::now();
            let from = state.paid_until.map_or(now, |until| until.max(now));
            let until = from + Duration::from_secs_f64(seconds);
            state.paid_until = Some(until);
            while !state.is_stopped && !state.paused.contains_key(&key) {
                if self.changed.wait_until(&mut state, until).timed_out() {
                    break;
                }
            }
        }
        !state.is_stopped && !state.paused.contains_key(&key)
    }
}

impl State {
    /// Whether a log must not be compacted now.
    fn is_barred(&self, key: LogKey, now: Instant) -> bool {
        let is_deferred = |deferral: &Deferral| now < deferral.until;
        self.is_stopped
            || self.in_progress.contains(&key)
            || self.paused.contains_key(&key)
            || self.uncleanable.contains(&key)
            || self.deferred.get(&key).is_some_and(is_deferred)
    }

    /// Lets other logs go first, for twice as long as the last time; returns for how long.
    fn defer(&mut self, key: LogKey, backoff_ms: i64, now: Instant) -> Duration {
        let failure_count = self.deferred.get(&key).map_or(0, |last| last.failure_count) + 1;
        let pause = backoff(backoff_ms).saturating_mul(1 << failure_count.min(31));
        let pause = pause.min(DEFERRAL_MAX);
        let until = now + pause;
        self.deferred.insert(
            key,
            Deferral {
                failure_count,
                until,
            },
        );
        pause
    }
}

fn backoff(backoff_ms: i64) -> Duration {
    Duration::from_millis(backoff_ms.max(1).unsigned_abs())
}

fn tell_deferred(partition: &Partition, error: &dyn std::fmt::Display, pause: Duration) {
    tracing::error!(
        %partition,
        %error,
        "the log cannot be compacted for now; it is tried again in {pause:?}"
    );
}

/// Runs a compaction, whose panic is an outcome as well: the thread has other logs to compact.
fn attempt(compact: impl FnOnce() -> Result<(Offset, CleanStatistics), CleanError>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(compact)) {
        Ok(Ok((end_offset, statistics))) => Outcome::Cleaned(end_offset, statistics),
        Ok(Err(error)) => Outcome::Failed(error),
        Err(_) => Outcome::Panicked,
    }
}

/// What is compacted is written beside the log: no space for that is no failure of the log.
fn is_no_room(partition: &Partition, error: &StorageError) -> bool {
    let kind = error.source.kind();
    let is_full = matches!(
        kind,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    );
    (is_full || error.is_out_of_files()) && !partition.is_failed()
}

fn directory<'a>(logs: &'a Logs, name: &str) -> Option<&'a Arc<LogDirectory>> {
    logs.directories.iter().find(|one| one.name() == name)
}

/// Notes up to where a log is clean, unless it is being deleted.
fn note_clean(logs: &Logs, partition: &Partition, offset: Offset) {
    let name = partition.log_directory();
    let Some(directory) = directory(logs, &name) else {
        return;
    };
    update_checkpoint(logs, directory, |offsets| {
        let name = partition.topic_partition().clone();
        is_hosted(logs, partition) && offsets.insert(name, offset) != Some(offset)
    });
}

/// Whether a log may have an entry, asked while the entries are locked: whoever deletes a topic
/// removes its entries after it has removed the topic.
fn is_hosted(logs: &Logs, partition: &Partition) -> bool {
    let topic = logs.partitions.topic_by_id(partition.topic_id());
    topic.is_some()
}

fn update_checkpoint(
    logs: &Logs,
    directory: &LogDirectory,
    change: impl FnOnce(&mut OffsetCheckpoint) -> bool,
) {
    if directory.is_offline() {
        return;
    }
    if let Err(error) = directory.checkpoints().cleaner_offsets.update(change) {
        directory.checkpoints().note_leftovers();
        logs.report_directory_error(directory.name(), &error);
    }
}

fn report(
    partition: &Partition,
    end_offset: Offset,
    statistics: &CleanStatistics,
    started: Instant,
) {
    tracing::info!(
        %partition,
        end_offset = end_offset.0,
        read_bytes = statistics.read_bytes,
        written_bytes = statistics.written_bytes,
        records = statistics.record_count,
        kept = statistics.kept_count,
        milliseconds = started.elapsed().as_millis() as u64,
        "compacted"
    );
}

#[cfg(test)]
mod tests;
