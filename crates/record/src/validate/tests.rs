//! Outcomes that Apache Kafka 4.3.1 has been seen to give for the same bytes, but where noted.

use super::*;
use crate::batch_builder::BatchBuilder;
use crate::batch_layout::{
    ATTRIBUTES_OFFSET, BATCH_LENGTH_OFFSET, CRC_OFFSET, LAST_OFFSET_DELTA_OFFSET, MAGIC_OFFSET,
    RECORD_COUNT_OFFSET,
};
use crate::compression::Compressor;
use crate::record::Records;
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

const NOW_MS: i64 = 1_700_000_000_000;
const VERSION: i16 = 9;

/// Makes a batch of a script such as `lz4 producer=5,0,7 | k@0 null@-1000 k@none`.
///
/// Before the bar: a codec and options of the header. After it: one record a word, its key and its
/// timestamp relative to now.
fn batch(script: &str) -> Vec<u8> {
    let (options, records) = script.split_once('|').expect("a script has a bar");
    let mut codec = Compression::None;
    let mut header = BatchHeader::default();
    let mut offset_step = 1;
    for option in options.split_whitespace() {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "base" => header.base_offset = value.parse().unwrap(),
            "producer" => {
                let mut parts = value.split(',').map(|part| part.parse::<i64>().unwrap());
                let mut next = || parts.next().unwrap();
                header.producer_id = ProducerId(next());
                header.producer_epoch = ProducerEpoch(next() as i16);
                header.base_sequence = next() as i32;
            }
            "control" => header.is_control = true,
            "log-append-time" => {
                header.timestamp_type = TimestampType::LogAppendTime;
                header.max_timestamp = Some(NOW_MS);
            }
            "max-timestamp" => header.max_timestamp = Some(value.parse::<i64>().unwrap() + NOW_MS),
            "offset-step" => offset_step = value.parse().unwrap(),
            codec_name => codec = Compression::from_name(codec_name).unwrap(),
        }
    }
    let mut builder = BatchBuilder::new(header);
    let mut offset = header.base_offset;
    for word in records.split_whitespace() {
        let (key, timestamp) = word.split_once('@').unwrap();
        let timestamp = match timestamp {
            "none" => -1,
            relative => NOW_MS + relative.parse::<i64>().unwrap(),
        };
        let key = (key != "null").then_some(key.as_bytes());
        let mut other = BatchBuilder::new(BatchHeader::default());
        other.append(timestamp, key, Some(b"value"), &[]);
        let other = other.into_uncompressed();
        let (other, _) = RecordBatch::parse(&other).unwrap();
        let record = Records::new(&other, other.records_bytes())
            .next()
            .unwrap()
            .unwrap();
        builder.append_record(offset, &record);
        offset += offset_step;
    }
    builder.header_mut().last_offset =
        Some(header.base_offset + i64::from(builder.record_count()) - 1);
    let mut bytes = Vec::new();
    builder.build(Codec::from(codec), &mut Compressor::new(), &mut bytes);
    bytes
}

pub(super) fn fix_crc(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(&bytes[ATTRIBUTES_OFFSET..]);
    bytes[CRC_OFFSET..ATTRIBUTES_OFFSET].copy_from_slice(&crc.to_be_bytes());
}

/// Changes a field and makes the crc right again.
fn with_field(mut bytes: Vec<u8>, offset: usize, field: &[u8]) -> Vec<u8> {
    bytes[offset..offset + field.len()].copy_from_slice(field);
    fix_crc(&mut bytes);
    bytes
}

