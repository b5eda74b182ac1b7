//! What a fetcher and its leader send each other, encoded: the only file of the crate that knows the wire.

use super::answered::{AnsweredAt, PartitionOutcome};
use super::followed::{Followed, Named, Stage};
use crate::partition_key::PartitionKey;
use model::{Array, BrokerEpoch, BrokerId, DecodeError, ErrorCode, Message as _, Offset};
use wire::fetch_request::{FetchRequestHead, FetchRequestPartition, FetchRequestWriter};
use wire::fetch_response_reader::{
    read_answered_offsets, read_answered_partition, read_fetch_response,
};
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
pub(super) struct FetchMessage<'a> {
    pub(super) settings: &'a FetcherSettings,
    /// That of the settings, or less.
    pub(super) max_wait_ms: i32,
    /// The id and the epoch of the session.
    pub(super) session: (i32, i32),
    pub(super) partitions: &'a [Followed],
    /// The slots that are asked for, and where among them each topic begins; at last, where they end.
    pub(super) sent: (&'a [u32], &'a [u32]),
    /// The slots that leave the session, those of a topic in a row.
    pub(super) forgotten: &'a [u32],
}

impl FetchMessage<'_> {
    /// Appends it.
    pub(super) fn write(&self, writer: FetchRequestWriter, out: &mut Vec<u8>) {
        let (sent, topics) = self.sent;
        let head = FetchRequestHead {
            replica_id: self.settings.replica_id,
            replica_epoch: self.settings.replica_epoch,
            max_wait_ms: self.max_wait_ms,
            min_bytes: self.settings.min_bytes,
            max_bytes: self.settings.max_bytes,
            session_id: self.session.0,
            session_epoch: self.session.1,
            topic_count: topics.len() - 1,
        };
        writer.head(&head, out);
        let asked = |slot: &u32| self.asked(*slot);
        let of_one = |slot: &u32| (self.partition(*slot).topic_id, self.asked(*slot));
        let mut topics = topics;
        while let [start, end, ..] = *topics {
            let of_one_count = match topics.len() - 1 {
                all if all == sent.len() => all,
                _ => count_of_one(topics),
            };
            let slots = &sent[start as usize..];
            if of_one_count > 0 {
                writer.topics_of_one(slots[..of_one_count].iter().map(of_one), out);
                topics = &topics[of_one_count..];
                continue;
            }
            let slots = &slots[..(end - start) as usize];
            writer.topic(self.partition(slots[0]).topic_id, slots.len(), out);
            writer.partitions(slots.iter().map(asked), out);
            writer.end_topic(out);
            topics = &topics[1..];
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

    /// What is asked of a partition.
    #[inline]
    fn asked(&self, slot: u32) -> FetchRequestPartition {
        let partition = self.partition(slot);
        let position = partition.position();
        FetchRequestPartition {
            index: partition.index,
            current_leader_epoch: partition.leader_epoch,
            fetch_offset: position.fetch_offset.0,
            last_fetched_epoch: position.last_fetched_epoch,
            log_start_offset: position.log_start_offset.0,
            max_bytes: self.settings.partition_max_bytes,
        }
    }

    #[inline]
    fn partition(&self, slot: u32) -> &Followed {
        &self.partitions[slot as usize]
    }
}

/// How many topics have one partition before the first that has more.
fn count_of_one(topics: &[u32]) -> usize {
    let of_one = topics
        .windows(2)
        .take_while(|topic| topic[1] - topic[0] == 1);
    of_one.count()
}

/// The number of bytes that stands for an answer without records, which says where the logs differ.
const DIVERGING: u32 = u32::MAX;

/// What a response says of all of it.
pub(super) struct AnswerHead {
    pub(super) error: ErrorCode,
    pub(super) session_id: i32,
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
    mut partition: impl FnMut(PartitionKey, AnsweredAt) -> Result<(), Misread>,
) -> Result<AnswerHead, Misread> {
    let answer = read_fetch_response(body, version, |topic_id, answered, at| {
        let records_at = match answered.records {
            // Nothing may be anywhere.
            [] => at,
            records => records.as_ptr().addr() - body.as_ptr().addr(),
        };
        // A frame is shorter than 2 GiB.
        let place = AnsweredAt {
            at: at as u32,
            records_at: records_at as u32,
            records_bytes: match answered.diverging_epoch {
                None => answered.records.len() as u32,
                Some(_) => DIVERGING,
            },
        };
        partition((topic_id, answered.index), place)
    })?;
    Ok(AnswerHead {
        error: answer.error,
        session_id: answer.session_id,
    })
}

/// Records, high watermark and log start of a partition, where the response has no error for it and nothing else.
#[inline]
pub(super) fn records_at(body: &[u8], place: AnsweredAt) -> Option<(&[u8], Offset, Offset)> {
    let bytes = body.get(place.at as usize..)?;
    let (error_code, high_watermark, log_start_offset) = read_answered_offsets(bytes)?;
    if error_code != ErrorCode::None.code() || place.records_bytes == DIVERGING {
        return None;
    }
    let records = body.get(place.records_at as usize..)?;
    let records = records.get(..place.records_bytes as usize)?;
    Some((records, high_watermark, log_start_offset))
}

/// What the response says of a partition, where it is something else.
#[cold]
pub(super) fn told_at(body: &[u8], place: AnsweredAt, version: i16) -> PartitionOutcome {
    let bytes = body.get(place.at as usize..).unwrap_or_default();
    match read_answered_partition(bytes, version) {
        // They are other bytes than were read before.
        Err(_) => PartitionOutcome::Error(ErrorCode::UnknownServerError),
        Ok(answered) => match (
            ErrorCode::from_code(answered.error_code),
            answered.diverging_epoch,
        ) {
            (ErrorCode::None, Some((epoch, end_offset))) => {
                PartitionOutcome::Diverging(epoch, end_offset)
            }
            (error, _) => PartitionOutcome::Error(error),
        },
    }
}

/// Appends a question where the logs of these slots end or start.
pub(super) fn write_list_offsets<R>(
    (replica_id, version): (BrokerId, i16),
    (partitions, names): (&[Followed], &[Named<R>]),
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
        name: &names[slots[0] as usize].topic,
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
    mut partition: impl FnMut(&str, i32, Result<Offset, ErrorCode>),
) -> Result<(), Misread> {
    let response = ListOffsetsResponse::from_bytes(body, version)?;
    for topic in response.topics.iter() {
        for answered in topic.partitions.iter() {
            let offset = match ErrorCode::from_code(answered.error_code) {
                ErrorCode::None => Ok(Offset(answered.offset)),
                error => Err(error),
            };
            partition(topic.name, answered.partition_index, offset);
        }
    }
    Ok(())
}
