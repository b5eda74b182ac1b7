//! The quorum of controllers that keeps the cluster's metadata (KIP-595, KIP-836).

use super::fan_out::Route;
use super::{Admin, checked};
use crate::Error;
use crate::cluster::{Connection, Deadline};
use crate::config::Endpoint;
use model::{BrokerId, Uuid};
use std::collections::BTreeMap;
use wire::messages::describe_quorum_request::{PartitionData, TopicData};
use wire::messages::describe_quorum_response::ReplicaState;
use wire::messages::{DescribeQuorumRequest, DescribeQuorumResponse};

/// The topic of the metadata; its only partition is 0.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// A node that has the metadata's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumReplica {
    /// Its `node.id`.
    pub id: BrokerId,
    /// The id of its log directory, if the quorum tells.
    pub directory_id: Option<Uuid>,
    /// Past the last record that it has.
    pub log_end_offset: i64,
    /// When it last fetched, in ms since 1970, if the leader knows.
    pub last_fetch_timestamp_ms: Option<i64>,
    /// When it last had everything, in ms since 1970, if the leader knows.
    pub last_caught_up_timestamp_ms: Option<i64>,
}

/// The quorum as its leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumDescription {
    /// The active controller.
    pub leader_id: BrokerId,
    /// Its epoch.
    pub leader_epoch: i32,
    /// Past the last record that is committed.
    pub high_watermark: i64,
    /// The nodes that vote.
    pub voters: Vec<QuorumReplica>,
    /// The nodes that only follow.
    pub observers: Vec<QuorumReplica>,
    /// Where the voters listen, by the listener's name, if the quorum tells.
    pub endpoints: BTreeMap<BrokerId, BTreeMap<String, Endpoint>>,
}

impl Admin {
    /// The quorum of controllers.
    ///
    /// # Errors
    /// What the brokers say until `default.api.timeout.ms`.
    pub async fn describe_quorum(&self) -> Result<QuorumDescription, Error> {
        let call = |connection: Connection, deadline: Deadline| async move {
            describe(&connection, deadline).await
        };
        self.ask(Route::Any, call).await
    }
}

async fn describe(connection: &Connection, deadline: Deadline) -> Result<QuorumDescription, Error> {
    let partitions = [PartitionData { partition_index: 0 }];
    let topics = [TopicData {
        topic_name: METADATA_TOPIC,
        partitions: partitions[..].into(),
    }];
    let request = DescribeQuorumRequest {
        topics: topics[..].into(),
    };
    let answer = connection.call(&request, deadline).await?;
    let response: DescribeQuorumResponse<'_> = answer.read()?;
    checked(response.error_code, "quorum", response.error_message)?;
    let topic = response
        .topics
        .iter()
        .find(|topic| topic.topic_name == METADATA_TOPIC);
    let partition =
        topic.and_then(|topic| topic.partitions.iter().find(|p| p.partition_index == 0));
    let partition = partition.ok_or_else(|| Error::Malformed {
        address: answer.address().to_string(),
        reason: format!("DescribeQuorum says nothing of `{METADATA_TOPIC}-0`"),
    })?;
    checked(partition.error_code, "quorum", partition.error_message)?;
    let endpoints = response.nodes.iter().map(|node| {
        let listeners = node.listeners.iter().map(|listener| {
            let endpoint = Endpoint::new(listener.host, listener.port);
            (listener.name.to_owned(), endpoint)
        });
        (node.node_id, listeners.collect())
    });
    Ok(QuorumDescription {
        leader_id: partition.leader_id,
        leader_epoch: partition.leader_epoch,
        high_watermark: partition.high_watermark,
        voters: partition.current_voters.iter().map(replica).collect(),
        observers: partition.observers.iter().map(replica).collect(),
        endpoints: endpoints.collect(),
    })
}

fn replica(state: ReplicaState) -> QuorumReplica {
    let known = |timestamp: i64| Some(timestamp).filter(|timestamp| *timestamp >= 0);
    QuorumReplica {
        id: state.replica_id,
        directory_id: Some(state.replica_directory_id).filter(|id| !id.is_zero()),
        log_end_offset: state.log_end_offset,
        last_fetch_timestamp_ms: known(state.last_fetch_timestamp),
        last_caught_up_timestamp_ms: known(state.last_caught_up_timestamp),
    }
}
