//! InitProducerId: v0–5. A producer id for an idempotent producer (KIP-98).
//!
//! - Ids come from blocks of 1000 that the controller gives out; a block that is not used up before
//!   a restart is lost.
//! - A producer id without its epoch, or an epoch without its id, is INVALID_REQUEST.
//! - A transactional id is refused with INVALID_REQUEST: the transaction APIs are not served.

use super::{Request, Served};
use crate::Broker;
use crate::net::ResponseBuffer;
use controller::Decision;
use controller::producer_ids::allocate_producer_ids;
use model::{DecodeError, ErrorCode};
use wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: InitProducerIdRequest<'_> = request.decode()?;
    let names_half = (message.producer_id == -1) != (message.producer_epoch == -1);
    let result = match message.transactional_id {
        None if !names_half => broker.next_producer_id().await,
        _ => Err(ErrorCode::InvalidRequest),
    };
    let response = match result {
        Ok(producer_id) => InitProducerIdResponse {
            producer_id,
            producer_epoch: 0,
            ..Default::default()
        },
        Err(error) => InitProducerIdResponse {
            error_code: error.code(),
            producer_epoch: -1,
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

impl Broker {
    /// An id that no producer has had.
    async fn next_producer_id(&self) -> Result<i64, ErrorCode> {
        let mut ids = self.producer_ids.lock().await;
        if let Some(id) = ids.next() {
            return Ok(id);
        }
        let node_id = self.node_id;
        let decided = self.controller.decide(move |image, _, _| {
            let epoch = image
                .cluster
                .broker(node_id)
                .map_or(-1, |broker| broker.epoch);
            match allocate_producer_ids(image, node_id, epoch) {
                Ok(Decision {
                    records,
                    is_atomic,
                    response,
                }) => Decision {
                    records,
                    is_atomic,
                    response: Ok(response),
                },
                Err(error) => Decision::unchanged(Err(error.code)),
            }
        });
        // Kafka's clients try again later on this code.
        let block = decided
            .await
            .flatten()
            .map_err(|_| ErrorCode::CoordinatorLoadInProgress)?;
        *ids = block.first..block.first + block.count;
        ids.next().ok_or(ErrorCode::CoordinatorLoadInProgress)
    }
}
