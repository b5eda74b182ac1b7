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
    let mut results = Vec::with_capacity(destinations.len());
    for (topic, partitions) in destinations {
        let mut begun = Vec::with_capacity(partitions.len());
        for (index, destination) in partitions {
            let name = TopicPartition::new(topic, index);
            let error = begin(broker, name, destination.to_owned()).await.err();
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

/// Begins to move a partition, whether the client stays or not.
async fn begin(
    broker: &Arc<Broker>,
    name: TopicPartition,
    destination: String,
) -> Result<(), ErrorCode> {
    let turn = broker.moves.beginning.clone().lock_owned().await;
    let broker = broker.clone();
    let begin = move || {
        let _turn = turn;
        moves::begin(&broker, &name, &destination)
    };
    // It is not begun any more when the server stops.
    let begun = tokio::task::spawn_blocking(begin).await;
    begun.unwrap_or(Err(ErrorCode::KafkaStorageError))
}
