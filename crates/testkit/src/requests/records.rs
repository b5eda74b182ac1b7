//! Records: produced, fetched, found and deleted; and the ids of their producers.

use crate::batches::{FetchedRecord, records_of};
use crate::{Client, Response};
use model::{BrokerId, ErrorCode};
use wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    DeleteRecordsRequest, DeleteRecordsResponse, FetchRequest, FetchResponse,
    InitProducerIdRequest, InitProducerIdResponse, ListOffsetsRequest, ListOffsetsResponse,
    ProduceRequest, ProduceResponse,
};

/// The last version of Produce that names topics.
pub const PRODUCE_VERSION: i16 = 12;
/// The last version of Fetch that names topics.
pub const FETCH_VERSION: i16 = 12;

/// What became of one produced batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Produced {
    /// The partition's error.
    pub error: ErrorCode,
    /// The offset of the batch's first record.
    pub base_offset: i64,
    /// When it was appended, if the topic takes that time.
    pub log_append_time_ms: i64,
    /// Where the log starts.
    pub log_start_offset: i64,
    /// What is wrong with the batch.
    pub message: Option<String>,
    /// The faulty records, by index.
    pub record_errors: Vec<i32>,
}

impl Produced {
    /// Expects the batch to be appended, or known.
    #[track_caller]
    pub fn assert_accepted(&self) {
        assert_eq!(self.error, ErrorCode::None, "{:?}", self.message);
    }
}

/// What a fetch of one partition has brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The partition's error.
    pub error: ErrorCode,
    /// As the response says.
    pub high_watermark: i64,
    /// As the response says.
    pub last_stable_offset: i64,
    /// As the response says.
    pub log_start_offset: i64,
    /// Record batches.
    pub records: Vec<u8>,
}

impl Fetched {
    /// The records; they begin with the batch of the fetch offset.
    #[track_caller]
    pub fn records(&self) -> Vec<FetchedRecord> {
        assert_eq!(self.error, ErrorCode::None);
        records_of(&self.records)
    }

    /// The values of the records, as text.
    #[track_caller]
    pub fn values(&self) -> Vec<String> {
        let values = self.records().into_iter().map(|record| record.value);
        values
            .map(|value| String::from_utf8(value.unwrap_or_default()).unwrap())
            .collect()
    }
}

/// An offset that ListOffsets has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedOffset {
    /// The partition's error.
    pub error: ErrorCode,
    /// The offset, or -1.
    pub offset: i64,
    /// The timestamp that goes with it, or -1.
    pub timestamp: i64,
    /// The leader epoch that goes with it, or -1.
    pub leader_epoch: i32,
}

impl Client {
    /// Produces one batch and waits for it to be on every in-sync replica.
    #[track_caller]
    pub fn produce(&mut self, topic: &str, index: i32, records: &[u8]) -> Produced {
        self.send_produce(topic, index, records, -1);
        self.receive_produced()
    }

    /// Produces one batch to a server that may close the connection meanwhile; `None` when it has.
    #[track_caller]
    pub fn produce_if_open(&mut self, topic: &str, index: i32, records: &[u8]) -> Option<Produced> {
        let request = produce_request(topic, index, records, -1);
        let frame = self.frame(PRODUCE_VERSION, &request);
        self.send_bytes_if_open(&frame);
        let frame = self.receive_frame_if_any(crate::LIMIT)?;
        Some(produced(&Response {
            version: PRODUCE_VERSION,
            // The header is the correlation id and no tagged fields.
            body: frame[5..].to_vec(),
        }))
    }

    /// Sends one batch; unless `acks` is 0, [`Client::receive_produced`] reads the answer.
    #[track_caller]
    pub fn send_produce(&mut self, topic: &str, index: i32, records: &[u8], acks: i16) {
        let request = produce_request(topic, index, records, acks);
        match acks {
            0 => self.send_unanswered(PRODUCE_VERSION, &request),
            _ => self.send(PRODUCE_VERSION, &request),
        }
    }

    /// The bytes that [`Client::send_produce`] would send.
    pub fn produce_frame(&mut self, topic: &str, index: i32, records: &[u8], acks: i16) -> Vec<u8> {
        let request = produce_request(topic, index, records, acks);
        self.frame(PRODUCE_VERSION, &request)
    }

    /// Reads the answer to a produce request of one batch.
    #[track_caller]
    pub fn receive_produced(&mut self) -> Produced {
        produced(&self.receive())
    }

    /// Fetches what there is of a partition from `offset` on, without waiting.
    #[track_caller]
    pub fn fetch(&mut self, topic: &str, index: i32, offset: i64) -> Fetched {
        self.send_fetch(topic, index, offset, 0);
        self.receive_fetched()
    }

    /// Asks for at least one byte of a partition within `max_wait_ms`;
    /// [`Client::receive_fetched`] reads the answer.
    #[track_caller]
    pub fn send_fetch(&mut self, topic: &str, index: i32, offset: i64, max_wait_ms: i32) {
        let request = FetchRequest {
            max_wait_ms,
            min_bytes: 1,
            session_epoch: -1,
            topics: vec![fetch_topic(topic, &[(index, offset)])].into(),
            ..FetchRequest::default()
        };
        self.send(FETCH_VERSION, &request);
    }

