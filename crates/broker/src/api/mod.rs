//! From a frame to an answer: whose turn it is, and one match over the APIs.
//!
//! Each API has its file, whose header names the versions served and what is ignored on purpose.
//! Types of the wire end in those files.

use crate::api::broker::Broker;
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use model::{DecodeError, InvalidStrings, Reader};
use std::sync::Arc;
use std::time::Duration;
use wire::{ApiKey, RequestHeader};

use crate::net::{Served, Service, Weight};
use crate::scheduling::turn::Turn;

pub(crate) mod broker;
pub(crate) mod cluster_node;
pub mod served;

pub(crate) mod fetch_sessions;
pub(crate) mod foreign_nodes;

mod access_control;
mod authorized_operations;
mod error_codes;
mod forwarded_body;
mod passed_on;
mod weight;

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod add_raft_voter;
mod allocate_producer_ids;
mod alter_client_quotas;
mod alter_configs;
mod alter_partition;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_user_scram_credentials;
mod altered;
mod api_versions;
mod assign_replicas_to_dirs;
mod begin_quorum_epoch;
mod broker_heartbeat;
mod broker_registration;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod controller_registration;
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
mod end_quorum_epoch;
mod end_txn;
pub(crate) mod endpoints;
mod envelope;
mod fetch;
mod fetch_metadata_log;
mod fetch_snapshot;
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
mod named;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod quorum;
mod remove_raft_voter;
mod request;
mod response_topics;
mod sync_group;
mod txn_offset_commit;
mod unregister_broker;
mod update_features;
mod update_raft_voter;
mod vote;
mod write_txn_markers;

use named::{each_once, has_single};
use request::{ANSWER_MAX_BYTES, Request, elements_max, limit_of};

/// How long a request of too many elements is left without the end of its connection.
const REFUSAL_PAUSE: Duration = Duration::from_millis(100);

impl Service for Broker {
    fn weight(&self, frame: &[u8]) -> Weight {
        Weight::of(self, frame)
    }

    async fn serve(
        self: &Arc<Self>,
        context: &mut ConnectionContext,
        frame: &mut [u8],
        out: &mut ResponseBuffer,
    ) -> Served {
        serve(Server::Broker(self), context, frame, out).await
    }
}

/// Whoever serves the connections of a listener.
#[derive(Debug)]
pub(crate) enum ListenerService {
    /// A broker, those of clients and other brokers.
    Broker(Arc<Broker>),
    /// A controller.
    Controller(Arc<ClusterNode>),
}

impl Service for ListenerService {
    fn weight(&self, frame: &[u8]) -> Weight {
        match self {
            Self::Broker(broker) => Weight::of(broker, frame),
            Self::Controller(node) => Weight::at_controller(node, frame),
        }
    }

    async fn serve(
        self: &Arc<Self>,
        context: &mut ConnectionContext,
        frame: &mut [u8],
        out: &mut ResponseBuffer,
    ) -> Served {
        let server = match &**self {
            Self::Broker(broker) => Server::Broker(broker),
            Self::Controller(node) => Server::Controller(node),
        };
        serve(server, context, frame, out).await
    }
}

/// Whoever serves a request.
#[derive(Clone, Copy)]
enum Server<'s> {
    /// A broker, perhaps with a controller.
    Broker(&'s Arc<Broker>),
    /// A controller without a broker.
    Controller(&'s Arc<ClusterNode>),
}

impl<'s> Server<'s> {
    fn node(self) -> &'s Arc<ClusterNode> {
        match self {
            Self::Broker(broker) => &broker.cluster_node,
            Self::Controller(node) => node,
        }
    }

    /// The broker that passes a request on to the controller of another node, if it does.
    fn passing_on(
        self,
        api: ApiKey,
        version: i16,
        context: &ConnectionContext,
    ) -> Option<&'s Arc<Broker>> {
        match self {
            Self::Broker(broker) => Some(broker).filter(|one| one.passes_on(api, version, context)),
            Self::Controller(_) => None,
        }
    }
}

/// Serves one request. Strings that are not UTF-8 are read as Kafka reads them, with U+FFFD in
/// place of what is no text.
async fn serve(
    server: Server<'_>,
    context: &mut ConnectionContext,
    frame: &mut [u8],
    out: &mut ResponseBuffer,
) -> Served {
    let mut replaced: Option<Vec<u8>> = None;
    // The header is read before the body, so both may have to be replaced, one after the other.
    loop {
        let invalid = InvalidStrings::default();
        let frame = replaced.as_deref_mut().unwrap_or(&mut *frame);
        let error = match serve_valid(server, context, frame, &invalid, out).await {
            Ok(served) => return served,
            Err(error) => error,
        };
        match invalid.replace_in(frame) {
            Some(bytes) if error.cause == DecodeError::InvalidUtf8 => replaced = Some(bytes),
            _ => {
                if error.cause == DecodeError::TooManyElements {
                    // Its client sends megabytes, and will again as soon as it is told.
                    tokio::time::sleep(REFUSAL_PAUSE).await;
                }
                return Served::Refuse(error.to_string());
            }
        }
    }
}

