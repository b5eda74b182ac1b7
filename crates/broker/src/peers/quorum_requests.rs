//! What an observer asks the quorum, in types of the wire: Fetch v12–18 and FetchSnapshot v0–1.
//!
//! - Version 17 of Fetch has the directory of the one that fetches (KIP-853), version 18 what it knows as
//!   committed (KIP-1166): a leader that knows more answers at once.
//! - An answer names the leader, and where it is reached (Fetch from version 16, FetchSnapshot from 1).

use super::endpoints::PeerNode;
use connection::{Connection, Deadline, Endpoint, Error, Response};
use metadata::SnapshotId;
use model::{BrokerId, ErrorCode, LeaderEpoch, Offset, Uuid};
use raft::{Answer, Content, LeaderAndEpoch, Request, SnapshotPiece, Wanted};
use storage::leader_epochs::LeaderEpochEnd;
use wire::ApiKey;
use wire::messages::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
use wire::messages::fetch_response::PartitionData;
use wire::messages::{
    FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse,
    fetch_snapshot_request, fetch_snapshot_response,
};

/// The topic of the quorum's log.
const METADATA_TOPIC: &str = "__cluster_metadata";
/// How long the leader may wait for something new, in ms, as Apache Kafka lets it.
const MAX_WAIT_MS: i32 = 500;

/// Who fetches, and how much at a time.
#[derive(Debug, Clone)]
pub(crate) struct Fetcher {
    pub(crate) cluster_id: String,
    pub(crate) node_id: BrokerId,
    /// The directory of the metadata log.
    pub(crate) directory_id: Uuid,
    pub(crate) fetch_max_bytes: i32,
    pub(crate) snapshot_max_bytes: i32,
}

/// An answer as it is read.
#[derive(Debug)]
pub(super) struct ReadAnswer<'a> {
    /// What the log is to make of it.
    pub(super) answer: Answer<'a>,
    /// The error, for those who look after it.
    pub(super) error: ErrorCode,
    /// The leader, if it tells where that is reached.
    pub(super) leader: Option<PeerNode>,
}

impl Fetcher {
    /// Sends a request over a connection, and waits for the answer.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub(super) async fn ask(
        &self,
        connection: &Connection,
        request: &Request,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        match request.wanted {
            Wanted::Log {
                fetch_offset,
                last_fetched_epoch,
                high_watermark,
            } => {
                let partition = FetchPartition {
                    partition: 0,
                    current_leader_epoch: request.leader_epoch.0,
                    fetch_offset: fetch_offset.0,
                    last_fetched_epoch: last_fetched_epoch.0,
                    // Only leaders look at it, and not at that of the quorum's log.
                    log_start_offset: -1,
                    partition_max_bytes: self.fetch_max_bytes,
                    replica_directory_id: self.directory_id,
                    high_watermark: high_watermark.0,
                };
                let message = self.fetch(partition);
                connection.call(&message, deadline).await
            }
            Wanted::Snapshot { id, position } => {
                let message = self.fetch_snapshot(request.leader_epoch, id, position);
                connection.call(&message, deadline).await
            }
        }
    }

    fn fetch(&self, partition: FetchPartition) -> FetchRequest<'_> {
        let topic = FetchTopic {
            topic: METADATA_TOPIC,
            topic_id: Uuid::METADATA_TOPIC,
            partitions: vec![partition].into(),
        };
        FetchRequest {
            cluster_id: Some(&self.cluster_id),
            replica_id: self.node_id,
            replica_state: ReplicaState {
                replica_id: self.node_id,
                ..ReplicaState::default()
            },
            max_wait_ms: MAX_WAIT_MS,
            min_bytes: 0,
            topics: vec![topic].into(),
            ..FetchRequest::default()
        }
    }

    fn fetch_snapshot(
        &self,
        leader_epoch: LeaderEpoch,
        id: SnapshotId,
        position: u64,
    ) -> FetchSnapshotRequest<'_> {
        let partition = fetch_snapshot_request::PartitionSnapshot {
            partition: 0,
            current_leader_epoch: leader_epoch.0,
            snapshot_id: fetch_snapshot_request::SnapshotId {
                end_offset: id.end_offset.0,
                epoch: id.epoch.0,
            },
            position: i64::try_from(position).unwrap_or(i64::MAX),
            replica_directory_id: self.directory_id,
        };
        let topic = fetch_snapshot_request::TopicSnapshot {
            name: METADATA_TOPIC,
            partitions: vec![partition].into(),
        };
        FetchSnapshotRequest {
            cluster_id: Some(&self.cluster_id),
            replica_id: self.node_id,
            max_bytes: self.snapshot_max_bytes,
            topics: vec![topic].into(),
        }
    }
}

/// Reads the answer to a request.
///
/// # Errors
/// [`Error::Malformed`] when it is none.
pub(super) fn read<'r>(response: &'r Response, wanted: &Wanted) -> Result<ReadAnswer<'r>, Error> {
    match wanted {
        Wanted::Log { .. } => read_fetch(response),
        Wanted::Snapshot { .. } => read_fetch_snapshot(response),
    }
}

