//! AlterPartition: v2–3. The leader of partitions tells who is in sync (KIP-497, KIP-841, KIP-903).
//!
//! - Version 3 has the epoch of each replica's broker.
//! - A request without partitions has no error, whoever sends it.
//! - A partition whose recovery state is none that is known is INVALID_REQUEST. Kafka answers UNKNOWN_SERVER_ERROR
//!   to the whole request, and its controller gives its leadership up.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use ::metadata::LeaderRecoveryState;
use controller::AlterPartition;
use controller::alter_partition::{AlteredPartition, AlteredPartitions, WantedIsr};
use model::{BrokerEpoch, DecodeError, ErrorCode, LeaderEpoch};
use wire::messages::alter_partition_request::PartitionData as Asked;
use wire::messages::alter_partition_response::{PartitionData, TopicData};
use wire::messages::{AlterPartitionRequest, AlterPartitionResponse};

/// From this version on each replica comes with the epoch of its broker.
const EPOCHS_VERSION: i16 = 3;

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: AlterPartitionRequest<'_> = request.decode()?;
    match alter(server, request.version, &message).await {
        Ok(results) => respond(request, &message, &results, out),
        Err(error) => {
            let response = AlterPartitionResponse {
                error_code: error.code(),
                ..Default::default()
            };
            request.answer(&response, out);
        }
    }
    Ok(Served::Answered)
}

/// What becomes of each partition, in the order of the request.
async fn alter(
    server: &ClusterNode,
    version: i16,
    message: &AlterPartitionRequest<'_>,
) -> Result<AlteredPartitions, ErrorCode> {
    let mut partitions = Vec::new();
    for topic in message.topics.iter() {
        for asked in topic.partitions.iter() {
            partitions.push(WantedIsr {
                topic_id: topic.topic_id,
                partition_id: asked.partition_index,
                leader_epoch: LeaderEpoch(asked.leader_epoch),
                partition_epoch: asked.partition_epoch,
                isr: isr(version, &asked),
                leader_recovery_state: LeaderRecoveryState::from_id(asked.leader_recovery_state),
            });
        }
    }
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let alter = AlterPartition {
        broker_id: message.broker_id,
        broker_epoch: message.broker_epoch,
        partitions,
    };
    let altered = server.controller.request(alter).await?;
    altered.map_err(|error| error.code)
}

fn isr(version: i16, asked: &Asked<'_>) -> Vec<(model::BrokerId, BrokerEpoch)> {
    match version {
        EPOCHS_VERSION.. => {
            let isr = asked.new_isr_with_epochs.iter();
            isr.map(|one| (one.broker_id, one.broker_epoch)).collect()
        }
        _ => {
            let isr = asked.new_isr.iter();
            isr.map(|id| (id, BrokerEpoch::NONE)).collect()
        }
    }
}

fn respond(
    request: &Request<'_>,
    message: &AlterPartitionRequest<'_>,
    results: &[Result<AlteredPartition, ErrorCode>],
    out: &mut ResponseBuffer,
) {
    let mut results = results.iter();
    let mut topics = Vec::new();
    for topic in message.topics.iter() {
        let partitions = topic.partitions.iter().map(|asked| {
            let index = asked.partition_index;
            match results.next() {
                Some(Ok(altered)) => told(index, altered),
                Some(Err(error)) => PartitionData {
                    partition_index: index,
                    error_code: error.code(),
                    ..Default::default()
                },
                None => PartitionData {
                    partition_index: index,
                    error_code: ErrorCode::UnknownServerError.code(),
                    ..Default::default()
                },
            }
        });
        topics.push(TopicData {
            topic_id: topic.topic_id,
            partitions: partitions.collect(),
        });
    }
    let response = AlterPartitionResponse {
        topics: topics.into(),
        ..Default::default()
    };
    request.answer(&response, out);
}

fn told(index: i32, altered: &AlteredPartition) -> PartitionData<'_> {
    PartitionData {
        partition_index: index,
        error_code: 0,
        leader_id: altered.leader,
        leader_epoch: altered.leader_epoch.0,
        isr: altered.isr.iter().copied().collect(),
        leader_recovery_state: altered.leader_recovery_state.id(),
        partition_epoch: altered.partition_epoch,
    }
}
