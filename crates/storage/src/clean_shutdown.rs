//! `.kafka_cleanshutdown`: the mark that every log of a directory was closed in order.
//!
//! Content: `{"version":0,"brokerEpoch":17}`. With the mark, logs are opened as they are; without
//! it, what follows their recovery points is checked batch by batch. The epoch tells the
//! controller that this is the process it knew, so that its replicas still count as complete.

use std::path::Path;

use crate::atomic_file::replace_file;
use crate::disk::Disk;
use crate::error::{Context, StorageError};
use model::BrokerEpoch;

/// Name of the file in a log directory.
pub const CLEAN_SHUTDOWN_FILE: &str = ".kafka_cleanshutdown";

/// What the mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanShutdown {
    /// The broker's epoch when it stopped; old Kafka writes none.
    pub broker_epoch: Option<BrokerEpoch>,
}

/// Leaves the mark; all logs of the directory must be closed before.
pub fn write_clean_shutdown<D: Disk>(
    disk: &D,
    directory: &Path,
    broker_epoch: BrokerEpoch,
) -> Result<(), StorageError> {
    let text = format!("{{\"version\":0,\"brokerEpoch\":{broker_epoch}}}");
    replace_file(disk, &directory.join(CLEAN_SHUTDOWN_FILE), text.as_bytes())
}

/// Reads the mark and leaves it: who looks at it opens no log yet.
///
/// # Errors
/// When the disk fails.
pub fn read_clean_shutdown<D: Disk>(
    disk: &D,
    directory: &Path,
) -> Result<Option<CleanShutdown>, StorageError> {
    let path = directory.join(CLEAN_SHUTDOWN_FILE);
    let bytes = match disk.read(&path, 4096) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        result => result.context("read", &path)?,
    };
    Ok(Some(CleanShutdown {
        broker_epoch: parse_broker_epoch(&bytes),
    }))
}

/// Reads the mark and removes it, so that a crash while logs are opened counts as a crash.
///
/// # Errors
/// When the disk fails.
pub fn take_clean_shutdown<D: Disk>(
    disk: &D,
    directory: &Path,
) -> Result<Option<CleanShutdown>, StorageError> {
    let mark = read_clean_shutdown(disk, directory)?;
    if mark.is_some() {
        let path = directory.join(CLEAN_SHUTDOWN_FILE);
        disk.remove_file(&path).context("remove", &path)?;
        disk.sync_directory(directory).context("sync", directory)?;
    }
    Ok(mark)
}

/// The file's presence is the mark; content that says nothing only loses the epoch.
fn parse_broker_epoch(bytes: &[u8]) -> Option<BrokerEpoch> {
    let content: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let epoch = content.get("brokerEpoch")?.as_i64()?;
    (epoch >= 0 && content.get("version")?.as_i64()? == 0).then_some(BrokerEpoch(epoch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DiskFile, OpenMode};
    use crate::sim::{Crash, SimDisk};

    #[test]
    fn the_mark_is_taken_once() {
        let disk = SimDisk::default();
        let directory = Path::new("/");
        assert_eq!(take_clean_shutdown(&disk, directory).unwrap(), None);
        write_clean_shutdown(&disk, directory, BrokerEpoch(17)).unwrap();
        disk.crash(Crash::LosesUnsynced);
        let mark = CleanShutdown {
            broker_epoch: Some(BrokerEpoch(17)),
        };
        assert_eq!(read_clean_shutdown(&disk, directory).unwrap(), Some(mark));
        assert_eq!(take_clean_shutdown(&disk, directory).unwrap(), Some(mark));
        disk.crash(Crash::LosesUnsynced);
        assert_eq!(take_clean_shutdown(&disk, directory).unwrap(), None);
    }

    #[test]
    fn a_mark_without_content_is_a_mark() {
        let check = |content: &[u8], broker_epoch| {
            let disk = SimDisk::default();
            let path = Path::new("/.kafka_cleanshutdown");
            let file = disk.open(path, OpenMode::Create).unwrap();
            file.write_at(content, 0).unwrap();
            let mark = take_clean_shutdown(&disk, Path::new("/")).unwrap();
            assert_eq!(mark, Some(CleanShutdown { broker_epoch }));
        };
        check(b"", None);
        check(b"{\"version\":0,\"brokerEpoch\":5}", Some(BrokerEpoch(5)));
        check(b"{\"version\":0,\"brokerEpoch\":-1}", None);
        check(b"{\"version\":1,\"brokerEpoch\":5}", None);
    }
}
