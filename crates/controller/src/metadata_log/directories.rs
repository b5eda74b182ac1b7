//! Log directories before anything else is opened: whose they are, and new ones made.
//!
//! No format step is needed. What `kafka-storage format --standalone` writes is written at the
//! first start: `meta.properties` and `bootstrap.checkpoint` into every log directory, and the
//! first voters as snapshot `0-0` into the one of the metadata log. A directory that was formatted
//! by Apache Kafka is taken as it is, and one that was added later gets its `meta.properties`.
//!
//! ```text
//!   find_log_directories   whose are they?     the one of the metadata log is made, if all are new
//!   MetadataLog::load      which ones has this broker?
//!   prepare                the others are made, unless one that the broker has is missing:
//!                          then an empty directory may be where its disk was mounted. Below
//!                          metadata.version 3.7-IV2 nobody knows, and none is made
//! ```

use super::error::OpenMetadataLogError;
use super::recorded_ids::RecordedIds;
use metadata::{
    LOST_DIRECTORY, MIGRATING_DIRECTORY, MetadataImage, MetadataRecord, SnapshotId, SnapshotQuorum,
    UNASSIGNED_DIRECTORY, Voter, VoterEndpoint, bootstrap_snapshot, write_snapshot,
};
use model::{BrokerId, Uuid};
use raft::{KRAFT_VERSIONS, METADATA_LOG_FOLDER, log_files};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use storage::disk::Disk;
use storage::log_directory::{PartitionDirectory, PartitionDirectoryState, scan_log_directory};
use storage::meta_properties::{MetaProperties, read_meta_properties, write_meta_properties};
use storage::{StorageError, replace_file};

/// The records of a new cluster, in every log directory.
pub const BOOTSTRAP_CHECKPOINT: &str = "bootstrap.checkpoint";

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
    /// Whether the node follows the quorum of others: it makes no cluster, and what its own copy of the
    /// metadata log has lost comes from them.
    pub is_observer: bool,
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogDirectories {
    /// The cluster they belong to.
    pub cluster_id: String,
    /// The directories in the order of configuration, each with its id.
    pub directories: Vec<(PathBuf, Uuid)>,
    /// Whether the cluster was made just now.
    pub is_new_cluster: bool,
    /// Directories that could not be made, with the reason.
    pub failed: Vec<(PathBuf, String)>,
}

/// The log directories of this node, of which only that of the metadata log is sure to be prepared.
#[derive(Debug)]
pub struct FoundDirectories {
    prepared: LogDirectories,
    /// Those without an id, and whether they have no `meta.properties` at all.
    rest: Vec<(PathBuf, bool)>,
}

impl LogDirectories {
    /// The id of a directory.
    pub fn id_of(&self, directory: &Path) -> Option<Uuid> {
        let found = self.directories.iter().find(|(path, _)| path == directory);
        found.map(|(_, id)| *id)
    }
}

/// The id of the cluster that log directories of this node belong to; `None` while all are new.
///
/// # Errors
/// When they belong to other nodes or to several clusters, or fail.
pub fn recorded_cluster_id<D: Disk>(
    disk: &D,
    directories: &[PathBuf],
    node_id: BrokerId,
) -> Result<Option<String>, OpenMetadataLogError> {
    let mut found = Vec::new();
    for directory in directories {
        found.push((directory.clone(), read_meta_properties(disk, directory)?));
    }
    check_owner(&found, node_id)
}

