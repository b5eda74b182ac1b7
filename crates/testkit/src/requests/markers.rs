//! Transactions as partitions see them: batches and offsets of a transaction, the markers that end
//! it, and readers of committed records.

use super::records::{FETCH_VERSION, Fetched, ListedOffset, Produced, fetch_topic};
use super::records::{list_offset_request, produce_request, produced};
use crate::Client;
use crate::batches::committed_records_of;
use model::ErrorCode;
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::describe_producers_response::ProducerState;
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use wire::messages::{
    DescribeProducersRequest, DescribeProducersResponse, FetchRequest, FetchResponse,
    ListOffsetsRequest, ProduceRequest, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};

/// Reads committed records.
const READ_COMMITTED: i8 = 1;

/// The end of a transaction, as a coordinator asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// The producer.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// The epoch of the coordinator.
    pub coordinator_epoch: i32,
    /// Whether the records count.
    pub is_commit: bool,
    /// The transaction's version; below 2 it is not sent.
    pub transaction_version: i8,
}

/// What a reader of committed records has got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedFetch {
    /// The answer.
    pub fetched: Fetched,
    /// Producer id and first offset of each aborted transaction.
    pub aborted: Vec<(i64, i64)>,
}

impl CommittedFetch {
    /// The values of the committed records, as text.
    #[track_caller]
    pub fn values(&self) -> Vec<String> {
        assert_eq!(self.fetched.error, ErrorCode::None);
        let records = committed_records_of(&self.fetched.records, &self.aborted);
        let values = records.into_iter().map(|record| record.value);
        values
            .map(|value| String::from_utf8(value.unwrap_or_default()).unwrap())
            .collect()
    }
}

/// An offset to commit in a transaction.
#[derive(Debug, Clone, Copy)]
pub struct OffsetInTransaction<'a> {
    /// The transaction's id.
    pub transactional_id: &'a str,
    /// The producer and its epoch.
    pub producer: (i64, i16),
    /// The group.
    pub group: &'a str,
    /// The topic, of which partition 0 is meant.
    pub topic: &'a str,
    /// The offset.
    pub offset: i64,
}

impl Client {
    /// Produces one batch of a transaction, in a version that names topics.
    #[track_caller]
    pub fn produce_in(
        &mut self,
        version: i16,
        transactional_id: &str,
        (topic, index): (&str, i32),
        records: &[u8],
    ) -> Produced {
        let request = ProduceRequest {
            transactional_id: Some(transactional_id),
            ..produce_request(topic, index, records, -1)
        };
        let answer = self.call(version, &request);
        produced(&answer)
    }

    /// Ends a transaction in one partition; returns the partition's error.
    #[track_caller]
    pub fn write_marker(&mut self, marker: &Marker, topic: &str, index: i32) -> ErrorCode {
        let topic = WritableTxnMarkerTopic {
            name: topic,
            partition_indexes: vec![index].into(),
        };
        let asked = WritableTxnMarker {
            producer_id: marker.producer_id,
            producer_epoch: marker.producer_epoch,
            transaction_result: marker.is_commit,
            topics: vec![topic].into(),
            coordinator_epoch: marker.coordinator_epoch,
            transaction_version: marker.transaction_version,
        };
        let request = WriteTxnMarkersRequest {
            markers: vec![asked].into(),
        };
        // Version 1 has no place for it.
        let version = match marker.transaction_version {
            0 | 1 => 1,
            _ => 2,
        };
        let answer = self.call(version, &request);
        let response: WriteTxnMarkersResponse<'_> = answer.read();
        let result = response.markers.iter().next().expect("one marker");
        assert_eq!(result.producer_id, marker.producer_id);
        let topic = result.topics.iter().next().expect("one topic");
        let partition = topic.partitions.iter().next().expect("one partition");
        assert_eq!(partition.partition_index, index);
        ErrorCode::from_code(partition.error_code)
    }

