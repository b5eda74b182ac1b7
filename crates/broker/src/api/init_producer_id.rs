//! InitProducerId: v0–5. A producer id for an idempotent producer, or a transactional id's producer
//! id with its next epoch (KIP-98).
//!
//! - Ids come from blocks of 1000 that the controller gives out; a block that is not used up before
//!   a restart is lost.
//! - A producer id without its epoch, or an epoch without its id, is INVALID_REQUEST.
//! - From version 3 on a producer that goes on after an error names its id and epoch (KIP-360).
//! - Versions before 4 do not know PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH (KIP-588).
//! - Version 6, two-phase commit (KIP-939), is not stable in Kafka 4.3 and not served.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::api::error_codes::fencing_error;
use crate::net::ResponseBuffer;
use coordinator::transaction::{InitProducerId as InitTransactionalId, ProducerIdAndEpoch};
use model::{DecodeError, ErrorCode, ProducerEpoch, ProducerId};
use std::sync::Arc;
use wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

pub(crate) async fn serve(
    broker: &Arc<Broker>,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: InitProducerIdRequest<'_> = request.decode()?;
    let names_half = (message.producer_id == -1) != (message.producer_epoch == -1);
    let result = match message.transactional_id {
        _ if names_half => Err(ErrorCode::InvalidRequest),
        None => broker
            .coordinators
            .next_producer_id()
            .await
            .map(|producer_id| ProducerIdAndEpoch {
                producer_id,
                producer_epoch: ProducerEpoch(0),
            }),
        Some(transactional_id) => {
            let request = InitTransactionalId {
                transactional_id,
                timeout_ms: message.transaction_timeout_ms,
                enables_two_phase_commit: message.enable2_pc,
                keeps_prepared_transaction: message.keep_prepared_txn,
                expected: (message.producer_id != -1).then_some(ProducerIdAndEpoch {
                    producer_id: ProducerId(message.producer_id),
                    producer_epoch: ProducerEpoch(message.producer_epoch),
                }),
            };
            init(broker, &request).await
        }
    };
    let response = match result {
        Ok(producer) => InitProducerIdResponse {
            producer_id: producer.producer_id.0,
            producer_epoch: producer.producer_epoch.0,
            ..Default::default()
        },
        Err(error) => InitProducerIdResponse {
            error_code: fencing_error(error, request.version >= 4).code(),
            producer_epoch: -1,
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

async fn init(
    broker: &Arc<Broker>,
    request: &InitTransactionalId<'_>,
) -> Result<ProducerIdAndEpoch, ErrorCode> {
    match request.transactional_id {
        "" => Err(ErrorCode::InvalidRequest),
        _ => broker.coordinators.init_transactional_id(request).await,
    }
}
