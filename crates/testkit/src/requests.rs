//! The requests that most tests need, each in one line.

use crate::batches::{FetchedRecord, records_of};
use crate::{Client, wait_until};
use model::{ErrorCode, Uuid};
use wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    CreateTopicsRequest, CreateTopicsResponse, FetchRequest, FetchResponse, ListOffsetsRequest,
    ListOffsetsResponse, MetadataRequest, MetadataResponse, ProduceRequest, ProduceResponse,
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
    /// Makes a topic with one replica and returns its id.
    #[track_caller]
    pub fn create_topic(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Uuid {
        let (error, id) = self.try_create_topic(name, partitions, configs);
        assert_eq!(error, ErrorCode::None, "topic {name}");
        id
    }

    /// Makes a topic of one partition unless there is one of this name.
    #[track_caller]
    pub fn create_topic_if_missing(&mut self, name: &str) {
        let (error, _) = self.try_create_topic(name, 1, &[]);
        assert!(
            [ErrorCode::None, ErrorCode::TopicAlreadyExists].contains(&error),
            "topic {name}: {error}"
        );
    }

    /// Asks for a topic with one replica; returns the topic's error and id.
    #[track_caller]
    pub fn try_create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> (ErrorCode, Uuid) {
        let configs = configs.iter().map(|(name, value)| CreatableTopicConfig {
            name,
            value: Some(value),
        });
        let topic = CreatableTopic {
            name,
            num_partitions: partitions,
            replication_factor: 1,
            configs: configs.collect(),
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![topic].into(),
            timeout_ms: 10_000,
            ..CreateTopicsRequest::default()
        };
        let answer = self.call(7, &request);
        let response: CreateTopicsResponse<'_> = answer.read();
        let result = response.topics.iter().next().expect("one topic");
        (ErrorCode::from_code(result.error_code), result.topic_id)
    }

    /// Waits until the topic is there, made or not, and has a leader for each partition.
    #[track_caller]
    pub fn wait_for_topic(&mut self, name: &str) {
        wait_until("the topic is there", || {
            self.topic_error(name) == ErrorCode::None
        });
    }

    /// What Metadata says of a topic; it is made if the server does so.
    #[track_caller]
    pub fn topic_error(&mut self, name: &str) -> ErrorCode {
        let topic = MetadataRequestTopic {
            name: Some(name),
            ..MetadataRequestTopic::default()
        };
        let request = MetadataRequest {
            topics: Some(vec![topic].into()),
            allow_auto_topic_creation: true,
            ..MetadataRequest::default()
        };
        let answer = self.call(9, &request);
        let response: MetadataResponse<'_> = answer.read();
        let topic = response.topics.iter().next().expect("one topic");
        ErrorCode::from_code(topic.error_code)
    }

    /// Produces one batch and waits for it to be on every in-sync replica.
    #[track_caller]
    pub fn produce(&mut self, topic: &str, index: i32, records: &[u8]) -> Produced {
        self.send_produce(topic, index, records, -1);
        self.receive_produced()
    }

    /// Sends one batch; unless `acks` is 0, [`Client::receive_produced`] reads the answer.
    #[track_caller]
    pub fn send_produce(&mut self, topic: &str, index: i32, records: &[u8], acks: i16) {
        let partition = PartitionProduceData {
            index,
            records: Some(records),
        };
        let topic = TopicProduceData {
            name: topic,
            partition_data: vec![partition].into(),
            ..TopicProduceData::default()
        };
        let request = ProduceRequest {
            acks,
            timeout_ms: 10_000,
            topic_data: vec![topic].into(),
            ..ProduceRequest::default()
        };
        match acks {
            0 => self.send_unanswered(PRODUCE_VERSION, &request),
            _ => self.send(PRODUCE_VERSION, &request),
        }
    }

    /// Reads the answer to a produce request of one batch.
    #[track_caller]
    pub fn receive_produced(&mut self) -> Produced {
        let answer = self.receive();
        let response: ProduceResponse<'_> = answer.read();
        let topic = response.responses.iter().next().expect("one topic");
        let partition = topic.partition_responses.iter().next();
        let partition = partition.expect("one partition");
        Produced {
            error: ErrorCode::from_code(partition.error_code),
            base_offset: partition.base_offset,
            log_append_time_ms: partition.log_append_time_ms,
            log_start_offset: partition.log_start_offset,
            message: partition.error_message.map(str::to_owned),
            record_errors: partition
                .record_errors
                .iter()
                .map(|error| error.batch_index)
                .collect(),
        }
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
        let partition = ListOffsetsPartition {
            partition_index: index,
            timestamp,
            ..ListOffsetsPartition::default()
        };
        let topic = ListOffsetsTopic {
            name: topic,
            partitions: vec![partition].into(),
        };
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![topic].into(),
            ..ListOffsetsRequest::default()
        };
        let answer = self.call(11, &request);
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
