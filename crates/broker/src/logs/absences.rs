//! Partitions as clients look for them: here, on other brokers, or nowhere.
//!
//! What is hosted is known before the metadata are that requests see; so what is in those metadata and is not
//! hosted has its replicas elsewhere.

use crate::logs::Logs;
use crate::logs::partitions::Unavailable;
use metadata::{Topic, TopicsImage};
use model::Uuid;
use replication::Partition;
use std::sync::Arc;

impl Logs {
    /// A partition by topic name and index, for a client.
    ///
    /// # Errors
    /// Why clients are not let to it, or where it is.
    pub(crate) fn find(&self, name: &str, index: i32) -> Result<Arc<Partition>, Unavailable> {
        let found = self.partitions.find(name, index);
        found
            .map_err(|absence| self.absence(absence, index, |topics| topics.by_name(name).cloned()))
    }

    /// A partition by topic id and index, for a client.
    ///
    /// # Errors
    /// Why clients are not let to it, or where it is.
    pub(crate) fn find_by_id(&self, id: Uuid, index: i32) -> Result<Arc<Partition>, Unavailable> {
        let topic = self.partitions.topic_by_id(id);
        let found = topic.map_or(Err(Unavailable::UnknownTopicId), |topic| topic.find(index));
        found.map_err(|absence| self.absence(absence, index, |topics| topics.by_id(id).cloned()))
    }

    /// Why a partition is not here, if other brokers may have it: `topic` looks for it in the metadata.
    pub(crate) fn absence(
        &self,
        absence: Unavailable,
        index: i32,
        topic: impl FnOnce(&TopicsImage) -> Option<Arc<Topic>>,
    ) -> Unavailable {
        if !absence.is_unknown() {
            return absence;
        }
        let image = self.node.image();
        let topic = topic(&image.topics);
        match topic.as_ref().and_then(|topic| topic.partition(index)) {
            None => absence,
            Some(partition) if partition.leader == self.node.id => Unavailable::Unmade,
            Some(partition) => Unavailable::Elsewhere {
                leader: partition.leader,
                leader_epoch: partition.leader_epoch,
            },
        }
    }
}
