//! The controller: decisions about the cluster, one after the other, and the way of what is decided to all who live by
//! it.

pub(crate) mod broker_log;
pub(crate) mod controller_thread;
pub(crate) mod link;
pub(crate) mod metadata_loader;
mod snapshot_writer;