/// Checks whose the log directories are, and prepares the one of the metadata log. The folders must
/// exist and be locked by the caller.
///
/// # Errors
/// When directories belong to other nodes or clusters, are copies of one another, or fail; when the
/// metadata log's is empty and another one is not.
pub fn find_log_directories<D: Disk>(
    disk: &D,
    options: &mut DirectoryOptions<'_>,
) -> Result<FoundDirectories, OpenMetadataLogError> {
    let mut found = Vec::new();
    for directory in options.directories {
        found.push((directory.clone(), read_meta_properties(disk, directory)?));
    }
    let cluster_id = check_owner(&found, options.node_id)?;
    check_not_in_use(disk, options, &found, cluster_id.as_deref())?;
    let mut prepared = LogDirectories {
        is_new_cluster: cluster_id.is_none() && !options.is_observer,
        cluster_id: cluster_id.unwrap_or_else(|| options.new_cluster_id.to_owned()),
        ..LogDirectories::default()
    };
    let mut rest = Vec::new();
    let used = found
        .iter()
        .find(|(_, properties)| properties.is_some())
        .map(|(directory, _)| directory.clone());
    if used.is_some()
        && !options.is_observer
        && !has_metadata(disk, options.metadata_directory)?
        && let Some(used) = with_partitions(disk, options)?
    {
        let directory = options.metadata_directory.to_owned();
        return Err(match used == directory {
            true => OpenMetadataLogError::LostMetadata { directory },
            false => OpenMetadataLogError::NoMetadata { directory, used },
        });
    }
    // The metadata directory comes first: a crash in between leaves it whole, and the others like
    // directories that were added later.
    found.sort_by_key(|(directory, _)| directory != options.metadata_directory);
    for (directory, properties) in found {
        let is_empty = properties.is_none();
        let is_of_metadata = directory == options.metadata_directory && !options.is_observer;
        match (
            properties.and_then(|found| found.directory_id),
            used.as_ref(),
        ) {
            (Some(id), _) => prepared.add(directory, id)?,
            (None, Some(used)) if is_of_metadata && is_empty => {
                return Err(OpenMetadataLogError::NoMetadata {
                    directory,
                    used: used.clone(),
                });
            }
            (None, _) if is_of_metadata => {
                let id = prepare_directory(disk, &directory, &prepared, is_empty, options)?;
                prepared.add(directory, id)?;
            }
            (None, _) => rest.push((directory, is_empty)),
        }
    }
    Ok(FoundDirectories { prepared, rest })
}

/// A directory without `meta.properties` must be a new one: what is in use would get another id, and
/// perhaps another cluster's.
fn check_not_in_use<D: Disk>(
    disk: &D,
    options: &DirectoryOptions<'_>,
    found: &[(PathBuf, Option<MetaProperties>)],
    cluster_id: Option<&str>,
) -> Result<(), OpenMetadataLogError> {
    let unnamed = found.iter().filter(|(_, properties)| properties.is_none());
    for (directory, _) in unnamed {
        let Some(content) = content_of(disk, directory, options.is_observer)? else {
            continue;
        };
        let recorded = RecordedIds::read(disk, options.metadata_directory, options.node_id);
        let is_of_metadata = directory == options.metadata_directory;
        let here = found.iter().filter_map(|(_, found)| found.as_ref());
        let here: Vec<_> = here.filter_map(|found| found.directory_id).collect();
        let is_possible = |id: &Uuid| !here.contains(id) && recorded.metadata != Some(*id);
        let directory_ids = match recorded.metadata {
            Some(id) if is_of_metadata => vec![id],
            _ => recorded.all.iter().copied().filter(is_possible).collect(),
        };
        return Err(OpenMetadataLogError::NoMetaProperties {
            directory: directory.clone(),
            content,
            node_id: options.node_id,
            directory_ids,
            cluster_id: cluster_id.map(str::to_owned),
        });
    }
    Ok(())
}

/// What a directory holds that only a broker can have written after its `meta.properties`. An observer writes
/// its copy of the metadata log before.
fn content_of<D: Disk>(
    disk: &D,
    directory: &Path,
    is_observer: bool,
) -> Result<Option<&'static str>, StorageError> {
    let first_voter = SnapshotId::BOOTSTRAP.to_string();
    let mut metadata = log_files(disk, directory)?.into_iter();
    if !is_observer && metadata.any(|name| name != first_voter) {
        return Ok(Some("a metadata log"));
    }
    let content = scan_log_directory(disk, directory)?;
    let mut partitions = content.partitions.iter();
    let is_log = |one: &PartitionDirectory| {
        one.state == PartitionDirectoryState::Current && one.name != METADATA_LOG_FOLDER
    };
    Ok(partitions.any(is_log).then_some("partitions"))
}

/// Whether a directory holds a metadata log or a snapshot of one.
fn has_metadata<D: Disk>(disk: &D, directory: &Path) -> Result<bool, StorageError> {
    Ok(!log_files(disk, directory)?.is_empty())
}

