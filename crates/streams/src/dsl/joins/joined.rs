//! What a join of a stream with a table is told beside its functions.

use crate::serde::SerdeRef;
use std::fmt;

/// The name of a stream-table join, the serdes of its stream, and how long it waits for the table.
///
/// The serdes are for the repartition topic that the stream is written to if its keys may have changed; without them
/// those of the stream are taken.
pub struct Joined<K, V> {
    pub(crate) key_serde: Option<SerdeRef<K>>,
    pub(crate) value_serde: Option<SerdeRef<V>>,
    pub(crate) name: Option<String>,
    pub(crate) grace_period_ms: Option<i64>,
}

impl<K, V> Clone for Joined<K, V> {
    fn clone(&self) -> Self {
        Self {
            key_serde: self.key_serde.clone(),
            value_serde: self.value_serde.clone(),
            name: self.name.clone(),
            grace_period_ms: self.grace_period_ms,
        }
    }
}

impl<K, V> fmt::Debug for Joined<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined")
            .field("name", &self.name)
            .field("grace_period_ms", &self.grace_period_ms)
            .finish_non_exhaustive()
    }
}

impl<K, V> Default for Joined<K, V> {
    fn default() -> Self {
        Self {
            key_serde: None,
            value_serde: None,
            name: None,
            grace_period_ms: None,
        }
    }
}

impl<K, V> Joined<K, V> {
    /// The stream's keys and values are written by these serdes.
    pub fn with(key_serde: SerdeRef<K>, value_serde: SerdeRef<V>) -> Self {
        Self {
            key_serde: Some(key_serde),
            value_serde: Some(value_serde),
            ..Self::default()
        }
    }

    /// A join of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self::default().with_name(name)
    }

    /// Names the join's node and its repartition topic.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The stream's keys are written by this serde.
    #[must_use]
    pub fn with_key_serde(mut self, serde: SerdeRef<K>) -> Self {
        self.key_serde = Some(serde);
        self
    }

    /// The stream's values are written by this serde.
    #[must_use]
    pub fn with_value_serde(mut self, serde: SerdeRef<V>) -> Self {
        self.value_serde = Some(serde);
        self
    }

    /// Records wait for this long, by stream time, before they are joined with the value of their own time. The table
    /// must be versioned.
    #[must_use]
    pub const fn with_grace_period(mut self, grace_period_ms: i64) -> Self {
        self.grace_period_ms = Some(grace_period_ms);
        self
    }
}
