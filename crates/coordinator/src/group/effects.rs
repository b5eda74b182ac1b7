//! What a decision about one group leaves behind: records, answers, timers.

use super::GroupConfig;
use super::timers::Timers;
use crate::{CoordinatorRecord, GroupResponse, Token};
use model::{MonotonicTime, Now};
use std::sync::Arc;

/// The surroundings of a decision and what it has caused so far.
#[derive(Debug)]
pub(super) struct Effects<'a> {
    pub(super) group_id: Arc<str>,
    pub(super) now: Now,
    pub(super) config: &'a GroupConfig,
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
        self.config.batch_holds(std::slice::from_ref(record))
    }
}
