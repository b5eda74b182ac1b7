//! From a frame to an answer: one match over the APIs, and nothing else.
//!
//! Each API has its file, whose header names the versions served and what is ignored on purpose.
//! Types of the wire end in those files.

use crate::Broker;
use crate::net::{ConnectionContext, ResponseBuffer};
use model::{DecodeError, ErrorCode, Message, Reader};
use std::sync::Arc;
use wire::{ApiKey, RequestHeader, ResponseHeader};

pub mod served;

mod access_control;
mod authorized_operations;

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_client_quotas;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_user_scram_credentials;
mod api_versions;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_acls;
mod create_partitions;
mod create_topics;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_topic_partitions;
mod describe_transactions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod end_txn;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod sync_group;
mod txn_offset_commit;
mod unregister_broker;
mod update_features;
mod write_txn_markers;

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Served {
    /// Its answer, if it has one, is in the buffer.
    Answered,
    /// There is no answer; the connection ends, for this reason.
    Close(String),
    /// The same, since the client speaks what is not spoken here: its operator should know.
    Refuse(String),
}

/// A request whose header is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'f> {
    /// Which API.
    pub(crate) api: ApiKey,
    /// The version of the body and of the answer.
    pub(crate) version: i16,
    /// Goes back with the answer.
    pub(crate) correlation_id: i32,
    /// What follows the header.
    pub(crate) body: &'f [u8],
}

impl<'f> Request<'f> {
    /// The request's message.
    ///
    /// # Errors
    /// A [`DecodeError`]; Kafka closes the connection then.
    pub(crate) fn decode<M: Message<'f>>(&self) -> Result<M, DecodeError> {
        M::read(&mut Reader::new(self.body), self.version)
    }

    /// Appends the answer, header and size included.
    pub(crate) fn answer<'m, M: Message<'m>>(&self, response: &M, out: &mut ResponseBuffer) {
        self.answer_as(response, self.version, out);
    }

    /// Appends the answer in another version than the request's.
    pub(crate) fn answer_as<'m, M: Message<'m>>(
        &self,
        response: &M,
        version: i16,
        out: &mut ResponseBuffer,
    ) {
        let start = self.begin_answer_as(version, &mut out.head);
        response.write(version, &mut out.head);
        wire::finish_frame(&mut out.head, start, 0);
    }
}

impl Request<'_> {
    /// Appends room for the answer's size, and its header; returns where it begins, for
    /// [`wire::finish_frame`].
    pub(crate) fn begin_answer(&self, out: &mut Vec<u8>) -> usize {
        self.begin_answer_as(self.version, out)
    }

    fn begin_answer_as(&self, version: i16, out: &mut Vec<u8>) -> usize {
        let start = wire::begin_frame(out);
        let header = ResponseHeader {
            correlation_id: self.correlation_id,
        };
        header.encode(self.api.response_header_version(version), out);
        start
    }
}

/// Whether a request is answered at once as a rule, and in little time.
pub(crate) fn is_quick(frame: &[u8]) -> bool {
    let api_key = frame.first_chunk().map(|bytes| i16::from_be_bytes(*bytes));
    api_key == Some(ApiKey::Produce as i16)
}

/// Serves one request.
pub(crate) async fn serve(
    broker: &Arc<Broker>,
    context: &mut ConnectionContext,
    frame: &mut [u8],
    out: &mut ResponseBuffer,
) -> Served {
    let mut reader = Reader::new(frame);
    let header = match RequestHeader::decode(&mut reader) {
        Ok(header) => header,
        Err(error) => return Served::Refuse(format!("a request header cannot be read: {error}")),
    };
    let Some(api) = ApiKey::from_number(header.api_key) else {
        return Served::Refuse(format!(
            "no API has the number {}: the client speaks another protocol than Kafka's",
            header.api_key
        ));
    };
    if header.client_id != context.client_id.as_deref() {
        context.client_id = header.client_id.map(Box::from);
    }
    let (version, correlation_id) = (header.api_version, header.correlation_id);
    let body_start = frame.len() - reader.remaining().len();
    let request = Request {
        api,
        version,
        correlation_id,
        body: reader.remaining(),
    };
    if !served::is_served(api, version, context.listener.is_controller) {
        if api == ApiKey::ApiVersions {
            api_versions::unsupported_version(&request, out);
            return Served::Answered;
        }
        let is_controller = context.listener.is_controller;
        return Served::Refuse(served::why_not_served(api, version, is_controller));
    }
    let start = out.head.len();
    let result = if api == ApiKey::Produce {
        let request = Request {
            body: &[],
            ..request
        };
        produce::serve(broker, context, &request, frame, body_start, out).await
    } else {
        dispatch(broker, context, &request, out).await
    };
    result.unwrap_or_else(|error| {
        out.truncate(start);
        Served::Refuse(format!("{api} version {version} cannot be read: {error}"))
    })
}

