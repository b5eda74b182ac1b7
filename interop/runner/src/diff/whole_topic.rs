//! A topic read whole: both ends of its partitions, then all that is in between.

use interpreter::Value;
use wire::ApiKey;

use super::body::body;
use super::session::{Session, Stop};
use super::topics::Topic;

/// Fetches every partition from its beginning, after asking for both ends.
pub(super) fn read_all(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let partitions = |timestamp: i64| {
        let partition = |index: i32| body!({ PartitionIndex: index, Timestamp: timestamp });
        let partitions: Vec<Value> = (0..topic.partitions).map(partition).collect();
        body!({ ReplicaId: (-1), Topics: [{ Name: (&topic.name), Partitions: partitions }] })
    };
    session.call(ApiKey::ListOffsets, &partitions(-2))?;
    session.call(ApiKey::ListOffsets, &partitions(-1))?;
    let partition =
        |index: i32| body!({ Partition: index, FetchOffset: 0, PartitionMaxBytes: 1_000_000 });
    let all: Vec<Value> = (0..topic.partitions).map(partition).collect();
    // From version 10 on every compression can be told.
    session.call_within(ApiKey::Fetch, (10, 18), &fetch(topic, all, 0, -1))?;
    Ok(())
}

/// A Fetch of some partitions of a topic.
pub(super) fn fetch(
    topic: &Topic,
    partitions: Vec<Value>,
    session_id: i64,
    session_epoch: i32,
) -> Value {
    let topics = if partitions.is_empty() {
        body!([])
    } else {
        body!([{ Topic: (&topic.name), TopicId: (&topic.id), Partitions: partitions }])
    };
    body!({
        ReplicaId: (-1),
        MaxWaitMs: 20,
        MinBytes: 0,
        SessionId: session_id,
        SessionEpoch: session_epoch,
        Topics: topics,
    })
}
