//! Which cluster the quorum leads: asked by a broker whose log directories belong to none yet, by DescribeCluster
//! v1–2 of controllers (KIP-919). Apache Kafka has its directories formatted instead.

use super::connections::{PeerConnections, Purpose};
use super::endpoints::PeerNode;
use super::quorum_nodes::QuorumNodes;
use crate::scheduling::log_rate_limit::LogRateLimit;
use config::ServerConfig;
use connection::Error;
use model::ErrorCode;
use std::time::Duration;
use wire::messages::{DescribeClusterRequest, DescribeClusterResponse};

/// The pause before the next node is asked.
const PAUSE: Duration = Duration::from_millis(200);
/// Endpoints of controllers are asked for.
const OF_CONTROLLERS: i8 = 2;

/// Asks one node of the quorum after the other, until one answers.
pub(crate) async fn ask_cluster_id(config: &ServerConfig) -> String {
    let connections = PeerConnections::new(config);
    let mut nodes = QuorumNodes::new(&config.controller.quorum);
    let lines = LogRateLimit::once_a_minute();
    tracing::info!(
        controllers = nodes.configured(),
        "the log directories are new: the controllers are asked for the id of their cluster"
    );
    loop {
        if let Some(node) = nodes.next() {
            match ask(&connections, &node).await {
                Ok(cluster_id) => return cluster_id,
                Err(error) => {
                    if let Some(not_logged) = lines.due() {
                        tracing::warn!(
                            error,
                            not_logged,
                            "no controller has told the id of its cluster yet; they are asked again"
                        );
                    }
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn ask(connections: &PeerConnections, node: &PeerNode) -> Result<String, String> {
    let deadline = connections.deadline(Purpose::Quorum);
    let message = DescribeClusterRequest {
        endpoint_type: OF_CONTROLLERS,
        ..DescribeClusterRequest::default()
    };
    let asked = connections.call(node, Purpose::Quorum, &message, deadline);
    let response = asked.await.map_err(|error: Error| error.to_string())?;
    let read: DescribeClusterResponse<'_> = response.read().map_err(|error| error.to_string())?;
    match ErrorCode::from_code(read.error_code) {
        ErrorCode::None if !read.cluster_id.is_empty() => Ok(read.cluster_id.to_owned()),
        code => Err(format!(
            "{} refuses with {code}: is it the listener of a controller?",
            node.endpoint
        )),
    }
}