fn read_fetch(response: &Response) -> Result<ReadAnswer<'_>, Error> {
    let message: FetchResponse<'_> = response.read()?;
    let endpoints = message.node_endpoints.iter().filter_map(|node| {
        let port = u16::try_from(node.port).ok()?;
        Some((node.node_id, node.host, port))
    });
    let mut topics = message.responses.iter();
    let partition = topics
        .next()
        .and_then(|topic| topic.partitions.iter().next());
    Ok(match partition {
        Some(partition) if message.error_code == 0 => {
            let error = ErrorCode::from_code(partition.error_code);
            let leader = &partition.current_leader;
            answered(
                error,
                leader_and_epoch(leader.leader_id, leader.leader_epoch),
                fetched(&partition),
                endpoints,
            )
        }
        _ => refused(message.error_code, ApiKey::Fetch),
    })
}

fn fetched<'r>(partition: &PartitionData<'r>) -> Content<'r> {
    let (diverging, snapshot) = (&partition.diverging_epoch, &partition.snapshot_id);
    if diverging.epoch >= 0 && diverging.end_offset >= 0 {
        return Content::Diverging(LeaderEpochEnd {
            leader_epoch: LeaderEpoch(diverging.epoch),
            end_offset: Offset(diverging.end_offset),
        });
    }
    if snapshot.epoch >= 0 && snapshot.end_offset >= 0 {
        return Content::SnapshotId(SnapshotId {
            end_offset: Offset(snapshot.end_offset),
            epoch: LeaderEpoch(snapshot.epoch),
        });
    }
    Content::Records {
        bytes: partition.records.unwrap_or_default(),
        high_watermark: Offset(partition.high_watermark),
    }
}

fn read_fetch_snapshot(response: &Response) -> Result<ReadAnswer<'_>, Error> {
    let message: FetchSnapshotResponse<'_> = response.read()?;
    let endpoints = message.node_endpoints.iter();
    let endpoints = endpoints.map(|node| (node.node_id, node.host, node.port));
    let mut topics = message.topics.iter();
    let partition = topics
        .next()
        .and_then(|topic| topic.partitions.iter().next());
    Ok(match partition {
        Some(partition) if message.error_code == 0 => {
            let error = ErrorCode::from_code(partition.error_code);
            let leader = &partition.current_leader;
            answered(
                error,
                leader_and_epoch(leader.leader_id, leader.leader_epoch),
                piece(&partition),
                endpoints,
            )
        }
        _ => refused(message.error_code, ApiKey::FetchSnapshot),
    })
}

fn piece<'r>(partition: &fetch_snapshot_response::PartitionSnapshot<'r>) -> Content<'r> {
    let unsigned = |number: i64| u64::try_from(number).unwrap_or_default();
    Content::Piece(SnapshotPiece {
        id: SnapshotId {
            end_offset: Offset(partition.snapshot_id.end_offset),
            epoch: LeaderEpoch(partition.snapshot_id.epoch),
        },
        size_bytes: unsigned(partition.size),
        position: unsigned(partition.position),
        bytes: partition.unaligned_records.unwrap_or_default(),
    })
}

fn leader_and_epoch(leader_id: BrokerId, epoch: i32) -> LeaderAndEpoch {
    LeaderAndEpoch {
        leader_id: (leader_id.0 >= 0).then_some(leader_id),
        // Who does not know an epoch knows less than anybody.
        epoch: LeaderEpoch(epoch.max(0)),
    }
}

/// An answer of which the endpoint of the leader alone is kept: it may name any number of others.
fn answered<'r, 'e>(
    error: ErrorCode,
    leader: LeaderAndEpoch,
    content: Content<'r>,
    mut endpoints: impl Iterator<Item = (BrokerId, &'e str, u16)>,
) -> ReadAnswer<'r> {
    let endpoint = endpoints.find(|(id, ..)| leader.leader_id == Some(*id));
    let answer = Answer::Answer {
        error,
        leader,
        content,
    };
    ReadAnswer {
        answer,
        error,
        leader: endpoint.map(|(id, host, port)| PeerNode {
            id,
            endpoint: Endpoint::new(host, port),
        }),
    }
}

/// An answer to the request as a whole. It says nothing of the log, nor who leads.
fn refused(code: i16, api: ApiKey) -> ReadAnswer<'static> {
    let error = match ErrorCode::from_code(code) {
        ErrorCode::None => ErrorCode::UnknownServerError,
        error => error,
    };
    tracing::debug!(%api, %error, "the quorum has refused a request");
    ReadAnswer {
        answer: Answer::Nothing,
        error,
        leader: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_that_an_answer_names_the_leader_alone_is_kept() {
        for (leader_id, expect) in [(7, Some(3)), (-1, None), (9, None)] {
            let named = (0..=8).map(|id| (BrokerId(id), "h", id.abs_diff(4) as u16));
            let content = Content::Records {
                bytes: &[],
                high_watermark: Offset(0),
            };
            let leader = leader_and_epoch(BrokerId(leader_id), 1);
            let read = answered(ErrorCode::None, leader, content, named);
            let kept = read
                .leader
                .map(|leader| (leader.id.0, leader.endpoint.port));
            assert_eq!(kept, expect.map(|port| (leader_id, port)), "{leader_id}");
        }
    }
}
