//! The checkpoints of the log directories: what they say at a start, and what the logs say now.

use super::hosting::Hosting;
use crate::halted::Halted;
use crate::planted::Planted;
use model::{Offset, TopicPartition};
use std::path::Path;
use storage::boot_id::note_boot_id;
use storage::checkpoint::{
    LOG_START_OFFSET_CHECKPOINT, OffsetCheckpoint, RECOVERY_POINT_CHECKPOINT, read_checkpoint,
    write_checkpoint,
};
use storage::sim::SimDisk;
use storage::{Disk, FileError, StorageError};

/// What the checkpoints of a log directory say.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    pub(super) recovery_points: OffsetCheckpoint,
    pub(super) log_start_offsets: OffsetCheckpoint,
}

/// What a checkpoint says of logs that are there; the rest of it goes. A damaged file is an empty one.
pub(super) fn read_of(
    disk: &SimDisk,
    path: &Path,
    is_kept: bool,
    is_there: impl Fn(&TopicPartition) -> bool,
) -> Result<OffsetCheckpoint, Halted> {
    let mut offsets = match read_checkpoint(disk, path) {
        Ok(offsets) => offsets,
        Err(FileError::Storage(error)) => return Err(Halted::from(error)),
        Err(FileError::Damaged { .. }) => OffsetCheckpoint::new(),
    };
    let count = offsets.len();
    offsets.retain(|name, _| is_there(name));
    if offsets.len() < count && !is_kept {
        write_checkpoint(disk, path, &offsets)?;
    }
    Ok(offsets)
}

impl Hosting {
    pub(super) fn read_checkpoints(
        &self,
        at: usize,
        is_there: impl Fn(&TopicPartition) -> bool,
    ) -> Result<Checkpoints, Halted> {
        let is_kept = self.planted == Planted::CheckpointsByName;
        let read = |name: &str| {
            let path = self.directories[at].path.join(name);
            read_of(&self.disk, &path, is_kept, &is_there)
        };
        Ok(Checkpoints {
            recovery_points: read(RECOVERY_POINT_CHECKPOINT)?,
            log_start_offsets: read(LOG_START_OFFSET_CHECKPOINT)?,
        })
    }

    /// Writes what the logs say now, into every directory that works.
    pub(super) fn write_checkpoints(&mut self) -> Result<(), Halted> {
        for at in 0..self.directories.len() {
            if self.directories[at].is_offline {
                continue;
            }
            match self.write_checkpoints_of(at) {
                Err(error) if error.is_passing() => return Err(error.into()),
                Err(error) => self.do_without(error.into())?,
                Ok(()) => {}
            }
        }
        self.has_leftovers = false;
        Ok(())
    }

    /// Notes the run of the machine in which the logs are written, when all are open.
    pub(super) fn note_boot_ids(&mut self) -> Result<(), Halted> {
        let boot_id = self.disk.boot_id();
        for at in 0..self.directories.len() {
            let directory = &self.directories[at];
            if directory.is_offline {
                continue;
            }
            match note_boot_id(&self.disk, &directory.path, Some(&boot_id)) {
                Err(error) if error.is_passing() => return Err(error.into()),
                Err(error) => self.do_without(error.into())?,
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Writes those of one directory.
    pub(super) fn write_checkpoints_of(&self, at: usize) -> Result<(), StorageError> {
        let directory = &self.directories[at];
        let mut checkpoints = Checkpoints::default();
        if self.planted == Planted::CheckpointsByName {
            let path = directory.path.join(LOG_START_OFFSET_CHECKPOINT);
            checkpoints.log_start_offsets = read_checkpoint(&self.disk, &path).unwrap_or_default();
        }
        for partition in self.all() {
            let Some((recovery_point, offsets)) = partition.checkpoint_in(&directory.name) else {
                continue;
            };
            let name = partition.topic_partition().clone();
            if offsets.log_start_offset > Offset::ZERO {
                let starts = &mut checkpoints.log_start_offsets;
                starts.insert(name.clone(), offsets.log_start_offset);
            }
            checkpoints.recovery_points.insert(name, recovery_point);
        }
        let synced = self.disk.sync_directory(&directory.path);
        synced.map_err(|source| StorageError {
            operation: "sync",
            file: directory.path.join("."),
            source,
        })?;
        for (name, offsets) in [
            (RECOVERY_POINT_CHECKPOINT, &checkpoints.recovery_points),
            (LOG_START_OFFSET_CHECKPOINT, &checkpoints.log_start_offsets),
        ] {
            write_checkpoint(&self.disk, &directory.path.join(name), offsets)?;
        }
        Ok(())
    }
}
