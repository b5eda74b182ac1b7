//! Partitions as leaders and followers have them: scripts, models, and the calls that reach a disk. One file for each
//! subject; they make one program, which links once.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod allocation;
mod convergence;
mod disk_calls;
mod fetcher_answers;
mod follower_fetches;
mod following;
mod in_sync;
mod in_sync_model;
mod isr_answers;
mod lasting;
mod model;
mod partition;
mod replica_fetcher;
mod replicated;
mod role_changes;
mod roles;
mod session_time;
mod support;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

/// Counts for all threads, so a test that asks it is `alone`.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
