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
use std::sync::Arc;
use wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use wire::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse};

pub(crate) async fn serve(
    broker: &Arc<Broker>,
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
    // All before one is waited for, whose disk may be stuck; they begin whether the client stays or not.
    let beginning: Vec<_> = destinations
        .into_iter()
        .map(|(topic, partitions)| {
            let begun = partitions.into_iter().map(|(index, destination)| {
                let name = TopicPartition::new(topic, index);
                let (broker, destination) = (broker.clone(), destination.to_owned());
                let begin = async move { moves::begin(&broker, &name, &destination).await };
                (index, tokio::spawn(begin))
            });
            (topic, begun.collect::<Vec<_>>())
        })
        .collect();
    let mut results = Vec::with_capacity(beginning.len());
    for (topic, partitions) in beginning {
        let mut begun = Vec::with_capacity(partitions.len());
        for (index, beginning) in partitions {
            // It is not begun any more when the server stops.
            let stopped = |_| Err(ErrorCode::KafkaStorageError);
            let error = beginning.await.unwrap_or_else(stopped).err();
            begun.push(AlterReplicaLogDirPartitionResult {
                partition_index: index,
                error_code: error.unwrap_or(ErrorCode::None).code(),
            });
        }
        results.push(AlterReplicaLogDirTopicResult {
            topic_name: topic,
            partitions: begun.into(),
        });
    }
    let response = AlterReplicaLogDirsResponse {
        results: results.into(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
