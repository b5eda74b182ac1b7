//! Results that are given once, when windows close: which windows have closed since the last time.

use crate::dsl::EmitStrategy;
use crate::processor::TaskContext;
use std::sync::Arc;

/// What an aggregation that emits when windows close knows of the last time. Until when windows have given their
/// results is part of the task's commit, under the name of the store.
pub(crate) struct FinalResults {
    store: Arc<str>,
    /// The clock's time from which on the store is looked through again.
    next_emit_ms: i64,
}

/// The times at which windows close that are to give their results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed {
    /// Until then they have given their results; none the first time.
    pub(crate) after_ms: Option<i64>,
    pub(crate) until_ms: i64,
}

impl FinalResults {
    /// None if the strategy is to emit at every change.
    pub(crate) fn of(strategy: EmitStrategy, store: &Arc<str>) -> Option<Self> {
        strategy.on_window_close.then(|| Self {
            store: Arc::clone(store),
            next_emit_ms: 0,
        })
    }

    /// Windows close until `close_ms`: those that have not given their results. The store is looked through only if
    /// time has gone on, and once in an interval of the clock.
    pub(crate) fn advance(&mut self, context: &mut TaskContext, close_ms: i64) -> Option<Closed> {
        if context.wall_clock_ms < self.next_emit_ms {
            return None;
        }
        let interval_ms = context.emit_intervals.windowed_aggregation_ms;
        self.next_emit_ms = context.wall_clock_ms.saturating_add(interval_ms);
        let emitted = &mut context.emitted_close_times_ms;
        let after_ms = emitted.get(&self.store).copied();
        if after_ms.is_some_and(|after_ms| after_ms >= close_ms) {
            return None;
        }
        emitted.insert(Arc::clone(&self.store), close_ms);
        Some(Closed {
            after_ms,
            until_ms: close_ms,
        })
    }
}
