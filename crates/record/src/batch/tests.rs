use super::*;
use crate::batch_layout::{
    BATCH_LENGTH_OFFSET, CRC_OFFSET, MAGIC_OFFSET, decrement_sequence, increment_sequence,
};
use crate::{BatchBuilder, BatchHeader, Header, RecordBatchMut, TimestampType};
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use proptest::prelude::*;

fn batch(base_offset: Offset, value_size_bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchHeader {
        base_offset,
        ..BatchHeader::default()
    });
    builder.append(7, None, Some(&vec![b'v'; value_size_bytes]), &[]);
    builder.into_uncompressed()
}

/// What `Batches` yields, as `base offset:size` and the error or the size of the tail.
fn check(bytes: &[u8], expected: &str) {
    let mut batches = Batches::new(bytes);
    let mut words = Vec::new();
    for batch in batches.by_ref() {
        words.push(match batch {
            Ok(batch) => format!("{}:{}", batch.base_offset(), batch.size_in_bytes()),
            Err(error) => error.to_string(),
        });
    }
    words.push(format!("rest {}", batches.rest().len()));
    assert_eq!(words.join(" "), expected);
}

#[test]
fn batches_end_with_the_buffer_or_in_a_truncated_batch() {
    let (one, two) = (batch(Offset(5), 0), batch(Offset(6), 100));
    check(b"", "rest 0");
    check(&one, "5:68 rest 0");
    let both = [&one[..], &two].concat();
    check(&both, "5:68 6:170 rest 0");
    for cut in one.len()..both.len() {
        check(&both[..cut], &format!("5:68 rest {}", cut - one.len()));
    }
}

#[test]
fn what_is_not_a_batch_is_the_last_item() {
    let mut bytes = [batch(Offset(5), 0), batch(Offset(6), 0)].concat();
    let at = 68;
    let mut change = |offset: usize, field: &[u8], expected: &str| {
        let old = bytes.clone();
        bytes[at + offset..at + offset + field.len()].copy_from_slice(field);
        check(&bytes, &format!("5:68 {expected}"));
        bytes = old;
    };
    let length = |length: i32| length.to_be_bytes();
    change(
        BATCH_LENGTH_OFFSET,
        &length(-1),
        "batch length -1 is impossible rest 68",
    );
    change(
        BATCH_LENGTH_OFFSET,
        &length(13),
        "batch length 13 is impossible rest 68",
    );
    change(
        BATCH_LENGTH_OFFSET,
        &length(48),
        "batch length 48 is below that of a header rest 68",
    );
    change(BATCH_LENGTH_OFFSET, &length(49), "6:61 rest 7");
    change(BATCH_LENGTH_OFFSET, &length(i32::MAX), "rest 68");
    change(
        MAGIC_OFFSET,
        &[0],
        "message format 0 is not supported rest 68",
    );
    change(
        MAGIC_OFFSET,
        &[1],
        "message format 1 is not supported rest 68",
    );
    change(MAGIC_OFFSET, &[3], "magic 3 is unknown rest 68");
    change(MAGIC_OFFSET, &[0xff], "magic -1 is unknown rest 68");
}

#[test]
fn sequences_wrap_to_zero() {
    for (sequence, increment, expected) in [
        (0, 0, 0),
        (0, i32::MAX, i32::MAX),
        (i32::MAX, 1, 0),
        (i32::MAX, i32::MAX, i32::MAX - 1),
        (i32::MAX - 1, 3, 1),
    ] {
        assert_eq!(increment_sequence(sequence, increment), expected);
        assert_eq!(decrement_sequence(expected, increment), sequence);
    }
}

#[test]
fn offsets_and_leader_epoch_do_not_touch_the_crc() {
    let mut bytes = batch(Offset(0), 10);
    let crc = RecordBatch::parse(&bytes).unwrap().0.crc();
    let (mut batch, rest) = RecordBatchMut::parse(&mut bytes).unwrap();
    assert!(rest.is_empty());
    batch.set_base_offset(Offset(77));
    batch.set_partition_leader_epoch(LeaderEpoch(8));
    let view = RecordBatch::parse(&bytes).unwrap().0;
    assert_eq!(
        (view.base_offset(), view.partition_leader_epoch()),
        (Offset(77), LeaderEpoch(8))
    );
    assert!(view.crc() == crc && view.is_crc_valid());
}

