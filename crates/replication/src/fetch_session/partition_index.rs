//! From a partition, by topic id or topic name, to its slot in a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Uuid;

use super::{SessionTopic, TopicRef};

/// A session names all its topics by id or all by name, so one of the maps stays empty.
#[derive(Debug, Default)]
pub(super) struct PartitionIndex {
    by_id: BTreeMap<(Uuid, i32), u32>,
    by_name: BTreeMap<Arc<str>, BTreeMap<i32, u32>>,
}

impl PartitionIndex {
    pub(super) fn slot(&self, topic: TopicRef<'_>, partition: i32) -> Option<u32> {
        match topic {
            TopicRef::Id(id) => self.by_id.get(&(id, partition)).copied(),
            TopicRef::Name(name) => self.by_name.get(name)?.get(&partition).copied(),
        }
    }

    /// Adds a partition that is not there, and gives the topic as the session keeps it.
    pub(super) fn insert(
        &mut self,
        topic: TopicRef<'_>,
        partition: i32,
        slot: u32,
    ) -> SessionTopic {
        match topic {
            TopicRef::Id(id) => {
                self.by_id.insert((id, partition), slot);
                SessionTopic::Id(id)
            }
            TopicRef::Name(name) => {
                let known = self
                    .by_name
                    .get_key_value(name)
                    .map(|(name, _)| Arc::clone(name));
                let name = known.unwrap_or_else(|| Arc::from(name));
                self.by_name
                    .entry(Arc::clone(&name))
                    .or_default()
                    .insert(partition, slot);
                SessionTopic::Name(name)
            }
        }
    }

    pub(super) fn remove(&mut self, topic: TopicRef<'_>, partition: i32) -> Option<u32> {
        match topic {
            TopicRef::Id(id) => self.by_id.remove(&(id, partition)),
            TopicRef::Name(name) => {
                let partitions = self.by_name.get_mut(name)?;
                let slot = partitions.remove(&partition);
                if partitions.is_empty() {
                    self.by_name.remove(name);
                }
                slot
            }
        }
    }
}
