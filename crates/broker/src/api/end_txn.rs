//! EndTxn: v0–5. A producer commits or aborts its transaction (KIP-98).
//!
//! - The answer comes when the end is decided; markers follow, and are tried once before the answer,
//!   so that the next transaction seldom has to wait.
//! - Version 5 is transaction version 2: the end bumps the producer's epoch, and the answer tells it
//!   (KIP-890).
//! - Versions before 2 do not know PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH (KIP-588).

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::api::error_codes::fencing_error;
use crate::net::ResponseBuffer;
use coordinator::transaction::{EndTransaction, ProducerIdAndEpoch};
use model::{DecodeError, ProducerEpoch, ProducerId};
use std::sync::Arc;
use wire::messages::{EndTxnRequest, EndTxnResponse};

pub(crate) async fn serve(
    broker: &Arc<Broker>,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: EndTxnRequest<'_> = request.decode()?;
    let end = EndTransaction {
        transactional_id: message.transactional_id,
        producer: ProducerIdAndEpoch {
            producer_id: ProducerId(message.producer_id),
            producer_epoch: ProducerEpoch(message.producer_epoch),
        },
        committed: message.committed,
        client_transaction_version: if request.version > 4 { 2 } else { 0 },
    };
    let response = match broker.coordinators.end_transaction(&end).await {
        Ok(producer) => EndTxnResponse {
            producer_id: producer.producer_id.0,
            producer_epoch: producer.producer_epoch.0,
            ..Default::default()
        },
        Err(error) => EndTxnResponse {
            error_code: fencing_error(error, request.version >= 2).code(),
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
