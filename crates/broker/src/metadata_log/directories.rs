//! Log directories before anything else is opened: whose they are, and new ones made.
//!
//! No format step is needed. What `kafka-storage format --standalone` writes is written at the
//! first start: `meta.properties` and `bootstrap.checkpoint` into every log directory, and the
//! first voters as snapshot `0-0` into the one of the metadata log. A directory that was formatted
//! by Apache Kafka is taken as it is, and one that was added later gets its `meta.properties`.

use super::error::OpenMetadataLogError;
use metadata::{
    MetadataImage, MetadataRecord, SnapshotId, SnapshotQuorum, VersionRange, Voter, VoterEndpoint,
    bootstrap_snapshot, write_snapshot,
};
use model::{BrokerId, Uuid};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use storage::disk::Disk;
use storage::meta_properties::{MetaProperties, read_meta_properties, write_meta_properties};
use storage::{StorageError, replace_file};

/// The folder of the metadata log in its log directory.
pub const METADATA_LOG_FOLDER: &str = "__cluster_metadata-0";
/// The records of a new cluster, in every log directory.
pub const BOOTSTRAP_CHECKPOINT: &str = "bootstrap.checkpoint";
/// The levels of `kraft.version` that this build can work with.
pub const KRAFT_VERSIONS: VersionRange = VersionRange { min: 0, max: 1 };

/// What a new cluster, or a new directory of an old one, is made with.
pub struct DirectoryOptions<'a> {
    /// The configured log directories, `metadata.log.dir` included.
    pub directories: &'a [PathBuf],
    /// Which of them holds the metadata log.
    pub metadata_directory: &'a Path,
    /// The configured `node.id`.
    pub node_id: BrokerId,
    /// The id of a new cluster; an existing cluster keeps its own.
    pub new_cluster_id: &'a str,
    /// Draws the id of a directory.
    pub new_directory_id: &'a mut dyn FnMut() -> Uuid,
    /// Where the controller of a new quorum is reached; `None` when `controller.quorum.voters`
    /// fixes the voters.
    pub new_quorum: Option<Vec<VoterEndpoint>>,
    /// The records of a new cluster.
    pub bootstrap_records: &'a [MetadataRecord],
    /// The time, in milliseconds since the epoch.
    pub now_ms: i64,
}

impl fmt::Debug for DirectoryOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryOptions")
            .field("directories", &self.directories)
            .field("node_id", &self.node_id)
            .finish_non_exhaustive()
    }
}

/// The log directories of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDirectories {
    /// The cluster they belong to.
    pub cluster_id: String,
    /// The directories in the order of configuration, each with its id.
    pub directories: Vec<(PathBuf, Uuid)>,
    /// Whether the cluster was made just now.
    pub is_new_cluster: bool,
}

impl LogDirectories {
    /// The id of a directory.
    pub fn id_of(&self, directory: &Path) -> Option<Uuid> {
        let found = self.directories.iter().find(|(path, _)| path == directory);
        found.map(|(_, id)| *id)
    }
}

/// Checks the log directories and makes what is missing in them. The folders must exist and be
/// locked by the caller.
///
/// # Errors
/// When directories belong to other nodes or clusters, are copies of one another, or fail.
pub fn prepare_log_directories<D: Disk>(
    disk: &D,
    options: &mut DirectoryOptions<'_>,
) -> Result<LogDirectories, OpenMetadataLogError> {
    let mut found = Vec::new();
    for directory in options.directories {
        found.push((directory.clone(), read_meta_properties(disk, directory)?));
    }
    let cluster_id = check_owner(&found, options.node_id)?;
    let is_new_cluster = cluster_id.is_none();
    let cluster_id = cluster_id.unwrap_or_else(|| options.new_cluster_id.to_owned());
    let mut prepared = LogDirectories {
        cluster_id,
        directories: Vec::new(),
        is_new_cluster,
    };
    let mut ids = BTreeSet::new();
    // The metadata directory comes first: a crash in between leaves it whole, and the others like
    // directories that were added later.
    found.sort_by_key(|(directory, _)| directory != options.metadata_directory);
    for (directory, properties) in found {
        let id = match properties.as_ref().and_then(|found| found.directory_id) {
            Some(id) => id,
            None => prepare_directory(disk, &directory, &prepared, properties.is_none(), options)?,
        };
        if !ids.insert(id) {
            return Err(OpenMetadataLogError::DuplicateDirectoryId { directory, id });
        }
        prepared.directories.push((directory, id));
    }
    let order = |directory: &PathBuf| options.directories.iter().position(|d| d == directory);
    prepared
        .directories
        .sort_by_key(|(directory, _)| order(directory));
    Ok(prepared)
}

