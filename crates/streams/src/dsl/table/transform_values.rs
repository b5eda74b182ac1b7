//! `KTable::transform_values`: another value for each key, by a transformer of the application that may use stores.

use super::kept::{Kept, KeptStore, KeptTable};
use super::{KTable, TableSettings};
use crate::dsl::table_view::{MakeGetter, TableGetter, TableSwitches, TableView, ValueGetter};
use crate::error::Failure;
use crate::processor::{Node, NodeLife, Outputs, ProcessorContext, TaskContext};
use crate::record::{Change, Data, Record, RecordContext, ValueAndTimestamp};
use crate::topology::{Instantiation, NodeFactory, TaskStores};
use std::rc::Rc;
use std::sync::Arc;

/// What a transformer can do while it is called: it has no children to forward to.
pub type TransformContext<'a> = ProcessorContext<'a, (), ()>;

/// Makes the values of a table of those of another one. Each node that computes or reads the table has one of its own.
pub trait ValueTransformer<K, V, V2> {
    /// Called once, before the first value: the place to take stores.
    ///
    /// # Errors
    /// The processing handler decides whether the task goes on.
    fn init(&mut self, context: &mut TransformContext<'_>) -> Result<(), Failure> {
        let _ = context;
        Ok(())
    }

    /// The value of `key` where the other table has this one; none says that it has none.
    ///
    /// # Errors
    /// The processing handler decides whether the task goes on.
    fn transform(
        &mut self,
        context: &mut TransformContext<'_>,
        key: &K,
        value: Option<&V>,
    ) -> Result<Option<V2>, Failure>;

    /// Called once, after the last value.
    fn close(&mut self) {}
}

/// Makes a transformer.
type Supplier<T> = Arc<dyn Fn() -> T + Send + Sync>;

impl<K: Data, V: Data> KTable<K, V> {
    /// Another value for each key, which a transformer makes that is connected to `stores`. It is asked about keys
    /// without a value too.
    pub fn transform_values<V2: Data, T>(
        &self,
        supplier: impl Fn() -> T + Send + Sync + 'static,
        stores: &[&str],
    ) -> KTable<K, V2>
    where
        T: ValueTransformer<K, V, V2> + 'static,
    {
        self.transform_values_with(supplier, stores, TableSettings::default())
    }

    /// As `transform_values`, named and kept as `settings` say. A store needs a serde of the values.
    pub fn transform_values_with<V2: Data, T>(
        &self,
        supplier: impl Fn() -> T + Send + Sync + 'static,
        stores: &[&str],
        settings: impl Into<TableSettings<K, V2>>,
    ) -> KTable<K, V2>
    where
        T: ValueTransformer<K, V, V2> + 'static,
    {
        let mut settings = settings.into();
        let name = self
            .builder
            .node_name(settings.name.as_deref(), "KTABLE-TRANSFORMVALUES-");
        if let Some(materialized) = &mut settings.materialized
            && materialized.key_serde.is_none()
        {
            materialized.key_serde.clone_from(&self.key_serde);
        }
        let settled = self.settled_as(name, settings.materialized, None);
        let switches = settled.switches();
        let supplier: Supplier<T> = Arc::new(supplier);
        let factory = factory::<K, V, V2, T>(
            settled.kept.as_ref().map(|kept| kept.store.clone()),
            Arc::clone(&switches),
            Arc::clone(&supplier),
        );
        let view = TransformedView {
            parent: Rc::clone(&self.view),
            kept: settled.kept.clone(),
            is_versioned: settled.is_versioned,
            switches,
            supplier,
        };
        let stores = stores.iter().map(|&store| Arc::from(store)).collect();
        self.add_connected_table(settled, factory, view, stores)
    }
}

struct TransformedView<K, V, V2, T> {
    parent: Rc<dyn TableView<K, V>>,
    kept: Option<Kept<K, V2>>,
    is_versioned: Option<bool>,
    switches: Arc<TableSwitches>,
    supplier: Supplier<T>,
}

impl<K, V, V2, T> TableView<K, V2> for TransformedView<K, V, V2, T>
where
    K: Data,
    V: Data,
    V2: Data,
    T: ValueTransformer<K, V, V2> + 'static,
{
    fn send_old_values(&self, force: bool) -> bool {
        let sends = self.kept.is_some() || self.parent.send_old_values(force);
        if sends {
            self.switches.send_old_values();
        }
        sends
    }

    fn getter(&self) -> TableGetter<K, V2> {
        if let Some(kept) = &self.kept {
            return kept.store.getter();
        }
        let parent = self.parent.getter();
        let supplier = Arc::clone(&self.supplier);
        let make: MakeGetter<K, V2> = Arc::new(move |instantiation| {
            Ok(Box::new(TransformedValues {
                parent: (parent.make)(instantiation)?,
                transforming: Transforming::new(supplier(), instantiation),
                is_ready: false,
            }))
        });
        TableGetter {
            stores: parent.stores,
            make,
        }
    }

    fn is_versioned(&self) -> bool {
        self.is_versioned
            .unwrap_or_else(|| self.parent.is_versioned())
    }
}

