//! Offsets of partitions: by time and by epoch, and the deletion of records before one.

use interpreter::Value;
use wire::ApiKey;

use super::batches::{Batch, TIMESTAMP};
use super::body::body;
use super::produce::produce;
use super::session::{Session, Stop};
use super::topics::create;
use super::whole_topic::read_all;

/// Questions for offsets, with records deleted now and then.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 1, &[])?;
    for _ in 0..4 {
        let batch = Batch::random(&mut session.random);
        produce(session, &topic, &batch)?;
    }
    for _ in 0..8 {
        let name = match session.random.below(8) {
            0 => "no-such-topic",
            _ => &topic.name,
        };
        let index = *session.random.choice(&[0, 0, 0, 0, 5, -1]);
        match session.random.below(4) {
            0 | 1 => list(session, name, index)?,
            2 => epoch_end(session, name, index)?,
            _ => delete_records(session, name, index)?,
        }
    }
    let dirs = body!({ Topics: [{ Topic: (&topic.name), Partitions: [0, 3] }] });
    session.call(ApiKey::DescribeLogDirs, &dirs)?;
    read_all(session, &topic)
}

fn list(session: &mut Session<'_>, name: &str, index: i32) -> Result<(), Stop> {
    let random = &mut session.random;
    let timestamps = [
        -1,
        -2,
        -3,
        -4,
        -5,
        -6,
        -7,
        0,
        TIMESTAMP,
        TIMESTAMP + 15,
        TIMESTAMP + 500,
    ];
    let partition = |timestamp: i64, epoch: i32| -> Value {
        body!({ PartitionIndex: index, CurrentLeaderEpoch: epoch, Timestamp: timestamp })
    };
    let epoch = *random.choice(&[-1, -1, -1, 0, 7]);
    let mut partitions = vec![partition(*random.choice(&timestamps), epoch)];
    if random.chance(1, 8) {
        partitions.push(partition(-1, -1));
    }
    let request = body!({
        ReplicaId: (*random.choice(&[-1, -1, -1, -2, 1])),
        IsolationLevel: (*random.choice(&[0, 0, 1])),
        Topics: [{ Name: name, Partitions: partitions }],
        TimeoutMs: 1_000,
    });
    session.call(ApiKey::ListOffsets, &request)?;
    Ok(())
}

fn epoch_end(session: &mut Session<'_>, name: &str, index: i32) -> Result<(), Stop> {
    let random = &mut session.random;
    let request = body!({
        ReplicaId: (*random.choice(&[-1, -2])),
        Topics: [{
            Topic: name,
            Partitions: [{
                Partition: index,
                CurrentLeaderEpoch: (*random.choice(&[-1, 0, 4])),
                LeaderEpoch: (*random.choice(&[0, 0, 1, -1, 100])),
            }],
        }],
    });
    session.call(ApiKey::OffsetForLeaderEpoch, &request)?;
    Ok(())
}

fn delete_records(session: &mut Session<'_>, name: &str, index: i32) -> Result<(), Stop> {
    let offset: i64 = *session.random.choice(&[0, 1, 2, 3, -1, -2, 1_000]);
    let request = body!({
        Topics: [{ Name: name, Partitions: [{ PartitionIndex: index, Offset: offset }] }],
        TimeoutMs: 2_000,
    });
    session.call(ApiKey::DeleteRecords, &request)?;
    Ok(())
}
