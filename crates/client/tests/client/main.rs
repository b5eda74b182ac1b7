//! The clients against a server in this process, and against peers that are none.
//!
//! One file for each client, with one for each subject below it. They make one program: most of these
//! tests wait, for timeouts that must pass or for a server, and so they wait at the same time.

#![allow(
    clippy::unwrap_used,
    reason = "what goes wrong in a test fails the test"
)]

mod admin;
mod allocation;
mod consumer;
mod nowhere;
mod producer;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

/// Counts for all threads, so a test that asks it is `alone`.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
