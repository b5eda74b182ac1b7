//! DeleteRecords: v0–2. Moves the start of a log forward (KIP-107).
//!
//! - Offset -1 stands for the high watermark; beyond it, or before the start, is OFFSET_OUT_OF_RANGE.
//! - A topic that is only compacted is POLICY_VIOLATION; one with an empty `cleanup.policy` is not.
//! - A partition named twice has one answer and its last offset; a topic without partitions none.
//! - Internal topics are INVALID_TOPIC_EXCEPTION.

use super::{Request, Served, Turn};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use crate::scheduling::disk_watch::DiskUse;
use model::{DecodeError, ErrorCode, LeaderEpoch};
use std::collections::BTreeMap;
use wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

const HIGH_WATERMARK: i64 = -1;

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
    let mut topics = Vec::with_capacity(offsets.len());
    let mut turn = Turn::begin();
    for (name, asked) in &offsets {
        let mut partitions = Vec::with_capacity(asked.len());
        for (index, offset) in asked {
            let result = delete(broker, name, *index, *offset).await;
            partitions.push(DeleteRecordsPartitionResult {
                partition_index: *index,
                low_watermark: result.unwrap_or(-1),
                error_code: result.err().unwrap_or(ErrorCode::None).code(),
            });
            turn.share().await;
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

async fn delete(broker: &Broker, topic: &str, index: i32, offset: i64) -> Result<i64, ErrorCode> {
    let found = broker.logs.find(topic, index);
    if super::is_internal(topic) && !found.as_ref().is_err_and(|absence| absence.is_unknown()) {
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
    if !(0..=high_watermark).contains(&offset) {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let disk = broker
        .logs
        .disks
        .turn(partition.directory_index(), DiskUse::Write)
        .await;
    let deleted = disk.run(|| partition.delete_records_before(offset));
    deleted.map_err(|error| {
        match error.is_out_of_files() {
            true => broker
                .logs
                .note_shortage("records are not deleted", &partition, &error),
            false => broker.logs.report_append_error(&partition, &error),
        }
        error.code()
    })
}
