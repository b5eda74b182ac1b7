//! What it takes to open a log.

use std::path::PathBuf;
use std::sync::Arc;

use model::{Offset, TopicPartition, Uuid};

use crate::config::LogConfig;
use crate::disk::Disk;
use crate::idle_log::IdleLog;
use crate::open_files::OpenFiles;

/// What it takes to open a log.
#[derive(Debug)]
pub struct LogOpening<D: Disk> {
    /// The disk.
    pub disk: D,
    /// The partition's directory.
    pub directory: PathBuf,
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The topic's id, for directories that do not say.
    pub topic_id: Option<Uuid>,
    /// The settings.
    pub config: Arc<LogConfig>,
    /// From the log directory's checkpoint; 0 if it is not listed.
    pub log_start_offset: Offset,
    /// From the log directory's checkpoint; 0 if it is not listed.
    pub recovery_point: Offset,
    /// Whether the log directory bears the mark of an orderly shutdown.
    pub is_clean: bool,
    /// Whether the machine is known to have stopped without it, so that writes that were not synced may
    /// be lost ([`boot_id`](crate::boot_id)): a gap between segments beyond the recovery point is a loss then.
    pub has_machine_stopped: bool,
    /// The log as it was when it became idle: it has to be that still, and no file changes if not.
    pub known: Option<IdleLog>,
    /// The time.
    pub now_ms: i64,
    /// Where its files are counted.
    pub open_files: Arc<OpenFiles<D::File>>,
}

impl<D: Disk> Clone for LogOpening<D> {
    fn clone(&self) -> Self {
        Self {
            disk: self.disk.clone(),
            directory: self.directory.clone(),
            topic_partition: self.topic_partition.clone(),
            topic_id: self.topic_id,
            config: self.config.clone(),
            open_files: self.open_files.clone(),
            ..*self
        }
    }
}

impl<D: Disk> LogOpening<D> {
    /// A log with default settings, of which nothing is known.
    pub fn new(disk: D, directory: PathBuf, topic_partition: TopicPartition) -> Self {
        Self {
            disk,
            directory,
            topic_partition,
            topic_id: None,
            config: Arc::default(),
            log_start_offset: Offset::ZERO,
            recovery_point: Offset::ZERO,
            is_clean: false,
            has_machine_stopped: false,
            known: None,
            now_ms: 0,
            open_files: Arc::new(OpenFiles::new(usize::MAX)),
        }
    }
}
