//! Batches that are rebuilt as their records come out of their codec, against a model that expands all
//! of a batch first.

use model::{Offset, ProducerEpoch, ProducerId};
use proptest::prelude::*;

use super::*;
use crate::batch_builder::BatchBuilder;
use crate::batch_layout::{ATTRIBUTES_OFFSET, BATCH_LENGTH_OFFSET, HEADER_SIZE_BYTES};
use crate::record::{Header, Records};

const NOW_MS: i64 = 1_700_000_000_000;
const MIB: usize = 1024 * 1024;

/// A record that a producer sends.
#[derive(Clone, Debug)]
struct Sent {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// How a producer sends records, and what goes wrong.
#[derive(Clone, Debug)]
struct Sending {
    codec: Compression,
    header: BatchHeader,
    has_gaps: bool,
    /// A byte of the uncompressed records that is changed.
    damage: Option<(prop::sample::Index, u8)>,
}

fn batch_of(records: &[Sent], sending: &Sending) -> Vec<u8> {
    let mut builder = BatchBuilder::new(sending.header);
    for sent in records {
        let headers = sent.headers.iter().map(|(key, value)| Header {
            key,
            value: value.as_deref(),
        });
        let headers: Vec<Header<'_>> = headers.collect();
        builder.append(
            sent.timestamp,
            sent.key.as_deref(),
            sent.value.as_deref(),
            &headers,
        );
    }
    let mut plain = builder.into_uncompressed();
    if sending.has_gaps {
        plain = with_gaps(&plain);
    }
    if let Some((index, change)) = &sending.damage {
        let at = HEADER_SIZE_BYTES + index.index(plain.len() - HEADER_SIZE_BYTES);
        plain[at] ^= change;
    }
    packed(&plain, sending.codec)
}

/// The batch with every second offset left out, and a header that does not tell.
fn with_gaps(plain: &[u8]) -> Vec<u8> {
    let (batch, _) = RecordBatch::parse(plain).unwrap();
    let mut builder = BatchBuilder::new(BatchHeader {
        last_offset: Some(Offset(i64::from(batch.record_count()) - 1)),
        ..BatchHeader::of(&batch)
    });
    for (index, record) in (0..).zip(Records::new(&batch, batch.records_bytes())) {
        builder.append_record(Offset(2 * index), &record.unwrap());
    }
    builder.into_uncompressed()
}

/// The uncompressed batch in another codec.
fn packed(plain: &[u8], codec: Compression) -> Vec<u8> {
    let mut bytes = plain[..HEADER_SIZE_BYTES].to_vec();
    bytes[ATTRIBUTES_OFFSET + 1] |= codec.id() as u8;
    Compressor::new().compress(codec.into(), &plain[HEADER_SIZE_BYTES..], &mut bytes);
    let length = (bytes.len() - 12) as i32;
    bytes[BATCH_LENGTH_OFFSET..][..4].copy_from_slice(&length.to_be_bytes());
    tests::fix_crc(&mut bytes);
    bytes
}

fn rules_to(codec: Compression) -> ValidationRules {
    ValidationRules {
        max_message_bytes: 64 * MIB,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
        is_compacted: false,
        compression: TargetCompression::Codec(codec.into()),
        decompressed_max_bytes: 64 * MIB,
    }
}

/// What the records of a batch are, whatever codec and deltas hold them.
fn decoded(bytes: &[u8]) -> (BatchHeader, i32, Vec<String>) {
    let (batch, rest) = RecordBatch::parse(bytes).unwrap();
    assert!(rest.is_empty() && batch.is_crc_valid());
    assert_eq!(batch.last_offset_delta(), batch.record_count() - 1);
    let mut scratch = Vec::new();
    let records = batch.records(&mut Decompressor::new(), &mut scratch, 64 * MIB);
    let texts = records.unwrap().map(|record| {
        let record = record.unwrap();
        let headers: Vec<Header<'_>> = record.headers.iter().collect();
        let (at, time) = (record.offset, record.timestamp);
        format!(
            "{at} {time} {:?} {:?} {headers:?}",
            record.key, record.value
        )
    });
    let header = BatchHeader {
        max_timestamp: Some(batch.max_timestamp()),
        ..BatchHeader::of(&batch)
    };
    (header, batch.record_count(), texts.collect())
}

/// What a batch becomes when all of it is expanded, checked, and built.
fn rebuilt_at_once(bytes: &[u8], rules: &ValidationRules) -> Result<Vec<u8>, ErrorCode> {
    let TargetCompression::Codec(target) = rules.compression else {
        panic!("the model has a codec");
    };
    if bytes.len() > rules.max_message_bytes {
        return Err(ErrorCode::MessageTooLarge);
    }
    // What is checked does not depend on the codec.
    let as_it_is = ValidationRules {
        compression: TargetCompression::Producer,
        max_message_bytes: usize::MAX,
        ..*rules
    };
    let mut received = bytes.to_vec();
    let validated =
        ProduceValidator::new().validate_produce(&mut received, i16::MAX, &as_it_is, NOW_MS);
    let mut validated = validated.map_err(|invalid| invalid.error)?;
    validated.stamp(Offset::ZERO, LeaderEpoch::NONE, None);
    let max_timestamp = validated.header().max_timestamp();
    let (batch, _) = RecordBatch::parse(bytes).unwrap();
    let mut scratch = Vec::new();
    let records = batch.records(&mut Decompressor::new(), &mut scratch, usize::MAX);
    let mut builder = BatchBuilder::new(BatchHeader {
        timestamp_type: rules.timestamp_type,
        max_timestamp: Some(max_timestamp),
        ..BatchHeader::of(&batch)
    });
    for (offset, record) in (0..).zip(records.unwrap()) {
        builder.append_record(Offset(offset), &record.unwrap());
    }
    let mut rebuilt = Vec::new();
    builder.build(target, &mut Compressor::new(), &mut rebuilt);
    match rebuilt.len() <= rules.max_message_bytes {
        true => Ok(rebuilt),
        false => Err(ErrorCode::MessageTooLarge),
    }
}

/// Bytes are compared if they are to be exact: those of a damaged batch may hold integers that are longer
/// than they need be, which the model would not write.
fn check_against_model(
    bytes: &[u8],
    rules: &ValidationRules,
    is_exact: bool,
    validator: &mut ProduceValidator,
) {
    let mut received = bytes.to_vec();
    let validated = validator.validate_produce(&mut received, i16::MAX, rules, NOW_MS);
    let streamed = match validated {
        Ok(validated) if validated.is_in_place() => {
            assert_eq!(validated.bytes().len(), bytes.len());
            return;
        }
        Ok(validated) => Ok(validated.into_bytes()),
        Err(invalid) => Err(invalid.error),
    };
    match (streamed, rebuilt_at_once(bytes, rules)) {
        (Ok(streamed), Ok(at_once)) => {
            let is_same = streamed == at_once;
            assert!(is_same || decoded(&streamed) == decoded(&at_once));
            // A long frame of Zstandard does not declare its size.
            let (batch, _) = RecordBatch::parse(&streamed).unwrap();
            let is_zstd = batch.compression() == Some(Compression::Zstd);
            assert!(is_same || is_zstd || !is_exact, "other bytes");
        }
        (streamed, at_once) => assert_eq!(streamed.err(), at_once.err()),
    }
}

/// Bytes that compress somewhat.
fn text(seed: u8, size_bytes: usize) -> Vec<u8> {
    let mut state = u32::from(seed) + 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..size_bytes)
        .map(|_| b"kafka stream "[usize::from(next()) % 13])
        .collect()
}