/// A part of a request that cannot be read.
#[derive(Debug)]
struct Unreadable {
    part: String,
    cause: DecodeError,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { part, cause } = self;
        write!(f, "{part} cannot be read: {cause}")?;
        match cause {
            DecodeError::TooManyElements => f.write_str(
                "; ask for less at a time, or raise `socket.request.max.bytes`, which bounds them",
            ),
            _ => Ok(()),
        }
    }
}

/// Serves a request if all of its strings are UTF-8, and notes those that are not.
async fn serve_valid(
    server: Server<'_>,
    context: &mut ConnectionContext,
    frame: &mut [u8],
    invalid: &InvalidStrings,
    out: &mut ResponseBuffer,
) -> Result<Served, Unreadable> {
    let mut reader = Reader::noting(frame, invalid);
    let header = RequestHeader::decode(&mut reader).map_err(|cause| Unreadable {
        part: "a request header".to_owned(),
        cause,
    })?;
    let Some(api) = ApiKey::from_number(header.api_key) else {
        return Ok(Served::Refuse(format!(
            "no API has the number {}: the client speaks another protocol than Kafka's",
            header.api_key
        )));
    };
    let has_invalid_name = !invalid.is_empty();
    if !has_invalid_name && header.client_id != context.client_id.as_deref() {
        context.client_id = header.client_id.map(Box::from);
    }
    let (version, correlation_id) = (header.api_version, header.correlation_id);
    let body_start = frame.len() - reader.remaining().len();
    let elements_max = elements_max(server.node(), frame.len());
    let request = Request {
        api,
        version,
        correlation_id,
        body: reader.remaining(),
        invalid,
        elements_max,
        waits_for_room: context.waits_for_room,
    };
    let passing_on = server.passing_on(api, version, context);
    if passing_on.is_none() && !served::is_served(api, version, context.listener.is_controller) {
        if api == ApiKey::ApiVersions {
            api_versions::unsupported_version(&request, out);
            return Ok(Served::Answered);
        }
        let is_controller = context.listener.is_controller;
        let reason = served::why_not_served(api, version, is_controller);
        return Ok(Served::Refuse(reason));
    }
    let start = out.head.len();
    let result = if has_invalid_name {
        Err(DecodeError::InvalidUtf8)
    } else if let (ApiKey::Produce, Server::Broker(broker)) = (api, server) {
        let request = Request {
            api,
            version,
            correlation_id,
            body: &[],
            invalid,
            elements_max,
            waits_for_room: false,
        };
        produce::serve(broker, context, &request, frame, body_start, out).await
    } else if let Some(broker) = passing_on {
        passed_on::serve(broker, context, &request, frame, out).await
    } else {
        dispatch(server, context, &request, out).await
    };
    if let Some(bytes) = out.take_refused() {
        return Ok(refused(&format!("{api} version {version}"), bytes));
    }
    result.map_err(|cause| {
        out.truncate(start);
        Unreadable {
            part: format!("{api} version {version}"),
            cause,
        }
    })
}

/// What becomes of a request whose answer would be too long.
fn refused(request: &str, bytes: usize) -> Served {
    Served::Refuse(format!(
        "the answer to {request} would take {bytes} bytes, more than {ANSWER_MAX_BYTES}; ask for \
         less at a time"
    ))
}

/// The match over the APIs that a controller's listener has too; those of brokers are below.
async fn dispatch(
    server: Server<'_>,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let node = server.node();
    match request.api {
        ApiKey::ApiVersions => api_versions::serve(node, context, request, out),
        ApiKey::CreateTopics => create_topics::serve(node, request, out).await,
        ApiKey::DeleteTopics => delete_topics::serve(node, request, out).await,
        ApiKey::DescribeQuorum => describe_quorum::serve(node, request, out).await,
        ApiKey::CreatePartitions => create_partitions::serve(node, request, out).await,
        ApiKey::AlterConfigs => alter_configs::serve(node, context, request, out).await,
        ApiKey::IncrementalAlterConfigs => {
            incremental_alter_configs::serve(node, context, request, out).await
        }
        ApiKey::ElectLeaders => elect_leaders::serve(node, request, out).await,
        ApiKey::AlterPartitionReassignments => {
            alter_partition_reassignments::serve(node, request, out).await
        }
        ApiKey::ListPartitionReassignments => {
            list_partition_reassignments::serve(node, request, out)
        }
        ApiKey::UpdateFeatures => update_features::serve(node, request, out).await,
        ApiKey::DescribeConfigs => describe_configs::serve(node, request, out).await,
        ApiKey::DescribeCluster => describe_cluster::serve(node, context, request, out),
        ApiKey::DescribeAcls => describe_acls::serve(request, out),
        ApiKey::CreateAcls => create_acls::serve(request, out),
        ApiKey::DeleteAcls => delete_acls::serve(request, out),
        ApiKey::AlterClientQuotas => alter_client_quotas::serve(node, request, out).await,
        ApiKey::DescribeUserScramCredentials => {
            describe_user_scram_credentials::serve(node, request, out)
        }
        ApiKey::AlterUserScramCredentials => {
            alter_user_scram_credentials::serve(node, request, out).await
        }
        ApiKey::UnregisterBroker => unregister_broker::serve(node, request, out).await,
        ApiKey::AddRaftVoter => add_raft_voter::serve(node, request, out).await,
        ApiKey::RemoveRaftVoter => remove_raft_voter::serve(node, request, out).await,
        _ => match server {
            Server::Broker(broker) => dispatch_to_broker(broker, context, request, out).await,
            Server::Controller(node) => dispatch_to_controller(node, context, request, out).await,
        },
    }
}

