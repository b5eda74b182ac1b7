//! The disk of the metadata log, as it is used by those who send parts of that log to others.

use super::disk_watch::DiskWatch;
use super::reserve::Reserve;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Who watches the directory of the metadata log.
#[derive(Debug, Clone)]
pub(crate) struct MetadataDisk {
    pub(crate) disks: Arc<DiskWatch>,
    /// The place of the directory among those that are watched.
    pub(crate) directory_index: usize,
    /// Whether it is watched with the log directories of the broker.
    is_among_logs: bool,
}

impl MetadataDisk {
    /// Watched for itself, from [`Self::start`] on.
    pub(crate) fn alone(directory: &Path) -> Self {
        let name = Arc::from(&*directory.display().to_string());
        Self {
            disks: Arc::new(DiskWatch::new([name].into_iter())),
            directory_index: 0,
            is_among_logs: false,
        }
    }

    /// Watched with the log directories of a broker, in their order, if it is one of them.
    pub(crate) fn among<'a>(
        disks: &Arc<DiskWatch>,
        mut directories: impl Iterator<Item = &'a Path>,
        directory: &Path,
    ) -> Self {
        match directories.position(|one| one == directory) {
            Some(directory_index) => Self {
                disks: disks.clone(),
                directory_index,
                is_among_logs: true,
            },
            None => Self::alone(directory),
        }
    }

    /// Starts to look after it, unless whoever looks after the broker's log directories does.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(crate) fn start(&self, runtime: Handle, reserve: Arc<Reserve>) -> io::Result<()> {
        match self.is_among_logs {
            true => Ok(()),
            false => self.disks.start(runtime, reserve),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_watched_once() {
        let names = ["/a", "/b"];
        let disks = Arc::new(DiskWatch::new(names.map(Arc::from).into_iter()));
        let among = |directory: &str| {
            let directories = names.iter().map(Path::new);
            let disk = MetadataDisk::among(&disks, directories, Path::new(directory));
            (Arc::ptr_eq(&disk.disks, &disks), disk.directory_index)
        };
        assert_eq!(among("/b"), (true, 1));
        assert_eq!(among("/c"), (false, 0));
    }
}
