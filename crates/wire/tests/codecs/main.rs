//! The codecs of messages, generated and written by hand.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod allocation;
mod codec;
mod fetch_request;
mod fetch_response;
mod fetch_response_reader;
mod fetch_snapshot_response;
mod fuzz;
mod produce_request;
mod produce_response;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

/// Counts for all threads, so a test that asks it is `alone`.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
