//! What one request makes the server allocate is in proportion to what it has sent, and to what it
//! asks for: not to what it repeats, leaves empty or expands to. One test alone in its program: the
//! allocator counts for all threads.

use model::ErrorCode;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;
use testkit::{Client, PRODUCE_VERSION, TestServer, compressed_batch};
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{DescribeConfigsRequest, ListOffsetsRequest, ProduceRequest};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: usize = 1024 * 1024;

/// What the whole process allocates while a request is served.
fn allocated_bytes(stream: &mut TcpStream, frame: &[u8]) -> usize {
    let mut part = vec![0; 64 * 1024];
    let region = Region::new(ALLOCATOR);
    stream.write_all(frame).expect("the server reads");
    stream.read_exact(&mut part[..4]).expect("an answer");
    let mut left = u32::from_be_bytes(part[..4].try_into().expect("four bytes")) as usize;
    while left > 0 {
        let count = left.min(part.len());
        stream.read_exact(&mut part[..count]).expect("its rest");
        left -= count;
    }
    let change = region.change();
    change.bytes_allocated + change.bytes_reallocated.max(0).unsigned_abs()
}

fn empty_partitions(client: &mut Client) -> Vec<u8> {
    let partitions = (0..200_000).map(|index| PartitionProduceData {
        index,
        records: None,
    });
    let topic = TopicProduceData {
        name: "topic",
        partition_data: partitions.collect(),
        ..TopicProduceData::default()
    };
    let request = ProduceRequest {
        acks: 1,
        timeout_ms: 1000,
        topic_data: vec![topic].into(),
        ..ProduceRequest::default()
    };
    client.frame(PRODUCE_VERSION, &request)
}

fn repeated_resources(client: &mut Client) -> Vec<u8> {
    let resource = DescribeConfigsResource {
        resource_type: 4,
        resource_name: "1",
        configuration_keys: None,
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource; 4000].into(),
        include_synonyms: true,
        include_documentation: true,
    };
    client.frame(4, &request)
}

fn lookup_by_time(client: &mut Client, timestamp: i64) -> Vec<u8> {
    let partition = ListOffsetsPartition {
        partition_index: 0,
        timestamp,
        ..ListOffsetsPartition::default()
    };
    let request = ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic {
            name: "topic",
            partitions: vec![partition].into(),
        }]
        .into(),
        ..ListOffsetsRequest::default()
    };
    client.frame(7, &request)
}

#[test]
fn a_request_takes_memory_in_proportion_to_itself() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_topic("topic");
    let bomb = vec![0; 60 * MIB];
    let bomb = String::from_utf8(bomb).expect("zeros are text");
    let bomb = compressed_batch(record::Compression::Gzip, &[&bomb]);
    assert!(bomb.len() < MIB);
    let bomb_frame = client.produce_frame("topic", 0, &bomb, 1);
    let frames = [
        ("empty partitions", empty_partitions(&mut client), 24 * MIB),
        (
            "repeated resources",
            repeated_resources(&mut client),
            2 * MIB,
        ),
        ("a batch that expands", bomb_frame, 3 * MIB),
        ("a time in it", lookup_by_time(&mut client, 1), 3 * MIB),
        ("the largest time", lookup_by_time(&mut client, -3), 3 * MIB),
    ];
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    for (what, frame, max_bytes) in frames {
        let bytes = allocated_bytes(&mut stream, &frame);
        assert!(
            bytes < max_bytes,
            "{what}: {bytes} bytes for a request of {}",
            frame.len()
        );
    }
    // It was all done, and not refused.
    assert_eq!(client.list_offset("topic", 0, -1).offset, 1);
    assert_eq!(client.list_offset("topic", 0, -3).offset, 0);
    assert_eq!(client.topic_error("topic"), ErrorCode::None);
    server.stop();
}
