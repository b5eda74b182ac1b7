//! Names in a log directory: which partitions it holds, and what is on its way in or out.
//!
//! ```text
//!   orders-3                                    partition 3 of `orders`
//!   orders-3.<32 hex digits>-delete             removed, its files still to go
//!   orders-3.<32 hex digits>-future             being copied here from another log directory
//!   orders-3.<32 hex digits>-stray              not the cluster's when the broker started
//! ```
//!
//! A topic may itself contain dashes and dots, so names are taken apart from their end. A name on
//! its way out keeps only as much of the topic as fits 255 bytes.

use std::path::Path;

use model::{TopicPartition, Uuid};

use crate::disk::{DirectoryEntry, Disk};
use crate::error::{Context, StorageError};

/// Longest file name of the usual file systems.
const NAME_LENGTH_MAX: usize = 255;
/// Directories that are Kafka's but no partition's.
const OTHER_DIRECTORIES: [&str; 1] = ["remote-log-index-cache"];

/// What a partition's directory is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartitionDirectoryState {
    /// The partition's log.
    Current,
    /// A copy that will replace the log of another log directory.
    Future,
    /// Not the cluster's; kept for its owner to look at.
    Stray,
    /// To be removed.
    Deleted,
}

impl PartitionDirectoryState {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Current => "",
            Self::Future => "-future",
            Self::Stray => "-stray",
            Self::Deleted => "-delete",
        }
    }
}

/// A directory of a partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionDirectory {
    /// The directory's name.
    pub name: String,
    /// Its partition; the topic may be cut short unless the state is `Current` or `Future`.
    pub topic_partition: TopicPartition,
    /// What it is there for.
    pub state: PartitionDirectoryState,
}

impl PartitionDirectory {
    /// Takes a name apart; `None` when it is no partition's.
    pub fn parse(name: &str) -> Option<Self> {
        use PartitionDirectoryState::{Current, Deleted, Future, Stray};
        let unmarked = |state: PartitionDirectoryState| {
            let (rest, id) = name.strip_suffix(state.suffix())?.rsplit_once('.')?;
            (!id.is_empty()).then_some((rest, state))
        };
        let (rest, state) = [Future, Stray, Deleted]
            .into_iter()
            .find_map(unmarked)
            .unwrap_or((name, Current));
        let (topic, partition) = rest.rsplit_once('-')?;
        let digits = !partition.is_empty() && partition.bytes().all(|byte| byte.is_ascii_digit());
        // `orders-03` would be a second directory of one partition.
        let is_padded = partition.len() > 1 && partition.starts_with('0');
        if topic.is_empty() || !digits || is_padded {
            return None;
        }
        Some(Self {
            name: name.to_owned(),
            topic_partition: TopicPartition::new(topic, partition.parse().ok()?),
            state,
        })
    }

    /// The name of a partition's directory in another state than `Current`; `id` makes it unique.
    pub fn marked_name(
        topic_partition: &TopicPartition,
        state: PartitionDirectoryState,
        id: Uuid,
    ) -> String {
        let TopicPartition { topic, partition } = topic_partition;
        let id = u128::from_be_bytes(id.to_bytes());
        let suffix = format!("-{partition}.{id:032x}{}", state.suffix());
        // The name of a copy must give back its topic; a topic long enough to need cutting is
        // refused by the file system instead.
        let kept = match state {
            PartitionDirectoryState::Future => topic.len(),
            _ => topic.len().min(NAME_LENGTH_MAX - suffix.len()),
        };
        format!("{}{suffix}", topic.get(..kept).unwrap_or(topic))
    }
}

/// What a log directory holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogDirectoryContent {
    /// Directories of partitions, by name.
    pub partitions: Vec<PartitionDirectory>,
    /// Names of directories that are nobody's; they are left alone.
    pub unknown: Vec<String>,
}

/// Looks at an entry of a log directory of which it is not known what it stands for. Others than a
/// partition's are left alone.
///
/// # Errors
/// When it has the name of a partition, whose records may be there.
pub fn check_entry(directory: &Path, entry: &DirectoryEntry) -> Result<(), StorageError> {
    let is_in_use = |found: &PartitionDirectory| {
        matches!(
            found.state,
            PartitionDirectoryState::Current | PartitionDirectoryState::Future
        )
    };
    let partition = PartitionDirectory::parse(&entry.name).filter(is_in_use);
    match (entry.failure, partition) {
        (Some(failure), Some(_)) => {
            let path = directory.join(&entry.name);
            Err(StorageError::new("examine", &path, failure.into()))
        }
        _ => Ok(()),
    }
}

