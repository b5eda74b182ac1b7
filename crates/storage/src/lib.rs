//! Kafka's log on disk.

#![forbid(unsafe_code)]

pub mod disk;
pub mod sim;

pub mod checkpoint;
pub mod clean_shutdown;
pub mod directory_lock;
pub mod leader_epochs;
pub mod log_directory;
pub mod meta_properties;
pub mod partition_metadata;

mod atomic_file;
mod error;

pub use error::{FileError, StorageError};
