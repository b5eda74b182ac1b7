//! What a fetcher and its leader send each other, encoded: the only file of the crate that knows the wire.

use super::followed::{Followed, Stage};
use crate::log_host::PartitionKey;
use model::{Array, BrokerEpoch, BrokerId, DecodeError, ErrorCode, LeaderEpoch, Message as _};
use wire::fetch_request::{FetchRequestHead, FetchRequestPartition, FetchRequestWriter};
use wire::fetch_response_reader::read_fetch_response;
use wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use wire::messages::{ListOffsetsRequest, ListOffsetsResponse};

/// ListOffsets' timestamp that stands for the end of the log: a follower is told that of all records.
const LATEST_TIMESTAMP: i64 = -1;
/// The one that stands for its start.
const EARLIEST_TIMESTAMP: i64 = -2;

/// What a fetcher says in each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetcherSettings {
    /// The broker that follows.
    pub replica_id: BrokerId,
    /// Its registration with the controller (KIP-903).
    pub replica_epoch: BrokerEpoch,
    /// `replica.fetch.wait.max.ms`.
    pub max_wait_ms: i32,
    /// `replica.fetch.min.bytes`.
    pub min_bytes: i32,
    /// `replica.fetch.response.max.bytes`.
    pub max_bytes: i32,
    /// `replica.fetch.max.bytes`: of one partition.
    pub partition_max_bytes: i32,
    /// `replica.fetch.backoff.ms`.
    pub backoff_ms: i64,
}

/// Which versions the leader and this broker both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetcherVersions {
    /// Of Fetch: 13 or later, as topics have ids since then.
    pub fetch: i16,
    /// Of ListOffsets: 4 or later, as leaders have epochs since then.
    pub list_offsets: i16,
}

impl FetcherVersions {
    /// Whether a fetcher can ask a leader by these.
    pub fn are_served(&self) -> bool {
        let has_epochs = (4..=ListOffsetsRequest::MAX_VERSION).contains(&self.list_offsets);
        FetchRequestWriter::VERSIONS.contains(&self.fetch) && has_epochs
    }
}

/// A fetch request to be written.
pub(super) struct FetchMessage<'a, R> {
    pub(super) settings: &'a FetcherSettings,
    /// That of the settings, or less.
    pub(super) max_wait_ms: i32,
    /// The id and the epoch of the session.
    pub(super) session: (i32, i32),
    pub(super) partitions: &'a [Followed<R>],
    /// The slots that are asked for, and how many of them in a row are of one topic.
    pub(super) sent: (&'a [u32], &'a [u32]),
    /// The slots that leave the session, those of a topic in a row.
    pub(super) forgotten: &'a [u32],
}

impl<R> FetchMessage<'_, R> {
    /// Appends it.
    pub(super) fn write(&self, writer: FetchRequestWriter, out: &mut Vec<u8>) {
        let (sent, groups) = self.sent;
        let head = FetchRequestHead {
            replica_id: self.settings.replica_id,
            replica_epoch: self.settings.replica_epoch,
            max_wait_ms: self.max_wait_ms,
            min_bytes: self.settings.min_bytes,
            max_bytes: self.settings.max_bytes,
            session_id: self.session.0,
            session_epoch: self.session.1,
            topic_count: groups.len(),
        };
        writer.head(&head, out);
        let mut rest = sent;
        for count in groups {
            let (group, after) = rest.split_at(*count as usize);
            rest = after;
            let topic_id = self.partition(group[0]).topic_id;
            writer.topic(topic_id, group.len(), out);
            for slot in group {
                let partition = self.partition(*slot);
                let position = &partition.position;
                let asked = FetchRequestPartition {
                    index: partition.index,
                    current_leader_epoch: partition.leader_epoch,
                    fetch_offset: position.fetch_offset,
                    last_fetched_epoch: position.last_fetched_epoch,
                    log_start_offset: position.log_start_offset,
                    max_bytes: self.settings.partition_max_bytes,
                };
                writer.partition(&asked, out);
            }
            writer.end_topic(out);
        }
        let topic_of = |slot: &u32| self.partition(*slot).topic_id;
        let topics = || {
            self.forgotten
                .chunk_by(|one, next| topic_of(one) == topic_of(next))
        };
        writer.forgotten(topics().count(), out);
        for topic in topics() {
            let indexes = topic.iter().map(|slot| self.partition(*slot).index);
            writer.forgotten_topic(topic_of(&topic[0]), indexes, out);
        }
        writer.end(&head, out);
    }

    #[inline]
    fn partition(&self, slot: u32) -> &Followed<R> {
        &self.partitions[slot as usize]
    }
}

