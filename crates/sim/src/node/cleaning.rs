//! The cleaner: one log at a time, the dirtiest first, a step at each turn, so that whatever happens in a
//! world comes in between.
//!
//! ```text
//!   choose ─> flush, begin_compaction, index_keys ─> a group ─> a group … ─> checkpoint
//! ```
//!
//! The broker does the same on threads; what it does between two steps is whatever others do.

use super::checkpoints::read_of;
use super::compaction::Running;
use super::hosting::Hosting;
use crate::halted::Halted;
use crate::partition::SimPartition;
use replication::PartitionKey;
use std::sync::Arc;
use std::time::Duration;
use storage::checkpoint::{CLEANER_OFFSET_CHECKPOINT, write_checkpoint};
use storage::{CleanError, Cleanable, OffsetMap, StorageError};

/// The memory of keys.
const MAP_BYTES: u64 = 1 << 14;

impl Hosting {
    /// Reads up to where logs are compacted; what the file says of logs that are not there goes.
    pub(super) fn read_cleaner_offsets(&mut self) -> Result<(), Halted> {
        for at in 0..self.directories.len() {
            let path = self.directories[at].path.join(CLEANER_OFFSET_CHECKPOINT);
            let offsets = read_of(&self.disk, &path, false, |name| {
                let mut here = self.all().filter(|one| self.place_of(one) == at);
                here.any(|one| one.topic_partition() == name)
            })?;
            self.cleaning.offsets.extend(offsets);
        }
        Ok(())
    }

    /// The logs of these partitions go.
    pub(super) fn forget_compaction(&mut self, gone: &[PartitionKey]) -> Result<(), StorageError> {
        self.forget_running(gone);
        let all = self.all().filter(|one| gone.contains(&one.key()));
        let all: Vec<Arc<SimPartition>> = all.cloned().collect();
        for partition in all {
            if self
                .cleaning
                .offsets
                .remove(partition.topic_partition())
                .is_some()
            {
                self.write_cleaner_offsets(self.place_of(&partition))?;
            }
        }
        Ok(())
    }

    /// What is compacted of these is given up.
    pub(super) fn forget_running(&mut self, gone: &[PartitionKey]) {
        let is_gone = |one: &Running| gone.contains(&one.partition.key());
        if self.cleaning.running.as_ref().is_some_and(is_gone) {
            self.cleaning.running = None;
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
        // The recovery point tells the gaps that stay from a loss.
        self.write_checkpoints_of(self.place_of(&partition))?;
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
            return Ok(self.write_cleaner_offsets(self.place_of(partition))?);
        };
        let cleaned = compaction.clean_group(group, &running.map, &mut |_| true)?;
        if !partition.with_log(|log| log.replace_segments(cleaned, now_ms))?? {
            return Err(CleanError::Changed);
        }
        compaction.sync_directory()?;
        self.cleaning.running = Some(running);
        Ok(())
    }

    fn write_cleaner_offsets(&self, at: usize) -> Result<(), StorageError> {
        let path = self.directories[at].path.join(CLEANER_OFFSET_CHECKPOINT);
        let here = self.all().filter(|one| self.place_of(one) == at);
        let offset = |one: &Arc<SimPartition>| {
            let name = one.topic_partition();
            let offset = self.cleaning.offsets.get(name);
            offset.map(|offset| (name.clone(), *offset))
        };
        write_checkpoint(&self.disk, &path, &here.filter_map(offset).collect())
    }
}
