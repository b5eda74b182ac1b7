//! When the next snapshot is due: after enough bytes, or after some time if there was anything.

use config::server::MetadataLogConfig;

/// How long no snapshot is due after one that could not be written.
const PAUSE_MS: i64 = 60_000;

/// What has happened since the last snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SnapshotPace {
    /// Bytes appended since the last snapshot was begun.
    unsnapshotted_bytes: u64,
    /// When the last snapshot was begun; when the log was opened, before the first.
    last_ms: i64,
    /// What was not in a snapshot when the one that is being written was begun.
    being_written: Option<u64>,
    /// When the last snapshot could not be written.
    failed_ms: Option<i64>,
}

impl SnapshotPace {
    /// The pace of a log that was opened with so many bytes beyond its newest snapshot.
    pub(crate) const fn new(unsnapshotted_bytes: u64, now_ms: i64) -> Self {
        Self {
            unsnapshotted_bytes,
            last_ms: now_ms,
            being_written: None,
            failed_ms: None,
        }
    }

    /// Takes note of bytes in the log.
    pub(crate) const fn append(&mut self, bytes: usize) {
        self.unsnapshotted_bytes += bytes as u64;
    }

    /// Whether a snapshot is being written.
    pub(crate) const fn is_writing(&self) -> bool {
        self.being_written.is_some()
    }

    /// Whether it is time for a snapshot.
    pub(crate) fn is_due(&self, config: &MetadataLogConfig, now_ms: i64) -> bool {
        let limit_bytes = config.max_record_bytes_between_snapshots;
        let is_enough = self.unsnapshotted_bytes >= limit_bytes.unsigned_abs();
        // One of the future was begun before the clock was set back: how long ago is not known.
        let waited_ms = now_ms.saturating_sub(self.last_ms);
        let is_time = config
            .max_snapshot_interval_ms
            .is_some_and(|interval_ms| !(0..interval_ms).contains(&waited_ms));
        let is_paused = self
            .failed_ms
            .is_some_and(|at_ms| (0..PAUSE_MS).contains(&now_ms.saturating_sub(at_ms)));
        self.unsnapshotted_bytes > 0 && (is_enough || is_time) && !is_paused
    }

    /// A snapshot of all that was appended is begun.
    pub(crate) const fn begin(&mut self, now_ms: i64) {
        self.being_written = Some(self.unsnapshotted_bytes);
        self.unsnapshotted_bytes = 0;
        self.last_ms = now_ms;
    }

    /// It was written, or not.
    pub(crate) fn end(&mut self, is_written: bool, now_ms: i64) {
        let bytes = self.being_written.take().unwrap_or(0);
        self.failed_ms = (!is_written).then_some(now_ms);
        if !is_written {
            self.unsnapshotted_bytes += bytes;
        }
    }
}
