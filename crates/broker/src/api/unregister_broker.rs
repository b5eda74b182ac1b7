//! UnregisterBroker: v0. The cluster forgets a broker that is gone for good (KIP-500).
//!
//! - Its own id is INVALID_REQUEST: the broker that answers is not gone. Kafka forgets it all the same,
//!   and the cluster has no broker until it starts again.

use super::{Request, Served};
use crate::Broker;
use crate::net::ResponseBuffer;
use controller::brokers::unregister_broker;
use controller::{ApiError, Decision};
use model::{DecodeError, ErrorCode};
use wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: UnregisterBrokerRequest = request.decode()?;
    let broker_id = message.broker_id;
    let own_id = broker.node_id;
    let decided = broker.controller.decide(move |image, context, _| {
        if broker_id == own_id {
            return Decision::unchanged(Err(ApiError::new(
                ErrorCode::InvalidRequest,
                format!("Broker ID {broker_id} is the broker that answers, and it is running"),
            )));
        }
        match unregister_broker(image, context, broker_id) {
            Ok(Decision {
                records, is_atomic, ..
            }) => Decision {
                records,
                is_atomic,
                response: Ok(()),
            },
            Err(error) => Decision::unchanged(Err(error)),
        }
    });
    let result = decided
        .await
        .unwrap_or_else(|error| Err(ApiError::with_default_message(error)));
    let response = match &result {
        Ok(()) => UnregisterBrokerResponse {
            error_message: None,
            ..Default::default()
        },
        Err(error) => UnregisterBrokerResponse {
            error_code: error.code.code(),
            error_message: error.message.as_deref(),
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