fn bytes(sizes: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), sizes).prop_map(|(seed, size_bytes)| text(seed, size_bytes))
}

fn sent() -> impl Strategy<Value = Sent> {
    let value = prop_oneof![20 => bytes(0..300), 3 => bytes(0..70_000), 1 => bytes(0..700_000)];
    let header = (bytes(0..20), prop::option::of(bytes(0..200)));
    (
        prop_oneof![8 => -100_000i64..100_000, 1 => Just(3_600_001)],
        prop::option::weighted(0.8, bytes(0..100)),
        prop::option::weighted(0.9, value),
        prop::collection::vec(header, 0..3),
    )
        .prop_map(|(time, key, value, headers)| Sent {
            timestamp: NOW_MS + time,
            key,
            value,
            headers,
        })
}

fn codec() -> impl Strategy<Value = Compression> {
    prop::sample::select(&Compression::ALL[..])
}

fn sending() -> impl Strategy<Value = Sending> {
    let damage = (any::<prop::sample::Index>(), 1u8..);
    (
        codec(),
        any::<bool>(),
        any::<bool>(),
        prop::option::weighted(0.1, damage),
    )
        .prop_map(|(codec, has_gaps, is_transactional, damage)| Sending {
            codec,
            header: BatchHeader {
                producer_id: ProducerId(7),
                producer_epoch: ProducerEpoch(3),
                base_sequence: 11,
                is_transactional,
                ..BatchHeader::default()
            },
            has_gaps,
            damage,
        })
}

