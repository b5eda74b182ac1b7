//! What a compaction allocates is not in proportion to what batches expand to.

use crate::ALLOCATOR;
use crate::support::compaction::Compacted;
use model::LeaderEpoch;
use record::{BatchBuilder, BatchHeader, Compression};
use stats_alloc::Region;
use storage::AppendOptions;
use trials::alone;

const MIB: usize = 1 << 20;
/// What the batch expands to.
const EXPANDED_BYTES: usize = 400 * MIB;
/// What expands to a little is kept in memory, in buffers that double as they grow.
const ALLOCATED_MAX_BYTES: usize = 200 * MIB;

#[test]
fn a_batch_that_expands_to_much_takes_little_memory() {
    alone(
        "compaction_memory::a_batch_that_expands_to_much_takes_little_memory",
        check_memory,
    );
}

fn check_memory() {
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
