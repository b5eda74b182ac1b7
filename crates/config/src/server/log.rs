//! Log directories, the cleaner, and the periodic tasks of the log.

use crate::typed::TypedValues;

/// Where logs are and how they are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// Directories of the logs; at least one.
    pub log_dirs: Vec<String>,
    /// Directory of the metadata log.
    pub metadata_log_dir: String,
    /// Directories without new replicas; `*` alone stands for all.
    pub cordoned_log_dirs: Vec<String>,
    /// Time between two searches for segments to delete.
    pub retention_check_interval_ms: i64,
    /// Time between two searches for logs to force to disk.
    pub flush_scheduler_interval_ms: i64,
    /// Time between two writes of the recovery-point checkpoint.
    pub flush_offset_checkpoint_interval_ms: i32,
    /// Time between two writes of the log-start-offset checkpoint.
    pub flush_start_offset_checkpoint_interval_ms: i32,
    /// Time after start before the periodic tasks run.
    pub initial_task_delay_ms: i64,
    /// Threads of each directory for loading and recovery.
    pub num_recovery_threads_per_data_dir: i32,
    /// Threads that move replicas between directories; none means one for each directory.
    pub num_replica_alter_log_dirs_threads: Option<i32>,
    /// Compaction.
    pub cleaner: CleanerConfig,
}

/// How logs are compacted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CleanerConfig {
    /// Whether they are at all.
    pub enable: bool,
    /// Threads.
    pub threads: i32,
    /// Pause when there is nothing to compact.
    pub backoff_ms: i64,
    /// Memory of all threads for the map of keys.
    pub dedupe_buffer_size: i64,
    /// Memory of all threads for input and output.
    pub io_buffer_size: i32,
    /// How full the map of keys may become.
    pub io_buffer_load_factor: f64,
    /// Bytes a second read and written.
    pub io_max_bytes_per_second: f64,
}

impl LogConfig {
    pub(super) fn of_values(values: &TypedValues) -> Self {
        let log_dirs = log_dirs(values).to_vec();
        let metadata_log_dir = values
            .text("metadata.log.dir")
            .or(log_dirs.first().map(String::as_str))
            .unwrap_or_default()
            .to_owned();
        Self {
            log_dirs,
            metadata_log_dir,
            cordoned_log_dirs: values.list("cordoned.log.dirs").to_vec(),
            retention_check_interval_ms: values.long("log.retention.check.interval.ms"),
            flush_scheduler_interval_ms: values.long("log.flush.scheduler.interval.ms"),
            flush_offset_checkpoint_interval_ms: values
                .int("log.flush.offset.checkpoint.interval.ms"),
            flush_start_offset_checkpoint_interval_ms: values
                .int("log.flush.start.offset.checkpoint.interval.ms"),
            initial_task_delay_ms: values.long("log.initial.task.delay.ms"),
            num_recovery_threads_per_data_dir: values.int("num.recovery.threads.per.data.dir"),
            num_replica_alter_log_dirs_threads: values
                .int_or_null("num.replica.alter.log.dirs.threads"),
            cleaner: CleanerConfig {
                enable: values.boolean("log.cleaner.enable"),
                threads: values.int("log.cleaner.threads"),
                backoff_ms: values.long("log.cleaner.backoff.ms"),
                dedupe_buffer_size: values.long("log.cleaner.dedupe.buffer.size"),
                io_buffer_size: values.int("log.cleaner.io.buffer.size"),
                io_buffer_load_factor: values.double("log.cleaner.io.buffer.load.factor"),
                io_max_bytes_per_second: values.double("log.cleaner.io.max.bytes.per.second"),
            },
        }
    }
}

/// `log.dirs`, or else `log.dir`.
pub(super) fn log_dirs(values: &TypedValues) -> &[String] {
    match values.value("log.dirs") {
        Some(_) => values.list("log.dirs"),
        None => values.list("log.dir"),
    }
}
