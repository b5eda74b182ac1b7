//! `partition.metadata`: the id of the topic that a partition's directory belongs to.
//!
//! ```text
//!   version: 0
//!   topic_id: 5fM3rE0oQ2yQ3eGgXo2h1g       (no line end)
//! ```
//!
//! A topic that is deleted and made again under its name has another id, so the directory of the
//! old one is known for a stray.

use std::path::Path;

use model::Uuid;

use crate::atomic_file::replace_file_without_sync;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Context, FileError, StorageError};

/// Name of the file in a partition's directory.
pub const PARTITION_METADATA: &str = "partition.metadata";

/// Reads the topic id; `None` when there is no such file.
pub fn read_partition_metadata<D: Disk>(
    disk: &D,
    directory: &Path,
) -> Result<Option<Uuid>, FileError> {
    let path = directory.join(PARTITION_METADATA);
    match disk.read(&path, 4096) {
        Ok(bytes) => match parse(&bytes) {
            Ok(id) => Ok(Some(id)),
            Err(reason) => Err(FileError::damaged(&path, reason)),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Ok(Err(error).context("read", &path)?),
    }
}

/// Writes the file; durable with the log's first flush, or with [`sync_partition_metadata`].
pub(crate) fn write_partition_metadata<D: Disk>(
    disk: &D,
    directory: &Path,
    topic_id: Uuid,
) -> Result<(), StorageError> {
    let text = format!("version: 0\ntopic_id: {topic_id}");
    replace_file_without_sync(disk, &directory.join(PARTITION_METADATA), text.as_bytes())
}

/// Makes the file durable.
///
/// # Errors
/// When the disk fails.
pub fn sync_partition_metadata<D: Disk>(disk: &D, directory: &Path) -> Result<(), StorageError> {
    let path = directory.join(PARTITION_METADATA);
    let file = disk.open(&path, OpenMode::Read);
    file.context("open", &path)?.sync().context("sync", &path)
}

fn parse(bytes: &[u8]) -> Result<Uuid, String> {
    let text = str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let mut lines = text.lines();
    let mut value_of = |name: &str| {
        let line = lines.next().unwrap_or_default();
        match line.split_once(':') {
            Some((found, value)) if found.trim() == name => Ok(value.trim()),
            _ => Err(format!("it has the line `{line}` instead of `{name}`")),
        }
    };
    match value_of("version")? {
        "0" => {}
        version => return Err(format!("its version is `{version}`, not 0")),
    }
    let id = value_of("topic_id")?
        .parse::<Uuid>()
        .map_err(|invalid| invalid.to_string())?;
    match id.is_zero() {
        true => Err("its topic id is zero".to_owned()),
        false => Ok(id),
    }
}

/// Takes any bytes for the file.
pub fn fuzz_partition_metadata(bytes: &[u8]) {
    let _ = parse(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimDisk;

    #[test]
    fn text_is_kafkas() {
        let disk = SimDisk::default();
        let directory = Path::new("/");
        assert_eq!(read_partition_metadata(&disk, directory).unwrap(), None);
        let id = Uuid::METADATA_TOPIC;
        write_partition_metadata(&disk, directory, id).unwrap();
        let bytes = disk.read(Path::new("/partition.metadata"), 100).unwrap();
        assert_eq!(bytes, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(read_partition_metadata(&disk, directory).unwrap(), Some(id));
    }

    #[test]
    fn it_is_whole_after_a_crash_once_it_is_synced() {
        for is_synced in [false, true] {
            let disk = SimDisk::default();
            let directory = Path::new("/topic-0");
            disk.create_directory(directory).unwrap();
            write_partition_metadata(&disk, directory, Uuid::METADATA_TOPIC).unwrap();
            if is_synced {
                sync_partition_metadata(&disk, directory).unwrap();
            }
            // The names are there, as when somebody else's sync has taken them along.
            disk.sync_directory(directory).unwrap();
            disk.sync_directory(Path::new("/")).unwrap();
            disk.crash(crate::sim::Crash::LosesUnsynced);
            assert_eq!(read_partition_metadata(&disk, directory).is_ok(), is_synced);
        }
    }

    #[test]
    fn damage_is_named() {
        let check = |text: &str, reason: &str| {
            assert_eq!(parse(text.as_bytes()), Err(reason.to_owned()), "{text}");
        };
        check("", "it has the line `` instead of `version`");
        check("version: 1\n", "its version is `1`, not 0");
        check("version: 0\n", "it has the line `` instead of `topic_id`");
        check(
            "version: 0\ntopic_id: x",
            "`x` is not an id of 22 base64 characters",
        );
        check(
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
            "its topic id is zero",
        );
    }
}
