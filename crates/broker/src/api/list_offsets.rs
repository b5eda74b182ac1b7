//! ListOffsets: v1–11. Offsets by time and by name: latest, earliest, of the largest timestamp.
//!
//! - Versions: 4 leader epochs, 7 the offset of the largest timestamp (KIP-734), 8 earliest local
//!   (KIP-405), 9 latest tiered (KIP-1005), 11 earliest pending upload (KIP-1023).
//! - A leader that does not know yet how much was replicated with the one before it is OFFSET_NOT_AVAILABLE for what
//!   is beyond, or LEADER_NOT_AVAILABLE before version 5.
//! - Nothing is tiered here: earliest local is the log's start, and tiered offsets are unknown (-1).
//! - A partition named twice is INVALID_REQUEST; a topic without partitions has no answer.
//! - An isolation level that there is not is UNKNOWN_SERVER_ERROR for everything.
//! - A lookup by time that has to read or expand much is done off the workers, a few at a time.
//! - `TimeoutMs` (version 10) is for tiered storage and ignored.

use super::{Request, Served, Turn};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use crate::scheduling::disk_watch::DiskUse;
use model::{BrokerId, DecodeError, ErrorCode, LeaderEpoch, Offset};
use replication::{ReadError, TimestampSearch};
use std::collections::BTreeMap;
use wire::messages::list_offsets_request::ListOffsetsPartition;
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use wire::messages::{ListOffsetsRequest, ListOffsetsResponse};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;
const READ_UNCOMMITTED: i8 = 0;
const READ_COMMITTED: i8 = 1;
/// The replica id of a consumer.
const CONSUMER: BrokerId = BrokerId::NONE;
/// The replica id of who may be answered by a follower, with all of its log.
const DEBUGGING: BrokerId = BrokerId(-2);

/// To read so much in search of a record, or to expand it, takes little time.
const QUICK_BYTES: usize = 128 * 1024;

/// An offset with the timestamp and the leader epoch that it goes with; -1 each when unknown.
struct Found {
    offset: Offset,
    timestamp: i64,
    leader_epoch: LeaderEpoch,
}

const NOT_FOUND: Found = Found {
    offset: Offset::NONE,
    timestamp: -1,
    leader_epoch: LeaderEpoch::NONE,
};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: ListOffsetsRequest<'_> = request.decode()?;
    let topics = match message.isolation_level {
        READ_UNCOMMITTED | READ_COMMITTED => found_topics(broker, request.version, &message).await,
        _ => refused_topics(&message, ErrorCode::UnknownServerError),
    };
    let response = ListOffsetsResponse {
        topics: topics.into(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

async fn found_topics<'f>(
    broker: &Broker,
    version: i16,
    message: &ListOffsetsRequest<'f>,
) -> Vec<ListOffsetsTopicResponse<'f>> {
    // By name and index, so that a partition that is named twice has one answer: `None`.
    let mut asked: BTreeMap<&str, BTreeMap<i32, Option<ListOffsetsPartition>>> = BTreeMap::new();
    for topic in message.topics.iter() {
        for partition in topic.partitions.iter() {
            let partitions = asked.entry(topic.name).or_default();
            partitions
                .entry(partition.partition_index)
                .and_modify(|once| *once = None)
                .or_insert(Some(partition));
        }
    }
    let mut topics = Vec::with_capacity(asked.len());
    let mut turn = Turn::begin();
    for (name, asked) in asked {
        let mut partitions = Vec::with_capacity(asked.len());
        for (index, asked) in asked {
            let result = match asked {
                Some(asked) => find(broker, version, message, name, &asked).await,
                None => Err(ErrorCode::InvalidRequest),
            };
            partitions.push(partition_response(index, result));
            turn.share().await;
        }
        topics.push(ListOffsetsTopicResponse {
            name,
            partitions: partitions.into(),
        });
    }
    topics
}

/// Each mention of a partition with the same error.
fn refused_topics<'f>(
    message: &ListOffsetsRequest<'f>,
    error: ErrorCode,
) -> Vec<ListOffsetsTopicResponse<'f>> {
    let topics = message.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let partitions = partitions.map(|one| partition_response(one.partition_index, Err(error)));
        ListOffsetsTopicResponse {
            name: topic.name,
            partitions: partitions.collect(),
        }
    });
    topics.collect()
}

fn partition_response(
    partition_index: i32,
    result: Result<Found, ErrorCode>,
) -> ListOffsetsPartitionResponse {
    let error = result.as_ref().err().copied().unwrap_or(ErrorCode::None);
    let found = result.unwrap_or(NOT_FOUND);
    ListOffsetsPartitionResponse {
        partition_index,
        error_code: error.code(),
        timestamp: found.timestamp,
        offset: found.offset.0,
        leader_epoch: found.leader_epoch.0,
    }
}

