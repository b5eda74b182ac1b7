//! Placeholder replaced with the crate's first file.
