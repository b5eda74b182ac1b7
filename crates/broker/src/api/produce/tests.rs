use super::append_thread::QUICK_BYTES;
use super::append_thread::QUICK_RECOMPRESSED_BYTES;
use super::*;
use record::{
    BatchBuilder, BatchHeader, Codec, Compression, Compressor, RecordBatch, TargetCompression,
    TimestampType, ValidationRules,
};

/// A batch of so many records of so many bytes each.
pub(super) fn batch(count: usize, value_bytes: usize, compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    for _ in 0..count {
        builder.append(0, None, Some(&vec![b'v'; value_bytes]), &[]);
    }
    let mut bytes = Vec::new();
    builder.build(compression.into(), &mut Compressor::new(), &mut bytes);
    bytes
}

fn rules(compression: TargetCompression) -> ValidationRules {
    ValidationRules {
        max_message_bytes: usize::MAX,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: i64::MAX,
        is_compacted: false,
        compression,
        decompressed_max_bytes: usize::MAX,
    }
}

#[track_caller]
fn check(bytes: &[u8], compression: TargetCompression, is_too_long: bool) {
    let (batch, _) = RecordBatch::parse(bytes).unwrap();
    let rules = rules(compression);
    assert_eq!(
        AppendThread::Quick.is_too_long_for(&batch, &rules),
        is_too_long
    );
    assert!(!AppendThread::OffWorkers.is_too_long_for(&batch, &rules));
}

#[test]
fn a_worker_has_time_for_a_megabyte_and_for_so_many_records() {
    let kept = TargetCompression::Producer;
    check(&batch(1, 1_000_000, Compression::None), kept, false);
    check(&batch(1, QUICK_BYTES, Compression::None), kept, true);
    check(&batch(50_000, 1, Compression::None), kept, false);
    check(&batch(50_001, 1, Compression::None), kept, true);
    check(&batch(50_001, 1, Compression::Lz4), kept, true);
}

#[test]
fn a_worker_has_no_time_to_compress_much() {
    let zstd = TargetCompression::Codec(Codec {
        compression: Compression::Zstd,
        level: 22,
    });
    check(&batch(1, 10_000, Compression::None), zstd, false);
    check(
        &batch(1, QUICK_RECOMPRESSED_BYTES, Compression::None),
        zstd,
        true,
    );
    // What is compressed so already is kept.
    check(&batch(20, 20_000, Compression::Zstd), zstd, false);
}
