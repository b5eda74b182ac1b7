//! Compressed batches: those that are sound are stored as they came, those that are not, or that
//! expand without end, are refused at a bounded cost.

use model::ErrorCode;
use record::batch_layout::{ATTRIBUTES_OFFSET, HEADER_SIZE_BYTES};
use record::{BatchBuilder, BatchHeader, Batches, Codec, Compression, Compressor};
use testkit::{TestServer, compressed_batch, now_ms, patched};

const CODECS: [Compression; 4] = [
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

#[test]
fn every_codec_is_kept_as_it_came() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    for (offset, compression) in (0..).step_by(2).zip(CODECS) {
        let sent = compressed_batch(compression, &["first", "second"]);
        client.produce("topic", 0, &sent).assert_accepted();
        let fetched = client.fetch("topic", 0, offset);
        assert_eq!(fetched.values(), ["first", "second"]);
        // But for the offset and the leader's epoch.
        assert_eq!(fetched.records[21..], sent[21..], "{compression:?}");
    }
}

#[test]
fn a_topic_may_choose_another_codec() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    for to in ["uncompressed", "gzip", "snappy", "lz4", "zstd"] {
        client.create_topic(to, 1, &[("compression.type", to)]);
        for from in CODECS {
            let sent = compressed_batch(from, &["first", "second"]);
            client.produce(to, 0, &sent).assert_accepted();
        }
        let fetched = client.fetch(to, 0, 0);
        assert_eq!(fetched.values().len(), 2 * CODECS.len(), "{to}");
        for batch in Batches::new(&fetched.records) {
            let name = match batch.unwrap().compression().unwrap() {
                Compression::None => "uncompressed",
                codec => codec.name(),
            };
            assert_eq!(name, to, "the codec on disk");
        }
    }
}

#[test]
fn damaged_streams_are_refused() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    for compression in CODECS {
        let whole = compressed_batch(compression, &["first", "second"]);
        let mut refused_count = 0;
        for at in HEADER_SIZE_BYTES..whole.len() {
            // With a right checksum: only the stream or the records can tell.
            let damaged = patched(whole.clone(), at, &[whole[at] ^ 0x55]);
            let produced = client.produce("topic", 0, &damaged);
            let refusals = [
                ErrorCode::InvalidRecord,
                ErrorCode::CorruptMessage,
                ErrorCode::InvalidTimestamp,
            ];
            if refusals.contains(&produced.error) {
                refused_count += 1;
                continue;
            }
            // A byte that no checksum covers may make another value, and no other damage.
            let first = produced.base_offset;
            assert_eq!(
                produced.error,
                ErrorCode::None,
                "{compression:?}, byte {at}"
            );
            let fetched = client.fetch("topic", 0, first).records();
            let offsets: Vec<i64> = fetched.iter().map(|record| record.offset).collect();
            assert_eq!(offsets, [first, first + 1], "{compression:?}, byte {at}");
        }
        assert!(refused_count > 0, "{compression:?} is not checked");
    }
    server.assert_serves();
}

#[test]
fn codecs_that_do_not_exist_are_refused() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    for codec in 5..8 {
        let whole = compressed_batch(Compression::Gzip, &["first"]);
        let batch = patched(whole, ATTRIBUTES_OFFSET, &[0, codec]);
        let produced = client.produce("topic", 0, &batch);
        assert_ne!(produced.error, ErrorCode::None, "codec {codec}");
    }
    server.assert_serves();
}

/// A batch whose one record is far larger than the batch.
fn bomb(compression: Compression, expanded_bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    builder.append(now_ms(), None, Some(&vec![0; expanded_bytes]), &[]);
    let mut bytes = Vec::new();
    builder.build(
        Codec::from(compression),
        &mut Compressor::default(),
        &mut bytes,
    );
    bytes
}

#[test]
fn a_bomb_costs_a_bounded_amount_of_work() {
    let server = TestServer::start(&[("message.max.bytes", "4000000")]);
    let mut client = server.connect();
    // Beyond what any batch of this topic may expand to, which is 64 MiB.
    client.create_topic("small", 1, &[("max.message.bytes", "60000")]);
    let batch = bomb(Compression::Zstd, 65 * 1024 * 1024);
    assert!(batch.len() < 60_000);
    let produced = client.produce("small", 0, &batch);
    assert_eq!(produced.error, ErrorCode::MessageTooLarge);
    // Within the bound it is a batch like any other.
    client.create_topic("large", 1, &[]);
    for compression in CODECS {
        let batch = bomb(compression, 10 * 1024 * 1024);
        client.produce("large", 0, &batch).assert_accepted();
    }
    server.assert_serves();
}