/// A transformer and what its context is made of.
struct Transforming<T> {
    transformer: T,
    stores: TaskStores,
    index: usize,
    name: Arc<str>,
    nobody: Outputs<(), ()>,
}

impl<T> Transforming<T> {
    fn new(transformer: T, instantiation: &Instantiation<'_>) -> Self {
        Self {
            transformer,
            stores: instantiation.stores(),
            index: instantiation.index(),
            name: Arc::clone(instantiation.name()),
            nobody: Outputs::new(Vec::new()),
        }
    }

    fn call<R>(
        &mut self,
        task: &mut TaskContext,
        call: impl FnOnce(&mut T, &mut TransformContext<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let node = (self.index, &self.name);
        let mut context = ProcessorContext::new(task, &self.nobody, &self.stores, node);
        call(&mut self.transformer, &mut context)
    }

    fn transform<K, V, V2>(
        &mut self,
        task: &mut TaskContext,
        key: &K,
        value: Option<&V>,
    ) -> Result<Option<V2>, Failure>
    where
        T: ValueTransformer<K, V, V2>,
    {
        self.call(task, |transformer, context| {
            transformer.transform(context, key, value)
        })
    }
}

/// Transforms when it is asked.
struct TransformedValues<K, V, T> {
    parent: Box<dyn ValueGetter<K, V>>,
    transforming: Transforming<T>,
    is_ready: bool,
}

impl<K, V, V2, T> ValueGetter<K, V2> for TransformedValues<K, V, T>
where
    T: ValueTransformer<K, V, V2>,
{
    fn get(
        &mut self,
        context: &mut TaskContext,
        key: &K,
    ) -> Result<Option<ValueAndTimestamp<V2>>, Failure> {
        if !std::mem::replace(&mut self.is_ready, true) {
            self.transforming
                .call(context, |transformer, context| transformer.init(context))?;
        }
        let found = self.parent.get(context, key)?;
        let timestamp_ms = found.as_ref().map_or(-1, |found| found.timestamp_ms);
        // The value is not of the record that is processed, so the transformer does not see that record.
        let of_value = RecordContext::of_no_record(timestamp_ms);
        let enclosing = std::mem::replace(&mut context.record, of_value);
        let value = found.as_ref().map(|found| &found.value);
        let value = self.transforming.transform(context, key, value);
        context.record = enclosing;
        Ok(value?.map(|value| ValueAndTimestamp {
            value,
            timestamp_ms,
        }))
    }
}

fn factory<K, V, V2, T>(
    store: Option<KeptStore>,
    switches: Arc<TableSwitches>,
    supplier: Supplier<T>,
) -> NodeFactory
where
    K: Data,
    V: Data,
    V2: Data,
    T: ValueTransformer<K, V, V2> + 'static,
{
    Arc::new(move |instantiation| {
        let table = KeptTable::<K, V2>::of(store.as_ref(), &switches, instantiation)?;
        let transforming = Transforming::new(supplier(), instantiation);
        let node = TransformNode::<K, V, V2, T> {
            table,
            transforming,
            takes: std::marker::PhantomData,
        };
        Ok(instantiation.node::<K, Change<V>>(node))
    })
}

struct TransformNode<K: Data, V, V2: Data, T> {
    table: KeptTable<K, V2>,
    transforming: Transforming<T>,
    takes: std::marker::PhantomData<fn(V)>,
}

impl<K: Data, V, V2: Data, T> NodeLife for TransformNode<K, V, V2, T>
where
    T: ValueTransformer<K, V, V2>,
{
    fn init(&mut self, context: &mut TaskContext) -> Result<(), Failure> {
        self.transforming
            .call(context, |transformer, context| transformer.init(context))
    }

    fn flush(&mut self, context: &mut TaskContext) -> Result<(), Failure> {
        self.table.flush(context)
    }

    fn close(&mut self) {
        self.transforming.transformer.close();
    }
}

impl<K, V, V2, T> Node<K, Change<V>> for TransformNode<K, V, V2, T>
where
    K: Data,
    V: Data,
    V2: Data,
    T: ValueTransformer<K, V, V2>,
{
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<K, Change<V>>,
    ) -> Result<(), Failure> {
        let Record {
            key,
            value: change,
            timestamp_ms,
            headers,
        } = record;
        let new = self
            .transforming
            .transform(context, &key, change.new.as_ref())?;
        let old = match (self.table.sends_old_values(), self.table.is_stored()) {
            (false, _) => None,
            (true, true) => self.table.stored(&key)?.map(|stored| stored.value),
            (true, false) => self
                .transforming
                .transform(context, &key, change.old.as_ref())?,
        };
        let change = Change {
            new,
            old,
            is_latest: change.is_latest,
        };
        let record = Record {
            key,
            value: change,
            timestamp_ms,
            headers,
        };
        self.table.change(context, record)
    }
}
