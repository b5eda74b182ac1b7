//! The requests of a transaction on the wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{ErrorCode, ProducerEpoch, ProducerId};
use wire::ApiKey;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse, InitProducerIdRequest,
    InitProducerIdResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};

use super::identity::Identity;
use super::transaction::{GroupOffsets, Protocol, TransactionAnswer, TransactionRequest};
use crate::Error;
use crate::cluster::{Brokers, Connection, CoordinatorKind, Deadline};

/// The feature whose level says how transactions work.
const FEATURE: &str = "transaction.version";
/// The level from which leaders enrol partitions.
const IMPLICIT_FROM_LEVEL: i16 = 2;
/// The first version of EndTxn that raises the epoch, and of TxnOffsetCommit that enrols the group.
const IMPLICIT_FROM_VERSION: i16 = 5;
/// The last version of AddPartitionsToTxn that is for clients.
const ADD_PARTITIONS_VERSION_MAX: i16 = 3;
/// The first version of TxnOffsetCommit that names the member (KIP-447).
const MEMBER_FROM: i16 = 3;

/// What all requests of a producer say.
#[derive(Debug, Clone)]
pub(super) struct Coordinating {
    pub(super) brokers: Brokers,
    pub(super) transactional_id: Arc<str>,
    pub(super) timeout_ms: i32,
}

impl Coordinating {
    /// Sends one request to the coordinator that it is for, and reads the answer. `names` are those
    /// of the partitions that it is about.
    ///
    /// # Errors
    /// Why no answer came.
    pub(super) async fn send_request(
        &self,
        request: &TransactionRequest,
        names: &[(Arc<str>, i32)],
    ) -> Result<TransactionAnswer, Error> {
        let timeout_ms = self.brokers.config().request_timeout_ms;
        let deadline = Deadline::after_ms(timeout_ms, "request.timeout.ms");
        let (kind, key) = match request {
            TransactionRequest::CommitOffsets { offsets, .. } => {
                (CoordinatorKind::Group, &*offsets.group.group_id)
            }
            _ => (CoordinatorKind::Transaction, &*self.transactional_id),
        };
        let found = self
            .brokers
            .coordinator_connection(kind, key, deadline)
            .await;
        let connection = match found {
            // Not to be allowed to know the coordinator is an answer.
            Err(Error::Refused { code, subject, .. }) => return Ok(refusal(subject, code)),
            found => found?,
        };
        let answered = self.ask(&connection, request, names, deadline).await;
        let is_moved = |code: &ErrorCode| {
            matches!(
                code,
                ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable
            )
        };
        let is_there = answered
            .as_ref()
            .is_ok_and(|answer| !answer.refused.iter().any(|(_, code)| is_moved(code)));
        if !is_there {
            self.brokers.forget_coordinator(kind, key);
        }
        answered
    }

    async fn ask(
        &self,
        connection: &Connection,
        request: &TransactionRequest,
        names: &[(Arc<str>, i32)],
        deadline: Deadline,
    ) -> Result<TransactionAnswer, Error> {
        match request {
            TransactionRequest::InitProducerId { identity } => {
                self.init_producer_id(connection, *identity, deadline).await
            }
            TransactionRequest::AddPartitions { identity, .. } => {
                self.add_partitions(connection, *identity, names, deadline)
                    .await
            }
            TransactionRequest::AddOffsets { identity, group } => {
                let request = AddOffsetsToTxnRequest {
                    transactional_id: &self.transactional_id,
                    producer_id: identity.id.0,
                    producer_epoch: identity.epoch.0,
                    group_id: group,
                };
                let answer = connection.call(&request, deadline).await?;
                let response: AddOffsetsToTxnResponse = answer.read()?;
                let code = ErrorCode::from_code(response.error_code);
                Ok(refusal(format!("group `{group}`"), code))
            }
            TransactionRequest::CommitOffsets {
                identity,
                protocol,
                offsets,
            } => {
                self.commit_offsets(connection, *identity, *protocol, offsets, deadline)
                    .await
            }
            TransactionRequest::End {
                identity,
                protocol,
                commits,
            } => {
                self.end(connection, *identity, *protocol, *commits, deadline)
                    .await
            }
        }
    }

    async fn init_producer_id(
        &self,
        connection: &Connection,
        identity: Option<Identity>,
        deadline: Deadline,
    ) -> Result<TransactionAnswer, Error> {
        let request = InitProducerIdRequest {
            transactional_id: Some(&self.transactional_id),
            transaction_timeout_ms: self.timeout_ms,
            producer_id: identity.map_or(-1, |identity| identity.id.0),
            producer_epoch: identity.map_or(-1, |identity| identity.epoch.0),
            ..InitProducerIdRequest::default()
        };
        let answer = connection.call(&request, deadline).await?;
        let response: InitProducerIdResponse = answer.read()?;
        let code = ErrorCode::from_code(response.error_code);
        Ok(TransactionAnswer {
            identity: Some(Identity {
                id: ProducerId(response.producer_id),
                epoch: ProducerEpoch(response.producer_epoch),
            }),
            protocol: Some(protocol_of(connection)),
            ..refusal("the producer id".to_owned(), code)
        })
    }

