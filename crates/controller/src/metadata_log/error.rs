//! Why the metadata log cannot be opened or written.

use metadata::{BatchContentError, ReplayError, SnapshotError, SnapshotId};
use model::{BrokerId, Offset, Uuid};
use std::path::PathBuf;
use storage::{FileError, StorageError};

/// Why the log directories or the metadata log in one of them cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenMetadataLogError {
    /// The disk failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A small file is damaged.
    #[error(transparent)]
    File(#[from] FileError),
    /// The quorum's log cannot be opened.
    #[error(transparent)]
    Quorum(#[from] raft::OpenError),
    /// The quorum's log cannot be read.
    #[error(transparent)]
    Read(#[from] raft::ReadError),
    /// Two log directories belong to different clusters.
    #[error(
        "log directory `{}` belongs to cluster `{found}`, not `{expected}`; set `log.dirs` to \
         directories of one cluster",
        directory.display()
    )]
    ClusterId {
        /// The directory.
        directory: PathBuf,
        /// The cluster it belongs to.
        found: String,
        /// The cluster it should belong to.
        expected: String,
    },
    /// A log directory belongs to another node.
    #[error(
        "log directory `{}` belongs to node {found}, not {expected}; set `node.id` to {found}, or \
         `log.dirs` to other directories",
        directory.display()
    )]
    NodeId {
        /// The directory.
        directory: PathBuf,
        /// The node it belongs to.
        found: BrokerId,
        /// The configured `node.id`.
        expected: BrokerId,
    },
    /// Two log directories are copies of one another.
    #[error("log directory `{}` has the directory.id {id} of another one", directory.display())]
    DuplicateDirectoryId {
        /// The directory.
        directory: PathBuf,
        /// The id that both have.
        id: Uuid,
    },
    /// A directory that is in use has lost the file that says whose it is.
    #[error(
        "log directory `{}` holds {content} but no `meta.properties`: restore it with version=1, \
         node.id={node_id}, {} and {}; or set `log.dirs` to an empty directory",
        directory.display(),
        directory_id_wanted(directory_ids),
        cluster_id_wanted(cluster_id.as_deref())
    )]
    NoMetaProperties {
        /// The directory.
        directory: PathBuf,
        /// What it holds: a metadata log, or partitions.
        content: &'static str,
        /// This node.
        node_id: BrokerId,
        /// Which `directory.id` it may have; empty when nothing says it.
        directory_ids: Vec<Uuid>,
        /// The cluster that the other log directories belong to.
        cluster_id: Option<String>,
    },
    /// The directory of the metadata log has none, and another one is in use.
    #[error(
        "log directory `{}` is to hold the metadata log and has none, but `{}` belongs to a cluster \
         already: mount the disk of the metadata log, or set `metadata.log.dir` to the directory \
         that has it",
        directory.display(),
        used.display()
    )]
    NoMetadata {
        /// The directory of the metadata log.
        directory: PathBuf,
        /// A directory that has been used.
        used: PathBuf,
    },
    /// The directory of the metadata log has none, and partitions.
    #[error(
        "log directory `{}` holds partitions, but not the metadata log that says whose they are: \
         restore its folder `__cluster_metadata-0`, mount the disk that has it, or set \
         `metadata.log.dir` to the directory that has it",
        directory.display()
    )]
    LostMetadata {
        /// The directory.
        directory: PathBuf,
    },
    /// A directory is empty, and another one that the metadata know is missing.
    #[error(
        "log directory `{}` has no `meta.properties`, and the directory {} with {partition_count} \
         partitions of this broker is in none of `log.dirs`. Does another process of the cluster run \
         with this `node.id`? Then give this one an id of its own. Else mount its disk. If that is lost for \
         good, say so as to Apache Kafka: format `{}` (`kafka-storage.sh format \
         --ignore-formatted`, or copy `meta.properties` of another log directory there without \
         its line `directory.id`), or take it out of `log.dirs`; the partitions have no leader \
         until their topics are deleted",
        directory.display(),
        ids_listed(ids),
        directory.display()
    )]
    LostDirectory {
        /// The empty directory.
        directory: PathBuf,
        /// The ids that no directory has.
        ids: Vec<Uuid>,
        /// How many partitions are in those.
        partition_count: usize,
    },
    /// A directory is empty, and the metadata cannot tell whether partitions are missing in it.
    #[error(
        "log directory `{}` is not formatted, and the metadata log is in use: below metadata.version \
         3.7-IV2 it does not say in which directory a partition is, so `{}` may be where a disk is \
         missing. Mount its disk, or leave it out of `log.dirs`",
        directory.display(),
        directory.display()
    )]
    UnformattedDirectory {
        /// The empty directory.
        directory: PathBuf,
    },
    /// A snapshot is damaged, or holds what this build does not know.
    #[error("snapshot {id}: {error}")]
    Snapshot {
        /// Which one.
        id: SnapshotId,
        /// What is wrong.
        error: SnapshotError,
    },
    /// `bootstrap.checkpoint` is damaged, or holds what this build does not know.
    #[error("`bootstrap.checkpoint`: {0}")]
    Bootstrap(SnapshotError),
    /// The records of a new cluster do not say its metadata version.
    #[error(transparent)]
    NoMetadataVersion(#[from] crate::bootstrap::NoMetadataVersion),
    /// A batch of the log is damaged, or holds what this build does not know.
    #[error("metadata log: {0}")]
    Content(#[from] BatchContentError),
    /// A record does not fit those before it.
    #[error("metadata log, offset {offset}: {error}")]
    Replay {
        /// The offset of the record's batch.
        offset: Offset,
        /// What is wrong.
        error: ReplayError,
    },
    /// Features are finalized that this build cannot work with.
    #[error(
        "{} finalized in this cluster, which this version cannot work with; nothing was changed: \
         set lower levels with the version that finalized them",
        features_listed(features)
    )]
    Features {
        /// Each with its level.
        features: Vec<(String, i16)>,
    },
    /// The first records could not be written.
    #[error(transparent)]
    Append(#[from] AppendMetadataError),
}