/// Rules of a script such as `compacted before=1000 after=0 to=lz4 max=100 log-append-time`.
fn rules(script: &str) -> ValidationRules {
    let mut rules = ValidationRules {
        max_message_bytes: 1_048_588,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
        is_compacted: false,
        compression: TargetCompression::Producer,
        decompressed_max_bytes: 1 << 20,
    };
    for option in script.split_whitespace() {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "compacted" => rules.is_compacted = true,
            "before" => rules.timestamp_before_max_ms = value.parse().unwrap(),
            "after" => rules.timestamp_after_max_ms = value.parse().unwrap(),
            "max" => rules.max_message_bytes = value.parse().unwrap(),
            "expand" => rules.decompressed_max_bytes = value.parse().unwrap(),
            "log-append-time" => rules.timestamp_type = TimestampType::LogAppendTime,
            "to" => {
                let codec = Compression::from_name(value).unwrap().into();
                rules.compression = TargetCompression::Codec(codec);
            }
            other => panic!("unknown rule {other}"),
        }
    }
    rules
}

/// Validates, stamps base offset 100 and leader epoch 7, and says what came out.
fn outcome(bytes: &[u8], version: i16, rules_script: &str) -> String {
    let rules = rules(rules_script);
    let mut received = bytes.to_vec();
    let validated =
        ProduceValidator::new().validate_produce(&mut received, version, &rules, NOW_MS);
    let mut validated = match validated {
        Ok(validated) => validated,
        Err(invalid) => {
            let errors = invalid.record_errors.iter();
            let errors: String = errors
                .map(|error| format!(" [{}] {error}", error.batch_index))
                .collect();
            let limit = match invalid.expands_beyond_limit {
                true => " beyond the limit",
                false => "",
            };
            return format!("{}{limit}:{errors}", invalid.error.name());
        }
    };
    let way = match validated.is_in_place() {
        true => "in place",
        false => "rebuilt",
    };
    validated.stamp(Offset(100), LeaderEpoch(7), None);
    let (batch, rest) = RecordBatch::parse(validated.bytes()).unwrap();
    assert_eq!((batch.header(), rest.len()), (*validated.header(), 0));
    assert!(batch.is_crc_valid());
    assert_eq!(
        (batch.base_offset(), batch.partition_leader_epoch()),
        (Offset(100), LeaderEpoch(7))
    );
    let mut scratch = Vec::new();
    let records = batch
        .records(&mut Decompressor::new(), &mut scratch, 1 << 20)
        .unwrap();
    let offsets: Vec<String> = records.map(|r| r.unwrap().offset.to_string()).collect();
    let codec = batch.compression().unwrap().name();
    let max_timestamp = match batch.max_timestamp() {
        -1 => "none".to_owned(),
        timestamp => format!("{:+}", timestamp - NOW_MS),
    };
    let timestamps = batch.timestamp_type().name();
    format!(
        "{way} {codec} offsets {} max {timestamps} {max_timestamp}",
        offsets.join(",")
    )
}

fn check(script: &str, rules_script: &str, expected: &str) {
    assert_eq!(
        outcome(&batch(script), VERSION, rules_script),
        expected,
        "{script}"
    );
}

#[test]
fn good_batches_stay_as_they_came() {
    check(
        "none | k@0",
        "",
        "in place none offsets 100 max CreateTime +0",
    );
    check(
        "none | k@-5 null@7 k@2",
        "",
        "in place none offsets 100,101,102 max CreateTime +7",
    );
    check(
        "none | k@none",
        "",
        "in place none offsets 100 max CreateTime none",
    );
    check(
        "none producer=5,0,7 | k@0",
        "",
        "in place none offsets 100 max CreateTime +0",
    );
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        let expected = format!("in place {codec} offsets 100,101 max CreateTime +7");
        check(&format!("{codec} | k@0 k@7"), "", &expected);
        check(
            &format!("{codec} | k@0 k@7"),
            &format!("to={codec}"),
            &expected,
        );
    }
}

#[test]
fn a_wrong_maximal_timestamp_is_corrected() {
    check(
        "none max-timestamp=99 | k@3",
        "",
        "in place none offsets 100 max CreateTime +3",
    );
    check(
        "zstd max-timestamp=99 | k@3",
        "",
        "in place zstd offsets 100 max CreateTime +3",
    );
}