/// A directory that holds a partition, or a metadata log elsewhere than it should be: that of the
/// metadata log if it is one.
fn with_partitions<D: Disk>(
    disk: &D,
    options: &DirectoryOptions<'_>,
) -> Result<Option<PathBuf>, StorageError> {
    let mut directories: Vec<&PathBuf> = options.directories.iter().collect();
    directories.sort_by_key(|directory| *directory != options.metadata_directory);
    for directory in directories {
        let content = scan_log_directory(disk, directory)?;
        let is_metadata =
            |name: &str| name == METADATA_LOG_FOLDER && *directory == options.metadata_directory;
        let mut partitions = content.partitions.iter();
        if partitions
            .any(|one| one.state == PartitionDirectoryState::Current && !is_metadata(&one.name))
        {
            return Ok(Some(directory.clone()));
        }
    }
    Ok(None)
}

/// The log directories that the metadata know of a broker, each with the number of its partitions;
/// `None` when there are metadata, of a version that knows nothing of directories.
pub fn known_directories(
    image: &MetadataImage,
    node_id: BrokerId,
) -> Option<BTreeMap<Uuid, usize>> {
    if !image.is_empty() && !image.metadata_version().supports_directory_assignment() {
        return None;
    }
    let registered = image.cluster.broker(node_id).into_iter();
    let registered = registered.flat_map(|broker| broker.directories.iter().copied());
    let mut known: BTreeMap<Uuid, usize> = registered.map(|id| (id, 0)).collect();
    for topic in image.topics.iter() {
        for (_, partition) in topic.partitions.iter() {
            if let Some(id) = partition.directory_of(node_id) {
                *known.entry(id).or_default() += 1;
            }
        }
    }
    for reserved in [LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY] {
        known.remove(&reserved);
    }
    Some(known)
}

impl LogDirectories {
    fn add(&mut self, directory: PathBuf, id: Uuid) -> Result<(), OpenMetadataLogError> {
        if self.directories.iter().any(|(_, other)| *other == id) {
            return Err(OpenMetadataLogError::DuplicateDirectoryId { directory, id });
        }
        self.directories.push((directory, id));
        Ok(())
    }
}

impl FoundDirectories {
    /// The cluster of the directories, and those that have an id.
    pub const fn prepared(&self) -> &LogDirectories {
        &self.prepared
    }

    /// Prepares the directories that are new, given those that the metadata `known` of this broker;
    /// `None` when they know of none.
    ///
    /// # Errors
    /// When one that is known is missing, and one that is empty may be the place of its disk.
    pub fn prepare<D: Disk>(
        self,
        disk: &D,
        options: &mut DirectoryOptions<'_>,
        known: Option<&BTreeMap<Uuid, usize>>,
    ) -> Result<LogDirectories, OpenMetadataLogError> {
        let Self { mut prepared, rest } = self;
        let empty = rest.iter().find(|(_, is_empty)| *is_empty);
        if let (None, Some((directory, _))) = (known, empty) {
            let directory = directory.clone();
            return Err(OpenMetadataLogError::UnformattedDirectory { directory });
        }
        let is_here = |id: &Uuid| prepared.directories.iter().any(|(_, here)| here == id);
        let missing = known.into_iter().flatten().filter(|(id, _)| !is_here(id));
        let (ids, counts): (Vec<Uuid>, Vec<usize>) = missing.unzip();
        if let Some((directory, _)) = empty.filter(|_| !ids.is_empty()) {
            return Err(OpenMetadataLogError::LostDirectory {
                directory: directory.clone(),
                ids,
                partition_count: counts.iter().sum(),
            });
        }
        for (directory, is_empty) in rest {
            match prepare_directory(disk, &directory, &prepared, is_empty, options) {
                Ok(id) => prepared.add(directory, id)?,
                Err(error) => prepared.failed.push((directory, error.to_string())),
            }
        }
        let order = |directory: &PathBuf| options.directories.iter().position(|d| d == directory);
        prepared
            .directories
            .sort_by_key(|(directory, _)| order(directory));
        Ok(prepared)
    }
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
) -> Result<Uuid, StorageError> {
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

fn sync_directory<D: Disk>(disk: &D, directory: &Path) -> Result<(), StorageError> {
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