fn directory_id_wanted(ids: &[Uuid]) -> String {
    match ids {
        [] => "the directory.id that it had".to_owned(),
        [id] => format!("directory.id={id} (from the metadata)"),
        ids => format!(
            "the directory.id that it had (one of {}, from the metadata)",
            ids_listed(ids)
        ),
    }
}

fn cluster_id_wanted(id: Option<&str>) -> String {
    match id {
        Some(id) => format!("cluster.id={id}"),
        None => "the cluster.id that clients know the cluster by".to_owned(),
    }
}

fn ids_listed(ids: &[Uuid]) -> String {
    let named: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    named.join(", ")
}

fn features_listed(features: &[(String, i16)]) -> String {
    let named: Vec<String> = features
        .iter()
        .map(|(name, level)| format!("`{name}={level}`"))
        .collect();
    let verb = if named.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", named.join(", "))
}

/// Why records were not appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendMetadataError {
    /// The records do not fit the image: a decision was wrong. Nothing was written.
    #[error("decided record {index} does not fit: {error}")]
    Replay {
        /// Which of the records.
        index: usize,
        /// What is wrong.
        error: ReplayError,
    },
    /// A record is larger than a batch of the log can be. Nothing was written.
    #[error(
        "decided record {index} has {size_bytes} bytes, more than a batch of the metadata log holds"
    )]
    TooLarge {
        /// Which of the records.
        index: usize,
        /// The size of its value.
        size_bytes: usize,
    },
    /// The quorum's log takes nothing; [`super::MetadataLog::has_failed`] tells whether a later
    /// append may succeed.
    #[error(transparent)]
    Quorum(#[from] raft::AppendError),
}

/// Why an answer of the quorum was not taken.
#[derive(Debug, thiserror::Error)]
pub enum FollowMetadataError {
    /// The log does not take it.
    #[error(transparent)]
    Observer(#[from] raft::ObserverError),
    /// What is committed cannot be read, or is not known.
    #[error(transparent)]
    Load(#[from] OpenMetadataLogError),
}

impl FollowMetadataError {
    /// Whether asking again is of no use: the quorum has lost what was committed, or has committed what this
    /// build does not know.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Observer(error) => matches!(
                error,
                raft::ObserverError::BelowHighWatermark { .. }
                    | raft::ObserverError::TwoLeaders { .. }
                    | raft::ObserverError::Content(_)
            ),
            Self::Load(error) => !matches!(error, OpenMetadataLogError::Read(_)),
        }
    }
}
