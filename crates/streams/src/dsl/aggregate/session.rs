//! Aggregations by session: a record makes a session of its own, or grows one, or connects several.

use super::Aggregation;
use super::final_results::{Closed, FinalResults};
use crate::dsl::table_output::TableOutput;
use crate::dsl::table_view::{TableGetter, TableSwitches, TableView, ValueGetter};
use crate::dsl::{EmitStrategy, SessionWindows};
use crate::error::Failure;
use crate::headers::Headers;
use crate::processor::{Node, NodeLife, TaskContext};
use crate::record::{Change, Data, Record, ValueAndTimestamp};
use crate::serde::{SerdeRef, Window, Windowed};
use crate::state::SessionStore;
use crate::topology::NodeFactory;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Makes one aggregate of those of two sessions.
pub(crate) struct Merger<K, A>(Arc<MergeFunction<K, A>>);

type MergeFunction<K, A> = dyn Fn(&K, Option<A>, A) -> A + Send + Sync;

impl<K, A> Merger<K, A> {
    pub(crate) fn new(merge: impl Fn(&K, Option<A>, A) -> A + Send + Sync + 'static) -> Self {
        Self(Arc::new(merge))
    }
}

impl<K, A> Clone for Merger<K, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// An aggregation by session, as the graph describes it.
pub(crate) struct SessionAggregate<K, V, A> {
    pub(crate) store: Arc<str>,
    pub(crate) windows: SessionWindows,
    pub(crate) key_serde: SerdeRef<K>,
    pub(crate) aggregate_serde: SerdeRef<A>,
    pub(crate) switches: Arc<TableSwitches>,
    pub(crate) aggregation: Aggregation<K, V, A>,
    pub(crate) merger: Merger<K, A>,
    pub(crate) strategy: EmitStrategy,
}

impl<K: Data, V: Data, A: Data> SessionAggregate<K, V, A> {
    pub(crate) fn factory(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            let store = instantiation.store::<SessionStore<K, A>>(&self.store)?;
            let outputs = instantiation.outputs::<Windowed<K>, Change<A>>()?;
            let mut output = TableOutput::new(&store, outputs, self.switches.sends_old_values())
                .with_strategy(self.strategy);
            // Updates of a store with headers have the aggregation's, which are empty; final results have the headers
            // of the record that closes them.
            if store.borrow().has_headers() {
                output = output.without_headers();
            }
            Ok(instantiation.node::<K, V>(SessionNode {
                store,
                output,
                windows: self.windows,
                key_serde: Arc::clone(&self.key_serde),
                aggregate_serde: Arc::clone(&self.aggregate_serde),
                aggregation: self.aggregation.clone(),
                merger: self.merger.clone(),
                stream_time_ms: -1,
                final_results: FinalResults::of(self.strategy, &self.store),
            }))
        })
    }
}

struct SessionNode<K: Data, V, A: Data> {
    store: Rc<RefCell<SessionStore<K, A>>>,
    output: TableOutput<SessionStore<K, A>>,
    windows: SessionWindows,
    key_serde: SerdeRef<K>,
    aggregate_serde: SerdeRef<A>,
    aggregation: Aggregation<K, V, A>,
    merger: Merger<K, A>,
    /// The largest timestamp that this node has seen.
    stream_time_ms: i64,
    final_results: Option<FinalResults>,
}

impl<K: Data, V: Data, A: Data> NodeLife for SessionNode<K, V, A> {
    fn flush(&mut self, context: &mut TaskContext) -> Result<(), Failure> {
        self.output.flush(context)
    }
}

impl<K: Data, V: Data, A: Data> Node<K, V> for SessionNode<K, V, A> {
    fn process(&mut self, context: &mut TaskContext, record: Record<K, V>) -> Result<(), Failure> {
        if self.key_serde.is_null(&record.key) {
            context.drop_record();
            return Ok(());
        }
        self.stream_time_ms = self.stream_time_ms.max(record.timestamp_ms);
        let closed_ms = self
            .stream_time_ms
            .saturating_sub(self.windows.grace_ms)
            .saturating_sub(self.windows.gap_ms);
        let final_results = self.final_results.as_mut();
        let closed = final_results.and_then(|results| results.advance(context, closed_ms));
        let headers = closed.map(|_| record.headers.clone());
        self.take_in(context, record, closed_ms)?;
        match (closed, headers) {
            (Some(closed), Some(headers)) => self.emit_closed(context, closed, &headers),
            _ => Ok(()),
        }
    }
}

