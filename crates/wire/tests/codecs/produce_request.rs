//! The produce request read by hand against the generated codec.

use model::{DecodeError, Message, Reader, Uuid};
use wire::messages::ProduceRequest;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::produce_request::*;

/// What either reading tells, in order.
type Told<'a> = (
    ProduceRequestHead<'a>,
    Vec<(ProduceRequestTopic<'a>, ProduceRequestPartition<'a>)>,
);

fn in_one_pass(body: &[u8], version: i16) -> Result<Told<'_>, DecodeError> {
    let mut partitions = Vec::new();
    let head = read_produce_request(body, version, usize::MAX, |topic, partition| {
        partitions.push((*topic, partition));
        Ok(())
    })?;
    Ok((head, partitions))
}

fn generated(body: &[u8], version: i16) -> Result<Told<'_>, DecodeError> {
    let request = ProduceRequest::read(&mut Reader::new(body), version)?;
    let head = ProduceRequestHead {
        transactional_id: request.transactional_id,
        acks: request.acks,
        timeout_ms: request.timeout_ms,
    };
    let mut partitions = Vec::new();
    for topic in request.topic_data.iter() {
        let told = ProduceRequestTopic {
            name: topic.name,
            id: topic.topic_id,
        };
        for partition in topic.partition_data.iter() {
            let partition = ProduceRequestPartition {
                index: partition.index,
                records: partition.records,
            };
            partitions.push((told, partition));
        }
    }
    Ok((head, partitions))
}

fn request<'a>(records: &'a [Vec<u8>]) -> ProduceRequest<'a> {
    let topic = |name, id, range: std::ops::Range<usize>| TopicProduceData {
        name,
        topic_id: Uuid::from_u128(id),
        partition_data: range
            .map(|index| PartitionProduceData {
                index: index as i32,
                records: records.get(index).map(|records| &records[..]),
            })
            .collect(),
    };
    ProduceRequest {
        transactional_id: Some("transaction"),
        acks: -1,
        timeout_ms: 1500,
        topic_data: vec![
            topic("one", 1, 0..3),
            topic("none", 2, 0..0),
            topic("é", 3, 1..2),
        ]
        .into(),
    }
}

#[test]
fn equals_the_generated_codec_in_every_version() {
    let records = [vec![7; 5], vec![8; 200]];
    for version in 2..=14 {
        let body = request(&records).to_bytes(version.clamp(3, 13));
        assert_eq!(
            in_one_pass(&body, version),
            generated(&body, version),
            "{version}"
        );
    }
}

#[test]
fn refuses_what_the_generated_codec_refuses() {
    let records = [vec![7; 5], vec![8; 20]];
    for version in [3, 9, 13] {
        let body = request(&records).to_bytes(version);
        for length in 0..body.len() {
            let cut = &body[..length];
            assert_eq!(
                in_one_pass(cut, version),
                generated(cut, version),
                "{length}"
            );
        }
        for at in 0..body.len() {
            for byte in [0, 1, 2, 0x7f, 0x80, 0xff] {
                let mut damaged = body.clone();
                damaged[at] = byte;
                let (ours, theirs) = (in_one_pass(&damaged, version), generated(&damaged, version));
                assert_eq!(ours, theirs, "version {version}, {byte} at {at}");
            }
        }
    }
}
