//! What nodes and clients ask one another, as values; what replicas fetch goes through the product's codec.

use super::judge::{Deleted, Log};
use super::schedule::NodeId;
use crate::protocol;
use controller::{ControllerRequest, ControllerResponse};
use coordinator::transaction::{MarkersToWrite, PartitionsToAdd};
use metadata::SnapshotId;
use model::{BrokerId, ErrorCode, LeaderEpoch, Offset, Uuid};
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
    /// It ends transactions in partitions that another broker leads.
    Markers(BrokerId),
    /// It asks another broker about transactions that this one coordinates.
    Verification(BrokerId),
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
    /// WriteTxnMarkers, of a coordinator.
    WriteMarkers(Vec<MarkersToWrite>),
    /// AddPartitionsToTxn, of a leader.
    AddPartitions(Vec<PartitionsToAdd>),
    /// Who leads what.
    Leaders,
    /// ListOffsets of a consumer: where the log ends.
    EndOffset {
        log: Log,
        leader_epoch: LeaderEpoch,
        is_committed: bool,
    },
    /// OffsetForLeaderEpoch: where an epoch has ended.
    EpochEnd {
        log: Log,
        leader_epoch: LeaderEpoch,
        epoch: LeaderEpoch,
    },
    /// What a client asks of the leader of an epoch.
    Client(protocol::Ask, LeaderEpoch),
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
    /// What has become of each partition of each transaction.
    Outcomes(Vec<Vec<ErrorCode>>),
    Leaders(Vec<PartitionLeader>),
    EndOffset(Result<i64, ErrorCode>),
    /// The largest epoch that is not above that which was asked about, and where it ends.
    EpochEnd(Result<(LeaderEpoch, Offset), ErrorCode>),
    Client(protocol::Answer),
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
    pub(super) topic: &'static str,
    pub(super) topic_id: Uuid,
    pub(super) partition: i32,
    pub(super) leader: BrokerId,
    pub(super) leader_epoch: LeaderEpoch,
}

/// What a node sends at a moment.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// To whom, of which channel, what, and after how long no answer is waited for.
    pub(super) requests: Vec<(NodeId, Channel, Ask, i64)>,
    pub(super) answers: Vec<(Caller, Answer)>,
    /// What those say that is deleted.
    pub(super) deleted: Vec<Deleted>,
}

impl Outbox {
    pub(super) fn ask(&mut self, to: NodeId, channel: Channel, ask: Ask, timeout_ms: i64) {
        self.requests.push((to, channel, ask, timeout_ms));
    }

    pub(super) fn answer(&mut self, caller: Caller, answer: Answer) {
        self.answers.push((caller, answer));
    }

    /// Answers a client.
    pub(super) fn tell(&mut self, caller: Caller, answer: protocol::Answer) {
        self.answer(caller, Answer::Client(answer));
    }
}