    /// Fetches the committed records of a partition from `offset` on, without waiting.
    #[track_caller]
    pub fn fetch_committed(&mut self, topic: &str, index: i32, offset: i64) -> CommittedFetch {
        self.send_fetch_committed(topic, index, offset, 0);
        self.receive_committed()
    }

    /// Asks for at least one byte of committed records within `max_wait_ms`;
    /// [`Client::receive_committed`] reads the answer.
    #[track_caller]
    pub fn send_fetch_committed(&mut self, topic: &str, index: i32, offset: i64, max_wait_ms: i32) {
        let request = FetchRequest {
            max_wait_ms,
            min_bytes: 1,
            isolation_level: READ_COMMITTED,
            session_epoch: -1,
            topics: vec![fetch_topic(topic, &[(index, offset)])].into(),
            ..FetchRequest::default()
        };
        self.send(FETCH_VERSION, &request);
    }

    /// Reads the answer to a fetch of committed records.
    #[track_caller]
    pub fn receive_committed(&mut self) -> CommittedFetch {
        let answer = self.receive();
        let response: FetchResponse<'_> = answer.read();
        assert_eq!(response.error_code, 0, "the error of the fetch");
        let topic = response.responses.iter().next().expect("one topic");
        let partition = topic.partitions.iter().next().expect("one partition");
        let aborted = partition.aborted_transactions.as_ref();
        let aborted = aborted.expect("a list of aborted transactions");
        CommittedFetch {
            fetched: Fetched {
                error: ErrorCode::from_code(partition.error_code),
                high_watermark: partition.high_watermark,
                last_stable_offset: partition.last_stable_offset,
                log_start_offset: partition.log_start_offset,
                records: partition.records.unwrap_or_default().to_vec(),
            },
            aborted: aborted
                .iter()
                .map(|one| (one.producer_id, one.first_offset))
                .collect(),
        }
    }

    /// What ListOffsets tells a reader of committed records.
    #[track_caller]
    pub fn list_committed_offset(
        &mut self,
        topic: &str,
        index: i32,
        timestamp: i64,
    ) -> ListedOffset {
        self.ask_for_offset(&ListOffsetsRequest {
            isolation_level: READ_COMMITTED,
            ..list_offset_request(topic, index, timestamp)
        })
    }

    /// The producers of a partition.
    #[track_caller]
    pub fn describe_producers(&mut self, topic: &str, index: i32) -> Vec<ProducerState> {
        let topic = TopicRequest {
            name: topic,
            partition_indexes: vec![index].into(),
        };
        let request = DescribeProducersRequest {
            topics: vec![topic].into(),
        };
        let answer = self.call(0, &request);
        let response: DescribeProducersResponse<'_> = answer.read();
        let topic = response.topics.iter().next().expect("one topic");
        let partition = topic.partitions.iter().next().expect("one partition");
        assert_eq!(partition.error_code, 0);
        partition.active_producers.iter().collect()
    }

    /// Commits an offset in a transaction; returns the partition's error.
    #[track_caller]
    pub fn commit_offset_in(
        &mut self,
        version: i16,
        commit: &OffsetInTransaction<'_>,
    ) -> ErrorCode {
        let partition = TxnOffsetCommitRequestPartition {
            committed_offset: commit.offset,
            ..TxnOffsetCommitRequestPartition::default()
        };
        let topic = TxnOffsetCommitRequestTopic {
            name: commit.topic,
            partitions: vec![partition].into(),
        };
        let request = TxnOffsetCommitRequest {
            transactional_id: commit.transactional_id,
            group_id: commit.group,
            producer_id: commit.producer.0,
            producer_epoch: commit.producer.1,
            topics: vec![topic].into(),
            ..TxnOffsetCommitRequest::default()
        };
        let answer = self.call(version, &request);
        let response: TxnOffsetCommitResponse<'_> = answer.read();
        let topic = response.topics.iter().next().expect("one topic");
        let partition = topic.partitions.iter().next().expect("one partition");
        ErrorCode::from_code(partition.error_code)
    }
}
