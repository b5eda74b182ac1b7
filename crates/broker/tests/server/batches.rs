//! Record batches that are damaged, or that no producer may send.

use model::{ErrorCode, ProducerEpoch, ProducerId};
use record::batch_layout::{
    ATTRIBUTES_OFFSET, BASE_OFFSET_OFFSET, BATCH_LENGTH_OFFSET, CRC_OFFSET, HEADER_SIZE_BYTES,
    LAST_OFFSET_DELTA_OFFSET, MAGIC_OFFSET, MAX_TIMESTAMP_OFFSET, PARTITION_LEADER_EPOCH_OFFSET,
    PRODUCER_ID_OFFSET, RECORD_COUNT_OFFSET,
};
use record::{BatchHeader, Compression};
use testkit::{Client, TestServer, batch, batch_of, compressed_batch, now_ms, patched};

fn server_with_topic() -> (TestServer, Client) {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    (server, client)
}

#[test]
fn every_byte_of_a_batch_is_checked_or_overwritten() {
    let (server, mut client) = server_with_topic();
    let mut appended = 0;
    for compression in [Compression::None, Compression::Gzip, Compression::Lz4] {
        let whole = compressed_batch(compression, &["first", "second", "third"]);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            let produced = client.produce("topic", 0, &damaged);
            match at {
                // The leader's epoch is the broker's to write.
                PARTITION_LEADER_EPOCH_OFFSET..MAGIC_OFFSET => {
                    produced.assert_accepted();
                    appended += 1;
                }
                BASE_OFFSET_OFFSET..BATCH_LENGTH_OFFSET => {
                    assert_eq!(produced.error, ErrorCode::InvalidRecord, "byte {at}");
                }
                // A shorter batch leaves bytes behind, a longer one is cut off.
                BATCH_LENGTH_OFFSET..PARTITION_LEADER_EPOCH_OFFSET => assert!(
                    [ErrorCode::CorruptMessage, ErrorCode::InvalidRecord].contains(&produced.error),
                    "byte {at}: {produced:?}"
                ),
                MAGIC_OFFSET.. => {
                    assert_eq!(produced.error, ErrorCode::CorruptMessage, "byte {at}");
                }
            }
        }
    }
    let fetched = client.fetch("topic", 0, 0);
    assert_eq!(fetched.high_watermark, 3 * appended);
    assert_eq!(fetched.values().len() as i64, 3 * appended);
    server.assert_serves();
}

#[test]
fn a_batch_that_is_cut_off_is_refused() {
    let (server, mut client) = server_with_topic();
    let whole = batch(&["first", "second"]);
    for length in 0..whole.len() {
        let produced = client.produce("topic", 0, &whole[..length]);
        assert!(
            [ErrorCode::CorruptMessage, ErrorCode::InvalidRecord].contains(&produced.error),
            "{length} bytes: {produced:?}"
        );
    }
    server.assert_serves();
}

#[test]
fn too_few_bytes_for_another_batch_are_left_out() {
    let (_server, mut client) = server_with_topic();
    let sent = batch(&["value"]);
    let produced = client.produce("topic", 0, &[&sent[..], &[0; 11]].concat());
    produced.assert_accepted();
    let fetched = client.fetch("topic", 0, 0);
    assert_eq!(fetched.records.len(), sent.len());
}

