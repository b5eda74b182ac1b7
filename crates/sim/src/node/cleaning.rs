//! The cleaner: one log at a time, the dirtiest first, a step at each turn, so that whatever happens in a
//! world comes in between.
//!
//! ```text
//!   choose ─> flush, begin_compaction, index_keys ─> a group ─> a group … ─> checkpoint
//! ```
//!
//! The broker does the same on threads; what it does between two steps is whatever others do.

use super::hosting::Hosting;
use super::{Halted, LOGS, SimPartition};
use replication::PartitionKey;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use storage::checkpoint::{
    CLEANER_OFFSET_CHECKPOINT, OffsetCheckpoint, read_checkpoint, write_checkpoint,
};
use storage::sim::SimDisk;
use storage::{CleanError, Cleanable, Compaction, FileError, Log, OffsetMap, StorageError};

/// The memory of keys.
const MAP_BYTES: u64 = 1 << 14;

/// What is compacted, and what is known to be.
#[derive(Debug, Default)]
pub(super) struct Cleaning {
    running: Option<Running>,
    /// Up to where logs are compacted.
    offsets: OffsetCheckpoint,
    /// Damage that was found: nothing of what a world does explains it.
    pub(super) complaint: Option<String>,
}

#[derive(Debug)]
struct Running {
    partition: Arc<SimPartition>,
    compaction: Compaction<SimDisk>,
    map: OffsetMap,
    end_offset: i64,
}

impl Hosting {
    /// Reads up to where logs are compacted; what the file says of logs that are not there goes.
    pub(super) fn read_cleaner_offsets(&mut self) -> Result<(), Halted> {
        let path = Path::new(LOGS).join(CLEANER_OFFSET_CHECKPOINT);
        let mut offsets = match read_checkpoint(&self.disk, &path) {
            Ok(offsets) => offsets,
            Err(FileError::Storage(error)) => return Err(error.into()),
            Err(FileError::Damaged { .. }) => OffsetCheckpoint::new(),
        };
        let count = offsets.len();
        offsets.retain(|name, _| self.all().any(|one| one.topic_partition() == name));
        if offsets.len() < count {
            write_checkpoint(&self.disk, &path, &offsets)?;
        }
        self.cleaning.offsets = offsets;
        Ok(())
    }

    /// The logs of these partitions go.
    pub(super) fn forget_compaction(&mut self, gone: &[PartitionKey]) -> Result<(), StorageError> {
        let is_gone = |one: &Running| gone.contains(&one.partition.key());
        if self.cleaning.running.as_ref().is_some_and(is_gone) {
            self.cleaning.running = None;
        }
        let names = self.all().filter(|one| gone.contains(&one.key()));
        let names: Vec<_> = names.map(|one| one.topic_partition().clone()).collect();
        let count = self.cleaning.offsets.len();
        let offsets = &mut self.cleaning.offsets;
        offsets.retain(|name, _| !names.contains(name));
        match self.cleaning.offsets.len() < count {
            true => self.write_cleaner_offsets(),
            false => Ok(()),
        }
    }

    /// Takes the next step.
    pub(super) fn clean(&mut self, now_ms: i64, retention_ms: i64) -> Result<(), Halted> {
        let done = match self.cleaning.running.take() {
            Some(running) => self.go_on_cleaning(running, now_ms),
            None => self.begin_cleaning(now_ms, retention_ms),
        };
        match done {
            Ok(()) | Err(CleanError::Changed | CleanError::Missing(_) | CleanError::Stopped) => {}
            Err(CleanError::Storage(error)) if error.is_passing() => {}
            Err(CleanError::Storage(error)) => return Err(error.into()),
            Err(error) => self.cleaning.complaint = Some(error.to_string()),
        }
        Ok(())
    }

    fn begin_cleaning(&mut self, now_ms: i64, retention_ms: i64) -> Result<(), CleanError> {
        let mut dirtiest: Option<(Arc<SimPartition>, Cleanable)> = None;
        for partition in self.all() {
            if !partition.config().cleanup_policy.compact {
                continue;
            }
            let checkpoint = self.cleaning.offsets.get(partition.topic_partition());
            let candidate = partition.look_at_open_log(Duration::ZERO, |log, offsets| {
                let stable = offsets.last_stable_offset;
                log.compaction_candidate(checkpoint.copied(), stable, retention_ms)
            });
            let Some(Some(Ok(candidate))) = candidate else {
                continue;
            };
            let ratio = candidate.cleanable.dirty_ratio();
            let is_dirtier = dirtiest
                .as_ref()
                .is_none_or(|(_, other)| ratio > other.dirty_ratio());
            if candidate.is_due && is_dirtier {
                dirtiest = Some((partition.clone(), candidate.cleanable));
            }
        }
        let Some((partition, cleanable)) = dirtiest else {
            return Ok(());
        };
        // A record goes only when the later one of its key is on the disk.
        partition.flush_up_to(cleanable.first_uncleanable_offset, now_ms)?;
        let mut compaction =
            partition.with_log(|log| log.begin_compaction(&cleanable, retention_ms, 4_096))?;
        let count = compaction.dirty_record_count_max();
        let mut map = OffsetMap::new(MAP_BYTES, 0.9, count, [7, 11]);
        let end_offset = compaction.index_keys(&mut map, &mut |_| true)?;
        self.cleaning.running = Some(Running {
            partition,
            compaction,
            map,
            end_offset,
        });
        Ok(())
    }

    fn go_on_cleaning(&mut self, mut running: Running, now_ms: i64) -> Result<(), CleanError> {
        let (compaction, partition) = (&mut running.compaction, &running.partition);
        let Some(group) = compaction.next_group(&running.map) else {
            let name = partition.topic_partition().clone();
            self.cleaning.offsets.insert(name, running.end_offset);
            return Ok(self.write_cleaner_offsets()?);
        };
        let cleaned = compaction.clean_group(group, &running.map, &mut |_| true)?;
        if !partition.with_log(|log| log.replace_segments(cleaned, now_ms))?? {
            return Err(CleanError::Changed);
        }
        compaction.sync_directory()?;
        self.cleaning.running = Some(running);
        Ok(())
    }

    fn write_cleaner_offsets(&self) -> Result<(), StorageError> {
        let path = Path::new(LOGS).join(CLEANER_OFFSET_CHECKPOINT);
        write_checkpoint(&self.disk, &path, &self.cleaning.offsets)
    }
}

/// The mistake of a start that takes a gap between offsets for damage: it cuts the log there.
pub(super) fn cut_at_gap(log: &mut Log<SimDisk>, now_ms: i64) -> Result<(), Halted> {
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