/// The match over the APIs that only a controller's listener has.
async fn dispatch_to_controller(
    node: &Arc<ClusterNode>,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    match request.api {
        ApiKey::Fetch => fetch_metadata_log::serve(node, context, request, out).await,
        ApiKey::FetchSnapshot => fetch_snapshot::serve(node, context, request, out).await,
        ApiKey::Vote => vote::serve(node, context, request, out).await,
        ApiKey::BeginQuorumEpoch => begin_quorum_epoch::serve(node, context, request, out).await,
        ApiKey::EndQuorumEpoch => end_quorum_epoch::serve(node, context, request, out).await,
        ApiKey::UpdateRaftVoter => update_raft_voter::serve(node, context, request, out).await,
        ApiKey::BrokerRegistration => broker_registration::serve(node, request, out).await,
        ApiKey::BrokerHeartbeat => broker_heartbeat::serve(node, request, out).await,
        ApiKey::ControllerRegistration => controller_registration::serve(node, request, out).await,
        ApiKey::AlterPartition => alter_partition::serve(node, request, out).await,
        ApiKey::AssignReplicasToDirs => assign_replicas_to_dirs::serve(node, request, out).await,
        ApiKey::AllocateProducerIds => allocate_producer_ids::serve(node, request, out).await,
        ApiKey::Envelope => envelope::serve(node, context, request, out).await,
        api => Ok(Served::Close(format!("{api} is not served"))),
    }
}

/// The match over the APIs of brokers, those of coordinators below. Produce is apart: it writes into the
/// frame.
async fn dispatch_to_broker(
    broker: &Arc<Broker>,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    match request.api {
        ApiKey::Fetch => fetch::serve(broker, context, request, out).await,
        ApiKey::ListOffsets => list_offsets::serve(broker, request, out).await,
        ApiKey::Metadata => metadata::serve(broker, context, request, out).await,
        ApiKey::DeleteRecords => delete_records::serve(broker, request, out).await,
        ApiKey::OffsetForLeaderEpoch => offset_for_leader_epoch::serve(broker, request, out).await,
        ApiKey::AlterReplicaLogDirs => alter_replica_log_dirs::serve(broker, request, out).await,
        ApiKey::DescribeLogDirs => describe_log_dirs::serve(broker, request, out).await,
        ApiKey::DescribeProducers => describe_producers::serve(broker, request, out).await,
        ApiKey::ListConfigResources => list_config_resources::serve(broker, request, out),
        ApiKey::DescribeTopicPartitions => {
            describe_topic_partitions::serve(broker, context, request, out)
        }
        ApiKey::DescribeClientQuotas => describe_client_quotas::serve(broker, request, out),
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
        ApiKey::OffsetFetch => offset_fetch::serve(broker, request, out).await,
        ApiKey::FindCoordinator => find_coordinator::serve(broker, context, request, out).await,
        ApiKey::JoinGroup => join_group::serve(broker, context, request, out).await,
        ApiKey::Heartbeat => heartbeat::serve(broker, request, out).await,
        ApiKey::LeaveGroup => leave_group::serve(broker, request, out).await,
        ApiKey::SyncGroup => sync_group::serve(broker, request, out).await,
        ApiKey::ConsumerGroupHeartbeat => {
            consumer_group_heartbeat::serve(broker, context, request, out).await
        }
        ApiKey::ConsumerGroupDescribe => consumer_group_describe::serve(broker, request, out).await,
        ApiKey::DescribeGroups => describe_groups::serve(broker, request, out).await,
        ApiKey::ListGroups => list_groups::serve(broker, request, out).await,
        ApiKey::InitProducerId => init_producer_id::serve(broker, request, out).await,
        ApiKey::WriteTxnMarkers => write_txn_markers::serve(broker, request, out).await,
        ApiKey::TxnOffsetCommit => txn_offset_commit::serve(broker, request, out).await,
        ApiKey::DeleteGroups => delete_groups::serve(broker, request, out).await,
        ApiKey::OffsetDelete => offset_delete::serve(broker, request, out).await,
        ApiKey::AddPartitionsToTxn => add_partitions_to_txn::serve(broker, request, out).await,
        ApiKey::AddOffsetsToTxn => add_offsets_to_txn::serve(broker, request, out).await,
        ApiKey::EndTxn => end_txn::serve(broker, request, out).await,
        ApiKey::DescribeTransactions => describe_transactions::serve(broker, request, out).await,
        ApiKey::ListTransactions => list_transactions::serve(broker, request, out).await,
        api => Ok(Served::Close(format!("{api} is not served"))),
    }
}

#[cfg(test)]
mod tests;