#[test]
fn log_append_time_replaces_the_timestamps() {
    let rules = "log-append-time before=0 after=0";
    check(
        "none | k@-99999",
        rules,
        "in place none offsets 100 max LogAppendTime +0",
    );
    check(
        "lz4 | k@5 k@none",
        rules,
        "in place lz4 offsets 100,101 max LogAppendTime +0",
    );
    check(
        "lz4 | k@5",
        "log-append-time to=gzip",
        "rebuilt gzip offsets 100 max LogAppendTime +0",
    );
}

#[test]
fn another_codec_rebuilds() {
    check(
        "none | k@0 k@9",
        "to=zstd",
        "rebuilt zstd offsets 100,101 max CreateTime +9",
    );
    check(
        "zstd | k@0 k@9",
        "to=none",
        "rebuilt none offsets 100,101 max CreateTime +9",
    );
    check(
        "gzip | k@0",
        "to=lz4",
        "rebuilt lz4 offsets 100 max CreateTime +0",
    );
    check(
        "none | k@0",
        "to=none",
        "in place none offsets 100 max CreateTime +0",
    );
}

/// Apache Kafka 4.3.1 means to rebuild a compressed batch of wrong offsets and fails with
/// `UNKNOWN_SERVER_ERROR`, because it has skipped the records' keys.
#[test]
fn wrong_inner_offsets_of_a_compressed_batch_are_corrected() {
    let expected = "rebuilt lz4 offsets 100,101,102 max CreateTime +0";
    check("lz4 offset-step=2 | k@0 k@0 k@0", "", expected);
    check(
        "lz4 offset-step=2 | k@0 k@0",
        "to=none",
        "rebuilt none offsets 100,101 max CreateTime +0",
    );
    check(
        "none offset-step=2 | k@0 k@0",
        "",
        "in place none offsets 100,102 max CreateTime +0",
    );
}

#[test]
fn compacted_topics_need_keys() {
    let no_key = "compacted topic cannot accept a record without a key";
    let expected = format!("INVALID_RECORD: [1] {no_key} [3] {no_key}");
    check("none | k@0 null@0 k@0 null@0", "compacted", &expected);
    check("gzip | k@0 null@0 k@0 null@0", "compacted", &expected);
    check(
        "gzip | k@0 null@0 k@0 null@0",
        "compacted to=lz4",
        &expected,
    );
    check(
        "none | @0",
        "compacted",
        "in place none offsets 100 max CreateTime +0",
    );
}

#[test]
fn timestamps_must_be_near_now() {
    let expected = "INVALID_TIMESTAMP: \
        [1] timestamp 1700000000011 is outside the range [1699999999995, 1700000000010] \
        [2] timestamp 1699999999994 is outside the range [1699999999995, 1700000000010]";
    check(
        "none | k@10 k@11 k@-6 k@-5 k@none",
        "before=5 after=10",
        expected,
    );
    check(
        "snappy | k@10 k@11 k@-6 k@-5 k@none",
        "before=5 after=10",
        expected,
    );
    check(
        "none | k@3600000",
        "",
        "in place none offsets 100 max CreateTime +3600000",
    );
    check(
        "none | k@3600001",
        "",
        "INVALID_TIMESTAMP: [0] timestamp 1700003600001 is outside the range \
            [-9223370336854775807, 1700003600000]",
    );
}

#[test]
fn a_bad_timestamp_outweighs_a_missing_key() {
    check(
        "none | null@0 k@11",
        "compacted before=5 after=10",
        "INVALID_TIMESTAMP: [0] compacted topic cannot accept a record without a key \
            [1] timestamp 1700000000011 is outside the range [1699999999995, 1700000000010]",
    );
}

#[test]
fn producers_must_not_set_log_append_time() {
    let refused = "INVALID_TIMESTAMP: [0] producer must not set the timestamp type LogAppendTime";
    check("none log-append-time | k@0", "log-append-time", refused);
    check(
        "none log-append-time max-timestamp=-1700000000001 | k@0",
        "",
        refused,
    );
    // With a timestamp of its own, only the range counts and the batch becomes one of CreateTime.
    check(
        "none log-append-time | k@0",
        "",
        "in place none offsets 100 max CreateTime +0",
    );
}

