//! The node of a join of a stream with a table: for each record of the stream, the table is asked for a value.

use crate::dsl::Nullable;
use crate::dsl::table_view::{MakeGetter, ValueGetter};
use crate::error::Failure;
use crate::processor::{Node, NodeLife, Outputs, TaskContext};
use crate::record::{Data, Record};
use crate::serde::SerdeRef;
use crate::state::grace_buffer::GraceBuffer;
use crate::topology::NodeFactory;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The value that comes out, of the key and the value of a record and of what the table has; none where that joins to
/// nothing.
pub(crate) type LookupJoiner<K, V, V2, VOut> =
    Arc<dyn Fn(&K, &V, Option<&V2>) -> Option<VOut> + Send + Sync>;

/// The table's key for a record; none when it has none.
pub(crate) type KeyMapper<K, V, KT> = Arc<dyn Fn(&K, &V) -> Option<KT> + Send + Sync>;

/// The table's key for a record.
pub(crate) enum TableKey<K, V, KT> {
    /// The record's own.
    Own(fn(&K) -> Option<&KT>, Option<SerdeRef<K>>),
    /// Another one.
    Mapped(KeyMapper<K, V, KT>),
}

impl<K, V, KT> Clone for TableKey<K, V, KT> {
    fn clone(&self) -> Self {
        match self {
            Self::Own(own, serde) => Self::Own(*own, serde.clone()),
            Self::Mapped(mapper) => Self::Mapped(Arc::clone(mapper)),
        }
    }
}

/// A join of a stream with a table, as the graph describes it. The stream has keys of `K` and values of `VIn`, which
/// are a `V` or null.
pub(crate) struct Lookup<K, VIn, V, KT, V2, VOut> {
    pub(crate) getter: MakeGetter<KT, V2>,
    pub(crate) table_key: TableKey<K, V, KT>,
    /// A record without a key of the table joins with no value.
    pub(crate) takes_null_keys: bool,
    pub(crate) value_serde: Option<SerdeRef<VIn>>,
    pub(crate) joiner: LookupJoiner<K, V, V2, VOut>,
    /// The store of records that wait for the table.
    pub(crate) buffer: Option<Arc<str>>,
}

impl<K, VIn, V, KT, V2, VOut> Lookup<K, VIn, V, KT, V2, VOut>
where
    K: Data,
    VIn: Data + Nullable<V>,
    V: Data,
    KT: Data,
    V2: Data,
    VOut: Data,
{
    pub(crate) fn factory(self) -> NodeFactory {
        Arc::new(move |instantiation| {
            let buffer = self
                .buffer
                .as_deref()
                .map(|buffer| instantiation.store(buffer));
            let node = LookupNode {
                getter: (self.getter)(instantiation)?,
                table_key: self.table_key.clone(),
                takes_null_keys: self.takes_null_keys,
                value_serde: self.value_serde.clone(),
                joiner: Arc::clone(&self.joiner),
                buffer: buffer.transpose()?,
                outputs: instantiation.outputs::<K, VOut>()?,
            };
            Ok(instantiation.node::<K, VIn>(node))
        })
    }
}

struct LookupNode<K, VIn, V, KT, V2, VOut> {
    getter: Box<dyn ValueGetter<KT, V2>>,
    table_key: TableKey<K, V, KT>,
    takes_null_keys: bool,
    value_serde: Option<SerdeRef<VIn>>,
    joiner: LookupJoiner<K, V, V2, VOut>,
    buffer: Option<Rc<RefCell<GraceBuffer<K, VIn>>>>,
    outputs: Outputs<K, VOut>,
}

impl<K, VIn, V, KT, V2, VOut> NodeLife for LookupNode<K, VIn, V, KT, V2, VOut> {}

impl<K, VIn, V, KT, V2, VOut> Node<K, VIn> for LookupNode<K, VIn, V, KT, V2, VOut>
where
    K: Data,
    VIn: Data + Nullable<V>,
    V: Data,
    KT: Data,
    V2: Data,
    VOut: Data,
{
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<K, VIn>,
    ) -> Result<(), Failure> {
        let Some(buffer) = self.buffer.clone() else {
            return self.join(context, record);
        };
        let (key, value) = (&record.key, &record.value);
        let is_held = buffer.borrow_mut().put(context, key, value)?;
        match is_held {
            true => self.join_due(context, &buffer),
            false => self.join(context, record),
        }
    }
}

impl<K, VIn, V, KT, V2, VOut> LookupNode<K, VIn, V, KT, V2, VOut>
where
    K: Data,
    VIn: Data + Nullable<V>,
    V: Data,
    KT: Data,
    V2: Data,
    VOut: Data,
{
    /// Joins a record with what the table has.
    fn join(&mut self, context: &mut TaskContext, record: Record<K, VIn>) -> Result<(), Failure> {
        let is_null = self
            .value_serde
            .as_ref()
            .is_some_and(|serde| serde.is_null(&record.value));
        let Some(value) = record.value.as_option().filter(|_| !is_null) else {
            context.drop_record();
            return Ok(());
        };
        let mapped;
        let key = match &self.table_key {
            TableKey::Own(own, serde) => {
                let is_null = serde
                    .as_ref()
                    .is_some_and(|serde| serde.is_null(&record.key));
                own(&record.key).filter(|_| !is_null)
            }
            TableKey::Mapped(mapper) => {
                mapped = mapper(&record.key, value);
                mapped.as_ref()
            }
        };
        let found = match key {
            Some(key) => self.getter.get_as_of(context, key, record.timestamp_ms)?,
            None if self.takes_null_keys => None,
            None => {
                context.drop_record();
                return Ok(());
            }
        };
        let found = found.as_ref().map(|found| &found.value);
        let Some(joined) = (self.joiner)(&record.key, value, found) else {
            return Ok(());
        };
        let joined = Record {
            key: record.key,
            value: joined,
            timestamp_ms: record.timestamp_ms,
            headers: record.headers,
        };
        self.outputs.forward(context, joined)
    }

    /// Joins the records that have waited long enough.
    fn join_due(
        &mut self,
        context: &mut TaskContext,
        buffer: &Rc<RefCell<GraceBuffer<K, VIn>>>,
    ) -> Result<(), Failure> {
        loop {
            let due = buffer.borrow_mut().take_due(context)?;
            let Some(due) = due else { return Ok(()) };
            let record = Record {
                key: due.key,
                value: due.value,
                timestamp_ms: due.context.timestamp_ms,
                headers: due.context.headers.clone(),
            };
            let enclosing = std::mem::replace(&mut context.record, due.context);
            let joined = self.join(context, record);
            context.record = enclosing;
            joined?;
        }
    }
}
