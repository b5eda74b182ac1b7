//! Placeholder replaced with the crate's first file.

pub mod metadata_log;
