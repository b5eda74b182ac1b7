//! TxnOffsetCommit: v0–5. Offsets that count once their transaction commits (KIP-98).
//!
//! - Versions: 3 names the member (KIP-447), 4 knows TRANSACTION_ABORTABLE, 5 makes the partition
//!   of `__consumer_offsets` a part of the transaction by being sent (KIP-890).
//! - A topic without partitions has no answer, unless it does not exist.
//! - Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION, and the others are stored.
//! - Without `__consumer_offsets` every group is COORDINATOR_NOT_AVAILABLE.
//! - Clients below version 2 cannot bear COORDINATOR_LOAD_IN_PROGRESS, and are told that there is
//!   no coordinator.

use super::response_topics::ResponseTopics;
use super::{Request, Served, Turn};
use crate::api::broker::Broker;
use crate::coordinators::groups::{OFFSETS_TOPIC, TransactionalWriter};
use crate::coordinators::runtime::Borrowed;
use crate::coordinators::transaction_verification::{
    PartitionToVerify, TransactionSupport, TransactionalProducer,
};
use crate::net::ResponseBuffer;
use coordinator::group::{
    GroupShard, OffsetCommitPartition, OffsetCommitTopic, PartitionErrors, TxnOffsetCommit,
};
use coordinator::runtime::append_error;
use metadata::MetadataImage;
use model::{DecodeError, ErrorCode, LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use record::batch_layout::NO_SEQUENCE;
use std::sync::Arc;
use wire::messages::txn_offset_commit_request::TxnOffsetCommitRequestTopic;
use wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use wire::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: TxnOffsetCommitRequest<'_> = request.decode()?;
    let mut responses = Responses::default();
    let image = broker.node.image();
    let existing = existing_topics(&image, &message, &mut responses).await;
    if !existing.is_empty() {
        let producer = TransactionalProducer {
            transactional_id: message.transactional_id,
            producer_id: ProducerId(message.producer_id),
            producer_epoch: ProducerEpoch(message.producer_epoch),
        };
        let support = TransactionSupport::of_offset_commit(request.version);
        let errors = store(broker, request, (&message, &producer), support, image).await;
        let errors = errors.map_err(|error| match (error, request.version) {
            (ErrorCode::CoordinatorLoadInProgress, 0 | 1) => ErrorCode::CoordinatorNotAvailable,
            (error, _) => error,
        });
        responses.add_outcomes(outcomes(&existing, errors));
    }
    let topics = responses.into_iter();
    let response = TxnOffsetCommitResponse {
        topics: topics
            .map(|(name, partitions)| TxnOffsetCommitResponseTopic {
                name,
                partitions: partitions.into(),
            })
            .collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// The partitions that exist; the others are refused.
async fn existing_topics<'f>(
    image: &MetadataImage,
    message: &TxnOffsetCommitRequest<'f>,
    responses: &mut Responses<'f>,
) -> Vec<OffsetCommitTopic<'f>> {
    let mut existing = Vec::new();
    let mut turn = Turn::begin();
    for asked in message.topics.iter() {
        turn.share().await;
        let topic = image.topics.by_name(asked.name);
        let indexes = asked.partitions.iter().map(|one| one.partition_index);
        let exists = |index: i32| topic.is_some_and(|topic| topic.partition(index).is_some());
        let missing: Vec<i32> = indexes.filter(|index| !exists(*index)).collect();
        if !missing.is_empty() || topic.is_none() {
            let error = ErrorCode::UnknownTopicOrPartition;
            let missing = missing.into_iter();
            let missing = missing.map(|index| partition_response(index, error));
            responses.add(asked.name, missing);
        }
        existing.extend(existing_part(&asked, image));
    }
    existing
}

