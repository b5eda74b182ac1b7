//! AddOffsetsToTxn: v0–4. The offsets of a group become part of a transaction: the partition of
//! `__consumer_offsets` that holds the group is added (KIP-98).
//!
//! - Versions before 2 do not know PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH (KIP-588).

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::api::error_codes::fencing_error;
use crate::coordinators::groups::OFFSETS_TOPIC;
use crate::net::ResponseBuffer;
use coordinator::partition_for;
use coordinator::transaction::{AddPartitions, ProducerIdAndEpoch};
use model::{DecodeError, ProducerEpoch, ProducerId, TopicPartition};
use wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: AddOffsetsToTxnRequest<'_> = request.decode()?;
    let image = broker.node.image();
    let partition_count = match image.topics.by_name(OFFSETS_TOPIC) {
        Some(topic) => i32::try_from(topic.partition_count()).unwrap_or(i32::MAX),
        None => broker.node.config.groups.offsets.topic.num_partitions,
    };
    let index = partition_for(message.group_id, partition_count.max(1));
    let partitions = [TopicPartition::new(OFFSETS_TOPIC, index)];
    let add = AddPartitions {
        transactional_id: message.transactional_id,
        producer: ProducerIdAndEpoch {
            producer_id: ProducerId(message.producer_id),
            producer_epoch: ProducerEpoch(message.producer_epoch),
        },
        partitions: &partitions,
        client_transaction_version: 0,
    };
    let error = fencing_error(
        broker.coordinators.transactions.add(&add).await,
        request.version >= 2,
    );
    let response = AddOffsetsToTxnResponse {
        error_code: error.code(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