async fn find(
    broker: &Broker,
    version: i16,
    message: &ListOffsetsRequest<'_>,
    topic: &str,
    asked: &ListOffsetsPartition,
) -> Result<Found, ErrorCode> {
    let lowest = match version {
        ..=6 => EARLIEST,
        7 => MAX_TIMESTAMP,
        8 => EARLIEST_LOCAL,
        9 | 10 => LATEST_TIERED,
        _ => EARLIEST_PENDING_UPLOAD,
    };
    if asked.timestamp < lowest {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let epoch = asked.current_leader_epoch;
    let partition = broker.logs.find(topic, asked.partition_index);
    let partition = partition.map_err(|absence| absence.code_for(LeaderEpoch(epoch)))?;
    let directory_index = partition.directory_index();
    let disk = broker.logs.disks.turn(directory_index, DiskUse::Read).await;
    let looked: Result<_, ErrorCode> = disk.run(|| {
        // Whoever looks for a mistake may ask a follower.
        match message.replica_id {
            DEBUGGING => partition.check_replica(LeaderEpoch(epoch)),
            _ => partition.check_leader(LeaderEpoch(epoch)),
        }?;
        // Before: until it is known, what is beyond the high watermark may have been seen.
        let is_current = partition.is_high_watermark_current();
        Ok((partition.offsets(), is_current))
    });
    let (offsets, is_current) = looked?;
    let unavailable = match version {
        5.. => ErrorCode::OffsetNotAvailable,
        _ => ErrorCode::LeaderNotAvailable,
    };
    let is_unavailable = !is_current && message.replica_id == CONSUMER;
    let end = match (message.replica_id, message.isolation_level) {
        (CONSUMER, READ_COMMITTED) => offsets.last_stable_offset,
        (CONSUMER, _) => offsets.high_watermark,
        _ => offsets.log_end_offset,
    };
    let at = |offset, leader_epoch| Found {
        offset,
        timestamp: -1,
        leader_epoch,
    };
    let found = match asked.timestamp {
        LATEST if is_unavailable => return Err(unavailable),
        LATEST => Ok(at(end, offsets.leader_epoch)),
        EARLIEST | EARLIEST_LOCAL => {
            let start = offsets.log_start_offset;
            let disk = broker.logs.disks.turn(directory_index, DiskUse::Read).await;
            let epoch = disk.run(|| partition.leader_epoch_at(start));
            epoch.map(|epoch| at(start, epoch.unwrap_or(LeaderEpoch::NONE)))
        }
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => Ok(NOT_FOUND),
        MAX_TIMESTAMP => {
            let search = |max_bytes| partition.offset_of_max_timestamp(max_bytes);
            let searched = search_in_turn(broker, directory_index, search).await;
            searched.map(|record| found_below(end, record))
        }
        timestamp => {
            let search = |max_bytes| partition.offset_for_timestamp(timestamp, max_bytes);
            let searched = search_in_turn(broker, directory_index, search).await;
            searched.map(|record| found_below(end, record))
        }
    };
    let found = found.map_err(|error| broker.logs.report_read_error(&partition, &error))?;
    let is_by_time = asked.timestamp >= 0 || asked.timestamp == MAX_TIMESTAMP;
    match is_by_time && found.offset < Offset::ZERO && is_unavailable {
        true => Err(unavailable),
        false => Ok(found),
    }
}

/// Searches for a record: at once if little has to be read and expanded for it.
async fn search_in_turn(
    broker: &Broker,
    directory_index: usize,
    search: impl Fn(usize) -> Result<TimestampSearch, ReadError>,
) -> Result<Option<replication::TimestampOffset>, ReadError> {
    let disk = broker.logs.disks.turn(directory_index, DiskUse::Read).await;
    match disk.run(|| search(QUICK_BYTES))? {
        TimestampSearch::Ended(found) => Ok(found),
        TimestampSearch::TooLarge => {
            // First the disk's turn: who has one to compute must not wait for a disk.
            let disk = broker.logs.disks.turn(directory_index, DiskUse::Read).await;
            let search = || disk.run(|| search(usize::MAX));
            let searched = broker.heavy_work.run(search).await?;
            let TimestampSearch::Ended(found) = searched else {
                unreachable!("there was no limit");
            };
            Ok(found)
        }
    }
}

/// What the log found, unless it lies beyond what the client may see.
fn found_below(end: Offset, record: Option<replication::TimestampOffset>) -> Found {
    match record {
        Some(found) if found.offset < end => Found {
            offset: found.offset,
            timestamp: found.timestamp_ms,
            leader_epoch: found.leader_epoch.unwrap_or(LeaderEpoch::NONE),
        },
        _ => NOT_FOUND,
    }
}
