//! AllocateProducerIds: v0. A broker gets ids that no producer has had (KIP-730).

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::AllocateProducerIds;
use controller::producer_ids::ProducerIdBlock;
use model::{DecodeError, ErrorCode};
use wire::messages::{AllocateProducerIdsRequest, AllocateProducerIdsResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: AllocateProducerIdsRequest = request.decode()?;
    let response = match allocate(server, &message).await {
        Ok(block) => AllocateProducerIdsResponse {
            producer_id_start: block.first,
            producer_id_len: i32::try_from(block.count).unwrap_or(i32::MAX),
            ..Default::default()
        },
        Err(error) => AllocateProducerIdsResponse {
            error_code: error.code(),
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

async fn allocate(
    server: &ClusterNode,
    message: &AllocateProducerIdsRequest,
) -> Result<ProducerIdBlock, ErrorCode> {
    let allocate = AllocateProducerIds {
        broker_id: message.broker_id,
        broker_epoch: message.broker_epoch,
    };
    let block = server.controller.request(allocate).await?;
    block.map_err(|error| error.code)
}
