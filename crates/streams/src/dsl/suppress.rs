//! `KTable::suppress`: changes of a table are held back, and of each key the newest one is given on.

use super::graph::GraphTraits;
use super::suppressed::{BufferLimits, Until, WhenFull};
use super::table_view::{MakeGetter, TableGetter, TableView, ValueGetter};
use super::{GraphNode, KTable, Suppressed, Written};
use crate::error::Failure;
use crate::processor::{Node, NodeLife, Outputs, TaskContext};
use crate::record::{Change, Data, Record, ValueAndTimestamp};
use crate::serde::{DefaultSerde, SerdeRef};
use crate::state::buffer_builders::SuppressBufferBuilder;
use crate::state::suppress_buffer::SuppressBuffer;
use crate::topology::{NodeFactory, Topology, TopologyError, check_name};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Versions do not know the time of a value that is not given on yet.
const UNKNOWN_MS: i64 = -1;

impl<K: Data, V: Data> KTable<K, V> {
    /// The table whose changes are held back as `suppressed` says. Until a change is given on, children see what the
    /// key had before.
    pub fn suppress(&self, suppressed: Suppressed<K>) -> Self
    where
        V: DefaultSerde,
    {
        let value_serde = self.value_serde.clone().unwrap_or_else(V::serde);
        self.suppress_with(suppressed, value_serde)
    }

    /// As `suppress`; values are held back, and logged, by this serde.
    pub fn suppress_with(&self, suppressed: Suppressed<K>, value_serde: SerdeRef<V>) -> Self {
        let builder = &self.builder;
        // Names that the application gives draw no numbers here.
        let (name, store): (Arc<str>, Arc<str>) = match &suppressed.name {
            Some(name) => (Arc::from(name.as_str()), Arc::from(format!("{name}-store"))),
            None => (
                builder.new_name("KTABLE-SUPPRESS-"),
                builder.new_store_name("KTABLE-SUPPRESS-"),
            ),
        };
        builder.check(check_name(&name));
        if self.view.is_versioned() {
            builder.check::<()>(Err(TopologyError::Operator {
                operator: name.to_string(),
                problem: "changes of a versioned table cannot be held back".to_owned(),
            }));
        }
        let key_serde = builder.required(&name, self.key_serde.clone());
        // What was there before stands in the buffer, for who reads the table.
        self.view.send_old_values(true);
        let suppression = Suppression {
            store: Arc::clone(&store),
            until: suppressed.until,
            duration_ms: self.suppress_duration_ms(&name, suppressed.until),
            limits: suppressed.buffer.clone(),
        };
        let factory = suppression.factory::<V>();
        let written_name = Arc::clone(&name);
        let (store_name, serdes) = (Arc::clone(&store), (key_serde.clone(), value_serde.clone()));
        let logging = suppressed.buffer.logging;
        let node = GraphNode::new(
            &name,
            GraphTraits::default(),
            move |topology: &mut Topology, written: &Written<'_>| {
                topology.add_processor_node(
                    &written_name,
                    written.parents,
                    Arc::clone(&factory),
                )?;
                let (key_serde, value_serde) = serdes.clone();
                let buffer = SuppressBufferBuilder::new(
                    &store_name,
                    key_serde,
                    value_serde,
                    logging.clone(),
                );
                topology.add_state_store(Arc::new(buffer), &[&written_name])
            },
        );
        Self {
            node: builder.add(node, &[self.node]),
            name,
            key_serde: Some(key_serde),
            value_serde: Some(value_serde),
            queryable_store: None,
            view: Rc::new(SuppressView {
                parent: Rc::clone(&self.view),
                store,
            }),
            ..self.clone()
        }
    }

    /// How long after the time in the buffer a change is given on.
    fn suppress_duration_ms(&self, operator: &str, until: Until<K>) -> i64 {
        let problem = match until {
            Until::TimeLimit(time_limit_ms) if time_limit_ms < 0 => {
                format!("a time limit of {time_limit_ms} ms is negative")
            }
            Until::TimeLimit(time_limit_ms) => return time_limit_ms,
            Until::WindowCloses(_) => match self.builder.window_grace_ms(self.node) {
                Some(grace_ms) => return grace_ms,
                None => "the table comes of no windowed aggregation, so its windows never close; \
                         use `until_time_limit`"
                    .to_owned(),
            },
        };
        self.builder.check::<()>(Err(TopologyError::Operator {
            operator: operator.to_owned(),
            problem,
        }));
        0
    }
}

/// What a suppress does, as the graph describes it.
struct Suppression<K> {
    store: Arc<str>,
    until: Until<K>,
    duration_ms: i64,
    limits: BufferLimits,
}

impl<K: Data> Suppression<K> {
    fn factory<V: Data>(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            let node = SuppressNode::<K, V> {
                buffer: instantiation.store(&self.store)?,
                outputs: instantiation.outputs()?,
                until: self.until,
                duration_ms: self.duration_ms,
                limits: self.limits.clone(),
                stream_time_ms: -1,
            };
            Ok(instantiation.node::<K, Change<V>>(node))
        })
    }
}

