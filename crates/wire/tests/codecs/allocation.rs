//! Decoding allocates nothing, whatever lengths and counts a peer claims; neither does what a broker
//! does with each produce and fetch, once its buffer has grown.

use crate::ALLOCATOR;
use crate::codec::CODECS;
use interpreter::{Random, encode, random_message, verify};
use model::{BrokerId, ErrorCode, LeaderEpoch, Message as _, Offset, ProducerId, Uuid};
use stats_alloc::Region;
use std::path::Path;
use trials::alone;
use wire::fetch_response::{FetchResponsePartition, FetchResponseWriter};
use wire::messages::ProduceRequest;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::produce_request::read_produce_request;
use wire::produce_response::{ProduceResponsePartition, ProduceResponseWriter};

#[test]
fn nothing_is_allocated() {
    alone("allocation::nothing_is_allocated", || {
        decoding();
        produce_and_fetch();
    });
}

fn decoding() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let schema = codegen::parse_folder(&folder).expect("the schema parses");
    let mut random = Random::new(trials::seed(3));
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

fn produce_and_fetch() {
    let mut out = Vec::new();
    let body = produce_request().to_bytes(13);
    encode_responses(&mut out);
    let region = Region::new(ALLOCATOR);
    for _ in 0..10 {
        let head = read_produce_request(&body, 13, usize::MAX, |_, _| Ok(())).expect("a request");
        assert_eq!(head.acks, -1);
        out.clear();
        encode_responses(&mut out);
    }
    let change = region.change();
    assert_eq!(change.allocations, 0, "{change:?}");
    assert_eq!(change.reallocations, 0, "{change:?}");
}

fn produce_request() -> ProduceRequest<'static> {
    let partition = |index| PartitionProduceData {
        index,
        records: Some(&[7; 100]),
    };
    let topic = TopicProduceData {
        topic_id: Uuid::from_u128(1),
        partition_data: (0..20).map(partition).collect(),
        ..TopicProduceData::default()
    };
    ProduceRequest {
        acks: -1,
        topic_data: vec![topic].into(),
        ..ProduceRequest::default()
    }
}

/// Appends a produce response and a fetch response, with and without what is rare.
fn encode_responses(out: &mut Vec<u8>) {
    let writer = ProduceResponseWriter::new(13);
    writer.head(1, out);
    writer.topic("", Uuid::from_u128(1), 20, out);
    for index in 0..20 {
        let partition = ProduceResponsePartition {
            index,
            error: ErrorCode::None,
            base_offset: 1,
            log_append_time_ms: -1,
            log_start_offset: 0,
            record_errors: &[],
            error_message: (index == 3).then_some("message"),
            current_leader: (index == 5).then_some((BrokerId(1), LeaderEpoch(2))),
        };
        writer.partition(&partition, out);
    }
    writer.end_topic(out);
    writer.end(0, &[(BrokerId(1), "host", 9092, None)], out);
    let writer = FetchResponseWriter::new(18);
    writer.topic("", Uuid::from_u128(1), 20, out);
    for index in 0..20 {
        let partition = FetchResponsePartition {
            index,
            error: ErrorCode::None,
            high_watermark: Offset(9),
            last_stable_offset: Offset(9),
            log_start_offset: Offset(0),
            diverging_epoch: (index == 3).then_some((LeaderEpoch(1), Offset(2))),
            current_leader: (index == 5).then_some((BrokerId(1), LeaderEpoch(2))),
            aborted_transactions: (index == 7).then_some(&[(ProducerId(1), Offset(2))]),
            preferred_read_replica: BrokerId::NONE,
            records_bytes: index as usize % 2 * 100_000,
        };
        if partition.records_bytes == 0 {
            writer.partition_without_records(&partition, out);
        } else {
            writer.partition(&partition, out);
            writer.end_partition(&partition, out);
        }
    }
    writer.end_topic(out);
    writer.end(&[], out);
}
