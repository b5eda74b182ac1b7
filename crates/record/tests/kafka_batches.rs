//! Batches that Apache Kafka's own classes have written are read, and written again byte by byte.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use record::{
    BatchBuilder, BatchHeader, Codec, Compression, Compressor, ControlRecord, ControlRecordKind,
    Decompressor, EndTransactionMarker, Header, RecordBatch, TimestampType, TransactionResult,
};

const FIXTURES: &str = include_str!("fixtures/kafka-4.3.1-batches.txt");
const LIMIT_BYTES: usize = 1 << 20;

type OwnedHeader = (Vec<u8>, Option<Vec<u8>>);

#[derive(Debug, PartialEq, Eq)]
struct OwnedRecord {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<OwnedHeader>,
}

fn fixture(name: &str) -> Vec<u8> {
    let line = FIXTURES
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let hex = line
        .unwrap_or_else(|| panic!("no fixture {name}"))
        .as_bytes();
    hex.chunks(2)
        .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap())
        .collect()
}

fn parse(bytes: &[u8]) -> RecordBatch<'_> {
    let (batch, rest) = RecordBatch::parse(bytes).unwrap();
    assert!(rest.is_empty() && batch.is_crc_valid());
    batch
}

fn records(batch: &RecordBatch<'_>) -> Vec<OwnedRecord> {
    let mut scratch = Vec::new();
    batch
        .records(&mut Decompressor::new(), &mut scratch, LIMIT_BYTES)
        .unwrap()
        .map(|record| {
            let record = record.unwrap();
            OwnedRecord {
                offset: record.offset.0,
                timestamp: record.timestamp,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers: record
                    .headers
                    .iter()
                    .map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)))
                    .collect(),
            }
        })
        .collect()
}

/// The four records of every fixture with data: headers, null keys, null values, empty ones.
fn expected_records(base_offset: i64) -> Vec<OwnedRecord> {
    let record = |index, timestamp, key: Option<&str>, value: Option<&str>| OwnedRecord {
        offset: base_offset + index,
        timestamp,
        key: key.map(|key| key.as_bytes().to_vec()),
        value: value.map(|value| value.as_bytes().to_vec()),
        headers: Vec::new(),
    };
    let mut records = vec![
        record(
            0,
            1_700_000_000_000,
            Some("key-0"),
            Some("value-0 value-0 value-0 value-0"),
        ),
        record(
            1,
            1_700_000_000_123,
            None,
            Some("value-1 value-0 value-0 value-0"),
        ),
        record(2, 1_699_999_999_000, Some("key-2"), None),
        record(3, 1_700_000_000_050, Some(""), Some("")),
    ];
    records[0].headers = vec![
        (b"h1".to_vec(), Some(b"x".to_vec())),
        (b"h2".to_vec(), None),
    ];
    records[3].headers = vec![(Vec::new(), Some(Vec::new()))];
    records
}

fn build(header: BatchHeader, records: &[OwnedRecord]) -> BatchBuilder {
    let mut builder = BatchBuilder::new(header);
    for record in records {
        let headers: Vec<Header<'_>> = record
            .headers
            .iter()
            .map(|(key, value)| Header {
                key,
                value: value.as_deref(),
            })
            .collect();
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        let size = builder.size_with_record(record.timestamp, key, value, &headers);
        assert_eq!(
            builder.append(record.timestamp, key, value, &headers),
            Offset(record.offset)
        );
        assert_eq!(builder.size_in_bytes(), size);
    }
    builder
}

#[test]
fn records_of_every_codec_are_read() {
    for compression in Compression::ALL {
        let bytes = fixture(&format!("batch_{}", compression.name()));
        let batch = parse(&bytes);
        assert_eq!(batch.compression(), Some(compression));
        assert_eq!(
            (batch.base_offset(), batch.last_offset()),
            (Offset(42), Offset(45))
        );
        assert_eq!(batch.partition_leader_epoch(), LeaderEpoch(5));
        assert_eq!(batch.max_timestamp(), 1_700_000_000_123);
        assert_eq!(batch.record_count(), 4);
        assert_eq!(records(&batch), expected_records(42));
    }
}

