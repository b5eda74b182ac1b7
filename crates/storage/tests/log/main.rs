//! Logs, on simulated disks and on real ones.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod append;
mod compaction;
mod compaction_memory;
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

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

/// Counts for all threads, so a test that asks it is `alone`.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
