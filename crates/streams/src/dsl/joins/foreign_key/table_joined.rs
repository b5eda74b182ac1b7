//! What a foreign-key join is told beside its functions.

use super::messages::{Response, Subscription};
use crate::record::Data;
use crate::topology::StreamPartitioner;
use std::fmt;
use std::sync::Arc;

/// The name of a foreign-key join, and how the topics of its tables are partitioned.
///
/// Partitioners see the key alone: of the left table in the first, of the right one in the second. Where an
/// application writes its tables' topics by partitioners of its own, the join has to know them.
pub struct TableJoined<K, KO> {
    pub(super) name: Option<String>,
    partitioner: Option<StreamPartitioner<K, ()>>,
    other_partitioner: Option<StreamPartitioner<KO, ()>>,
}

impl<K, KO> Clone for TableJoined<K, KO> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            partitioner: self.partitioner.clone(),
            other_partitioner: self.other_partitioner.clone(),
        }
    }
}

impl<K, KO> fmt::Debug for TableJoined<K, KO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableJoined")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K, KO> Default for TableJoined<K, KO> {
    fn default() -> Self {
        Self {
            name: None,
            partitioner: None,
            other_partitioner: None,
        }
    }
}

impl<K, KO> TableJoined<K, KO> {
    /// A join of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self::default().with_name(name)
    }

    /// The topic of the left table is partitioned by `partitioner`, that of the right one by `other_partitioner`.
    pub fn with(
        partitioner: StreamPartitioner<K, ()>,
        other_partitioner: StreamPartitioner<KO, ()>,
    ) -> Self {
        Self::default()
            .with_partitioner(partitioner)
            .with_other_partitioner(other_partitioner)
    }

    /// Names the join's nodes, topics and store.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The topic of the left table is partitioned so.
    #[must_use]
    pub fn with_partitioner(mut self, partitioner: StreamPartitioner<K, ()>) -> Self {
        self.partitioner = Some(partitioner);
        self
    }

    /// The topic of the right table is partitioned so.
    #[must_use]
    pub fn with_other_partitioner(mut self, partitioner: StreamPartitioner<KO, ()>) -> Self {
        self.other_partitioner = Some(partitioner);
        self
    }
}

impl<K: Data, KO: Data> TableJoined<K, KO> {
    /// Where subscriptions go: to the right key, if there is one.
    pub(super) fn of_subscriptions(
        &self,
    ) -> Option<StreamPartitioner<Option<KO>, Subscription<K>>> {
        let partitioner = self.other_partitioner.clone()?;
        Some(Arc::new(
            move |topic: &str, key: &Option<KO>, _: &Subscription<K>, count| {
                partitioner(topic, key.as_ref()?, &(), count)
            },
        ))
    }

    /// Where responses go: back to the partition that has asked, unless the application knows better.
    pub(super) fn of_responses<VO: Data>(&self) -> StreamPartitioner<K, Response<VO>> {
        match self.partitioner.clone() {
            Some(partitioner) => Arc::new(move |topic: &str, key: &K, _: &Response<VO>, count| {
                partitioner(topic, key, &(), count)
            }),
            None => Arc::new(|_: &str, _: &K, response: &Response<VO>, _| {
                response.primary_partition.map(|partition| vec![partition])
            }),
        }
    }
}
