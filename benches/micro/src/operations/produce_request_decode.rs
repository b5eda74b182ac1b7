//! A produce request, its records in place, decoded from its frame.

use super::TOPIC_ID;
use crate::Operation;
use model::Message;
use std::hint::black_box;
use wire::messages::ProduceRequest;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::produce_request::read_produce_request;

const VERSION: i16 = 13;
const RECORDS_BYTES: usize = 200;

pub(super) struct ProduceRequestDecode {
    version: i16,
    frame: Vec<u8>,
}

impl ProduceRequestDecode {
    pub(super) fn new(partitions: usize) -> Self {
        let records: Vec<_> = (0..partitions).map(|i| [i as u8; RECORDS_BYTES]).collect();
        let parts = records
            .iter()
            .enumerate()
            .map(|(i, records)| PartitionProduceData {
                index: i as i32,
                records: Some(records),
            });
        let parts: Vec<_> = parts.collect();
        Self {
            version: VERSION,
            frame: request(&parts).to_bytes(VERSION),
        }
    }
}

/// A request of one topic with these partitions.
fn request<'a>(partitions: &'a [PartitionProduceData<'a>]) -> ProduceRequest<'a> {
    let topic = TopicProduceData {
        topic_id: TOPIC_ID,
        partition_data: partitions.into(),
        ..TopicProduceData::default()
    };
    ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![topic].into(),
        ..ProduceRequest::default()
    }
}

impl Operation for ProduceRequestDecode {
    fn evidence(&mut self) -> Vec<u8> {
        let mut partitions = Vec::new();
        read_produce_request(&self.frame, self.version, usize::MAX, |_, partition| {
            partitions.push(PartitionProduceData {
                index: partition.index,
                records: partition.records,
            });
            Ok(())
        })
        .expect("the frame is a request");
        request(&partitions).to_bytes(self.version)
    }

    fn repeat(&mut self, count: u64) {
        for _ in 0..count {
            let (frame, version) = black_box((&self.frame, self.version));
            let head = read_produce_request(frame, version, usize::MAX, |topic, partition| {
                black_box((topic, partition.index, partition.records));
                Ok(())
            });
            black_box(head).expect("the frame is a request");
        }
    }
}
