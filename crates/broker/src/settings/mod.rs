//! What is configured, as of now, and what of it is told to whoever runs the server.

pub(crate) mod file_shares;
pub(crate) mod live_config;
pub mod loggers;
pub(crate) mod node;
pub(crate) mod replication_throttle;
pub(crate) mod start_error;
pub(crate) mod told_changes;