/// The match over the APIs, those of coordinators below. Produce is apart: it writes into the frame.
async fn dispatch(
    broker: &Arc<Broker>,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    match request.api {
        ApiKey::Fetch => fetch::serve(broker, context, request, out).await,
        ApiKey::ListOffsets => list_offsets::serve(broker, request, out),
        ApiKey::Metadata => metadata::serve(broker, context, request, out).await,
        ApiKey::ApiVersions => api_versions::serve(broker, context, request, out),
        ApiKey::CreateTopics => create_topics::serve(broker, request, out).await,
        ApiKey::DeleteTopics => delete_topics::serve(broker, request, out).await,
        ApiKey::DescribeQuorum => describe_quorum::serve(broker, request, out).await,
        ApiKey::CreatePartitions => create_partitions::serve(broker, request, out).await,
        ApiKey::AlterConfigs => alter_configs::serve(broker, request, out).await,
        ApiKey::IncrementalAlterConfigs => {
            incremental_alter_configs::serve(broker, request, out).await
        }
        ApiKey::ElectLeaders => elect_leaders::serve(broker, request, out).await,
        ApiKey::AlterPartitionReassignments => {
            alter_partition_reassignments::serve(broker, request, out).await
        }
        ApiKey::ListPartitionReassignments => {
            list_partition_reassignments::serve(broker, request, out)
        }
        ApiKey::UpdateFeatures => update_features::serve(broker, request, out).await,
        ApiKey::DeleteRecords => delete_records::serve(broker, request, out),
        ApiKey::OffsetForLeaderEpoch => offset_for_leader_epoch::serve(broker, request, out),
        ApiKey::DescribeConfigs => describe_configs::serve(broker, request, out),
        ApiKey::AlterReplicaLogDirs => alter_replica_log_dirs::serve(broker, request, out),
        ApiKey::DescribeLogDirs => describe_log_dirs::serve(broker, request, out),
        ApiKey::DescribeCluster => describe_cluster::serve(broker, context, request, out),
        ApiKey::DescribeProducers => describe_producers::serve(broker, request, out),
        ApiKey::ListConfigResources => list_config_resources::serve(broker, request, out),
        ApiKey::DescribeTopicPartitions => describe_topic_partitions::serve(broker, request, out),
        ApiKey::DescribeAcls => describe_acls::serve(request, out),
        ApiKey::CreateAcls => create_acls::serve(request, out),
        ApiKey::DeleteAcls => delete_acls::serve(request, out),
        ApiKey::DescribeClientQuotas => describe_client_quotas::serve(broker, request, out),
        ApiKey::AlterClientQuotas => alter_client_quotas::serve(broker, request, out).await,
        ApiKey::DescribeUserScramCredentials => {
            describe_user_scram_credentials::serve(broker, request, out)
        }
        ApiKey::AlterUserScramCredentials => {
            alter_user_scram_credentials::serve(broker, request, out).await
        }
        ApiKey::UnregisterBroker => unregister_broker::serve(broker, request, out).await,
        _ => dispatch_to_coordinators(broker, context, request, out).await,
    }
}

/// The match over the APIs of groups and transactions.
async fn dispatch_to_coordinators(
    broker: &Arc<Broker>,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    match request.api {
        ApiKey::OffsetCommit => offset_commit::serve(broker, request, out).await,
        ApiKey::OffsetFetch => offset_fetch::serve(broker, request, out),
        ApiKey::FindCoordinator => find_coordinator::serve(broker, context, request, out).await,
        ApiKey::JoinGroup => join_group::serve(broker, context, request, out).await,
        ApiKey::Heartbeat => heartbeat::serve(broker, request, out).await,
        ApiKey::LeaveGroup => leave_group::serve(broker, request, out).await,
        ApiKey::SyncGroup => sync_group::serve(broker, request, out).await,
        ApiKey::ConsumerGroupHeartbeat => {
            consumer_group_heartbeat::serve(broker, context, request, out).await
        }
        ApiKey::ConsumerGroupDescribe => consumer_group_describe::serve(broker, request, out),
        ApiKey::DescribeGroups => describe_groups::serve(broker, request, out),
        ApiKey::ListGroups => list_groups::serve(broker, request, out),
        ApiKey::InitProducerId => init_producer_id::serve(broker, request, out).await,
        ApiKey::WriteTxnMarkers => write_txn_markers::serve(broker, request, out).await,
        ApiKey::TxnOffsetCommit => txn_offset_commit::serve(broker, request, out).await,
        ApiKey::DeleteGroups => delete_groups::serve(broker, request, out).await,
        ApiKey::OffsetDelete => offset_delete::serve(broker, request, out).await,
        ApiKey::AddPartitionsToTxn => add_partitions_to_txn::serve(broker, request, out).await,
        ApiKey::AddOffsetsToTxn => add_offsets_to_txn::serve(broker, request, out).await,
        ApiKey::EndTxn => end_txn::serve(broker, request, out).await,
        ApiKey::DescribeTransactions => describe_transactions::serve(broker, request, out),
        ApiKey::ListTransactions => list_transactions::serve(broker, request, out),
        api => Ok(Served::Close(format!("{api} is not served"))),
    }
}

/// Whether anything is named exactly once.
pub(crate) fn has_single<T: Ord>(names: impl Iterator<Item = T>) -> bool {
    let mut sorted: Vec<T> = names.collect();
    sorted.sort_unstable();
    sorted.chunk_by(T::eq).any(|equal| equal.len() == 1)
}

/// What a producer is told that another one has taken the place of: clients of old do not know
/// PRODUCER_FENCED.
pub(crate) fn fencing_error(error: ErrorCode, knows_producer_fenced: bool) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced if !knows_producer_fenced => ErrorCode::InvalidProducerEpoch,
        error => error,
    }
}

/// Whether a topic is one of Kafka's own.
pub(crate) fn is_internal(topic: &str) -> bool {
    matches!(
        topic,
        "__consumer_offsets" | "__transaction_state" | "__share_group_state"
    )
}
