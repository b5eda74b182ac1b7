//! What the workload and the checks ask for beyond what `testkit` has.

use model::{ErrorCode, ProducerEpoch, ProducerId};
use record::{BatchBuilder, BatchHeader};
use testkit::{Client, now_ms};
use wire::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::{
    AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeTransactionsRequest, DescribeTransactionsResponse, EndTxnRequest, EndTxnResponse,
    FindCoordinatorRequest, InitProducerIdRequest, InitProducerIdResponse, OffsetCommitRequest,
    OffsetCommitResponse,
};

/// Bytes of a record's value, so that some batches take more than a sector.
const VALUE_BYTES: usize = 120;

/// A record's value: who it is, in readable form.
pub(crate) fn value(topic: &str, incarnation: u64, index: usize, number: u64) -> String {
    let name = format!("{topic} {incarnation} {index} {number} ");
    format!("{name:.<VALUE_BYTES$}")
}

/// A producer's id, epoch, and next sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Producer {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// A batch of records with these keys and values; `transactional` is its producer and first sequence.
pub(crate) fn batch(
    records: &[(String, String)],
    transactional: Option<(Producer, i32)>,
) -> Vec<u8> {
    let header = match transactional {
        None => BatchHeader::default(),
        Some((producer, base_sequence)) => BatchHeader {
            producer_id: ProducerId(producer.id),
            producer_epoch: ProducerEpoch(producer.epoch),
            base_sequence,
            is_transactional: true,
            ..BatchHeader::default()
        },
    };
    let mut builder = BatchBuilder::new(header);
    for (key, value) in records {
        builder.append(now_ms(), Some(key.as_bytes()), Some(value.as_bytes()), &[]);
    }
    builder.into_uncompressed()
}

/// Each log directory: its path, its error, and whether copies are still being made in it.
pub(crate) fn log_dirs(client: &mut Client) -> Vec<(String, ErrorCode, bool)> {
    let answer = client.call(4, &DescribeLogDirsRequest { topics: None });
    let response: DescribeLogDirsResponse<'_> = answer.read();
    let results = response.results.iter().map(|result| {
        let has_future = result
            .topics
            .iter()
            .any(|topic| topic.partitions.iter().any(|one| one.is_future_key));
        let error = ErrorCode::from_code(result.error_code);
        (result.log_dir.to_owned(), error, has_future)
    });
    results.collect()
}

/// Asks for partitions of a topic to be moved; returns each one's error.
pub(crate) fn move_to(
    client: &mut Client,
    directory: &str,
    topic: &str,
    indexes: &[i32],
) -> Vec<ErrorCode> {
    let topic = AlterReplicaLogDirTopic {
        name: topic,
        partitions: indexes.to_vec().into(),
    };
    let directory = AlterReplicaLogDir {
        path: directory,
        topics: vec![topic].into(),
    };
    let request = AlterReplicaLogDirsRequest {
        dirs: vec![directory].into(),
    };
    let answer = client.call(2, &request);
    let response: AlterReplicaLogDirsResponse<'_> = answer.read();
    let results = response.results.iter();
    results
        .flat_map(|topic| {
            let partitions = topic.partitions.iter();
            partitions
                .map(|one| ErrorCode::from_code(one.error_code))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Asks for the coordinator of a transactional id, whose topic is made if it is missing.
pub(crate) fn find_transaction_coordinator(client: &mut Client, id: &str) {
    let request = FindCoordinatorRequest {
        key: id,
        key_type: 1,
        ..FindCoordinatorRequest::default()
    };
    client.call(3, &request);
}

/// A producer of transactions; what an earlier one has left open is aborted.
pub(crate) fn init_transactions(client: &mut Client, id: &str) -> Result<Producer, ErrorCode> {
    let request = InitProducerIdRequest {
        transactional_id: Some(id),
        transaction_timeout_ms: 600_000,
        ..InitProducerIdRequest::default()
    };
    let answer = client.call(4, &request);
    let response: InitProducerIdResponse = answer.read();
    match ErrorCode::from_code(response.error_code) {
        ErrorCode::None => Ok(Producer {
            id: response.producer_id,
            epoch: response.producer_epoch,
        }),
        error => Err(error),
    }
}

/// Ends a transaction; returns the producer of the next one.
pub(crate) fn end_transaction(
    client: &mut Client,
    id: &str,
    producer: Producer,
    committed: bool,
) -> Result<Producer, ErrorCode> {
    let request = EndTxnRequest {
        transactional_id: id,
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        committed,
    };
    let answer = client.call(5, &request);
    let response: EndTxnResponse = answer.read();
    match ErrorCode::from_code(response.error_code) {
        ErrorCode::None => Ok(Producer {
            id: response.producer_id,
            epoch: response.producer_epoch,
        }),
        error => Err(error),
    }
}

/// The state of a transactional id.
pub(crate) fn transaction_state(client: &mut Client, id: &str) -> Result<String, ErrorCode> {
    let request = DescribeTransactionsRequest {
        transactional_ids: vec![id].into(),
    };
    let answer = client.call(0, &request);
    let response: DescribeTransactionsResponse<'_> = answer.read();
    let state = response
        .transaction_states
        .iter()
        .next()
        .expect("one state");
    match ErrorCode::from_code(state.error_code) {
        ErrorCode::None => Ok(state.transaction_state.to_owned()),
        error => Err(error),
    }
}

/// Joins a group of the newer protocol, or stays in it; returns the member's epoch.
pub(crate) fn heartbeat(
    client: &mut Client,
    group: &str,
    member: &str,
    epoch: i32,
    topic: &str,
) -> Result<i32, ErrorCode> {
    let joins = epoch == 0;
    let request = ConsumerGroupHeartbeatRequest {
        group_id: group,
        member_id: member,
        member_epoch: epoch,
        rebalance_timeout_ms: if joins { 60_000 } else { -1 },
        subscribed_topic_names: joins.then(|| vec![topic].into()),
        topic_partitions: joins.then(|| Vec::new().into()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let answer = client.call(1, &request);
    let response: ConsumerGroupHeartbeatResponse<'_> = answer.read();
    match ErrorCode::from_code(response.error_code) {
        ErrorCode::None => Ok(response.member_epoch),
        error => Err(error),
    }
}

/// Commits an offset of partition 0 as a member of a group of the newer protocol.
pub(crate) fn commit_as_member(
    client: &mut Client,
    group: &str,
    member: (&str, i32),
    topic: &str,
    offset: i64,
) -> ErrorCode {
    let partition = OffsetCommitRequestPartition {
        committed_offset: offset,
        ..OffsetCommitRequestPartition::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: topic,
        partitions: vec![partition].into(),
        ..OffsetCommitRequestTopic::default()
    };
    let request = OffsetCommitRequest {
        group_id: group,
        generation_id_or_member_epoch: member.1,
        member_id: member.0,
        topics: vec![topic].into(),
        ..OffsetCommitRequest::default()
    };
    let answer = client.call(9, &request);
    let response: OffsetCommitResponse<'_> = answer.read();
    let topic = response.topics.iter().next().expect("one topic");
    let partition = topic.partitions.iter().next().expect("one partition");
    ErrorCode::from_code(partition.error_code)
}
