//! What an observer asks the quorum, and what it is answered: Fetch and FetchSnapshot (KIP-595,
//! KIP-630) without their encoding. Whoever has the socket translates.

use metadata::SnapshotId;
use model::{BrokerId, ErrorCode, LeaderEpoch, Offset};
use storage::leader_epochs::LeaderEpochEnd;

/// An epoch, and who leads it if that is known. Every answer names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderAndEpoch {
    /// The leader.
    pub leader_id: Option<BrokerId>,
    /// The epoch.
    pub epoch: LeaderEpoch,
}

/// Whom a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient {
    /// The leader.
    Leader(BrokerId),
    /// Any voter or bootstrap server, another one each time: it knows who leads.
    Anyone,
}

/// A request to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// By which its answer is told from that of an earlier one.
    pub number: u64,
    /// Whom it is for.
    pub to: Recipient,
    /// The epoch that this node is in.
    pub leader_epoch: LeaderEpoch,
    /// What it asks for.
    pub wanted: Wanted,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The log from an offset on.
    Log {
        /// The end of what is here, or where the last batch begins, to be compared.
        fetch_offset: Offset,
        /// The epoch of the last batch before that, by which the leader sees whether the logs part.
        last_fetched_epoch: LeaderEpoch,
        /// What is known as committed here; a leader that knows more answers at once.
        high_watermark: Offset,
    },
    /// A snapshot from a position on.
    Snapshot {
        /// Which one.
        id: SnapshotId,
        /// How much of it is here.
        position: u64,
    },
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Nothing: the connection was lost, or there was none.
    Nothing,
    /// An answer.
    Answer {
        /// The error of the whole or of the one partition.
        error: ErrorCode,
        /// Who leads, as the one who answers knows it.
        leader: LeaderAndEpoch,
        /// What was asked for.
        content: Content<'a>,
    },
}

/// What an answer brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content<'a> {
    /// Batches of the log from the offset on that was asked for, the last one perhaps in part.
    Records {
        /// The batches; none when there is nothing new.
        bytes: &'a [u8],
        /// The end of what is committed; negative while the leader does not know it.
        high_watermark: Offset,
    },
    /// The logs part: the leader has of this epoch, or of the last one before it, so much.
    Diverging(LeaderEpochEnd),
    /// What was asked for is in a snapshot only.
    SnapshotId(SnapshotId),
    /// A piece of a snapshot.
    Piece(SnapshotPiece<'a>),
}

/// A piece of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotPiece<'a> {
    /// Of which snapshot.
    pub id: SnapshotId,
    /// How large the whole snapshot is.
    pub size_bytes: u64,
    /// Where the piece belongs.
    pub position: u64,
    /// The piece. It need not end where a batch does.
    pub bytes: &'a [u8],
}
