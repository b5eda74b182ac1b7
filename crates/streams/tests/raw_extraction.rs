//! Taking parts of stored values allocates nothing, whatever lengths and counts they claim.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use riverrun_streams::formats::raw;
use riverrun_streams::formats::stored_value::{AggregationWithHeaders, ValueTimestampHeaders};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use trials::alone;

/// Counts for all threads, so a test that asks it is `alone`.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A value with two headers, whose first six bytes are sizes and counts.
const STORED: [u8; 20] = [
    0x12, 0x04, 0x02, b'a', 0x02, 0x01, 0x02, b'n', 0x01, 0x00, 0, 0, 0, 0, 0, 0, 0, 9, b'v', b'w',
];

#[test]
fn nothing_is_allocated() {
    alone("nothing_is_allocated", || {
        // The thread that started the test may still allocate beside the first rounds.
        let least = (0..5).map(|_| allocations_of_a_round()).min();
        assert_eq!(least, Some(0));
    });
}

fn allocations_of_a_round() -> usize {
    let region = Region::new(ALLOCATOR);
    for at in 0..STORED.len() {
        for wrong in 0..=u8::MAX {
            let mut stored = STORED;
            stored[at] = wrong;
            take_all(&stored);
            take_all(&stored[..at]);
        }
    }
    let change = region.change();
    change.allocations + change.reallocations
}

fn take_all(stored: &[u8]) {
    let _ = raw::plain_value(stored);
    let _ = raw::timestamped_value(stored);
    let _ = raw::timestamp(stored);
    let _ = raw::aggregation(stored);
    let _ = raw::value(stored);
    let headers = raw::headers(stored);
    assert!(headers.is_err() || headers.unwrap().iter().count() <= stored.len());
    let _ = ValueTimestampHeaders::read(stored);
    let _ = AggregationWithHeaders::read(stored);
}