#[test]
fn a_header_that_claims_other_times_than_its_records_is_put_right() {
    let (_server, mut client) = server_with_topic();
    let timestamp = now_ms() - 5_000;
    let sent = batch_at(timestamp);
    let claims = [
        patched(sent.clone(), MAX_TIMESTAMP_OFFSET, &i64::MAX.to_be_bytes()),
        patched(sent.clone(), MAX_TIMESTAMP_OFFSET, &(-1i64).to_be_bytes()),
        patched(sent.clone(), ATTRIBUTES_OFFSET, &[0, 8]),
    ];
    for (offset, claim) in (0..).zip(claims) {
        client.produce("topic", 0, &claim).assert_accepted();
        let fetched = client.fetch("topic", 0, offset);
        assert_eq!(fetched.records()[0].timestamp, timestamp);
        // All but the base offset and the leader epoch is as it should have been sent.
        assert_eq!(fetched.records[CRC_OFFSET..], sent[CRC_OFFSET..]);
    }
    let largest = client.list_offset("topic", 0, -3);
    assert_eq!((largest.offset, largest.timestamp), (0, timestamp));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn what_no_producer_may_send_is_refused() {
    let (server, mut client) = server_with_topic();
    let whole = || batch(&["first", "second"]);
    let i32s = i32::to_be_bytes;
    let day_ms = 24 * 3_600_000;
    let control = BatchHeader {
        is_control: true,
        ..BatchHeader::default()
    };
    let transactional = BatchHeader {
        producer_id: ProducerId(1),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        is_transactional: true,
        ..BatchHeader::default()
    };
    use ErrorCode::{
        CorruptMessage, InvalidRecord, InvalidTimestamp, TransactionalIdAuthorizationFailed,
    };
    let cases: Vec<(&str, ErrorCode, Vec<u8>)> = vec![
        ("nothing", InvalidRecord, vec![]),
        ("two batches", InvalidRecord, [whole(), whole()].concat()),
        (
            "zeros after it",
            CorruptMessage,
            [whole(), vec![0; 12]].concat(),
        ),
        (
            "magic 0",
            InvalidRecord,
            patched(whole(), MAGIC_OFFSET, &[0]),
        ),
        (
            "magic 1",
            InvalidRecord,
            patched(whole(), MAGIC_OFFSET, &[1]),
        ),
        (
            "magic 3",
            CorruptMessage,
            patched(whole(), MAGIC_OFFSET, &[3]),
        ),
        (
            "a base offset",
            InvalidRecord,
            patched(whole(), BASE_OFFSET_OFFSET, &[0, 0, 0, 0, 0, 0, 0, 9]),
        ),
        (
            "a length of 0",
            CorruptMessage,
            patched(whole(), BATCH_LENGTH_OFFSET, &i32s(0)),
        ),
        (
            "a negative length",
            CorruptMessage,
            patched(whole(), BATCH_LENGTH_OFFSET, &i32s(-1)),
        ),
        (
            "a huge length",
            InvalidRecord,
            patched(whole(), BATCH_LENGTH_OFFSET, &i32s(i32::MAX)),
        ),
        (
            "the control bit",
            InvalidRecord,
            batch_of(control, &["first"]),
        ),
        (
            "a transaction",
            TransactionalIdAuthorizationFailed,
            batch_of(transactional, &["first"]),
        ),
        (
            "a negative count",
            InvalidRecord,
            patched(whole(), RECORD_COUNT_OFFSET, &i32s(-1)),
        ),
        (
            "the lowest count",
            InvalidRecord,
            patched(whole(), RECORD_COUNT_OFFSET, &i32s(i32::MIN)),
        ),
        (
            "no record",
            InvalidRecord,
            patched(whole(), RECORD_COUNT_OFFSET, &i32s(0)),
        ),
        (
            "more records than there are",
            InvalidRecord,
            patched(whole(), RECORD_COUNT_OFFSET, &i32s(3)),
        ),
        (
            "a huge count",
            InvalidRecord,
            patched(whole(), RECORD_COUNT_OFFSET, &i32s(i32::MAX)),
        ),
        (
            "a negative last offset",
            InvalidRecord,
            patched(whole(), LAST_OFFSET_DELTA_OFFSET, &i32s(-1)),
        ),
        (
            "another last offset",
            InvalidRecord,
            patched(whole(), LAST_OFFSET_DELTA_OFFSET, &i32s(5)),
        ),
        (
            "a huge last offset",
            InvalidRecord,
            patched(whole(), LAST_OFFSET_DELTA_OFFSET, &i32s(i32::MAX)),
        ),
        (
            "a producer without sequence",
            InvalidRecord,
            patched(whole(), PRODUCER_ID_OFFSET, &7i64.to_be_bytes()),
        ),
        (
            "records of zeros",
            InvalidRecord,
            patched(whole(), HEADER_SIZE_BYTES, &[0; 8]),
        ),
        (
            "a record beyond the batch",
            InvalidRecord,
            patched(whole(), HEADER_SIZE_BYTES, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
        ),
        (
            "a negative record length",
            InvalidRecord,
            patched(whole(), HEADER_SIZE_BYTES, &[1]),
        ),
        (
            "an endless varint",
            InvalidRecord,
            patched(whole(), HEADER_SIZE_BYTES, &[0xff; 11]),
        ),
        (
            "a time of tomorrow",
            InvalidTimestamp,
            batch_at(now_ms() + day_ms),
        ),
    ];
    for (what, expected, bytes) in cases {
        let produced = client.produce("topic", 0, &bytes);
        assert_eq!(produced.error, expected, "{what}: {:?}", produced.message);
        assert_eq!(produced.base_offset, -1, "{what}");
    }
    let fetched = client.fetch("topic", 0, 0);
    assert_eq!(fetched.high_watermark, 0, "nothing was appended");
    server.assert_serves();
}

/// A batch of one record with this timestamp.
fn batch_at(timestamp: i64) -> Vec<u8> {
    let mut builder = record::BatchBuilder::new(BatchHeader::default());
    builder.append(timestamp, None, Some(b"value"), &[]);
    builder.into_uncompressed()
}
