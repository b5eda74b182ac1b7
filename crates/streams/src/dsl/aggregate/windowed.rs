//! Aggregations by windows that are aligned to the epoch, and by one without an end.

use super::Aggregation;
use super::final_results::FinalResults;
use crate::dsl::table_output::TableOutput;
use crate::dsl::table_view::{TableGetter, TableSwitches, TableView, ValueGetter};
use crate::dsl::{EmitStrategy, TimeWindows, UnlimitedWindows};
use crate::error::Failure;
use crate::headers::Headers;
use crate::processor::{Node, NodeLife, TaskContext};
use crate::record::{Change, Data, Record, ValueAndTimestamp};
use crate::serde::{SerdeRef, Window, Windowed};
use crate::state::{Timestamped, WindowStore};
use crate::topology::NodeFactory;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Windows whose starts do not depend on the records.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WindowsOf {
    Time(TimeWindows),
    Unlimited(UnlimitedWindows),
}

impl WindowsOf {
    pub(crate) const fn size_ms(self) -> i64 {
        match self {
            Self::Time(windows) => windows.size_ms,
            Self::Unlimited(_) => i64::MAX,
        }
    }

    pub(crate) const fn grace_ms(self) -> i64 {
        match self {
            Self::Time(windows) => windows.grace_ms,
            Self::Unlimited(_) => 0,
        }
    }
}

/// An aggregation by windows, as the graph describes it.
pub(crate) struct WindowedAggregate<K, V, A> {
    pub(crate) store: Arc<str>,
    pub(crate) windows: WindowsOf,
    pub(crate) key_serde: SerdeRef<K>,
    pub(crate) aggregate_serde: SerdeRef<A>,
    pub(crate) switches: Arc<TableSwitches>,
    pub(crate) aggregation: Aggregation<K, V, A>,
    pub(crate) strategy: EmitStrategy,
}

impl<K: Data, V: Data, A: Data> WindowedAggregate<K, V, A> {
    pub(crate) fn factory(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            let store = instantiation.store::<WindowStore<K, A>>(&self.store)?;
            let outputs = instantiation.outputs::<Windowed<K>, Change<A>>()?;
            let output = TableOutput::new(&store, outputs, self.switches.sends_old_values())
                .with_strategy(self.strategy);
            Ok(instantiation.node::<K, V>(WindowedNode {
                rows: WindowRows {
                    store,
                    output,
                    aggregate_serde: Arc::clone(&self.aggregate_serde),
                },
                windows: self.windows,
                key_serde: Arc::clone(&self.key_serde),
                aggregation: self.aggregation.clone(),
                stream_time_ms: -1,
                final_results: FinalResults::of(self.strategy, &self.store),
            }))
        })
    }
}

struct WindowedNode<K: Data, V, A: Data> {
    rows: WindowRows<K, A>,
    windows: WindowsOf,
    key_serde: SerdeRef<K>,
    aggregation: Aggregation<K, V, A>,
    /// The largest timestamp that this node has seen.
    stream_time_ms: i64,
    final_results: Option<FinalResults>,
}

impl<K: Data, V: Data, A: Data> NodeLife for WindowedNode<K, V, A> {
    fn flush(&mut self, context: &mut TaskContext) -> Result<(), Failure> {
        self.rows.output.flush(context)
    }
}

impl<K: Data, V: Data, A: Data> Node<K, V> for WindowedNode<K, V, A> {
    fn process(&mut self, context: &mut TaskContext, record: Record<K, V>) -> Result<(), Failure> {
        if self.key_serde.is_null(&record.key) {
            context.drop_record();
            return Ok(());
        }
        let timestamp_ms = record.timestamp_ms;
        self.stream_time_ms = self.stream_time_ms.max(timestamp_ms);
        match self.windows {
            WindowsOf::Time(windows) => {
                for start_ms in windows.starts(timestamp_ms) {
                    if windows.is_closed(start_ms, self.stream_time_ms) {
                        context.drop_record();
                        continue;
                    }
                    let window =
                        Window::of_time(start_ms, start_ms.saturating_add(windows.size_ms));
                    self.rows
                        .aggregate(context, &self.aggregation, &record, window)?;
                }
                let close_ms = self.stream_time_ms.saturating_sub(windows.grace_ms);
                let closed = self.final_results.as_mut();
                let Some(closed) = closed.and_then(|results| results.advance(context, close_ms))
                else {
                    return Ok(());
                };
                // A window that ends when time closes it is closed.
                let first_ms = closed
                    .after_ms
                    .map_or(0, |after_ms| after_ms.saturating_add(1));
                let ends_ms = (first_ms, closed.until_ms);
                self.rows
                    .emit_closed(context, &record.headers, ends_ms, windows.size_ms)
            }
            WindowsOf::Unlimited(windows) if timestamp_ms >= windows.start_ms => {
                let window = Window::of_time(windows.start_ms, i64::MAX);
                self.rows
                    .aggregate(context, &self.aggregation, &record, window)
            }
            // No window is there for it; it does not count as dropped.
            WindowsOf::Unlimited(_) => Ok(()),
        }
    }
}

