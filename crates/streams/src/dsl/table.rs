//! `KTable`: the newest value of each key, and the changes of it.
//!
//! A table is a node whose children take [`Change`]s. Whether its values are kept in a store is decided late, by what
//! the application does with it: a join reads them, a grouped table needs the old ones. So a table is described by its
//! [`TableView`], which children ask while the graph is put together; nodes read what was decided when they are made.

mod change_serde;
mod computed;
mod filter;
mod global;
mod group_by;
mod grouped;
mod grouped_aggregate;
mod kept;
mod map_values;
mod settings;
mod source;
mod to_stream;
mod to_table;
mod transform_values;

use super::stream::SourceNames;
use super::table_view::TableView;
use super::{Builder, GraphNodeId};
use crate::serde::SerdeRef;
pub use global::GlobalKTable;
pub use grouped::KGroupedTable;
pub(crate) use kept::{Kept, KeptStore, KeptTable};
pub use settings::{Named, TableSettings};
pub(crate) use source::{SourceView, table_source};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
pub use transform_values::{TransformContext, ValueTransformer};

/// The newest value of each key.
pub struct KTable<K, V> {
    pub(crate) builder: Builder,
    pub(crate) name: Arc<str>,
    pub(crate) node: GraphNodeId,
    pub(crate) sources: SourceNames,
    pub(crate) key_serde: Option<SerdeRef<K>>,
    pub(crate) value_serde: Option<SerdeRef<V>>,
    /// The store that interactive queries read, if the application has named it.
    pub(crate) queryable_store: Option<Arc<str>>,
    pub(crate) view: Rc<dyn TableView<K, V>>,
}

impl<K, V> Clone for KTable<K, V> {
    fn clone(&self) -> Self {
        Self {
            builder: self.builder.clone(),
            name: Arc::clone(&self.name),
            node: self.node,
            sources: Arc::clone(&self.sources),
            key_serde: self.key_serde.clone(),
            value_serde: self.value_serde.clone(),
            queryable_store: self.queryable_store.clone(),
            view: Rc::clone(&self.view),
        }
    }
}

impl<K, V> fmt::Debug for KTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KTable")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K, V> KTable<K, V> {
    /// The store that interactive queries read, if the application has named it.
    pub fn queryable_store_name(&self) -> Option<&str> {
        self.queryable_store.as_deref()
    }
}
