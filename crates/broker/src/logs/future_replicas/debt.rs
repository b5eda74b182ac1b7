//! What copies owe to the limit of bytes a second.

use model::MonotonicTime;

/// Bytes that were copied ahead of `replica.alter.log.dirs.io.max.bytes.per.second`.
#[derive(Debug, Default)]
pub(super) struct Debt {
    pub(super) bytes: i64,
    at: MonotonicTime,
}

impl Debt {
    /// What is left of it at a time, by the rate that holds until then.
    pub(super) fn settle(&mut self, now: MonotonicTime, bytes_per_second: i64) -> i64 {
        let elapsed_ms = now.ms_since(self.at).max(0);
        let paid_bytes = bytes_per_second.max(1).saturating_mul(elapsed_ms) / 1000;
        self.bytes = self.bytes.saturating_sub(paid_bytes).max(0);
        self.at = now;
        self.bytes
    }
}
