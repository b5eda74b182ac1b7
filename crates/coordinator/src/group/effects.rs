//! What a decision about one group leaves behind: records, answers, timers.

use super::timers::Timers;
use crate::decision::fits_batch;
use crate::{CoordinatorRecord, GroupResponse, Token};
use model::{MonotonicTime, Now};
use std::sync::Arc;

/// The surroundings of a decision and what it has caused so far.
#[derive(Debug)]
pub(super) struct Effects<'a> {
    pub(super) group_id: Arc<str>,
    pub(super) now: Now,
    /// The most members of a classic group.
    pub(super) group_size_max: usize,
    /// How long an empty classic group waits for more members.
    pub(super) initial_rebalance_delay_ms: i32,
    /// The largest batch that the log takes.
    pub(super) batch_bytes_max: usize,
    pub(super) timers: &'a mut Timers,
    pub(super) records: &'a mut Vec<CoordinatorRecord>,
    pub(super) released: &'a mut Vec<(Token, GroupResponse)>,
}

impl Effects<'_> {
    /// The time in `timeout_ms`, which comes from a peer and may be anything.
    pub(super) fn after(&self, timeout_ms: i32) -> MonotonicTime {
        self.now.monotonic.plus_ms(i64::from(timeout_ms.max(0)))
    }

    /// Whether the log takes the record.
    pub(super) fn fits(&self, record: &CoordinatorRecord) -> bool {
        fits_batch(std::slice::from_ref(record), self.batch_bytes_max)
    }
}
