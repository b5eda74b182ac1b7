//! A produce request, its records in place, decoded from its frame.

use super::TOPIC_ID;
use crate::Operation;
use model::{Message, Reader};
use std::hint::black_box;
use wire::messages::ProduceRequest;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};

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
        let topic = TopicProduceData {
            topic_id: TOPIC_ID,
            partition_data: parts.collect(),
            ..TopicProduceData::default()
        };
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![topic].into(),
            ..ProduceRequest::default()
        };
        Self {
            version: VERSION,
            frame: request.to_bytes(VERSION),
        }
    }
}

impl Operation for ProduceRequestDecode {
    fn evidence(&mut self) -> Vec<u8> {
        let request = ProduceRequest::from_bytes(&self.frame, self.version);
        request
            .expect("the frame is a request")
            .to_bytes(self.version)
    }

    fn repeat(&mut self, count: u64) {
        for _ in 0..count {
            let mut reader = Reader::new(black_box(&self.frame));
            let request = ProduceRequest::read(&mut reader, black_box(self.version));
            let request = request.expect("the frame is a request");
            for topic in request.topic_data.iter() {
                black_box(topic.topic_id);
                for partition in topic.partition_data.iter() {
                    black_box((partition.index, partition.records));
                }
            }
        }
    }
}