/// What a response says of all of it.
pub(super) struct AnswerHead {
    pub(super) error: ErrorCode,
    pub(super) session_id: i32,
}

/// What a response says of a partition.
pub(super) struct PartitionAnswer {
    pub(super) error: ErrorCode,
    pub(super) high_watermark: i64,
    pub(super) log_start_offset: i64,
    pub(super) diverging_epoch: Option<(LeaderEpoch, i64)>,
    /// Where in the body the records begin, and how many bytes they are.
    pub(super) records: (u32, u32),
}

/// Why a response is none to what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misread {
    Malformed(DecodeError),
    /// It names this partition, which was not asked for, or twice.
    Partition(PartitionKey),
}

impl From<DecodeError> for Misread {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

/// Reads a fetch response, and calls `partition` with what it says of each.
#[inline]
pub(super) fn read_fetch(
    body: &[u8],
    version: i16,
    mut partition: impl FnMut(PartitionKey, &PartitionAnswer) -> Result<(), Misread>,
) -> Result<AnswerHead, Misread> {
    let answer = read_fetch_response(body, version, |topic_id, answered| {
        // Nothing may be anywhere.
        let start = match answered.records {
            [] => 0,
            records => records.as_ptr().addr() - body.as_ptr().addr(),
        };
        let answer = PartitionAnswer {
            error: answered.error,
            high_watermark: answered.high_watermark,
            log_start_offset: answered.log_start_offset,
            diverging_epoch: answered.diverging_epoch,
            // A frame is shorter than 2 GiB.
            records: (start as u32, answered.records.len() as u32),
        };
        partition((topic_id, answered.index), &answer)
    })?;
    Ok(AnswerHead {
        error: answer.error,
        session_id: answer.session_id,
    })
}

/// Appends a question where the logs of these slots end or start.
pub(super) fn write_list_offsets<R>(
    (replica_id, version): (BrokerId, i16),
    partitions: &[Followed<R>],
    slots: &[u32],
    out: &mut Vec<u8>,
) {
    let of = |slot: &u32| &partitions[*slot as usize];
    let partition = |slot: &u32| ListOffsetsPartition {
        partition_index: of(slot).index,
        current_leader_epoch: of(slot).leader_epoch.0,
        timestamp: match of(slot).stage {
            Stage::AskingStart => EARLIEST_TIMESTAMP,
            _ => LATEST_TIMESTAMP,
        },
    };
    let topics = slots.chunk_by(|one, next| of(one).topic_id == of(next).topic_id);
    let topics = topics.map(|slots| ListOffsetsTopic {
        name: &of(&slots[0]).topic,
        partitions: slots.iter().map(partition).collect(),
    });
    let topics: Array<'_, ListOffsetsTopic<'_>> = topics.collect();
    let request = ListOffsetsRequest {
        replica_id,
        topics,
        ..ListOffsetsRequest::default()
    };
    request.write(version, out);
}

/// Reads the answer, and calls `partition` with the topic's name, the index, and the offset or an error.
pub(super) fn read_list_offsets(
    body: &[u8],
    version: i16,
    mut partition: impl FnMut(&str, i32, Result<i64, ErrorCode>),
) -> Result<(), Misread> {
    let response = ListOffsetsResponse::from_bytes(body, version)?;
    for topic in response.topics.iter() {
        for answered in topic.partitions.iter() {
            let offset = match ErrorCode::from_code(answered.error_code) {
                ErrorCode::None => Ok(answered.offset),
                error => Err(error),
            };
            partition(topic.name, answered.partition_index, offset);
        }
    }
    Ok(())
}
