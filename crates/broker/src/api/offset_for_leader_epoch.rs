//! OffsetForLeaderEpoch: v2–4. Where a leader epoch ended in the log (KIP-101, KIP-320).
//!
//! - The answer is the largest epoch that is not above the requested one, with the offset at which
//!   the next one starts, or the log's end for the last.

use super::{Request, Served, Turn};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use crate::scheduling::disk_watch::DiskUse;
use model::{DecodeError, ErrorCode, LeaderEpoch, Offset};
use wire::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use wire::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: OffsetForLeaderEpochRequest<'_> = request.decode()?;
    let mut topics = Vec::new();
    let mut turn = Turn::begin();
    for topic in message.topics.iter() {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for asked in topic.partitions.iter() {
            let found = find(broker, topic.topic, &asked).await;
            partitions.push(EpochEndOffset {
                error_code: found.err().unwrap_or(ErrorCode::None).code(),
                partition: asked.partition,
                leader_epoch: found.map_or(-1, |(epoch, _)| epoch.0),
                end_offset: found.map_or(-1, |(_, offset)| offset.0),
            });
            turn.share().await;
        }
        topics.push(OffsetForLeaderTopicResult {
            topic: topic.topic,
            partitions: partitions.into(),
        });
    }
    let response = OffsetForLeaderEpochResponse {
        topics: topics.into(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

async fn find(
    broker: &Broker,
    topic: &str,
    asked: &OffsetForLeaderPartition,
) -> Result<(LeaderEpoch, Offset), ErrorCode> {
    let epoch = LeaderEpoch(asked.current_leader_epoch);
    let partition = broker.logs.find(topic, asked.partition);
    let partition = partition.map_err(|absence| absence.code_for(epoch))?;
    let disk = broker
        .logs
        .disks
        .turn(partition.directory_index(), DiskUse::Read)
        .await;
    let end = disk.run(|| {
        let checked = partition.check_leader(epoch);
        checked.map(|()| partition.end_offset_of_epoch(LeaderEpoch(asked.leader_epoch)))
    });
    match end? {
        Ok(end) => Ok(end.unwrap_or((LeaderEpoch::NONE, Offset::NONE))),
        // Without an error a consumer takes it for a log that was cut, and begins elsewhere.
        Err(error) => Err(broker.logs.report_read_error(&partition, &error)),
    }
}
