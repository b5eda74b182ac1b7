//! What happens to partitions when brokers come and go: leaders are elected, and the in-sync
//! replicas follow.
//!
//! | event | partitions | in-sync replicas |
//! |--|--|--|
//! | a broker is fenced, shuts down, loses a directory | those it is in sync for | without it |
//! | a broker is unfenced | those without a leader | as they are |
//! | a broker restarts after a crash, or is unregistered | those that know it | without it, and it is not eligible |
//!
//! On a single node that restarts, the leader is gone with the registration of the new process and
//! elected again with its unfencing: the leader epoch rises by two.

use crate::context::ControllerContext;
use crate::partition_update::{Election, PartitionUpdate};
use crate::topic_values::TopicValues;
use metadata::{MetadataImage, MetadataRecord, Partition, Topic};
use model::BrokerId;

/// What happens to a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BrokerEvent {
    /// It stops being in sync, and cannot lead.
    Leaves(BrokerId),
    /// It can lead, although the image says that it is fenced.
    Returns(BrokerId),
    /// It may have lost records.
    MayHaveLostRecords(BrokerId),
}

impl BrokerEvent {
    /// Whether `id` may lead once the event has happened.
    fn can_lead(self, image: &MetadataImage, id: BrokerId) -> bool {
        match self {
            Self::Leaves(gone) | Self::MayHaveLostRecords(gone) if gone == id => false,
            // Only a new registration ends a controlled shutdown.
            Self::Returns(back) if back == id => image
                .cluster
                .broker(id)
                .is_some_and(|broker| !broker.is_in_controlled_shutdown),
            _ => image.cluster.is_active(id),
        }
    }
}

/// The changes of the partitions that `is_affected` names. It gets the partition's topic, index
/// and state.
pub(crate) fn elect_leaders(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    event: BrokerEvent,
    is_affected: &dyn Fn(&Topic, i32, &Partition) -> bool,
) -> Vec<MetadataRecord> {
    let values = TopicValues::new(image, context);
    let mut records = Vec::new();
    for topic in image.topics.topics_by_id().values() {
        for (partition_id, partition) in topic.partitions.iter() {
            if !is_affected(topic, *partition_id, partition) {
                continue;
            }
            let min_isr = values.min_isr(topic);
            let at = (topic.id, *partition_id);
            // A replica in a directory that is offline cannot lead.
            let can_lead = |id: BrokerId| {
                let broker = image.cluster.broker(id);
                let directory = partition.directory_of(id);
                event.can_lead(image, id)
                    && broker
                        .zip(directory)
                        .is_none_or(|(broker, directory)| broker.has_online_directory(directory))
            };
            let mut update = PartitionUpdate::new(image, at, partition, min_isr, &can_lead);
            if values.allows_unclean_election(topic) {
                update.election = Election::Unclean;
            }
            match event {
                BrokerEvent::Returns(_) => {}
                BrokerEvent::Leaves(id) => update.isr.retain(|other| *other != id),
                BrokerEvent::MayHaveLostRecords(id) => {
                    update.isr.retain(|other| *other != id);
                    update.unclean_shutdown = Some(id);
                }
            }
            records.extend(update.build().map(MetadataRecord::PartitionChange));
        }
    }
    records
}
