//! Producer ids that the controller has given to this broker, a block at a time.

use crate::coordinators::Coordinators;
use controller::AllocateProducerIds;
use model::{ErrorCode, ProducerId};

impl Coordinators {
    /// An id that no producer has had.
    pub(crate) async fn next_producer_id(&self) -> Result<ProducerId, ErrorCode> {
        let mut ids = self.producer_ids.lock().await;
        if let Some(id) = ids.next() {
            return Ok(ProducerId(id));
        }
        let request = AllocateProducerIds {
            broker_id: self.node.id,
            broker_epoch: self.node.broker_epoch(),
        };
        // Kafka's clients try again later on this code.
        let block = match self.logs.controller.request(request).await {
            Ok(Ok(block)) => block,
            Ok(Err(_)) | Err(_) => return Err(ErrorCode::CoordinatorLoadInProgress),
        };
        *ids = block.first..block.first + block.count;
        ids.next()
            .map(ProducerId)
            .ok_or(ErrorCode::CoordinatorLoadInProgress)
    }
}