    async fn add_partitions(
        &self,
        connection: &Connection,
        identity: Identity,
        names: &[(Arc<str>, i32)],
        deadline: Deadline,
    ) -> Result<TransactionAnswer, Error> {
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, index) in names {
            topics.entry(topic).or_default().push(*index);
        }
        let topics = topics
            .iter()
            .map(|(name, partitions)| AddPartitionsToTxnTopic {
                name,
                partitions: partitions.into(),
            });
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: &self.transactional_id,
            v3_and_below_producer_id: identity.id.0,
            v3_and_below_producer_epoch: identity.epoch.0,
            v3_and_below_topics: topics.collect(),
            ..AddPartitionsToTxnRequest::default()
        };
        let version =
            connection.version_up_to(ApiKey::AddPartitionsToTxn, ADD_PARTITIONS_VERSION_MAX)?;
        let answer = connection.call_version(version, &request, deadline).await?;
        let response: AddPartitionsToTxnResponse<'_> = answer.read()?;
        let mut refused = Vec::new();
        for topic in response.results_by_topic_v3_and_below.iter() {
            for partition in topic.results_by_partition.iter() {
                let code = ErrorCode::from_code(partition.partition_error_code);
                if !code.is_none() {
                    refused.push((
                        format!("{}-{}", topic.name, partition.partition_index),
                        code,
                    ));
                }
            }
        }
        Ok(TransactionAnswer {
            refused,
            ..TransactionAnswer::default()
        })
    }

    async fn commit_offsets(
        &self,
        connection: &Connection,
        identity: Identity,
        protocol: Protocol,
        offsets: &GroupOffsets,
        deadline: Deadline,
    ) -> Result<TransactionAnswer, Error> {
        let api = ApiKey::TxnOffsetCommit;
        let version = version_by(connection, api, protocol)?;
        let GroupOffsets { group, offsets } = offsets;
        if version < MEMBER_FROM && group.generation_id >= 0 {
            return Err(Error::Unsupported {
                address: connection.address().to_string(),
                api: api.facts().name,
                detail: format!(" in version {MEMBER_FROM}, which names the member of the group"),
            });
        }
        let mut topics: BTreeMap<&str, Vec<TxnOffsetCommitRequestPartition<'_>>> = BTreeMap::new();
        for (name, offset) in offsets {
            let topic = topics.entry(&name.topic).or_default();
            topic.push(TxnOffsetCommitRequestPartition {
                partition_index: name.partition,
                committed_offset: offset.offset,
                committed_leader_epoch: offset.leader_epoch,
                committed_metadata: Some(&offset.metadata),
            });
        }
        let topics = topics
            .iter()
            .map(|(name, partitions)| TxnOffsetCommitRequestTopic {
                name,
                partitions: partitions.into(),
            });
        let request = TxnOffsetCommitRequest {
            transactional_id: &self.transactional_id,
            group_id: &group.group_id,
            producer_id: identity.id.0,
            producer_epoch: identity.epoch.0,
            generation_id: group.generation_id,
            member_id: &group.member_id,
            group_instance_id: group.group_instance_id.as_deref(),
            topics: topics.collect(),
        };
        let answer = connection.call_version(version, &request, deadline).await?;
        let response: TxnOffsetCommitResponse<'_> = answer.read()?;
        let mut refused = Vec::new();
        for topic in response.topics.iter() {
            for partition in topic.partitions.iter() {
                let code = ErrorCode::from_code(partition.error_code);
                if !code.is_none() {
                    let name = format!("{}-{}", topic.name, partition.partition_index);
                    refused.push((format!("offset of {name} of `{}`", group.group_id), code));
                }
            }
        }
        Ok(TransactionAnswer {
            refused,
            ..TransactionAnswer::default()
        })
    }

    async fn end(
        &self,
        connection: &Connection,
        identity: Identity,
        protocol: Protocol,
        commits: bool,
        deadline: Deadline,
    ) -> Result<TransactionAnswer, Error> {
        let request = EndTxnRequest {
            transactional_id: &self.transactional_id,
            producer_id: identity.id.0,
            producer_epoch: identity.epoch.0,
            committed: commits,
        };
        let version = version_by(connection, ApiKey::EndTxn, protocol)?;
        let answer = connection.call_version(version, &request, deadline).await?;
        let response: EndTxnResponse = answer.read()?;
        let code = ErrorCode::from_code(response.error_code);
        let next = Identity {
            id: ProducerId(response.producer_id),
            epoch: ProducerEpoch(response.producer_epoch),
        };
        Ok(TransactionAnswer {
            identity: (!next.id.is_none()).then_some(next),
            protocol: Some(protocol_of(connection)),
            ..refusal("the end".to_owned(), code)
        })
    }
}

fn refusal(subject: String, code: ErrorCode) -> TransactionAnswer {
    let refused = if code.is_none() {
        Vec::new()
    } else {
        vec![(subject, code)]
    };
    TransactionAnswer {
        refused,
        ..TransactionAnswer::default()
    }
}

/// What the cluster speaks, as this broker knows it.
fn protocol_of(connection: &Connection) -> Protocol {
    let versions = connection.versions();
    let has_end = versions
        .highest(ApiKey::EndTxn, i16::MAX)
        .is_some_and(|version| version >= IMPLICIT_FROM_VERSION);
    let level = versions.finalized_level(FEATURE);
    if has_end && level >= IMPLICIT_FROM_LEVEL {
        Protocol::Implicit
    } else {
        Protocol::Explicit
    }
}

/// The version of an API whose meaning depends on the protocol.
fn version_by(connection: &Connection, api: ApiKey, protocol: Protocol) -> Result<i16, Error> {
    match protocol {
        Protocol::Explicit => connection.version_up_to(api, IMPLICIT_FROM_VERSION - 1),
        Protocol::Implicit => connection.version_up_to(api, IMPLICIT_FROM_VERSION),
    }
}
