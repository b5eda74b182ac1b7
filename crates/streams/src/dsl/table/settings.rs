//! What an operator of tables is told beside its functions.

use crate::dsl::Materialized;
use std::fmt;

/// The name of an operator's node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named(pub(crate) String);

impl Named {
    /// A node of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }
}

/// The name of an operator's node, and how the table that it makes is kept: made of a [`Named`], of a
/// [`Materialized`], or of both.
pub struct TableSettings<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) materialized: Option<Materialized<K, V>>,
}

impl<K, V> fmt::Debug for TableSettings<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableSettings")
            .field("name", &self.name)
            .field("materialized", &self.materialized)
            .finish()
    }
}

impl<K, V> Default for TableSettings<K, V> {
    fn default() -> Self {
        Self {
            name: None,
            materialized: None,
        }
    }
}

impl<K, V> TableSettings<K, V> {
    /// The name, and how the table of an operator is kept that always keeps it.
    pub(crate) fn name_and_kept(self) -> (Option<String>, Materialized<K, V>) {
        (self.name, self.materialized.unwrap_or_default())
    }
}

impl<K, V> From<Named> for TableSettings<K, V> {
    fn from(Named(name): Named) -> Self {
        Self {
            name: Some(name),
            materialized: None,
        }
    }
}

impl<K, V> From<Materialized<K, V>> for TableSettings<K, V> {
    fn from(materialized: Materialized<K, V>) -> Self {
        Self {
            name: None,
            materialized: Some(materialized),
        }
    }
}

impl<K, V> From<(Named, Materialized<K, V>)> for TableSettings<K, V> {
    fn from((Named(name), materialized): (Named, Materialized<K, V>)) -> Self {
        Self {
            name: Some(name),
            materialized: Some(materialized),
        }
    }
}
