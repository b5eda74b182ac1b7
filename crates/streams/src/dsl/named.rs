//! Names, serdes and settings that operators take.

use crate::record::Data;
use crate::serde::{DefaultSerde, SerdeRef};
use crate::topology::StreamPartitioner;
use std::fmt;
use std::sync::Arc;

/// How a stream is grouped: the serdes of keys and values, and the name of the repartition topic if one is needed.
pub struct Grouped<K, V> {
    pub(crate) key_serde: SerdeRef<K>,
    pub(crate) value_serde: SerdeRef<V>,
    pub(crate) name: Option<String>,
}

impl<K, V> Clone for Grouped<K, V> {
    fn clone(&self) -> Self {
        Self {
            key_serde: Arc::clone(&self.key_serde),
            value_serde: Arc::clone(&self.value_serde),
            name: self.name.clone(),
        }
    }
}

impl<K, V> fmt::Debug for Grouped<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grouped")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K: Data, V: Data> Grouped<K, V> {
    /// Keys and values are written by these serdes.
    pub fn with(key_serde: SerdeRef<K>, value_serde: SerdeRef<V>) -> Self {
        Self {
            key_serde,
            value_serde,
            name: None,
        }
    }

    /// The types' own serdes, and a name.
    pub fn named(name: impl Into<String>) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Self::with(K::serde(), V::serde()).with_name(name)
    }

    /// Names the repartition topic.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl<K: Data + DefaultSerde, V: Data + DefaultSerde> Default for Grouped<K, V> {
    fn default() -> Self {
        Self::with(K::serde(), V::serde())
    }
}

/// How a stream is written to a topic of its own and read again.
pub struct Repartitioned<K, V> {
    pub(crate) key_serde: SerdeRef<K>,
    pub(crate) value_serde: SerdeRef<V>,
    pub(crate) name: Option<String>,
    pub(crate) partitions: Option<i32>,
    pub(crate) partitioner: Option<StreamPartitioner<K, V>>,
}

impl<K, V> Clone for Repartitioned<K, V> {
    fn clone(&self) -> Self {
        Self {
            key_serde: Arc::clone(&self.key_serde),
            value_serde: Arc::clone(&self.value_serde),
            name: self.name.clone(),
            partitions: self.partitions,
            partitioner: self.partitioner.clone(),
        }
    }
}

impl<K, V> fmt::Debug for Repartitioned<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repartitioned")
            .field("name", &self.name)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}

impl<K, V> Repartitioned<K, V> {
    /// Keys and values are written by these serdes.
    pub fn with(key_serde: SerdeRef<K>, value_serde: SerdeRef<V>) -> Self {
        Self {
            key_serde,
            value_serde,
            name: None,
            partitions: None,
            partitioner: None,
        }
    }

    /// A topic of this name, written by the serdes of the types.
    pub fn named(name: impl Into<String>) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Self::default().with_name(name)
    }

    /// Names the topic.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How many partitions the topic has.
    #[must_use]
    pub const fn with_number_of_partitions(mut self, partitions: i32) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Chooses the partitions.
    #[must_use]
    pub fn with_stream_partitioner(mut self, partitioner: StreamPartitioner<K, V>) -> Self {
        self.partitioner = Some(partitioner);
        self
    }
}

impl<K: DefaultSerde, V: DefaultSerde> Default for Repartitioned<K, V> {
    fn default() -> Self {
        Self::with(K::serde(), V::serde())
    }
}
