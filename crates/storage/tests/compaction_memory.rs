//! What a compaction allocates is not in proportion to what batches expand to. One test alone in its
//! program: the allocator counts for all threads.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use model::LeaderEpoch;
mod support;

use std::alloc::System;

use record::{BatchBuilder, BatchHeader, Compression};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use storage::AppendOptions;
use support::compaction::Compacted;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: usize = 1 << 20;
/// What the batch expands to.
const EXPANDED_BYTES: usize = 400 * MIB;
/// What expands to a little is kept in memory, in buffers that double as they grow.
const ALLOCATED_MAX_BYTES: usize = 200 * MIB;

#[test]
fn a_batch_that_expands_to_much_takes_little_memory() {
    let mut compacted = Compacted::new(|config| config.segment_bytes = 1 << 20);
    let value = vec![0; MIB];
    let mut builder = BatchBuilder::new(BatchHeader::default());
    for at in 0..EXPANDED_BYTES / MIB {
        let key = (at % 300).to_be_bytes();
        builder.append(0, Some(&key), Some(&value), &[]);
    }
    let mut batch = builder.into_batch(Compression::Zstd);
    let options = AppendOptions::client(LeaderEpoch(0), 0);
    compacted.log.append_as_leader(&mut batch, options).unwrap();
    compacted.run("roll");
    let size_bytes = compacted.log.size_bytes();
    let region = Region::new(ALLOCATOR);
    compacted.compact().unwrap();
    let change = region.change();
    let allocated = change.bytes_allocated + change.bytes_reallocated.max(0).unsigned_abs();
    assert!(compacted.log.size_bytes() < size_bytes, "records are gone");
    assert!(allocated < ALLOCATED_MAX_BYTES, "{allocated} bytes");
}
