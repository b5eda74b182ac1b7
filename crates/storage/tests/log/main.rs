//! Logs, on simulated disks and on real ones.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod append;
mod compaction;
#[cfg(target_os = "linux")]
mod cost;
mod crash;
mod disks;
mod kafka;
mod one_log;
mod open_files;
mod random_steps;
mod recovery;
#[path = "../support/mod.rs"]
mod support;
mod upkeep;