#[test]
fn record_errors_are_bounded() {
    let script = format!("zstd | {}", "null@0 ".repeat(3000));
    let invalid = ProduceValidator::new()
        .validate_produce(&mut batch(&script), VERSION, &rules("compacted"), NOW_MS)
        .unwrap_err();
    assert_eq!(
        invalid.record_errors.len(),
        InvalidRecords::RECORD_ERRORS_MAX
    );
    assert_eq!(invalid.message, "3000 records of the batch are invalid");
}

#[test]
fn timestamps_out_of_range_are_told_as_kafka_does() {
    let invalid = ProduceValidator::new()
        .validate_produce(
            &mut batch("none | k@9999999 k@0"),
            VERSION,
            &rules(""),
            NOW_MS,
        )
        .unwrap_err();
    assert_eq!(invalid.error, ErrorCode::InvalidTimestamp);
    assert_eq!(
        invalid.message,
        "One or more records have been rejected due to invalid timestamp"
    );
}

#[test]
fn header_faults() {
    let one = || batch("none | k@0 k@0");
    let check = |bytes: Vec<u8>, expected| assert_eq!(outcome(&bytes, VERSION, ""), expected);
    check(batch("none base=1 | k@0"), "INVALID_RECORD:");
    check(batch("none control | k@0"), "INVALID_RECORD:");
    check(batch("none producer=5,0,-1 | k@0"), "INVALID_RECORD:");
    for delta in [-1i32, 0, 2, i32::MAX, i32::MIN] {
        let bytes = with_field(one(), LAST_OFFSET_DELTA_OFFSET, &delta.to_be_bytes());
        check(bytes, "INVALID_RECORD:");
    }
    for count in [-1i32, 0, 1, 3, i32::MAX] {
        let bytes = with_field(one(), RECORD_COUNT_OFFSET, &count.to_be_bytes());
        check(bytes, "INVALID_RECORD:");
    }
    let mut damaged = one();
    damaged[70] ^= 1;
    check(damaged, "CORRUPT_MESSAGE:");
}

/// Apache Kafka answers `UNKNOWN_SERVER_ERROR`, for want of a check.
#[test]
fn unknown_codecs_are_refused() {
    let bytes = with_field(batch("none | k@0"), ATTRIBUTES_OFFSET, &[0, 5]);
    assert_eq!(outcome(&bytes, VERSION, ""), "INVALID_RECORD:");
}

#[test]
fn exactly_one_batch_of_magic_2() {
    let one = batch("none | k@0");
    let check = |bytes: &[u8], expected| assert_eq!(outcome(bytes, VERSION, ""), expected);
    let accepted = "in place none offsets 100 max CreateTime +0";
    check(b"", "INVALID_RECORD:");
    check(&one[..one.len() - 1], "INVALID_RECORD:");
    check(&[&one[..], &one].concat(), "INVALID_RECORD:");
    check(&[&one[..], &one[..one.len() - 1]].concat(), accepted);
    check(&[&one[..], &[0; 16]].concat(), "CORRUPT_MESSAGE:");
    for (magic, expected) in [
        (0, "INVALID_RECORD:"),
        (1, "INVALID_RECORD:"),
        (3, "CORRUPT_MESSAGE:"),
    ] {
        let mut bytes = one.clone();
        bytes[MAGIC_OFFSET] = magic;
        check(&bytes, expected);
        check(&[&one[..], &bytes].concat(), expected);
    }
    for magic in [0, 1] {
        let mut bytes = one.clone();
        bytes[MAGIC_OFFSET] = magic;
        check(&[&one[..], &bytes[..bytes.len() - 1]].concat(), accepted);
    }
    for length in [-1i32, 0, 13, 14, 48] {
        let mut bytes = one.clone();
        bytes[BATCH_LENGTH_OFFSET..][..4].copy_from_slice(&length.to_be_bytes());
        check(&bytes, "CORRUPT_MESSAGE:");
    }
}

