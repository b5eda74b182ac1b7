use super::*;
use crate::batch_layout::{CRC_OFFSET, HEADER_SIZE_BYTES};
use crate::{BatchBuilder, BatchHeader, Codec, Compressor};
use model::Offset;
use proptest::prelude::*;

/// A batch that declares `record_count` records, which are these bytes.
fn batch_of(records: &[u8], record_count: i32) -> Vec<u8> {
    let mut bytes = BatchBuilder::new(BatchHeader {
        base_offset: Offset(10),
        ..BatchHeader::default()
    })
    .into_uncompressed();
    bytes.extend_from_slice(records);
    bytes[8..12].copy_from_slice(&((HEADER_SIZE_BYTES - 12 + records.len()) as i32).to_be_bytes());
    bytes[57..61].copy_from_slice(&record_count.to_be_bytes());
    bytes
}

/// The records as `offset key=value`, a fault in place of the rest.
fn check(records: &[u8], record_count: i32, expected: &str) {
    let bytes = batch_of(records, record_count);
    let text = |bytes: Option<&[u8]>| match bytes {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "null".to_owned(),
    };
    let mut scratch = Vec::new();
    let words: Vec<String> = RecordBatch::parse(&bytes)
        .unwrap()
        .0
        .records(&mut Decompressor::new(), &mut scratch, 0)
        .unwrap()
        .map(|record| match record {
            Ok(record) => {
                let headers: String = record
                    .headers
                    .iter()
                    .map(|header| format!(" {}:{}", header.key_text(), text(header.value)))
                    .collect();
                format!(
                    "{} {}={}{headers}",
                    record.offset,
                    text(record.key),
                    text(record.value)
                )
            }
            Err(error) => error.to_string(),
        })
        .collect();
    assert_eq!(words.join(", "), expected);
    fuzz_records(&bytes);
}

// length, attributes, timestamp delta, offset delta, key, value, headers
const PLAIN: [u8; 9] = [16, 0, 0, 0, 2, b'k', 2, b'v', 0];
const NULLS: [u8; 7] = [12, 0, 0, 2, 1, 1, 0];
const HEADERS: [u8; 14] = [26, 0, 0, 4, 1, 1, 4, 2, b'a', 2, b'b', 2, b'c', 1];

#[test]
fn well_formed_records() {
    check(&[], 0, "");
    check(&PLAIN, 1, "10 k=v");
    check(
        &[&PLAIN[..], &NULLS, &HEADERS].concat(),
        3,
        "10 k=v, 11 null=null, 12 null=null a:b c:null",
    );
}

#[test]
fn any_negative_length_is_null_but_for_header_keys() {
    check(&[12, 0, 0, 0, 5, 9, 0], 1, "10 null=null");
    check(
        &[16, 0, 0, 0, 1, 1, 2, 1, 1],
        1,
        "record has a header without a key",
    );
}

#[test]
fn counts_must_match() {
    check(
        &PLAIN,
        0,
        "bytes remain after the declared number of records",
    );
    check(&PLAIN, -1, "batch has a negative number of records");
    let too_few = "10 k=v, records end before the declared count is reached";
    check(&PLAIN, 2, too_few);
    check(&PLAIN, i32::MAX, too_few);
    let too_many = [&PLAIN[..], &[0]].concat();
    check(
        &too_many,
        1,
        "10 k=v, bytes remain after the declared number of records",
    );
}

