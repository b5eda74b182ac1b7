//! How a fetch is answered.

use super::LEADERS_VERSION;
use super::part::Part;
use crate::api::Request;
use crate::api::broker::Broker;
use crate::api::endpoints::{BrokerEndpoint, Endpoints};
use crate::net::{ConnectionContext, FileRange, ResponseBuffer};
use crate::scheduling::disk_watch::DiskWatch;
use model::{BrokerId, ErrorCode, LeaderEpoch, Offset, Uuid};
use replication::{INVALID_SESSION_ID, SessionTopic};
use std::sync::Arc;
use wire::fetch_response::{FetchResponseHead, FetchResponsePartition, FetchResponseWriter};

/// What the client is told.
pub(super) struct FetchOutcome<'a> {
    pub(super) error: ErrorCode,
    pub(super) session_id: i32,
    pub(super) parts: &'a [Part],
    /// The leaders of partitions that the client takes to be led by another broker. Brokers know each other's
    /// places.
    pub(super) leaders: Vec<BrokerEndpoint>,
    pub(super) disks: &'a Arc<DiskWatch>,
}

impl<'a> FetchOutcome<'a> {
    pub(super) const fn refusal(error: ErrorCode, disks: &'a Arc<DiskWatch>) -> Self {
        Self {
            error,
            session_id: INVALID_SESSION_ID,
            parts: &[],
            leaders: Vec::new(),
            disks,
        }
    }
}

/// The leaders that the client is told, where it reaches them.
pub(super) fn leaders_of(
    broker: &Broker,
    connection: &ConnectionContext,
    version: i16,
    told: &[Part],
) -> Vec<BrokerEndpoint> {
    let leaders = told.iter().filter_map(Part::current_leader);
    let leaders = leaders.filter(|_| version >= LEADERS_VERSION);
    let leaders: Vec<BrokerId> = leaders.map(|(id, _)| id).collect();
    match leaders.is_empty() {
        true => Vec::new(),
        false => Endpoints::new(broker, connection).live_of(leaders),
    }
}

pub(super) fn answer(request: &Request<'_>, told: &FetchOutcome<'_>, out: &mut ResponseBuffer) {
    let parts = told.parts;
    let start = request.begin_answer(&mut out.head);
    let writer = FetchResponseWriter::new(request.version);
    // Partitions of a topic that stand together share one entry.
    let topics = || parts.chunk_by(|a, b| a.topic == b.topic);
    let head = FetchResponseHead {
        throttle_time_ms: 0,
        error: told.error,
        session_id: told.session_id,
        topic_count: topics().count(),
    };
    writer.head(&head, &mut out.head);
    let mut file_bytes = 0;
    for topic in topics() {
        let (name, id) = match &topic[0].topic {
            SessionTopic::Id(id) => ("", *id),
            SessionTopic::Name(name) => (&**name, Uuid::ZERO),
        };
        writer.topic(name, id, topic.len(), &mut out.head);
        for part in topic {
            let leader = (request.version >= LEADERS_VERSION)
                .then(|| part.current_leader())
                .flatten();
            file_bytes += answer_part(&writer, part, leader, told.disks, out);
        }
        writer.end_topic(&mut out.head);
    }
    let leaders: Vec<_> = told.leaders.iter().map(BrokerEndpoint::as_node).collect();
    writer.end(&leaders, &mut out.head);
    request.finish_answer_with_records(start, file_bytes, out);
}

/// Appends a partition; returns how many bytes of records are not in the buffer itself.
fn answer_part(
    writer: &FetchResponseWriter,
    part: &Part,
    current_leader: Option<(BrokerId, LeaderEpoch)>,
    disks: &Arc<DiskWatch>,
    out: &mut ResponseBuffer,
) -> usize {
    let bytes = part.bytes();
    let mut partition = FetchResponsePartition {
        index: part.index,
        error: ErrorCode::None,
        high_watermark: Offset::NONE,
        last_stable_offset: Offset::NONE,
        log_start_offset: Offset::NONE,
        diverging_epoch: None,
        current_leader,
        aborted_transactions: None,
        preferred_read_replica: part.preferred_read_replica,
        records_bytes: bytes,
    };
    match &part.result {
        Ok(result) => {
            partition.high_watermark = result.offsets.high_watermark;
            partition.last_stable_offset = result.offsets.last_stable_offset;
            partition.log_start_offset = result.offsets.log_start_offset;
            partition.diverging_epoch = result.diverging_epoch;
            partition.aborted_transactions = result.aborted_transactions.as_deref();
        }
        Err(error) => {
            partition.error = *error;
            // What was not read at all has an empty list where null means "not asked for".
            partition.aborted_transactions = part.is_unknown().then_some(&[]);
        }
    }
    let records = part.result.as_ref().ok();
    let Some(records) = records.and_then(|result| result.records.as_ref()) else {
        writer.partition_without_records(&partition, &mut out.head);
        return 0;
    };
    writer.partition(&partition, &mut out.head);
    let sent_apart = out.push_range(FileRange {
        file: records.file.clone(),
        position: records.position,
        length: records.length,
        directory_index: part
            .partition
            .as_ref()
            .map_or(usize::MAX, |one| one.directory_index()),
        disks: disks.clone(),
    });
    writer.end_partition(&partition, &mut out.head);
    sent_apart
}
