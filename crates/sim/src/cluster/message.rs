//! What nodes and clients ask one another, as values; what replicas fetch goes through the product's codec.

use super::schedule::NodeId;
use controller::{ControllerRequest, ControllerResponse};
use metadata::SnapshotId;
use model::{BrokerId, ErrorCode, LeaderEpoch, Uuid};
use raft::{LeaderAndEpoch, Request};
use storage::leader_epochs::LeaderEpochEnd;

/// For what a node keeps a connection to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Channel {
    /// It follows the metadata.
    Quorum,
    /// It registers, and says that it lives.
    Heartbeats,
    /// It tells who is in sync.
    InSyncReplicas,
    /// It asks for anything else that the controller decides.
    Controller,
    /// It follows a leader.
    Fetcher(BrokerId),
    /// A client.
    Client(usize),
}

/// Whose request it is: an answer counts while that of its number is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Caller {
    pub(super) place: NodeId,
    /// How often the node has started.
    pub(super) run: u64,
    pub(super) channel: Channel,
    pub(super) number: u64,
}

/// A request.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    /// Of the metadata log, by a broker.
    Quorum(BrokerId, Request),
    Control(Box<ControllerRequest>),
    /// Fetch, of replicas, encoded.
    ReplicaFetch(Vec<u8>),
    /// ListOffsets, of replicas, encoded.
    ReplicaListOffsets(Vec<u8>),
    Metadata,
    InitProducerId,
    Produce {
        topic_id: Uuid,
        partition: i32,
        records: Vec<u8>,
    },
    Fetch {
        topic_id: Uuid,
        partition: i32,
        leader_epoch: LeaderEpoch,
        offset: i64,
    },
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Quorum {
        error: ErrorCode,
        leader: LeaderAndEpoch,
        content: QuorumContent,
    },
    Control(Result<Box<ControllerResponse>, ErrorCode>),
    Bytes(Vec<u8>),
    Metadata(Vec<PartitionLeader>),
    ProducerId(Result<i64, ErrorCode>),
    Produced {
        error: ErrorCode,
        base_offset: i64,
    },
    Fetched(Result<FetchedRecords, ErrorCode>),
}

/// What the answer to a fetch of the metadata log brings.
#[derive(Debug, Clone)]
pub(super) enum QuorumContent {
    Records {
        bytes: Vec<u8>,
        high_watermark: i64,
    },
    Diverging(LeaderEpochEnd),
    SnapshotId(SnapshotId),
    Piece {
        id: SnapshotId,
        size_bytes: u64,
        position: u64,
        bytes: Vec<u8>,
    },
}

/// Who leads a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartitionLeader {
    /// Where the topic stands among those of the world.
    pub(super) topic: usize,
    pub(super) topic_id: Uuid,
    pub(super) partition: i32,
    pub(super) leader: BrokerId,
    pub(super) leader_epoch: LeaderEpoch,
}

/// What a consumer gets.
#[derive(Debug, Clone)]
pub(super) struct FetchedRecords {
    pub(super) log_start_offset: i64,
    pub(super) high_watermark: i64,
    pub(super) records: Vec<u8>,
}

/// What a node sends at a moment.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// To whom, of which channel, what, and after how long no answer is waited for.
    pub(super) requests: Vec<(NodeId, Channel, Ask, i64)>,
    pub(super) answers: Vec<(Caller, Answer)>,
}

impl Outbox {
    pub(super) fn ask(&mut self, to: NodeId, channel: Channel, ask: Ask, timeout_ms: i64) {
        self.requests.push((to, channel, ask, timeout_ms));
    }

    pub(super) fn answer(&mut self, caller: Caller, answer: Answer) {
        self.answers.push((caller, answer));
    }
}
