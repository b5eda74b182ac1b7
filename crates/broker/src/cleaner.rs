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
//! alone from then on, and said so once. Settings are read anew for every round.

use crate::Broker;
use crate::clock::{now_ms, random_bytes};
use config::server::CleanerConfig;
use model::{TopicPartition, Uuid};
use parking_lot::{Condvar, Mutex, MutexGuard};
use replication::Partition;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use storage::checkpoint::{
    CLEANER_OFFSET_CHECKPOINT, OffsetCheckpoint, read_checkpoint, write_checkpoint,
};
use storage::{CleanError, CleanStatistics, Cleanable, OffsetMap, RealDisk, StorageError};

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
    /// Logs that must not be compacted while they are copied.
    paused: BTreeSet<LogKey>,
    uncleanable: BTreeSet<LogKey>,
    /// Offsets up to which logs are clean, by the name of the log directory.
    checkpoints: BTreeMap<String, OffsetCheckpoint>,
    /// When the bytes that were read and written are paid for.
    paid_until: Option<Instant>,
}

/// What is to be compacted.
struct Choice {
    partition: Arc<Partition>,
    cleanable: Cleanable,
}

const fn key(partition: &Partition) -> LogKey {
    (partition.topic_id(), partition.index())
}

/// Starts the threads that are missing, and lets those that sleep look at the settings.
pub(crate) fn start(broker: &Arc<Broker>) {
    let cleaner = &broker.cleaner;
    let config = broker.live_config().log.cleaner;
    let mut state = cleaner.state.lock();
    state.wake_count += 1;
    cleaner.changed.notify_all();
    if !config.enable || state.is_stopped {
        return;
    }
    for number in 0..thread_count(&config) {
        if state.threads.insert(number) {
            let (cleaner, weak) = (cleaner.clone(), Arc::downgrade(broker));
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

fn run(registration: &Registration, weak: &Weak<Broker>) {
    let cleaner = &registration.cleaner;
    loop {
        let Some(broker) = weak.upgrade() else { return };
        let config = broker.live_config().log.cleaner;
        let wake_count = {
            let state = cleaner.state.lock();
            if state.is_stopped || registration.number >= thread_count(&config) {
                return;
            }
            state.wake_count
        };
        let has_worked = cleaner.clean_dirtiest(&broker, &config);
        drop(broker);
        if !has_worked {
            let pause = Duration::from_millis(config.backoff_ms.max(1).unsigned_abs());
            cleaner.sleep(pause, wake_count);
        }
    }
}

impl Cleaner {
    /// Stops: what is being compacted is given up. Returns when the threads have ended.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        self.changed.notify_all();
        while !state.threads.is_empty() {
            self.changed.wait(&mut state);
        }
    }

    /// Compacts a log no more until [`Self::resume`]; returns when nobody does.
    pub(crate) fn pause(&self, topic_id: Uuid, index: i32) {
        let mut state = self.state.lock();
        state.paused.insert((topic_id, index));
        while state.in_progress.contains(&(topic_id, index)) {
            self.changed.wait(&mut state);
        }
    }

    /// Ends a pause.
    pub(crate) fn resume(&self, topic_id: Uuid, index: i32) {
        self.state.lock().paused.remove(&(topic_id, index));
    }

    /// Takes the checkpoint of a log along to another log directory.
    pub(crate) fn move_checkpoint(&self, broker: &Broker, name: &TopicPartition, to: &str) {
        let mut state = self.state.lock();
        let mut moved = None;
        let mut changed = BTreeSet::from([to.to_owned()]);
        for directory in &broker.log_directories {
            let offsets = state.checkpoints(broker, directory.name());
            if let Some(offset) = offsets.remove(name) {
                changed.insert(directory.name().to_owned());
                moved = Some(offset);
            }
        }
        if let Some(offset) = moved {
            let offsets = state.checkpoints(broker, to);
            offsets.insert(name.clone(), offset);
        }
        for directory in changed {
            state.write_checkpoint(broker, &directory);
        }
    }

    /// Forgets a log that is deleted: another one may get its name.
    pub(crate) fn forget(&self, broker: &Broker, partition: &Partition) {
        let mut state = self.state.lock();
        state.uncleanable.remove(&key(partition));
        let directory = partition.log_directory();
        let offsets = state.checkpoints(broker, &directory);
        if offsets.remove(partition.topic_partition()).is_some() {
            state.write_checkpoint(broker, &directory);
        }
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

    /// Compacts the log with the largest dirty share, if one is due. Whether there was one.
    fn clean_dirtiest(&self, broker: &Broker, config: &CleanerConfig) -> bool {
        let Some(choice) = self.choose(broker) else {
            return false;
        };
        let partition = &choice.partition;
        let started = Instant::now();
        let outcome = self.clean(&choice, config);
        let mut state = self.state.lock();
        state.in_progress.remove(&key(partition));
        self.changed.notify_all();
        match outcome {
            Ok((end_offset, statistics)) => {
                state.note_clean(broker, partition, end_offset);
                drop(state);
                report(partition, end_offset, &statistics, started);
                partition.notify();
                true
            }
            Err(error) => self.handle_failure(broker, partition, &error, state),
        }
    }

    /// Whether it makes sense to go on at once.
    fn handle_failure(
        &self,
        broker: &Broker,
        partition: &Partition,
        error: &CleanError,
        mut state: MutexGuard<'_, State>,
    ) -> bool {
        match error {
            CleanError::Stopped | CleanError::Changed => {
                tracing::debug!(%partition, %error, "not compacted this time");
                false
            }
            CleanError::Corrupt { .. } | CleanError::TooLarge { .. } => {
                state.uncleanable.insert(key(partition));
                tracing::error!(
                    %partition,
                    %error,
                    "the log cannot be compacted and is left as it is until the server is \
                     started again"
                );
                true
            }
            CleanError::Storage(error) => {
                drop(state);
                report_storage_error(broker, partition, error);
                false
            }
        }
    }

    fn choose(&self, broker: &Broker) -> Option<Choice> {
        let _choosing = self.choosing.lock();
        let mut best: Option<Choice> = None;
        for topic in broker.partitions.all_topics() {
            if !topic.settings().cleanup_policy.compact {
                continue;
            }
            for partition in topic.partitions() {
                let Some(cleanable) = self.due(broker, &partition) else {
                    continue;
                };
                let ratio = cleanable.dirty_ratio();
                if best
                    .as_ref()
                    .is_none_or(|best| ratio > best.cleanable.dirty_ratio())
                {
                    best = Some(Choice {
                        partition,
                        cleanable,
                    });
                }
            }
        }
        let best = best?;
        self.state.lock().in_progress.insert(key(&best.partition));
        Some(best)
    }

    /// What is to be compacted of a log, if it is due.
    fn due(&self, broker: &Broker, partition: &Arc<Partition>) -> Option<Cleanable> {
        let key = key(partition);
        let directory = partition.log_directory();
        let checkpoint = {
            let mut state = self.state.lock();
            let is_barred = state.in_progress.contains(&key)
                || state.paused.contains(&key)
                || state.uncleanable.contains(&key);
            if is_barred {
                return None;
            }
            let offsets = state.checkpoints(broker, &directory);
            offsets.get(partition.topic_partition()).copied()
        };
        let last_stable_offset = partition.offsets().last_stable_offset;
        let candidate = partition
            .with_log(|log| log.compaction_candidate(checkpoint, last_stable_offset, now_ms()));
        match candidate {
            Ok(candidate) => {
                if candidate.cleanable.is_checkpoint_wrong {
                    let mut state = self.state.lock();
                    let start = candidate.cleanable.first_dirty_offset;
                    state.note_clean(broker, partition, start);
                }
                candidate.is_due.then_some(candidate.cleanable)
            }
            Err(error) => {
                self.state.lock().uncleanable.insert(key);
                tracing::error!(%partition, %error, "the log cannot be compacted");
                None
            }
        }
    }

    fn clean(
        &self,
        choice: &Choice,
        config: &CleanerConfig,
    ) -> Result<(i64, CleanStatistics), CleanError> {
        let Choice {
            partition,
            cleanable,
        } = choice;
        let threads = thread_count(config).max(1);
        // A record goes only when the later one of its key is on the disk.
        partition.flush_up_to(cleanable.first_uncleanable_offset, now_ms())?;
        let buffer_bytes = config.io_buffer_size.max(0).unsigned_abs() as usize / threads / 2;
        let mut compaction =
            partition.with_log(|log| log.begin_compaction(cleanable, now_ms(), buffer_bytes));
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
            let replaced = partition.with_log(|log| log.replace_segments(cleaned, now_ms()))?;
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
            while !state.is_stopped && !state.paused.contains(&key) {
                if self.changed.wait_until(&mut state, until).timed_out() {
                    break;
                }
            }
        }
        !state.is_stopped && !state.paused.contains(&key)
    }
}

impl State {
    /// The checkpoint of a log directory, read when it is first needed.
    fn checkpoints(&mut self, broker: &Broker, directory: &str) -> &mut OffsetCheckpoint {
        if !self.checkpoints.contains_key(directory) {
            let mut directories = broker.log_directories.iter();
            let found = directories.find(|one| one.name() == directory);
            let read = found.map(|one| {
                let path = one.path().join(CLEANER_OFFSET_CHECKPOINT);
                read_checkpoint(&RealDisk, &path).unwrap_or_else(|error| {
                    tracing::warn!(%error, "the cleaner begins at the start of its logs");
                    OffsetCheckpoint::new()
                })
            });
            let offsets = read.unwrap_or_default();
            self.checkpoints.insert(directory.to_owned(), offsets);
        }
        self.checkpoints.entry(directory.to_owned()).or_default()
    }

    fn note_clean(&mut self, broker: &Broker, partition: &Partition, offset: i64) {
        if broker
            .partitions
            .topic_by_id(partition.topic_id())
            .is_none()
        {
            return;
        }
        let directory = partition.log_directory();
        let offsets = self.checkpoints(broker, &directory);
        offsets.insert(partition.topic_partition().clone(), offset);
        self.write_checkpoint(broker, &directory);
    }

    fn write_checkpoint(&mut self, broker: &Broker, directory: &str) {
        let offsets = self.checkpoints(broker, directory);
        let mut directories = broker.log_directories.iter();
        let found = directories.find(|one| one.name() == directory && !one.is_offline());
        let Some(found) = found else { return };
        let path = found.path().join(CLEANER_OFFSET_CHECKPOINT);
        if let Err(error) = write_checkpoint(&RealDisk, &path, offsets) {
            broker.report_directory_error(directory, &error);
        }
    }
}

/// What is compacted is written beside the log: no space for that is no failure of the log.
fn report_storage_error(broker: &Broker, partition: &Partition, error: &StorageError) {
    let is_full = error.source.kind() == io::ErrorKind::StorageFull;
    if (is_full || error.is_out_of_files()) && !partition.with_log(|log| log.is_failed()) {
        tracing::error!(%partition, %error, "the log cannot be compacted for now");
    } else {
        broker.report_storage_error(partition, error);
    }
}

fn report(partition: &Partition, end_offset: i64, statistics: &CleanStatistics, started: Instant) {
    tracing::info!(
        %partition,
        end_offset,
        read_bytes = statistics.read_bytes,
        written_bytes = statistics.written_bytes,
        records = statistics.record_count,
        kept = statistics.kept_count,
        milliseconds = started.elapsed().as_millis() as u64,
        "compacted"
    );
}
