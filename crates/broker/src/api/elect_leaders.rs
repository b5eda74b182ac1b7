//! ElectLeaders: v0–2. Leadership goes to preferred replicas, or to any replica (KIP-183, KIP-460).
//!
//! - Version 0 elects preferred leaders only, and has no error for the whole request.
//! - An empty list of topics asks for nothing, whatever the election type.
//! - Without a list every partition is meant; those that need no election are not told then.
//! - A client has its answer when the leaders lead; a `TimeoutMs` below 1 is over
//!   before it begins, others are ignored.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::elect_leaders::{ElectionType, TopicElection};
use controller::{ApiError, ElectLeaders, PartitionResults, WordsOfAnswer};
use model::{DecodeError, ErrorCode};
use wire::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use wire::messages::{ElectLeadersRequest, ElectLeadersResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: ElectLeadersRequest<'_> = request.decode()?;
    let topics: Option<Vec<TopicElection>> = message.topic_partitions.as_ref().map(|topics| {
        let topics = topics.iter().map(|one| TopicElection {
            topic: one.topic.to_owned(),
            partitions: one.partitions.iter().collect(),
        });
        topics.collect()
    });
    let elected = server.elect(&message, topics.clone()).await;
    let error_code = elected
        .as_ref()
        .map_or_else(|e| e.code, |_| ErrorCode::None);
    let results = elected.unwrap_or_else(|error| refused(topics.unwrap_or_default(), &error));
    let response = ElectLeadersResponse {
        error_code: error_code.code(),
        replica_election_results: results.iter().map(result_of).collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

impl ClusterNode {
    async fn elect(
        &self,
        message: &ElectLeadersRequest<'_>,
        topics: Option<Vec<TopicElection>>,
    ) -> Result<Vec<PartitionResults>, ApiError> {
        if topics.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let timeout_ms = message.timeout_ms;
        if timeout_ms <= 0 {
            return Err(ApiError::undecided(ErrorCode::RequestTimedOut));
        }
        let election = ElectionType::from_id(message.election_type)?;
        let request = ElectLeaders { election, topics };
        let elected = self.controller.request(request).await;
        elected.map_err(ApiError::undecided)
    }
}

/// The error of the whole request, for each of its partitions.
fn refused(topics: Vec<TopicElection>, error: &ApiError) -> Vec<PartitionResults> {
    let mut words = WordsOfAnswer::default();
    let results = topics.into_iter().map(|one| PartitionResults {
        topic: one.topic,
        partitions: one
            .partitions
            .into_iter()
            .map(|id| (id, Err(words.keep(error.clone()))))
            .collect(),
    });
    results.collect()
}

fn result_of(results: &PartitionResults) -> ReplicaElectionResult<'_> {
    let partitions = results.partitions.iter();
    ReplicaElectionResult {
        topic: &results.topic,
        partition_result: partitions
            .map(|(id, result)| PartitionResult {
                partition_id: *id,
                error_code: result
                    .as_ref()
                    .map_or_else(|e| e.code, |()| ErrorCode::None)
                    .code(),
                error_message: result.as_ref().err().and_then(|e| e.message.as_deref()),
            })
            .collect(),
    }
}