    /// Reads the answer to a fetch request of one partition.
    #[track_caller]
    pub fn receive_fetched(&mut self) -> Fetched {
        let answer = self.receive();
        let response: FetchResponse<'_> = answer.read();
        assert_eq!(response.error_code, 0, "the error of the fetch");
        let topic = response.responses.iter().next().expect("one topic");
        let partition = topic.partitions.iter().next().expect("one partition");
        Fetched {
            error: ErrorCode::from_code(partition.error_code),
            high_watermark: partition.high_watermark,
            last_stable_offset: partition.last_stable_offset,
            log_start_offset: partition.log_start_offset,
            records: partition.records.unwrap_or_default().to_vec(),
        }
    }

    /// Asks for the offset of a timestamp, or of one of the names that negative ones stand for.
    #[track_caller]
    pub fn list_offset(&mut self, topic: &str, index: i32, timestamp: i64) -> ListedOffset {
        self.ask_for_offset(&list_offset_request(topic, index, timestamp))
    }

    /// Asks for the offset of a partition.
    #[track_caller]
    pub(super) fn ask_for_offset(&mut self, request: &ListOffsetsRequest<'_>) -> ListedOffset {
        let answer = self.call(11, request);
        let response: ListOffsetsResponse<'_> = answer.read();
        let topic = response.topics.iter().next().expect("one topic");
        let partition = topic.partitions.iter().next().expect("one partition");
        ListedOffset {
            error: ErrorCode::from_code(partition.error_code),
            offset: partition.offset,
            timestamp: partition.timestamp,
            leader_epoch: partition.leader_epoch,
        }
    }

    /// Moves the start of a partition to `offset`, or with -1 to its high watermark; returns the
    /// partition's error and where it starts.
    #[track_caller]
    pub fn delete_records(&mut self, topic: &str, index: i32, offset: i64) -> (ErrorCode, i64) {
        let partition = DeleteRecordsPartition {
            partition_index: index,
            offset,
        };
        let topic = DeleteRecordsTopic {
            name: topic,
            partitions: vec![partition].into(),
        };
        let request = DeleteRecordsRequest {
            topics: vec![topic].into(),
            timeout_ms: 10_000,
        };
        let answer = self.call(2, &request);
        let response: DeleteRecordsResponse<'_> = answer.read();
        let topic = response.topics.iter().next().expect("one topic");
        let partition = topic.partitions.iter().next().expect("one partition");
        let error = ErrorCode::from_code(partition.error_code);
        (error, partition.low_watermark)
    }

    /// The id and epoch of a new idempotent producer.
    #[track_caller]
    pub fn init_producer_id(&mut self) -> (i64, i16) {
        let request = InitProducerIdRequest {
            transactional_id: None,
            ..InitProducerIdRequest::default()
        };
        let answer = self.call(4, &request);
        let response: InitProducerIdResponse = answer.read();
        assert_eq!(response.error_code, 0);
        (response.producer_id, response.producer_epoch)
    }
}

pub(super) fn produce_request<'a>(
    topic: &'a str,
    index: i32,
    records: &'a [u8],
    acks: i16,
) -> ProduceRequest<'a> {
    let partition = PartitionProduceData {
        index,
        records: Some(records),
    };
    let topic = TopicProduceData {
        name: topic,
        partition_data: vec![partition].into(),
        ..TopicProduceData::default()
    };
    ProduceRequest {
        acks,
        timeout_ms: 10_000,
        topic_data: vec![topic].into(),
        ..ProduceRequest::default()
    }
}

#[track_caller]
pub(super) fn produced(answer: &Response) -> Produced {
    let response: ProduceResponse<'_> = answer.read();
    let topic = response.responses.iter().next().expect("one topic");
    let partition = topic.partition_responses.iter().next();
    let partition = partition.expect("one partition");
    let record_errors = partition.record_errors.iter();
    Produced {
        error: ErrorCode::from_code(partition.error_code),
        base_offset: partition.base_offset,
        log_append_time_ms: partition.log_append_time_ms,
        log_start_offset: partition.log_start_offset,
        message: partition.error_message.map(str::to_owned),
        record_errors: record_errors.map(|error| error.batch_index).collect(),
    }
}

/// A request for the offset of a timestamp in one partition.
pub fn list_offset_request(topic: &str, index: i32, timestamp: i64) -> ListOffsetsRequest<'_> {
    let partition = ListOffsetsPartition {
        partition_index: index,
        timestamp,
        ..ListOffsetsPartition::default()
    };
    let topic = ListOffsetsTopic {
        name: topic,
        partitions: vec![partition].into(),
    };
    ListOffsetsRequest {
        replica_id: BrokerId::NONE,
        topics: vec![topic].into(),
        ..ListOffsetsRequest::default()
    }
}

/// A topic of a fetch request: partitions, each with its offset.
pub fn fetch_topic<'a>(topic: &'a str, partitions: &[(i32, i64)]) -> FetchTopic<'a> {
    let partitions = partitions
        .iter()
        .map(|&(partition, fetch_offset)| FetchPartition {
            partition,
            fetch_offset,
            partition_max_bytes: 1024 * 1024,
            ..FetchPartition::default()
        });
    FetchTopic {
        topic,
        partitions: partitions.collect(),
        ..FetchTopic::default()
    }
}
