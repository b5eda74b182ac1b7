//! Why a replica of the quorum's log cannot be opened, written, read, or follow its leader.

use metadata::{BatchContentError, QuorumStateError, SnapshotError, SnapshotId};
use model::{BrokerId, ErrorCode, LeaderEpoch, Offset, Uuid};
use std::path::{Path, PathBuf};
use storage::StorageError;

/// Why a replica cannot be opened, or cannot begin to lead.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The disk failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The log itself cannot be opened.
    #[error("cannot open the metadata log: {0}")]
    Log(String),
    /// A batch that was durable once is damaged.
    #[error(
        "`{}` is damaged at position {position}, and not as a crash would leave it; nothing was \
         changed: restore the file from a copy{}",
        file.display(),
        note_advice(note.as_deref())
    )]
    Damaged {
        /// The segment's file.
        file: PathBuf,
        /// Where the damaged batch begins.
        position: u64,
        /// The file by which an earlier run says that it had synced what is damaged.
        note: Option<PathBuf>,
    },
    /// The log was there once, and is gone.
    #[error(
        "`{}` holds nothing of the metadata log, of which an earlier run had synced all below offset \
         {end_offset}; nothing was changed: restore the folder, or mount the disk that has it. Whoever \
         removes the note `{}` gives up the metadata of the cluster",
        folder.display(),
        note.display()
    )]
    Missing {
        /// The folder of the log.
        folder: PathBuf,
        /// Where the log ended, or beyond.
        end_offset: Offset,
        /// The file by which an earlier run says so.
        note: PathBuf,
    },
    /// The file `quorum-state` is damaged.
    #[error("`{}`: {error}", file.display())]
    QuorumState {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        error: QuorumStateError,
    },
    /// A snapshot is damaged, or holds what this build does not know.
    #[error("snapshot {id}: {error}")]
    Snapshot {
        /// Which one.
        id: SnapshotId,
        /// What is wrong.
        error: SnapshotError,
    },
    /// The newest snapshot is larger than one can be.
    #[error(
        "`{}` has {size_bytes} bytes, and neither this version nor Apache Kafka reads a snapshot of more than \
         {size_bytes_max}. Move it elsewhere: the snapshot before it, and the log, have the same if they are still \
         there",
        file.display()
    )]
    SnapshotTooLarge {
        /// Its file.
        file: PathBuf,
        /// How large it is.
        size_bytes: u64,
        /// How large it may be.
        size_bytes_max: u64,
    },
    /// The log starts beyond zero, and no snapshot says what came before.
    #[error("the metadata log starts at offset {log_start_offset}, and no snapshot reaches there")]
    MissingSnapshot {
        /// Where the log starts.
        log_start_offset: Offset,
    },
    /// A control batch of the log is damaged, or holds what this build does not know.
    #[error("metadata log: {0}")]
    Content(#[from] BatchContentError),
    /// A new directory, and nothing says who votes: Apache Kafka waits until a quorum takes such a
    /// node in.
    #[error(
        "log directory `{}` holds no metadata log: if it had one, restore its folder \
         `__cluster_metadata-0` and format nothing. If it was formatted without voters, as by `kafka-storage \
         format --no-initial-controllers`: this build joins no other quorum; format it with \
         `kafka-storage format --standalone` instead, or leave it empty, or set \
         `controller.quorum.voters` to {node_id}@ and the address of the controller's listener",
        directory.display()
    )]
    NoVoters {
        /// The directory.
        directory: PathBuf,
        /// This node.
        node_id: BrokerId,
    },
    /// The quorum has other voters than this node alone.
    #[error(
        "the quorum has the voters {voters:?}; this build can only be a quorum of its own, node {node_id}"
    )]
    VoterSet {
        /// The voters.
        voters: Vec<BrokerId>,
        /// This node.
        node_id: BrokerId,
    },
    /// The voter of this node's id keeps its log in another directory.
    #[error(
        "the voter {node_id} has the directory.id {found}, but `metadata.log.dir` has {expected}"
    )]
    VoterDirectory {
        /// This node.
        node_id: BrokerId,
        /// The directory of the voter.
        found: Uuid,
        /// The directory that was given.
        expected: Uuid,
    },
    /// The level of `kraft.version` is unknown.
    #[error("kraft.version {0} is not between 0 and 1")]
    KRaftVersion(i16),
    /// The first records of an epoch could not be written.
    #[error(transparent)]
    Append(#[from] AppendError),
}

fn note_advice(note: Option<&Path>) -> String {
    note.map_or_else(String::new, |note| {
        format!(
            ". An earlier run had synced what is damaged or missing now; whoever removes its note \
             `{}` accepts that the log is cut there",
            note.display()
        )
    })
}

/// Why batches were not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// This replica does not lead the quorum.
    #[error("this node does not lead the quorum")]
    NotLeader,
    /// The log could not be written or flushed; [`super::Replica::has_failed`] tells whether a
    /// later append may succeed.
    #[error("cannot write the metadata log: {0}")]
    Log(String),
    /// An earlier write failed, so nothing is written any more.
    #[error("the metadata log failed earlier and takes no more records")]
    Failed,
}

/// Why what is committed cannot be read. Nothing of it is lost: it is read again the next time.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The disk failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The log cannot be read.
    #[error("cannot read the metadata log: {0}")]
    Log(String),
}

/// Why an observer has not done what its leader says. It goes on where that may pass: after a lack of
/// room, and with another leader.
#[derive(Debug, thiserror::Error)]
pub enum ObserverError {
    /// The disk failed; [`super::Replica::has_failed`] tells whether for good.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The log takes no records any more, or none for now.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// What the leader has sent is no batch that can follow the end of the log.
    #[error("the leader has sent what is no part of its log: {0}")]
    Records(String),
    /// A control batch holds what this build does not know.
    #[error("metadata log: {0}")]
    Content(#[from] BatchContentError),
    /// A snapshot is damaged.
    #[error("snapshot {id}: {error}")]
    Snapshot {
        /// Which one.
        id: SnapshotId,
        /// What is wrong.
        error: SnapshotError,
    },
    /// A piece of a snapshot is not the one that was asked for.
    #[error("the leader has sent another piece of snapshot {id} than that at {position}")]
    Piece {
        /// The snapshot that was asked for.
        id: SnapshotId,
        /// The position that was asked for.
        position: u64,
    },
    /// The leader's log does not hold what this replica knows as committed: the quorum has lost
    /// records, or this is the log of another cluster.
    #[error(
        "the leader's log leaves this one at offset {offset}, and what is below {high_watermark} \
         is committed: is `{}` the directory of another cluster? Else the controller has lost records: \
         stop it, and restore its newest directory. Removing this folder gives up what the controller lacks",
        directory.display()
    )]
    BelowHighWatermark {
        /// Where the leader says that the logs part.
        offset: Offset,
        /// The high watermark of this replica.
        high_watermark: Offset,
        /// The log's directory.
        directory: PathBuf,
    },
    /// Two nodes are said to lead one epoch.
    #[error("nodes {known} and {named} are both said to lead epoch {epoch}")]
    TwoLeaders {
        /// The epoch.
        epoch: LeaderEpoch,
        /// The leader that was known.
        known: BrokerId,
        /// The other one.
        named: BrokerId,
    },
    /// The leader takes the request for one that is wrong in itself.
    #[error("the leader refuses to be fetched from: {0:?}")]
    Refused(ErrorCode),
}
