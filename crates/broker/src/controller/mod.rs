//! The controller: decisions about the cluster, one after the other, and the metadata log that keeps them.

pub(crate) mod controller_thread;
pub(crate) mod link;
pub(crate) mod metadata_loader;
pub mod metadata_log;