impl<K: Data, V: Data, A: Data> SessionNode<K, V, A> {
    /// Takes `record` into a session, if that does not end before `closed_ms`.
    fn take_in(
        &self,
        context: &mut TaskContext,
        record: Record<K, V>,
        closed_ms: i64,
    ) -> Result<(), Failure> {
        let Record {
            key,
            value,
            timestamp_ms,
            headers: _,
        } = record;
        let gap_ms = self.windows.gap_ms;
        let sessions: Vec<(Windowed<K>, A)> = self
            .store
            .borrow_mut()
            .find_sessions(
                &key,
                timestamp_ms.saturating_sub(gap_ms),
                timestamp_ms.saturating_add(gap_ms),
            )?
            .collect::<Result<_, _>>()?;
        let alone = Window::of_session(timestamp_ms, timestamp_ms);
        let mut window = alone;
        let mut merged = None;
        for (session, aggregate) in &sessions {
            window = Window::of_session(
                window.start_ms.min(session.window.start_ms),
                window.end_ms.max(session.window.end_ms),
            );
            merged = Some((self.merger.0)(&key, merged, aggregate.clone()));
        }
        if window.end_ms < closed_ms {
            context.drop_record();
            return Ok(());
        }
        if window != alone {
            for (session, aggregate) in sessions {
                self.store.borrow_mut().remove(context, &session)?;
                self.changed(context, session, (None, Some(aggregate)))?;
            }
        }
        let aggregate = self.aggregation.next(&key, value, merged)?;
        let new = (!self.aggregate_serde.is_null(&aggregate)).then_some(aggregate);
        let session = Windowed::new(key, window);
        self.store
            .borrow_mut()
            .put(context, &session, new.as_ref())?;
        self.changed(context, session, (new, None))
    }
}

impl<K: Data, V, A: Data> SessionNode<K, V, A> {
    /// Gives the results of the sessions that have closed: first ends first.
    fn emit_closed(
        &self,
        context: &mut TaskContext,
        closed: Closed,
        headers: &Headers,
    ) -> Result<(), Failure> {
        // A session's end is part of it: the one that ends when time closes sessions is open.
        let first_ms = closed.after_ms.unwrap_or(0).max(0);
        let last_ms = closed.until_ms.saturating_sub(1);
        if last_ms < first_ms {
            return Ok(());
        }
        let sessions: Vec<(Windowed<K>, A)> = self
            .store
            .borrow_mut()
            .find_closed_sessions(first_ms..=last_ms)?
            .collect::<Result<_, _>>()?;
        for (session, aggregate) in sessions {
            let result = Record {
                timestamp_ms: session.window.end_ms,
                key: session,
                value: Change::new(Some(aggregate), None),
                headers: headers.clone(),
            };
            self.output.emit(context, result)?;
        }
        Ok(())
    }

    /// A session has another aggregate; the time of the change is the session's end. It has no headers, as in Kafka
    /// Streams.
    fn changed(
        &self,
        context: &mut TaskContext,
        session: Windowed<K>,
        (new, old): (Option<A>, Option<A>),
    ) -> Result<(), Failure> {
        let record = Record {
            timestamp_ms: session.window.end_ms,
            key: session,
            value: Change::new(new, old),
            headers: Headers::new(),
        };
        self.output.changed(context, record)
    }
}

/// A table of sessions that its node keeps in a session store.
pub(crate) struct SessionView {
    store: Arc<str>,
    switches: Arc<TableSwitches>,
}

impl SessionView {
    pub(crate) fn new(store: &Arc<str>, switches: Arc<TableSwitches>) -> Self {
        Self {
            store: Arc::clone(store),
            switches,
        }
    }
}

impl<K: Data, A: Data> TableView<Windowed<K>, A> for SessionView {
    fn send_old_values(&self, _: bool) -> bool {
        self.switches.send_old_values();
        true
    }

    fn getter(&self) -> TableGetter<Windowed<K>, A> {
        let store = Arc::clone(&self.store);
        TableGetter {
            stores: vec![Arc::clone(&self.store)],
            make: Arc::new(move |instantiation| {
                let store = instantiation.store::<SessionStore<K, A>>(&store)?;
                Ok(Box::new(StoredSessions(store)) as Box<dyn ValueGetter<Windowed<K>, A>>)
            }),
        }
    }
}

/// Reads a session store. A session's time is its end.
struct StoredSessions<K, A>(Rc<RefCell<SessionStore<K, A>>>);

impl<K: Data, A: Data> ValueGetter<Windowed<K>, A> for StoredSessions<K, A> {
    fn get(
        &mut self,
        _: &mut TaskContext,
        session: &Windowed<K>,
    ) -> Result<Option<ValueAndTimestamp<A>>, Failure> {
        let (start_ms, end_ms) = (session.window.start_ms, session.window.end_ms);
        let aggregate = self
            .0
            .borrow_mut()
            .fetch_session(&session.key, start_ms, end_ms)?;
        Ok(aggregate.map(|value| ValueAndTimestamp {
            value,
            timestamp_ms: end_ms,
        }))
    }
}
