//! DeleteRecords: v0–2. Moves the start of a log forward (KIP-107).
//!
//! - Offset -1 stands for the high watermark; beyond it, or before the start, is OFFSET_OUT_OF_RANGE.
//! - The answer waits until no replica that is alive has the records, and is REQUEST_TIMED_OUT if that takes longer
//!   than the client has time.
//! - A topic that is only compacted is POLICY_VIOLATION; one with an empty `cleanup.policy` is not.
//! - A partition named twice has one answer and its last offset; a topic without partitions none.
//! - Internal topics are INVALID_TOPIC_EXCEPTION.

use super::{Request, Served, Turn};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use crate::scheduling::disk_watch::DiskUse;
use controller::internal_topics::is_internal;
use model::{DecodeError, ErrorCode, LeaderEpoch, Offset};
use replication::{AppendError, Leadership, Partition, Progress};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

const HIGH_WATERMARK: Offset = Offset(-1);

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DeleteRecordsRequest<'_> = request.decode()?;
    let mut offsets: BTreeMap<&str, BTreeMap<i32, i64>> = BTreeMap::new();
    for topic in message.topics.iter() {
        for asked in topic.partitions.iter() {
            let partitions = offsets.entry(topic.name).or_default();
            partitions.insert(asked.partition_index, asked.offset);
        }
    }
    let mut deletions = Vec::with_capacity(offsets.len());
    let mut turn = Turn::begin();
    for (name, asked) in &offsets {
        let mut partitions = Vec::with_capacity(asked.len());
        for (index, offset) in asked {
            partitions.push((*index, delete(broker, name, *index, Offset(*offset)).await));
            turn.share().await;
        }
        deletions.push((*name, partitions));
    }
    let timeout = Duration::from_millis(message.timeout_ms.max(0).unsigned_abs().into());
    let deadline = Instant::now() + timeout;
    let mut topics = Vec::with_capacity(deletions.len());
    for (name, of_topic) in deletions {
        let mut partitions = Vec::with_capacity(of_topic.len());
        for (partition_index, deletion) in of_topic {
            let (low_watermark, error) = match deletion {
                Ok(deletion) => deletion.wait(deadline).await,
                Err(error) => (Offset::NONE, error),
            };
            partitions.push(DeleteRecordsPartitionResult {
                partition_index,
                low_watermark: low_watermark.0,
                error_code: error.code(),
            });
        }
        topics.push(DeleteRecordsTopicResult {
            name,
            partitions: partitions.into(),
        });
    }
    let response = DeleteRecordsResponse {
        topics: topics.into(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// Records that the leader has deleted.
struct Deletion {
    partition: Arc<Partition>,
    /// That in which they were deleted.
    leadership: Leadership,
    /// They are below.
    offset: Offset,
    /// Where the log starts.
    log_start_offset: Offset,
    /// Below which no replica has records; `None` where there is one replica.
    low_watermark: Option<Arc<Progress>>,
}

impl Deletion {
    /// Waits until the followers have deleted them as well. Gives the low watermark.
    async fn wait(&self, deadline: Instant) -> (Offset, ErrorCode) {
        let Some(low_watermark) = &self.low_watermark else {
            return (self.log_start_offset, ErrorCode::None);
        };
        let (partition, leadership) = (&self.partition, self.leadership);
        let deleted = partition.wait_for_low_watermark(leadership, low_watermark, self.offset);
        match tokio::time::timeout_at(deadline, deleted).await {
            Ok(Ok(low_watermark)) => (low_watermark, ErrorCode::None),
            Ok(Err(error)) => (Offset::NONE, error),
            Err(_) => (low_watermark.offset(), ErrorCode::RequestTimedOut),
        }
    }
}

async fn delete(
    broker: &Broker,
    topic: &str,
    index: i32,
    offset: Offset,
) -> Result<Deletion, ErrorCode> {
    let found = broker.logs.find(topic, index);
    if is_internal(topic) && !found.as_ref().is_err_and(|absence| absence.is_unknown()) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let partition = found?;
    // What is replicated, and may be deleted, the leader knows.
    partition.check_leader(LeaderEpoch::NONE)?;
    let hosted = broker.logs.partitions.topic_by_id(partition.topic_id());
    let policy = hosted.map(|topic| topic.settings().cleanup_policy);
    if policy.is_some_and(|policy| policy.compact && !policy.delete) {
        return Err(ErrorCode::PolicyViolation);
    }
    let high_watermark = partition.high_watermark();
    let offset = if offset == HIGH_WATERMARK {
        high_watermark
    } else {
        offset
    };
    if !(Offset::ZERO..=high_watermark).contains(&offset) {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let disk = broker
        .logs
        .disks
        .turn(partition.directory_index(), DiskUse::Write)
        .await;
    let leadership = partition.leadership();
    let deleted = disk.run(|| {
        let deleted = partition.delete_records_before(offset)?;
        Ok((deleted, partition.low_watermark()))
    });
    let deleted = deleted.map_err(|error: AppendError| {
        match error.is_out_of_files() {
            true => broker
                .logs
                .note_shortage("records are not deleted", &partition, &error),
            false => broker.logs.report_append_error(&partition, &error),
        }
        error.code()
    });
    let (log_start_offset, low_watermark) = deleted?;
    Ok(Deletion {
        partition,
        leadership,
        offset,
        log_start_offset,
        low_watermark,
    })
}
