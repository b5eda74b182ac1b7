//! AlterReplicaLogDirs: v1–2. Moves partitions to other log directories (KIP-113).
//!
//! - The answer comes when the move has begun; DescribeLogDirs tells how far it is.
//! - A partition that is named for two directories goes to the last one.
//! - PendingResponse to where it is, a partition stays, and is moved no more.
//! - Unknown partitions are UNKNOWN_TOPIC_OR_PARTITION, and are made in the directory when their time
//!   comes, while this broker runs; directories that the broker does not have
//!   LOG_DIR_NOT_FOUND, anything that is offline KAFKA_STORAGE_ERROR, and directories that are
//!   cordoned (KIP-1066) INVALID_REPLICA_ASSIGNMENT.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::logs::future_replicas;
use crate::net::ResponseBuffer;
use crate::scheduling::turn::Turn;
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
    let mut destinations = Destinations::new();
    for directory in message.dirs.iter() {
        for topic in directory.topics.iter() {
            for index in topic.partitions.iter() {
                let partitions = destinations.entry(topic.name).or_default();
                partitions.insert(index, directory.path);
            }
        }
    }
    let mut errors = begin_all(broker, &destinations).await.into_iter();
    let mut results = Vec::with_capacity(destinations.len());
    for (topic_name, partitions) in &destinations {
        let results_of = partitions.keys().zip(&mut errors);
        let partitions = results_of.map(|(index, error)| AlterReplicaLogDirPartitionResult {
            partition_index: *index,
            error_code: error.code(),
        });
        results.push(AlterReplicaLogDirTopicResult {
            topic_name,
            partitions: partitions.collect(),
        });
    }
    let response = AlterReplicaLogDirsResponse {
        results: results.into(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// Partitions, by topic, with the log directories that they are to go to.
type Destinations<'f> = BTreeMap<&'f str, BTreeMap<i32, &'f str>>;

/// Begins to move partitions, whether the client stays or not. Returns what came of each, in their order.
///
/// Those that go from one directory to another wait for one another, as one of the two may be stuck; the
/// others do not.
async fn begin_all(broker: &Arc<Broker>, destinations: &Destinations<'_>) -> Vec<ErrorCode> {
    let mut errors = Vec::new();
    let mut shares: BTreeMap<_, Vec<(usize, Arc<str>, i32)>> = BTreeMap::new();
    for (topic, partitions) in destinations {
        let hosted = broker.logs.partitions.topic(topic);
        let topic: Arc<str> = (*topic).into();
        for (index, destination) in partitions {
            let mut directories = broker.logs.directories.iter();
            if let Some(to) = directories.position(|one| one.name() == *destination) {
                let partition = hosted.as_ref().and_then(|one| one.partition(*index));
                let from = partition.map(|one| one.directory_index());
                let share = shares.entry((from, to)).or_default();
                share.push((errors.len(), topic.clone(), *index));
            }
            errors.push(ErrorCode::LogDirNotFound);
        }
    }
    let mut beginning = Vec::with_capacity(shares.len());
    for ((_, to), partitions) in shares {
        // It is not begun any more when the server stops.
        for (at, ..) in &partitions {
            errors[*at] = ErrorCode::KafkaStorageError;
        }
        beginning.push(tokio::spawn(begin_some(broker.clone(), to, partitions)));
    }
    for begun in beginning {
        for (at, error) in begun.await.unwrap_or_default() {
            errors[at] = error;
        }
    }
    errors
}

/// Begins to move partitions to the log directory of this place.
async fn begin_some(
    broker: Arc<Broker>,
    to: usize,
    partitions: Vec<(usize, Arc<str>, i32)>,
) -> Vec<(usize, ErrorCode)> {
    let mut begun = Vec::with_capacity(partitions.len());
    let mut turn = Turn::begin();
    for (at, topic, index) in partitions {
        let name = TopicPartition::new(&*topic, index);
        let destination = broker.logs.directories[to].name();
        let error = future_replicas::begin(&broker.logs, &name, destination)
            .await
            .err();
        begun.push((at, error.unwrap_or(ErrorCode::None)));
        turn.share().await;
    }
    begun
}