#[test]
fn setters_keep_a_right_crc_right_and_a_wrong_one_wrong() {
    for size_bytes in [0, 10, 1000, 100_000] {
        for is_damaged in [false, true] {
            let mut bytes = batch(Offset(0), size_bytes);
            if is_damaged {
                bytes[HEADER_SIZE_BYTES] ^= 4;
            }
            let (mut batch, _) = RecordBatchMut::parse(&mut bytes).unwrap();
            batch.set_max_timestamp(TimestampType::LogAppendTime, 123_456);
            batch.set_producer(ProducerId(99), ProducerEpoch(4));
            let (view, _) = RecordBatch::parse(&bytes).unwrap();
            assert_eq!(view.timestamp_type(), TimestampType::LogAppendTime);
            assert_eq!(view.max_timestamp(), 123_456);
            assert_eq!(
                (view.producer_id(), view.producer_epoch()),
                (ProducerId(99), ProducerEpoch(4))
            );
            assert_eq!(view.is_crc_valid(), !is_damaged);
        }
    }
}

#[test]
fn unchanged_timestamps_leave_every_byte() {
    let mut bytes = batch(Offset(0), 10);
    bytes[ATTRIBUTES_OFFSET] = 0x40;
    let old = bytes.clone();
    let (mut batch, _) = RecordBatchMut::parse(&mut bytes).unwrap();
    batch.set_max_timestamp(TimestampType::CreateTime, 7);
    assert_eq!(bytes, old);
}

proptest! {
    #![proptest_config(trials::property(64))]

    #[test]
    fn every_flipped_bit_behind_the_crc_is_detected(
        size_bytes in 0usize..200,
        index: prop::sample::Index,
        bit in 0u8..8,
    ) {
        let mut bytes = batch(Offset(3), size_bytes);
        let index = CRC_OFFSET + index.index(bytes.len() - CRC_OFFSET);
        bytes[index] ^= 1 << bit;
        prop_assert!(!RecordBatch::parse(&bytes).unwrap().0.is_crc_valid());
    }

    #[test]
    fn a_limit_and_a_used_buffer_change_no_byte(
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20),
        limit_bytes in 100..2_000usize,
    ) {
        let mut plain = BatchBuilder::new(BatchHeader::default());
        let mut limited = BatchBuilder::in_buffer(BatchHeader::default(), vec![7; 100]);
        for (at, value) in values.iter().enumerate() {
            let timestamp = at as i64 * 1_000;
            let key = (at % 2 == 0).then_some(&value[..]);
            let headers = [Header { key: value, value: None }];
            let headers = &headers[..at % 2];
            let size_bytes = plain.size_with_record(timestamp, key, Some(value), headers);
            prop_assert!(
                size_bytes - plain.size_in_bytes()
                    <= BatchBuilder::record_size_max(key, Some(value), headers)
            );
            let fits = limited.append_within(limit_bytes, timestamp, key, Some(value), headers);
            prop_assert_eq!(fits, size_bytes <= limit_bytes);
            if fits {
                plain.append(timestamp, key, Some(value), headers);
            }
        }
        prop_assert_eq!(plain.build_uncompressed(), limited.build_uncompressed());
        let mut batch = limited.build_uncompressed().to_vec();
        let (mut header, _) = RecordBatchMut::parse(&mut batch).unwrap();
        header.set_producer_state(ProducerId(9), ProducerEpoch(3), 77);
        let (batch, _) = RecordBatch::parse(&batch).unwrap();
        prop_assert!(batch.is_crc_valid());
        let state = (batch.producer_id(), batch.producer_epoch(), batch.base_sequence());
        prop_assert_eq!(state, (ProducerId(9), ProducerEpoch(3), 77));
    }

    #[test]
    fn arbitrary_bytes_are_batches_or_errors(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        length in 40i32..120,
    ) {
        fuzz_batches(&bytes);
        let mut bytes = bytes;
        if bytes.len() > MAGIC_OFFSET {
            bytes[BATCH_LENGTH_OFFSET..LOG_OVERHEAD_BYTES].copy_from_slice(&length.to_be_bytes());
            bytes[MAGIC_OFFSET] = 2;
        }
        fuzz_batches(&bytes);
    }
}
