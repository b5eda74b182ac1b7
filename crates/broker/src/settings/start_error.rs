//! Why a server does not start: each says what to do about it.

use controller::BrokerLifeError;
use controller::metadata_log::{AppendMetadataError, OpenMetadataLogError};
use std::io;
use std::path::PathBuf;
use storage::directory_lock::LockError;
use storage::{FileError, StorageError};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener's address cannot be had.
    #[error(
        "cannot listen on {address} (listener {listener}): {source}; {}",
        bind_advice(source)
    )]
    Bind {
        /// The listener's name.
        listener: String,
        /// Host and port of the configuration.
        address: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// A host of the configuration has no address.
    #[error("`{key}`: host `{host}` has no address: {source}")]
    Host {
        /// The key.
        key: &'static str,
        /// The host.
        host: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// A directory of `log.dirs` cannot be made.
    #[error("cannot create log directory `{}`: {source}; set `log.dirs` to one that can be written", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// Two paths of `log.dirs` and `metadata.log.dir` lead to one directory.
    #[error(
        "`{}` and `{}` of `log.dirs` and `metadata.log.dir` are one directory, `{}`; name it once \
         in `log.dirs`, and in the same way in `metadata.log.dir`",
        first.display(), second.display(), directory.display()
    )]
    SameDirectory {
        /// The path that comes first.
        first: PathBuf,
        /// The other path.
        second: PathBuf,
        /// The path of both without links.
        directory: PathBuf,
    },
    /// None of several log directories can be used.
    #[error("none of `log.dirs` can be used, `{}` first; the errors before say why", path.display())]
    NoDirectory {
        /// The first of them.
        path: PathBuf,
    },
    /// Another process has a log directory.
    #[error("{}; {}", .0, lock_advice(.0))]
    Locked(#[from] LockError),
    /// A small file of a log directory cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file of a log directory cannot be written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The metadata log cannot be opened.
    #[error(transparent)]
    OpenMetadataLog(#[from] OpenMetadataLogError),
    /// The metadata log cannot be written.
    #[error(transparent)]
    AppendMetadata(#[from] AppendMetadataError),
    /// The controller refuses this broker.
    #[error("the broker cannot register: {0}")]
    Registration(#[from] controller::ApiError),
    /// The controllers belong to another cluster than the log directories.
    #[error(
        "the log directories belong to the cluster {cluster_id}, and the controllers at {controllers} to \
         another one: set `log.dirs` to other directories, or `controller.quorum.voters` or \
         `controller.quorum.bootstrap.servers` to the controllers of that cluster"
    )]
    ForeignCluster {
        /// The cluster of the log directories.
        cluster_id: String,
        /// The addresses of the controllers.
        controllers: String,
    },
    /// The metadata of the quorum cannot be followed.
    #[error("{0}")]
    Follow(String),
    /// The controller does not let this broker serve.
    #[error("{error}{}", life_advice(error))]
    Life {
        /// Why.
        #[from]
        error: BrokerLifeError,
    },
    /// A partition's log cannot be opened.
    #[error("partition {partition} in `{}` cannot be opened: {reason}", directory.display())]
    Partition {
        /// The partition.
        partition: String,
        /// Its log directory.
        directory: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The log directory that holds the metadata log has failed: the others cannot do without it.
    #[error(
        "log directory `{}`, which holds the metadata log, has failed: {reason}; free space or \
         replace the disk, then start again",
        path.display()
    )]
    MetadataDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The configuration asks for what does not work yet.
    #[error("{0}")]
    Unsupported(String),
}

impl StartError {
    /// Whether it is a log directory that cannot be used, and no owner of it.
    pub(crate) const fn is_disk_failure(&self) -> bool {
        matches!(
            self,
            Self::Directory { .. } | Self::Storage(_) | Self::Locked(LockError::Storage(_))
        )
    }
}

/// What to look at when the controller does not answer as it should.
fn life_advice(error: &BrokerLifeError) -> &'static str {
    match error {
        BrokerLifeError::NotRegistered { last, .. } if last == "DuplicateBrokerRegistration" => {
            ": another process with this `node.id` is alive; give each node a `node.id` of its own"
        }
        BrokerLifeError::NotRegistered { .. } => {
            ": is there an active controller, and can this host reach it?"
        }
        _ => "",
    }
}

fn bind_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "stop what uses the port, or set `listeners` to another one",
        io::ErrorKind::PermissionDenied => {
            "set `listeners` to a port above 1023, or let the process bind the lower ones"
        }
        io::ErrorKind::AddrNotAvailable => {
            "no interface of this machine has the address: set `listeners` to one that has, or \
             without a host for all of them"
        }
        _ => "set `listeners` to an address of this machine, or without a host for all of them",
    }
}

fn lock_advice(error: &LockError) -> &'static str {
    match error {
        LockError::InUse { .. } => "stop that process, or set `log.dirs` to another directory",
        LockError::Storage(_) => "set `log.dirs` to a directory that this user can write",
    }
}