#[test]
fn the_same_records_build_the_same_bytes() {
    let header = BatchHeader {
        base_offset: Offset(42),
        partition_leader_epoch: LeaderEpoch(5),
        ..BatchHeader::default()
    };
    let builder = build(header, &expected_records(42));
    for compression in Compression::ALL {
        let mut bytes = Vec::new();
        builder.build(Codec::from(compression), &mut Compressor::new(), &mut bytes);
        assert_eq!(records(&parse(&bytes)), expected_records(42));
        if compression == Compression::None {
            assert_eq!(bytes, fixture("batch_none"));
        }
    }
    assert_eq!(builder.into_uncompressed(), fixture("batch_none"));
}

#[test]
fn a_transactional_batch_whose_sequence_wraps() {
    let bytes = fixture("transactional");
    let batch = parse(&bytes);
    assert!(batch.is_transactional() && !batch.is_control());
    assert_eq!(
        (batch.producer_id(), batch.producer_epoch()),
        (ProducerId(4711), ProducerEpoch(3))
    );
    assert_eq!(
        (batch.base_sequence(), batch.last_sequence()),
        (i32::MAX - 1, 1)
    );
    let header = BatchHeader::of(&batch);
    assert_eq!(
        build(header, &expected_records(0)).into_uncompressed(),
        bytes
    );
}

#[test]
fn transaction_markers() {
    for (name, result) in [
        ("abort", TransactionResult::Abort),
        ("commit", TransactionResult::Commit),
    ] {
        let bytes = fixture(name);
        let batch = parse(&bytes);
        assert!(batch.is_transactional() && batch.is_control());
        let mut scratch = Vec::new();
        let mut records = batch
            .records(&mut Decompressor::new(), &mut scratch, 0)
            .unwrap();
        let marker = EndTransactionMarker {
            result,
            coordinator_epoch: 12,
        };
        let record = ControlRecord::parse(&records.next().unwrap().unwrap());
        assert_eq!(record, Ok(ControlRecord::EndTransaction(marker)));

        let mut built = marker.into_batch(1_700_000_000_999, ProducerId(4711), ProducerEpoch(3));
        built.stamp(Offset(9), LeaderEpoch(6), None);
        assert_eq!(built.bytes(), bytes);
    }
}

#[test]
fn control_records_of_the_quorum() {
    for (name, kind, value) in [
        (
            "leader_change",
            ControlRecordKind::LeaderChange,
            &[0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0, 1, 0][..],
        ),
        (
            "kraft_version",
            ControlRecordKind::KRaftVersion,
            &[0, 0, 0, 1, 0][..],
        ),
    ] {
        let bytes = fixture(name);
        let mut scratch = Vec::new();
        let mut records = parse(&bytes)
            .records(&mut Decompressor::new(), &mut scratch, 0)
            .unwrap();
        let record = ControlRecord::parse(&records.next().unwrap().unwrap());
        assert_eq!(record, Ok(ControlRecord::Other(kind, Some(value))));
    }
}

#[test]
fn log_append_time_is_the_time_of_every_record() {
    let bytes = fixture("log_append_time");
    let batch = parse(&bytes);
    assert_eq!(batch.timestamp_type(), TimestampType::LogAppendTime);
    for record in records(&batch) {
        assert_eq!(record.timestamp, 1_700_000_001_000);
    }
    let header = BatchHeader::of(&batch);
    assert_eq!(
        build(header, &expected_records(5)[..2]).into_uncompressed(),
        bytes
    );
}

#[test]
fn a_batch_that_compaction_has_emptied() {
    let bytes = fixture("emptied");
    let batch = parse(&bytes);
    assert_eq!(
        (batch.base_offset(), batch.last_offset()),
        (Offset(30), Offset(39))
    );
    assert_eq!((batch.base_sequence(), batch.last_sequence()), (17, 26));
    assert_eq!(records(&batch), []);
    let header = BatchHeader {
        last_offset: Some(Offset(39)),
        max_timestamp: Some(1_700_000_000_123),
        ..BatchHeader::of(&batch)
    };
    assert_eq!(build(header, &[]).into_uncompressed(), bytes);
}
