//! Aggregations by sliding windows (KIP-450).
//!
//! Each record has a left window, which ends with it, and a right window, which begins just after it. A right window
//! is made when a record falls into it. A new record is taken into every window that is there and spans it; then its
//! own two are made of the windows that overlap them.

use super::Aggregation;
use super::final_results::FinalResults;
use super::windowed::WindowRows;
use crate::dsl::table_output::TableOutput;
use crate::dsl::table_view::TableSwitches;
use crate::dsl::{EmitStrategy, SlidingWindows};
use crate::error::Failure;
use crate::processor::{Node, NodeLife, TaskContext};
use crate::record::{Change, Data, Record, ValueAndTimestamp};
use crate::serde::{SerdeRef, Window, Windowed};
use crate::state::{Direction, Timestamped, WindowStore};
use crate::topology::NodeFactory;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An aggregation by sliding windows, as the graph describes it.
pub(crate) struct SlidingAggregate<K, V, A> {
    pub(crate) store: Arc<str>,
    pub(crate) windows: SlidingWindows,
    pub(crate) key_serde: SerdeRef<K>,
    pub(crate) value_serde: SerdeRef<V>,
    pub(crate) aggregate_serde: SerdeRef<A>,
    pub(crate) switches: Arc<TableSwitches>,
    pub(crate) aggregation: Aggregation<K, V, A>,
    pub(crate) strategy: EmitStrategy,
}

impl<K: Data, V: Data, A: Data> SlidingAggregate<K, V, A> {
    pub(crate) fn factory(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            let store = instantiation.store::<WindowStore<K, A>>(&self.store)?;
            let outputs = instantiation.outputs::<Windowed<K>, Change<A>>()?;
            let output = TableOutput::new(&store, outputs, self.switches.sends_old_values())
                .with_strategy(self.strategy);
            Ok(instantiation.node::<K, V>(SlidingNode {
                rows: WindowRows {
                    store,
                    output,
                    aggregate_serde: Arc::clone(&self.aggregate_serde),
                },
                windows: self.windows,
                key_serde: Arc::clone(&self.key_serde),
                value_serde: Arc::clone(&self.value_serde),
                aggregation: self.aggregation.clone(),
                stream_time_ms: -1,
                final_results: FinalResults::of(self.strategy, &self.store),
            }))
        })
    }
}

struct SlidingNode<K: Data, V, A: Data> {
    rows: WindowRows<K, A>,
    windows: SlidingWindows,
    key_serde: SerdeRef<K>,
    value_serde: SerdeRef<V>,
    aggregation: Aggregation<K, V, A>,
    /// The largest timestamp that this node has seen.
    stream_time_ms: i64,
    final_results: Option<FinalResults>,
}

impl<K: Data, V: Data, A: Data> NodeLife for SlidingNode<K, V, A> {
    fn flush(&mut self, context: &mut TaskContext) -> Result<(), Failure> {
        self.rows.output.flush(context)
    }
}

impl<K: Data, V: Data, A: Data> Node<K, V> for SlidingNode<K, V, A> {
    fn process(&mut self, context: &mut TaskContext, record: Record<K, V>) -> Result<(), Failure> {
        // Other windows take a null value; these, like aggregations without windows, do not.
        if self.key_serde.is_null(&record.key) || self.value_serde.is_null(&record.value) {
            context.drop_record();
            return Ok(());
        }
        let timestamp_ms = record.timestamp_ms;
        self.stream_time_ms = self.stream_time_ms.max(timestamp_ms);
        let closed_ms = self.stream_time_ms.saturating_sub(self.windows.grace_ms);
        if timestamp_ms.saturating_add(self.windows.time_difference_ms) < closed_ms {
            context.drop_record();
            return Ok(());
        }
        let call = Call {
            rows: &self.rows,
            aggregation: &self.aggregation,
            record: &record,
            difference_ms: self.windows.time_difference_ms,
            closed_ms,
        };
        match timestamp_ms < self.windows.time_difference_ms {
            true => call.process_early(context)?,
            false => call.process(context)?,
        }
        let closed = self.final_results.as_mut();
        let Some(closed) = closed.and_then(|results| results.advance(context, closed_ms)) else {
            return Ok(());
        };
        // A window's end is part of it: the one that ends when time closes windows is open.
        let ends_ms = (
            closed.after_ms.unwrap_or(0),
            closed.until_ms.saturating_sub(1),
        );
        let size_ms = self.windows.time_difference_ms;
        self.rows
            .emit_closed(context, &record.headers, ends_ms, size_ms)
    }
}

/// The aggregate of a window, and the timestamp of its last record.
type Stored<A> = ValueAndTimestamp<A>;

/// A record that is taken into its windows.
struct Call<'a, K: Data, V, A: Data> {
    rows: &'a WindowRows<K, A>,
    aggregation: &'a Aggregation<K, V, A>,
    record: &'a Record<K, V>,
    difference_ms: i64,
    /// Windows that end before this time take nothing more.
    closed_ms: i64,
}