/// The partitions of a request's topic that exist; `None` when there are none.
fn existing_part<'f>(
    asked: &TxnOffsetCommitRequestTopic<'f>,
    image: &MetadataImage,
) -> Option<OffsetCommitTopic<'f>> {
    let topic = image.topics.by_name(asked.name)?;
    let existing = asked.partitions.iter();
    let partitions: Vec<_> = existing
        .filter(|one| topic.partition(one.partition_index).is_some())
        .map(|one| OffsetCommitPartition {
            index: one.partition_index,
            offset: Offset(one.committed_offset),
            leader_epoch: LeaderEpoch(one.committed_leader_epoch),
            metadata: one.committed_metadata,
        })
        .collect();
    (!partitions.is_empty()).then_some(OffsetCommitTopic {
        name: asked.name,
        topic_id: topic.id,
        partitions,
    })
}

/// What is to be stored of a request.
fn commit_of<'f>(
    message: &TxnOffsetCommitRequest<'f>,
    image: &MetadataImage,
) -> TxnOffsetCommit<'f> {
    let topics = message.topics.iter();
    TxnOffsetCommit {
        group_id: message.group_id,
        generation_id: message.generation_id,
        member_id: message.member_id,
        group_instance_id: message.group_instance_id,
        topics: topics
            .filter_map(|asked| existing_part(&asked, image))
            .collect(),
    }
}

async fn store(
    broker: &Broker,
    request: &Request<'_>,
    (message, producer): (&TxnOffsetCommitRequest<'_>, &TransactionalProducer<'_>),
    support: TransactionSupport,
    image: Arc<MetadataImage>,
) -> Result<PartitionErrors, ErrorCode> {
    let group_id = message.group_id;
    if group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    // Kafka asks the partition about the transaction before it asks for the group.
    if broker.node.image().topics.by_name(OFFSETS_TOPIC).is_none() {
        return Err(ErrorCode::CoordinatorNotAvailable);
    }
    let enrolment = PartitionToVerify {
        partition: broker.coordinators.groups.partition_of(group_id)?,
        base_sequence: NO_SEQUENCE,
    };
    let verified = broker
        .coordinators
        .verify_transaction(producer, &[enrolment], support)
        .await;
    let verification = verified.into_iter().next().unwrap_or(Ok(None));
    let writer = TransactionalWriter {
        producer_id: producer.producer_id,
        producer_epoch: producer.producer_epoch,
        verification: verification.map_err(append_error)?,
    };
    let room = request.room_at(broker, group_id).await?;
    let question = Borrowed {
        decide: |shard: &mut GroupShard, now| {
            shard.commit_transactional_offsets(&commit_of(message, &image), now)
        },
        keep: || {
            let (kept, image) = (request.keep(), image.clone());
            move |shard: &mut GroupShard, now| {
                shard.commit_transactional_offsets(&commit_of(&kept.message(), &image), now)
            }
        },
    };
    let decided = room.decide_quickly(&|_| true, Some(writer), question);
    decided.answer().await?
}

type Responses<'f> = ResponseTopics<&'f str, TxnOffsetCommitResponsePartition>;

const fn partition_response(index: i32, error: ErrorCode) -> TxnOffsetCommitResponsePartition {
    TxnOffsetCommitResponsePartition {
        partition_index: index,
        error_code: error.code(),
    }
}

/// What was stored for each topic, or why nothing was.
fn outcomes<'f>(
    stored: &[OffsetCommitTopic<'f>],
    errors: Result<PartitionErrors, ErrorCode>,
) -> impl Iterator<Item = (&'f str, Vec<TxnOffsetCommitResponsePartition>)> {
    let mut errors = errors.map(|errors| errors.into_iter().flatten());
    stored.iter().map(move |topic| {
        let partitions = topic.partitions.iter().map(|one| {
            let error = match &mut errors {
                Ok(errors) => errors.next().unwrap_or(ErrorCode::UnknownServerError),
                Err(error) => *error,
            };
            partition_response(one.index, error)
        });
        (topic.name, partitions.collect())
    })
}
