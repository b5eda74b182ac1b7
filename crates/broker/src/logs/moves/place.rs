//! Where the metadata say that a partition is which is moved.

use super::{Move, MoveError};
use crate::Broker;
use crate::controller::controller_thread::ActiveController;
use crate::logs::hosting;
use controller::Decision;
use controller::directories::{DirectoryAssignment, assign_replicas_to_directories};
use metadata::{MetadataImage, MetadataRecord};
use model::Uuid;

impl Move {
    /// Tells the controller where the partition is, and waits until the metadata say so.
    pub(super) fn place(&self, broker: &Broker, directory: Uuid) -> Result<(), MoveError> {
        let (topic_id, index) = (self.partition.topic_id(), self.partition.index());
        let node_id = broker.node_id;
        let told = broker.controller.run(move |controller| {
            let image = controller.log.image().clone();
            let Some(record) = placed(&image, topic_id, index, node_id, directory) else {
                return Ok(());
            };
            let committed = controller.commit(&[record]);
            committed.map_err(|error| error.to_string())?;
            let image = controller.log.image();
            if is_without_leader(image, topic_id, index) {
                let assignment = DirectoryAssignment {
                    directory,
                    topic_id,
                    partition_id: index,
                };
                elect(controller, node_id, assignment)?;
            }
            Ok(())
        });
        let told = broker.runtime.block_on(told);
        told.unwrap_or_else(|error| Err(error.to_string()))
            .map_err(MoveError::Place)
    }
}

fn is_without_leader(image: &MetadataImage, topic_id: Uuid, index: i32) -> bool {
    let topic = image.topics.by_id(topic_id);
    let partition = topic.and_then(|topic| topic.partition(index));
    partition.is_some_and(|partition| !partition.has_leader())
}

/// Gives a partition a leader where it is. Its destination may have failed while the metadata had it there,
/// and taken the leader from it.
fn elect(
    controller: &mut ActiveController,
    node_id: i32,
    assignment: DirectoryAssignment,
) -> Result<(), String> {
    let elected = controller.decide(|image, context, _| {
        let broker = image.cluster.broker(node_id);
        let at = (node_id, broker.map_or(-1, |one| one.epoch));
        assign_replicas_to_directories(image, context, at, &[assignment])
            .unwrap_or_else(|_| Decision::unchanged(Vec::new()))
    });
    elected.map(drop).map_err(|error| error.to_string())
}

fn placed(
    image: &MetadataImage,
    topic_id: Uuid,
    index: i32,
    node_id: i32,
    directory: Uuid,
) -> Option<MetadataRecord> {
    let partition = image.topics.by_id(topic_id)?.partition(index)?;
    Some(hosting::placement(
        topic_id, index, node_id, partition, directory,
    ))
}
