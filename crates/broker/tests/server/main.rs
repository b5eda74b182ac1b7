//! A whole server over real sockets: what no client should send, what no disk should hold, and
//! what both get when they behave.
//!
//! One file for each subject. They make one program, which links once and runs them in parallel;
//! each test has a server, ports and a directory of its own.

#![allow(
    clippy::unwrap_used,
    reason = "what goes wrong in a test fails the test"
)]
#![allow(clippy::print_stdout, reason = "shown of a test that fails")]

mod acks;
mod allocation;
mod api_versions;
mod batches;
mod cluster;
mod compaction;
mod compat;
mod compression;
mod configs;
mod connections;
mod controller_alone;
mod damage;
mod directory;
mod fairness;
mod fetch;
mod fetch_sessions;
mod flush;
mod followers;
mod frames;
mod groups;
mod idle_memory;
mod leftovers;
mod limits;
mod listeners;
mod log_directories;
mod loggers;
mod lost_directories;
mod many_logs;
mod memory;
mod missing_logs;
mod moves;
mod offsets;
mod producers;
mod quorum;
mod reassignments;
mod repetitions;
mod restart;
mod retention;
mod security;
mod served;
mod slow_disks;
mod start;
mod stops;
mod topics;
mod transaction_coordinator;
mod transaction_enrolment;
mod transaction_lives;
mod transaction_markers;
mod transaction_offsets;
mod unregister;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

/// Counts for all threads, so a test that asks it is `alone`.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
