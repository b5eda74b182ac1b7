//! The controller: decisions about the cluster, one after the other, and the metadata log that keeps them.

pub(crate) mod controller_thread;
pub mod metadata_log;