#[test]
fn zstd_needs_produce_7() {
    let bytes = batch("zstd | k@0");
    assert_eq!(outcome(&bytes, 6, ""), "UNSUPPORTED_COMPRESSION_TYPE:");
    assert_eq!(
        outcome(&bytes, 7, ""),
        "in place zstd offsets 100 max CreateTime +0"
    );
    let two = [&bytes[..], &bytes].concat();
    assert_eq!(outcome(&two, 6, ""), "UNSUPPORTED_COMPRESSION_TYPE:");
}

#[test]
fn size_is_checked_before_and_after_a_rebuild() {
    let bytes = batch("none | k@0");
    let limit = |size_bytes: usize, more: &str| format!("max={size_bytes} {more}");
    let accepted = "in place none offsets 100 max CreateTime +0";
    assert_eq!(outcome(&bytes, VERSION, &limit(bytes.len(), "")), accepted);
    assert_eq!(
        outcome(&bytes, VERSION, &limit(bytes.len() - 1, "")),
        "MESSAGE_TOO_LARGE:"
    );
    // Size is looked at before the crc.
    let mut damaged = bytes;
    damaged[70] ^= 1;
    assert_eq!(
        outcome(&damaged, VERSION, &limit(10, "")),
        "MESSAGE_TOO_LARGE:"
    );
    let repetitive = batch(&format!("zstd | {}", "k@0 ".repeat(100)));
    let rules = limit(repetitive.len(), "to=none");
    assert_eq!(outcome(&repetitive, VERSION, &rules), "MESSAGE_TOO_LARGE:");
}

#[test]
fn expansion_is_limited() {
    let repetitive = batch(&format!("zstd | {}", "k@0 ".repeat(1000)));
    for rules in ["expand=5000", "expand=5000 to=lz4"] {
        let outcome = outcome(&repetitive, VERSION, rules);
        assert_eq!(outcome, "MESSAGE_TOO_LARGE beyond the limit:", "{rules}");
    }
}

#[test]
fn structure_of_records_is_checked_in_every_codec() {
    let plain = batch("none | key@0 key@0");
    for codec in Compression::ALL {
        for to in ["", "to=none", "to=lz4"] {
            let check_records = |records: &[u8], expected: &str| {
                let mut bytes = plain[..crate::batch_layout::HEADER_SIZE_BYTES].to_vec();
                bytes[ATTRIBUTES_OFFSET + 1] = codec.id() as u8;
                Compressor::new().compress(codec.into(), records, &mut bytes);
                let length = (bytes.len() - 12) as i32;
                bytes[BATCH_LENGTH_OFFSET..][..4].copy_from_slice(&length.to_be_bytes());
                fix_crc(&mut bytes);
                let outcome = outcome(&bytes, VERSION, to);
                assert!(
                    outcome.contains(expected),
                    "{} {to}: {outcome}",
                    codec.name()
                );
            };
            let records = &plain[crate::batch_layout::HEADER_SIZE_BYTES..];
            check_records(records, "offsets 100,101");
            check_records(&records[..records.len() - 1], "INVALID_RECORD:");
            check_records(&[records, &[0]].concat(), "INVALID_RECORD:");
            let mut bad_length = records.to_vec();
            bad_length[0] += 2;
            check_records(&bad_length, "INVALID_RECORD:");
        }
    }
}

/// Apache Kafka answers `UNKNOWN_SERVER_ERROR`: its codecs' exceptions have no error code.
#[test]
fn corrupt_streams_are_invalid_records() {
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        let mut bytes = batch(&format!("{codec} | k@0 k@0"));
        bytes[crate::batch_layout::HEADER_SIZE_BYTES] ^= 0x40;
        fix_crc(&mut bytes);
        assert_eq!(outcome(&bytes, VERSION, ""), "INVALID_RECORD:", "{codec}");
    }
}

#[test]
fn validated_bytes_pass_the_fuzzer() {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        fuzz_validate_produce(&batch(&format!("{codec} | k@0 k@0")));
        fuzz_validate_produce(&batch(&format!("{codec} offset-step=3 | k@0 k@0")));
    }
}