#[test]
fn parts_must_fill_their_record() {
    let mismatch = "record length does not match its contents";
    for (at, byte) in [(0, 14), (0, 18), (0, 1), (4, 40), (6, 4), (6, 40), (4, 4)] {
        let mut record = PLAIN;
        record[at] = byte;
        let bytes = [&record[..], &[0; 40]].concat();
        check(&bytes, 1, mismatch);
    }
    let mut record = PLAIN;
    record[8] = 1;
    check(&record, 1, "record has a negative number of headers");
    let huge_count = [24, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    check(
        &huge_count,
        1,
        "records end before the declared count is reached",
    );
}

#[test]
fn cut_and_over_long_records() {
    for cut in 0..PLAIN.len() {
        let bytes = batch_of(&PLAIN[..cut], 1);
        let (batch, _) = RecordBatch::parse(&bytes).unwrap();
        let mut scratch = Vec::new();
        let mut records = batch
            .records(&mut Decompressor::new(), &mut scratch, 0)
            .unwrap();
        assert!(records.next().unwrap().is_err());
        assert_eq!(records.next(), None);
    }
    let over_long = [0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    check(
        &over_long,
        1,
        "record holds an invalid variable-length integer",
    );
}

#[test]
fn an_unknown_codec_is_an_error() {
    let mut bytes = batch_of(&PLAIN, 1);
    bytes[22] = 6;
    let (batch, _) = RecordBatch::parse(&bytes).unwrap();
    let result = batch
        .records(&mut Decompressor::new(), &mut Vec::new(), 0)
        .map(|_| ());
    assert_eq!(result, Err(ReadRecordsError::UnknownCodec(6)));
}

type OwnedHeaders = Vec<(Vec<u8>, Option<Vec<u8>>)>;
type OwnedRecord = (i64, Option<Vec<u8>>, Option<Vec<u8>>, OwnedHeaders);

fn owned_record() -> impl Strategy<Value = OwnedRecord> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let header = (bytes(), prop::option::of(bytes()));
    let headers = prop::collection::vec(header, 0..3);
    (
        any::<i64>(),
        prop::option::of(bytes()),
        prop::option::of(bytes()),
        headers,
    )
}

fn build(records: &[OwnedRecord], codec: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    for (timestamp, key, value, headers) in records {
        let headers: Vec<Header<'_>> = headers
            .iter()
            .map(|(key, value)| Header {
                key,
                value: value.as_deref(),
            })
            .collect();
        let (key, value) = (key.as_deref(), value.as_deref());
        let size_bytes = builder.size_with_record(*timestamp, key, value, &headers);
        builder.append(*timestamp, key, value, &headers);
        assert_eq!(builder.size_in_bytes(), size_bytes);
    }
    let mut bytes = Vec::new();
    builder.build(Codec::from(codec), &mut Compressor::new(), &mut bytes);
    bytes
}

fn read(bytes: &[u8]) -> Vec<OwnedRecord> {
    let (batch, rest) = RecordBatch::parse(bytes).unwrap();
    assert!(rest.is_empty() && batch.is_crc_valid());
    let mut scratch = Vec::new();
    let records = batch
        .records(&mut Decompressor::new(), &mut scratch, 1 << 20)
        .unwrap();
    records
        .enumerate()
        .map(|(index, record)| {
            let record = record.unwrap();
            assert_eq!(record.offset, Offset(index as i64));
            let headers = record.headers.iter();
            let headers =
                headers.map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)));
            (
                record.timestamp,
                record.key.map(<[u8]>::to_vec),
                record.value.map(<[u8]>::to_vec),
                headers.collect(),
            )
        })
        .collect()
}

proptest! {
    #![proptest_config(trials::property(48))]

    #[test]
    fn what_is_built_is_read(records in prop::collection::vec(owned_record(), 0..20)) {
        for codec in Compression::ALL {
            prop_assert_eq!(&read(&build(&records, codec)), &records);
        }
    }

    #[test]
    fn a_record_is_found_as_if_all_were_read(
        records in prop::collection::vec(owned_record(), 0..20),
        is_appended_by_time: bool,
        from_offset in (1000i64..1020).prop_map(Offset),
    ) {
        for codec in Compression::ALL {
            let mut bytes = build(&records, codec);
            let (mut header, _) = crate::RecordBatchMut::parse(&mut bytes).unwrap();
            header.set_base_offset(Offset(1000));
            if is_appended_by_time {
                header.set_max_timestamp(TimestampType::LogAppendTime, 77);
            }
            let (batch, _) = RecordBatch::parse(&bytes).unwrap();
            let times: Vec<i64> = match is_appended_by_time {
                true => vec![77; records.len()],
                false => records.iter().map(|record| record.0).collect(),
            };
            let mut wanted = times.clone();
            wanted.extend([i64::MIN, 0, 77, i64::MAX]);
            for wanted in wanted {
                let is_wanted = |time: i64, offset: Offset| time >= wanted && offset >= from_offset;
                let mut all = times.iter().copied().zip((1000..).map(Offset));
                let expected = all.find(|(time, offset)| is_wanted(*time, *offset));
                let mut decompressor = Decompressor::new();
                let found = batch.find_record(&mut decompressor, 1 << 20, is_wanted);
                prop_assert_eq!(found, Ok(expected));
            }
        }
    }

    #[test]
    fn corrupt_batches_never_panic(
        records in prop::collection::vec(owned_record(), 1..5),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        must_fix_crc: bool,
    ) {
        for codec in Compression::ALL {
            let mut bytes = build(&records, codec);
            for (index, byte) in &flips {
                let index = index.index(bytes.len() - CRC_OFFSET) + CRC_OFFSET;
                bytes[index] ^= byte;
            }
            if must_fix_crc {
                let crc = crc32c::crc32c(&bytes[21..]);
                bytes[CRC_OFFSET..21].copy_from_slice(&crc.to_be_bytes());
            }
            fuzz_records(&bytes);
            crate::fuzz_validate_produce(&bytes);
        }
    }
}

#[test]
fn reading_goes_on_where_it_stopped() {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    for key in [b"a", b"b", b"c"] {
        builder.append(1, Some(key), None, &[]);
    }
    let bytes = builder.build_uncompressed().to_vec();
    let (batch, _) = RecordBatch::parse(&bytes).unwrap();
    let mut all = Records::decoded(&batch, batch.records_bytes());
    let mut resumed = Vec::new();
    loop {
        let start = all.resume_point();
        resumed.extend(Records::resume(&batch, batch.records_bytes(), start).next());
        if all.next().is_none() {
            break;
        }
    }
    let keys: Vec<_> = resumed
        .iter()
        .map(|record| record.unwrap().key.unwrap())
        .collect();
    assert_eq!(keys, [b"a", b"b", b"c"]);
}