/// Lists a log directory.
pub fn scan_log_directory<D: Disk>(
    disk: &D,
    directory: &Path,
) -> Result<LogDirectoryContent, StorageError> {
    let mut content = LogDirectoryContent::default();
    for entry in disk.list(directory).context("list", directory)? {
        check_entry(directory, &entry)?;
        if !entry.is_directory || OTHER_DIRECTORIES.contains(&entry.name.as_str()) {
            continue;
        }
        match PartitionDirectory::parse(&entry.name) {
            Some(partition) => content.partitions.push(partition),
            None => content.unknown.push(entry.name),
        }
    }
    content.partitions.sort();
    content.unknown.sort();
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{OpenMode, RealDisk};
    use crate::sim::SimDisk;
    use PartitionDirectoryState::{Current, Deleted, Future, Stray};

    #[test]
    fn names_are_taken_apart_from_their_end() {
        let check = |name: &str, expected: Option<(&str, i32, PartitionDirectoryState)>| {
            let found = PartitionDirectory::parse(name);
            let found = found.as_ref().map(|directory| {
                let TopicPartition { topic, partition } = &directory.topic_partition;
                (topic.as_str(), *partition, directory.state)
            });
            assert_eq!(found, expected, "{name}");
        };
        check("orders-3", Some(("orders", 3, Current)));
        check("a-b.c-delete-0", Some(("a-b.c-delete", 0, Current)));
        check("orders-3.0123abcd-delete", Some(("orders", 3, Deleted)));
        check("a.b-3.0123abcd-future", Some(("a.b", 3, Future)));
        check("a.b-3.0123abcd-stray", Some(("a.b", 3, Stray)));
        check("orders-3-delete", None);
        check("orders", None);
        check("orders-", None);
        check("-3", None);
        check("orders--3", Some(("orders-", 3, Current)));
        check("orders-+3", None);
        check("orders-99999999999", None);
        check("orders-0", Some(("orders", 0, Current)));
        check("orders-03", None);
        check("lost+found", None);
    }

    #[test]
    fn marked_names_fit_a_file_name() {
        let id = Uuid::from_u128(0xab);
        let long = TopicPartition::new("t".repeat(249), 12);
        let name = PartitionDirectory::marked_name(&long, Deleted, id);
        assert_eq!(name.len(), 255);
        let parsed = PartitionDirectory::parse(&name).unwrap();
        assert_eq!(
            (parsed.topic_partition.partition, parsed.state),
            (12, Deleted)
        );
        let short = TopicPartition::new("orders", 3);
        assert_eq!(
            PartitionDirectory::marked_name(&short, Future, id),
            "orders-3.000000000000000000000000000000ab-future"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nothing_is_in_the_way_only_of_a_partition() {
        let directory = trials::directory();
        let link = |name: &str| {
            std::os::unix::fs::symlink("/nonexistent/backup", directory.path().join(name)).unwrap();
        };
        link("latest-backup");
        std::fs::create_dir(directory.path().join("a-0")).unwrap();
        let content = scan_log_directory(&RealDisk, directory.path()).unwrap();
        assert_eq!((content.partitions.len(), content.unknown.len()), (1, 0));
        link("a-1");
        let error = scan_log_directory(&RealDisk, directory.path()).unwrap_err();
        assert!(error.to_string().contains("a-1"), "{error}");
    }

    #[test]
    fn a_scan_tells_partitions_from_the_rest() {
        let disk = SimDisk::default();
        for name in ["b-1", "a-0", "remote-log-index-cache", "lost+found"] {
            disk.create_directory(&Path::new("/").join(name)).unwrap();
        }
        disk.open(Path::new("/file-0"), OpenMode::Create).unwrap();
        let content = scan_log_directory(&disk, Path::new("/")).unwrap();
        let names: Vec<_> = content.partitions.iter().map(|found| &found.name).collect();
        assert_eq!(names, ["a-0", "b-1"]);
        assert_eq!(content.unknown, ["lost+found"]);
    }
}
