//! AlterReplicaLogDirs: v1–2. Moves partitions to other log directories (KIP-113).
//!
//! - The answer comes when the move has begun; DescribeLogDirs tells how far it is.
//! - A partition that is named for two directories goes to the last one.
//! - Asked to where it is, a partition stays, and is moved no more.
//! - Unknown partitions are UNKNOWN_TOPIC_OR_PARTITION, and are made in the directory when their time
//!   comes, while this broker runs; directories that the broker does not have
//!   LOG_DIR_NOT_FOUND, anything that is offline KAFKA_STORAGE_ERROR, and directories that are
//!   cordoned (KIP-1066) INVALID_REPLICA_ASSIGNMENT.

use super::{Request, Served};
use crate::Broker;
use crate::moves;
use crate::net::ResponseBuffer;
use model::{DecodeError, ErrorCode, TopicPartition};
use std::collections::BTreeMap;
use wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use wire::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse};

pub(crate) fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: AlterReplicaLogDirsRequest<'_> = request.decode()?;
    let mut destinations: BTreeMap<&str, BTreeMap<i32, &str>> = BTreeMap::new();
    for directory in message.dirs.iter() {
        for topic in directory.topics.iter() {
            for index in topic.partitions.iter() {
                let partitions = destinations.entry(topic.name).or_default();
                partitions.insert(index, directory.path);
            }
        }
    }
    let results = destinations.iter().map(|(topic, partitions)| {
        let partitions = partitions.iter().map(|(index, destination)| {
            let name = TopicPartition::new(*topic, *index);
            let begun = moves::begin(broker, &name, destination);
            AlterReplicaLogDirPartitionResult {
                partition_index: *index,
                error_code: begun.err().unwrap_or(ErrorCode::None).code(),
            }
        });
        AlterReplicaLogDirTopicResult {
            topic_name: topic,
            partitions: partitions.collect(),
        }
    });
    let response = AlterReplicaLogDirsResponse {
        results: results.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