struct SuppressNode<K, V> {
    buffer: Rc<RefCell<SuppressBuffer<K, V>>>,
    outputs: Outputs<K, Change<V>>,
    until: Until<K>,
    duration_ms: i64,
    limits: BufferLimits,
    /// The largest timestamp that this node has seen.
    stream_time_ms: i64,
}

impl<K: Data, V: Data> NodeLife for SuppressNode<K, V> {}

impl<K: Data, V: Data> Node<K, Change<V>> for SuppressNode<K, V> {
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<K, Change<V>>,
    ) -> Result<(), Failure> {
        self.stream_time_ms = self.stream_time_ms.max(record.timestamp_ms);
        let time_ms = match self.until {
            Until::WindowCloses(end_ms) => end_ms(&record.key),
            Until::TimeLimit(_) => record.timestamp_ms,
        };
        self.buffer
            .borrow_mut()
            .put(context, time_ms, &record.key, &record.value)?;
        let due_ms = self.stream_time_ms.saturating_sub(self.duration_ms);
        let is_due = |buffer: &SuppressBuffer<K, V>| {
            buffer
                .first_time_ms()
                .is_some_and(|time_ms| time_ms <= due_ms)
        };
        self.release_while(context, is_due)?;
        match self.limits.when_full {
            WhenFull::EmitEarly => self.release_while(context, |buffer| self.is_full(buffer)),
            WhenFull::ShutDown if self.is_full(&self.buffer.borrow()) => Err(self.too_much()),
            WhenFull::ShutDown => Ok(()),
        }
    }
}

impl<K: Data, V: Data> SuppressNode<K, V> {
    fn is_full(&self, buffer: &SuppressBuffer<K, V>) -> bool {
        let (records, bytes) = (buffer.record_count(), buffer.size_bytes());
        self.limits.are_exceeded_by(records, bytes)
    }

    fn too_much(&self) -> Failure {
        let shown = |max: Option<usize>| max.map_or("any".to_owned(), |max| max.to_string());
        let buffer = self.buffer.borrow();
        Failure::of(format!(
            "the buffer is full: it holds {} of {} records and {} of {} bytes; give it more room, or let it emit early",
            buffer.record_count(),
            shown(self.limits.max_records),
            buffer.size_bytes(),
            shown(self.limits.max_bytes),
        ))
    }

    /// Gives changes on, those of the smallest times first, as records of the context that they came in.
    fn release_while(
        &self,
        context: &mut TaskContext,
        condition: impl Fn(&SuppressBuffer<K, V>) -> bool,
    ) -> Result<(), Failure> {
        loop {
            let holds = condition(&self.buffer.borrow());
            let released = match holds {
                true => self.buffer.borrow_mut().release_first()?,
                false => None,
            };
            let Some(released) = released else {
                return Ok(());
            };
            // Of a window that is closed a deletion says nothing: nobody has seen a value of it.
            let drops_tombstones = matches!(self.until, Until::WindowCloses(_));
            if drops_tombstones && released.change.new.is_none() {
                continue;
            }
            let record = Record {
                key: released.key,
                value: released.change,
                timestamp_ms: released.context.timestamp_ms,
                headers: released.context.headers.clone(),
            };
            let enclosing = std::mem::replace(&mut context.record, released.context);
            let forwarded = self.outputs.forward(context, record);
            context.record = enclosing;
            forwarded?;
        }
    }
}

/// A table whose changes are held back.
struct SuppressView<K, V> {
    parent: Rc<dyn TableView<K, V>>,
    store: Arc<str>,
}

impl<K: Data, V: Data> TableView<K, V> for SuppressView<K, V> {
    fn send_old_values(&self, force: bool) -> bool {
        self.parent.send_old_values(force)
    }

    fn getter(&self) -> TableGetter<K, V> {
        let parent = self.parent.getter();
        let mut stores = vec![Arc::clone(&self.store)];
        stores.extend(parent.stores);
        let (make_parent, store) = (parent.make, Arc::clone(&self.store));
        let make: MakeGetter<K, V> = Arc::new(move |instantiation| {
            let buffer: Rc<RefCell<SuppressBuffer<K, V>>> = instantiation.store(&store)?;
            let parent = make_parent(instantiation)?;
            Ok(Box::new(SuppressedValues { parent, buffer }))
        });
        TableGetter { stores, make }
    }
}

/// Reads the values that children have been told of.
struct SuppressedValues<K, V> {
    parent: Box<dyn ValueGetter<K, V>>,
    buffer: Rc<RefCell<SuppressBuffer<K, V>>>,
}

impl<K: Data, V: Data> ValueGetter<K, V> for SuppressedValues<K, V> {
    fn get(
        &mut self,
        context: &mut TaskContext,
        key: &K,
    ) -> Result<Option<ValueAndTimestamp<V>>, Failure> {
        let prior = self.buffer.borrow().prior_value(key)?;
        match prior {
            Some(prior) => Ok(prior.map(|value| ValueAndTimestamp {
                value,
                timestamp_ms: UNKNOWN_MS,
            })),
            None => self.parent.get(context, key),
        }
    }
}