/// The rows of an aggregation by windows, and who hears of their changes.
pub(crate) struct WindowRows<K: Data, A: Data> {
    pub(crate) store: Rc<RefCell<WindowStore<K, A>>>,
    pub(crate) output: TableOutput<WindowStore<K, A>>,
    pub(crate) aggregate_serde: SerdeRef<A>,
}

impl<K: Data, A: Data> WindowRows<K, A> {
    /// Takes `record` into the aggregate of `window`.
    pub(crate) fn aggregate<V: Data>(
        &self,
        context: &mut TaskContext,
        aggregation: &Aggregation<K, V, A>,
        record: &Record<K, V>,
        window: Window,
    ) -> Result<(), Failure> {
        let stored = self
            .store
            .borrow_mut()
            .fetch_one_as::<Timestamped>(&record.key, window.start_ms)?;
        self.take_in(context, aggregation, record, window, stored)
    }

    /// Gives the results of windows of this size that end within these times, both included: first times first.
    pub(crate) fn emit_closed(
        &self,
        context: &mut TaskContext,
        headers: &Headers,
        (first_ms, last_ms): (i64, i64),
        size_ms: i64,
    ) -> Result<(), Failure> {
        let first_ms = first_ms.saturating_sub(size_ms).max(0);
        let last_ms = last_ms.saturating_sub(size_ms);
        if last_ms < first_ms {
            return Ok(());
        }
        let closed: Vec<_> = self
            .store
            .borrow_mut()
            .fetch_closed_as::<Timestamped>(first_ms..=last_ms)?
            .collect::<Result<_, _>>()?;
        for (window, stored) in closed {
            let result = Record {
                key: window,
                value: Change::new(Some(stored.value), None),
                timestamp_ms: stored.timestamp_ms,
                headers: headers.clone(),
            };
            self.output.emit(context, result)?;
        }
        Ok(())
    }

    /// Takes `record` into the aggregate of `window`, which so far is `stored`.
    pub(crate) fn take_in<V: Data>(
        &self,
        context: &mut TaskContext,
        aggregation: &Aggregation<K, V, A>,
        record: &Record<K, V>,
        window: Window,
        stored: Option<ValueAndTimestamp<A>>,
    ) -> Result<(), Failure> {
        let timestamp_ms = stored.as_ref().map_or(record.timestamp_ms, |stored| {
            record.timestamp_ms.max(stored.timestamp_ms)
        });
        let before = stored.map(|stored| stored.value);
        let old = match self.output.sends_old_values() {
            true => aggregation.old_value(before.as_ref()),
            false => None,
        };
        let aggregate = aggregation.next(&record.key, record.value.clone(), before)?;
        let new = (!self.aggregate_serde.is_null(&aggregate)).then_some(aggregate);
        self.store.borrow_mut().put_timestamped(
            context,
            &record.key,
            new.as_ref(),
            timestamp_ms,
            window.start_ms,
        )?;
        let changed = Record {
            key: Windowed::new(record.key.clone(), window),
            value: Change::new(new, old),
            timestamp_ms,
            headers: record.headers.clone(),
        };
        self.output.changed(context, changed)
    }
}

/// A table of windows that its node keeps in a window store.
pub(crate) struct WindowedView {
    store: Arc<str>,
    switches: Arc<TableSwitches>,
}

impl WindowedView {
    pub(crate) fn new(store: &Arc<str>, switches: Arc<TableSwitches>) -> Self {
        Self {
            store: Arc::clone(store),
            switches,
        }
    }
}

impl<K: Data, A: Data> TableView<Windowed<K>, A> for WindowedView {
    fn send_old_values(&self, _: bool) -> bool {
        self.switches.send_old_values();
        true
    }

    fn getter(&self) -> TableGetter<Windowed<K>, A> {
        let store = Arc::clone(&self.store);
        TableGetter {
            stores: vec![Arc::clone(&self.store)],
            make: Arc::new(move |instantiation| {
                let store = instantiation.store::<WindowStore<K, A>>(&store)?;
                Ok(Box::new(StoredWindows(store)) as Box<dyn ValueGetter<Windowed<K>, A>>)
            }),
        }
    }
}

/// Reads a window store.
struct StoredWindows<K, A>(Rc<RefCell<WindowStore<K, A>>>);

impl<K: Data, A: Data> ValueGetter<Windowed<K>, A> for StoredWindows<K, A> {
    fn get(
        &mut self,
        _: &mut TaskContext,
        windowed: &Windowed<K>,
    ) -> Result<Option<ValueAndTimestamp<A>>, Failure> {
        let start_ms = windowed.window.start_ms;
        Ok(self
            .0
            .borrow_mut()
            .fetch_one_as::<Timestamped>(&windowed.key, start_ms)?)
    }
}
