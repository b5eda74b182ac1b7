//! Decoding allocates nothing, whatever lengths and counts a peer claims. Alone in its program:
//! the allocator counts for all threads.

use interpreter::{Codec, Random, encode, random_message, verify};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::path::Path;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

macro_rules! table {
    ($($message:ident)*) => { &[$(interpreter::codec!($message in wire::messages)),*] };
}

const CODECS: &[Codec] = wire::for_each_message!(table);

#[test]
fn decoding_allocates_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let schema = codegen::parse_folder(&folder).expect("the schema parses");
    let mut random = Random::new(3);
    for (message, codec) in verify::with_messages(&schema, CODECS) {
        let mut inputs = verify::damaged(message, 20, &mut random);
        for version in message.versions.first..=message.versions.last {
            let value = random_message(message, version, true, &mut random);
            inputs.push((version, encode(message, version, &value)));
        }
        let region = Region::new(ALLOCATOR);
        for (version, bytes) in &inputs {
            let _ = (codec.decode)(bytes, *version);
        }
        let change = region.change();
        assert_eq!(change.allocations, 0, "{}: {change:?}", message.name);
        assert_eq!(change.reallocations, 0, "{}: {change:?}", message.name);
    }
}