fn rules() -> impl Strategy<Value = ValidationRules> {
    let limit = || prop_oneof![1 => 200usize..300_000, 4 => Just(64 * MIB)];
    (codec(), limit(), limit(), any::<bool>(), 0..4).prop_map(
        |(codec, max_message_bytes, decompressed_max_bytes, is_append_time, compacted)| {
            let timestamp_type = match is_append_time {
                true => TimestampType::LogAppendTime,
                false => TimestampType::CreateTime,
            };
            ValidationRules {
                max_message_bytes,
                decompressed_max_bytes,
                timestamp_type,
                is_compacted: compacted == 0,
                ..rules_to(codec)
            }
        },
    )
}

proptest! {
    #![proptest_config(trials::property(200))]

    #[test]
    fn a_batch_becomes_what_expanding_all_of_it_would_make(
        records in prop::collection::vec(sent(), 1..12),
        sending in sending(),
        rules in prop::collection::vec(rules(), 1..3),
    ) {
        let bytes = batch_of(&records, &sending);
        let mut validator = ProduceValidator::new();
        for rules in &rules {
            let is_exact = sending.damage.is_none();
            check_against_model(&bytes, rules, is_exact, &mut validator);
            // Limits that the new batch just fits into, or does not.
            let Ok(rebuilt) = rebuilt_at_once(&bytes, rules) else { continue };
            for max_message_bytes in [rebuilt.len(), rebuilt.len() - 1] {
                let rules = ValidationRules { max_message_bytes, ..*rules };
                check_against_model(&bytes, &rules, is_exact, &mut validator);
            }
        }
    }
}

/// Records of one byte more and less than blocks hold, alone and behind another one.
#[test]
fn records_end_anywhere_in_blocks() {
    let mut validator = ProduceValidator::new();
    let sent = |size_bytes| Sent {
        timestamp: NOW_MS,
        key: None,
        value: Some(b"0123456789abcdefg".repeat(MIB / 16)[..size_bytes].to_vec()),
        headers: Vec::new(),
    };
    for block_bytes in [32 * 1024, 64 * 1024, MIB] {
        for size_bytes in block_bytes - 20..block_bytes + 2 {
            for records in [
                vec![sent(size_bytes)],
                vec![sent(10), sent(size_bytes), sent(10)],
            ] {
                let sending = Sending {
                    codec: Compression::Snappy,
                    header: BatchHeader::default(),
                    has_gaps: false,
                    damage: None,
                };
                let bytes = batch_of(&records, &sending);
                let target = match block_bytes {
                    MIB => Compression::Zstd,
                    _ => Compression::Lz4,
                };
                check_against_model(&bytes, &rules_to(target), true, &mut validator);
            }
        }
    }
}

/// The first record is as small as its length says or smaller, the second claims 2^31 - 1 bytes, and
/// its timestamp takes more of them than before.
#[test]
fn a_record_may_claim_any_size() {
    let sent = Sent {
        timestamp: NOW_MS,
        key: None,
        value: None,
        headers: Vec::new(),
    };
    let sending = Sending {
        codec: Compression::None,
        header: BatchHeader::default(),
        has_gaps: false,
        damage: None,
    };
    let two = batch_of(&[sent.clone(), sent], &sending);
    for first_length in [0, 2, 30] {
        let mut plain = two[..HEADER_SIZE_BYTES].to_vec();
        plain.extend([first_length, 0]);
        plain.extend([0xff; 9]);
        plain.extend([1, 0, 1, 1, 0]);
        plain.extend([0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 2, 1, 1, 0]);
        for codec in Compression::ALL {
            let mut bytes = packed(&plain, codec);
            for target in Compression::ALL {
                let rules = rules_to(target);
                let validated =
                    ProduceValidator::new().validate_produce(&mut bytes, i16::MAX, &rules, NOW_MS);
                assert_eq!(validated.unwrap_err().error, ErrorCode::InvalidRecord);
            }
        }
    }
}