/// The cluster of the directories; `None` when none belongs to any.
fn check_owner(
    found: &[(PathBuf, Option<MetaProperties>)],
    node_id: BrokerId,
) -> Result<Option<String>, OpenMetadataLogError> {
    let mut cluster_id: Option<&str> = None;
    for (directory, properties) in found {
        let Some(properties) = properties else {
            continue;
        };
        let expected = *cluster_id.get_or_insert(&properties.cluster_id);
        if properties.cluster_id != expected {
            return Err(OpenMetadataLogError::ClusterId {
                directory: directory.clone(),
                found: properties.cluster_id.clone(),
                expected: expected.to_owned(),
            });
        }
        if properties.node_id != node_id {
            return Err(OpenMetadataLogError::NodeId {
                directory: directory.clone(),
                found: properties.node_id,
                expected: node_id,
            });
        }
    }
    Ok(cluster_id.map(str::to_owned))
}

/// Gives a directory its id, and makes the files of a new cluster in it.
fn prepare_directory<D: Disk>(
    disk: &D,
    directory: &Path,
    prepared: &LogDirectories,
    is_empty: bool,
    options: &mut DirectoryOptions<'_>,
) -> Result<Uuid, OpenMetadataLogError> {
    let id = (options.new_directory_id)();
    if prepared.is_new_cluster && is_empty {
        let bytes = bootstrap_snapshot(options.bootstrap_records, options.now_ms);
        replace_file(disk, &directory.join(BOOTSTRAP_CHECKPOINT), &bytes)?;
        if let Some(endpoints) = &options.new_quorum
            && directory == options.metadata_directory
        {
            let voter = Voter {
                id: options.node_id,
                directory_id: id,
                endpoints: endpoints.clone(),
                kraft_version: KRAFT_VERSIONS,
            };
            write_first_voter(disk, directory, voter, options.now_ms)?;
        }
    }
    let properties = MetaProperties {
        cluster_id: prepared.cluster_id.clone(),
        node_id: options.node_id,
        directory_id: Some(id),
    };
    write_meta_properties(disk, directory, &properties, options.now_ms)?;
    Ok(id)
}

/// Writes the snapshot that makes `voter` the first voter of a quorum whose voters can change.
fn write_first_voter<D: Disk>(
    disk: &D,
    directory: &Path,
    voter: Voter,
    now_ms: i64,
) -> Result<(), StorageError> {
    let quorum = SnapshotQuorum {
        kraft_version: KRAFT_VERSIONS.max,
        voters: Some(vec![voter]),
    };
    let mut bytes = Vec::new();
    let mut sink = |batch: &[u8]| {
        bytes.extend_from_slice(batch);
        Ok::<(), Infallible>(())
    };
    let Ok(()) = write_snapshot(&MetadataImage::default(), &quorum, now_ms, &mut sink);
    let folder = directory.join(METADATA_LOG_FOLDER);
    if let Err(source) = disk.create_directory(&folder)
        && source.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(failure("create", &folder, source));
    }
    sync_directory(disk, directory)?;
    let path = folder.join(SnapshotId::BOOTSTRAP.to_string());
    replace_file(disk, &path, &bytes)
}

pub(super) fn sync_directory<D: Disk>(disk: &D, directory: &Path) -> Result<(), StorageError> {
    disk.sync_directory(directory)
        .map_err(|source| failure("sync", directory, source))
}

pub(super) fn failure(
    operation: &'static str,
    file: &Path,
    source: std::io::Error,
) -> StorageError {
    StorageError {
        operation,
        file: file.to_owned(),
        source,
    }
}