impl<K: Data, V: Data, A: Data> Call<'_, K, V, A> {
    fn windows(&self, times_ms: (i64, i64)) -> Result<Vec<(i64, Stored<A>)>, Failure> {
        let mut store = self.rows.store.borrow_mut();
        let windows = store.fetch_as::<Timestamped>(
            &self.record.key,
            times_ms.0..=times_ms.1,
            Direction::Forward,
        )?;
        Ok(windows.collect::<Result<_, _>>()?)
    }

    /// A record whose left window begins at the epoch or after it.
    fn process(&self, context: &mut TaskContext) -> Result<(), Failure> {
        let at_ms = self.record.timestamp_ms;
        let earliest_ms = at_ms
            .saturating_sub(self.difference_ms.saturating_mul(2))
            .max(0);
        let windows = self.windows((earliest_ms, at_ms.saturating_add(1)))?;
        let mut starts = BTreeSet::new();
        let (mut left, mut right, mut previous_ms) = (None, None, None);
        let (mut left_is_there, mut right_is_there) = (false, false);
        for (start_ms, stored) in windows.into_iter().rev() {
            starts.insert(start_ms);
            let end_ms = start_ms.saturating_add(self.difference_ms);
            if start_ms == at_ms.saturating_add(1) {
                right_is_there = true;
            } else if end_ms > at_ms {
                right.get_or_insert_with(|| stored.clone());
                self.take_in(context, start_ms, Some(stored))?;
            } else if end_ms == at_ms {
                left_is_there = true;
                let last_ms = stored.timestamp_ms;
                self.take_in(context, start_ms, Some(stored))?;
                if last_ms >= at_ms {
                    // A record of this time was here before, and made the other windows.
                    return Ok(());
                }
                previous_ms = Some(last_ms);
            } else {
                previous_ms = Some(stored.timestamp_ms);
                left = Some(stored);
                break;
            }
        }
        self.make_right_window_of(context, previous_ms, &starts)?;
        if !left_is_there {
            let start_ms = at_ms - self.difference_ms;
            let stored = left.filter(|_| previous_ms.is_some_and(|previous| previous >= start_ms));
            self.take_in(context, start_ms, stored)?;
        }
        match right_is_there {
            true => Ok(()),
            false => self.make_own_right_window(context, right),
        }
    }

    /// A record so near the epoch that its left window would begin before it: one window from the epoch stands for
    /// those of all such records.
    fn process_early(&self, context: &mut TaskContext) -> Result<(), Failure> {
        let at_ms = self.record.timestamp_ms;
        let windows = self.windows((0, at_ms.saturating_add(1)))?;
        let mut starts = BTreeSet::new();
        let (mut combined, mut right, mut previous_ms) = (None, None, None);
        let mut right_is_there = false;
        for (start_ms, stored) in windows {
            starts.insert(start_ms);
            if start_ms == at_ms.saturating_add(1) {
                right_is_there = true;
                continue;
            }
            if start_ms == 0 {
                // The window from the epoch alone tells of the record before.
                previous_ms = Some(stored.timestamp_ms).filter(|previous| *previous < at_ms);
                combined = Some(stored);
            } else {
                right = Some(stored.clone());
                self.take_in(context, start_ms, Some(stored))?;
            }
        }
        // Without a window of later records alone, the combined one has nothing but these.
        let right = right.or_else(|| combined.clone());
        if !right_is_there {
            self.make_own_right_window(context, right)?;
        }
        self.make_right_window_of(context, previous_ms, &starts)?;
        self.take_in(context, 0, combined)
    }

    /// The right window of the record before, which so far was empty.
    fn make_right_window_of(
        &self,
        context: &mut TaskContext,
        previous_ms: Option<i64>,
        starts: &BTreeSet<i64>,
    ) -> Result<(), Failure> {
        let Some(start_ms) = previous_ms.map(|previous_ms| previous_ms.saturating_add(1)) else {
            return Ok(());
        };
        let spans = start_ms.saturating_add(self.difference_ms) >= self.record.timestamp_ms;
        match spans && !starts.contains(&start_ms) {
            true => self.take_in(context, start_ms, None),
            false => Ok(()),
        }
    }

    /// The record's right window, if there are records after it: what the window that spans them had.
    fn make_own_right_window(
        &self,
        context: &mut TaskContext,
        right: Option<Stored<A>>,
    ) -> Result<(), Failure> {
        let at_ms = self.record.timestamp_ms;
        let Some(right) = right.filter(|right| right.timestamp_ms > at_ms) else {
            return Ok(());
        };
        let start_ms = at_ms.saturating_add(1);
        // It ends later than the left one, which is open.
        let window = self.window(start_ms);
        self.rows.store.borrow_mut().put_timestamped(
            context,
            &self.record.key,
            Some(&right.value),
            right.timestamp_ms,
            start_ms,
        )?;
        let changed = Record {
            key: Windowed::new(self.record.key.clone(), window),
            value: Change::new(Some(right.value), None),
            timestamp_ms: right.timestamp_ms,
            headers: self.record.headers.clone(),
        };
        self.rows.output.changed(context, changed)
    }

    /// Takes the record into the window that starts at `start_ms` and has `stored` so far.
    fn take_in(
        &self,
        context: &mut TaskContext,
        start_ms: i64,
        stored: Option<Stored<A>>,
    ) -> Result<(), Failure> {
        let window = self.window(start_ms);
        if window.end_ms < self.closed_ms {
            context.drop_record();
            return Ok(());
        }
        self.rows
            .take_in(context, self.aggregation, self.record, window, stored)
    }

    const fn window(&self, start_ms: i64) -> Window {
        Window::of_time(start_ms, start_ms.saturating_add(self.difference_ms))
    }
}
