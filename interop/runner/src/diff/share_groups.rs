//! Share groups (KIP-932): heartbeats, acquired records and their acknowledgement, offsets.

use interpreter::{Struct, Value};
use wire::ApiKey;

use super::batches::Batch;
use super::body::body;
use super::leaf::leaf;
use super::produce::produce;
use super::session::{Session, Stop, integer};
use super::topics::{Topic, create};

/// Member ids are uuids in the text form of Kafka.
const MEMBER: &str = "ZGlmZmVyZW50aWFsAAAAAA";
const STRANGER: &str = "c3RyYW5nZXIAAAAAAAAAAA";

fn heartbeat(group: &str, member: &str, epoch: i64, topics: Value) -> Value {
    body!({ GroupId: group, MemberId: member, MemberEpoch: epoch, SubscribedTopicNames: topics })
}

fn fetch(group: &str, topic: &Topic, epoch: i32, acknowledgements: Value) -> Value {
    body!({
        GroupId: group,
        MemberId: MEMBER,
        ShareSessionEpoch: epoch,
        MaxWaitMs: 500,
        MinBytes: 1,
        MaxRecords: 100,
        BatchSize: 100,
        Topics: [{
            TopicId: (topic.id.clone()),
            Partitions: [{ PartitionIndex: 0, AcknowledgementBatches: acknowledgements }],
        }],
    })
}

/// A member that acquires records, acknowledges some in every way, and leaves.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 1, &[])?;
    let group = session.new_name("share");
    let join = heartbeat(&group, MEMBER, 0, body!([(&topic.name)]));
    let answer = session.call(ApiKey::ShareGroupHeartbeat, &join)?;
    let epoch = integer(&answer, "MemberEpoch");
    wait_for_assignment(session, &join)?;
    session.call(
        ApiKey::ShareGroupDescribe,
        &body!({ GroupIds: [(&group), "no-such-group"] }),
    )?;
    odd_requests(session, &group, &topic, epoch)?;
    // The first fetch settles where the group starts, and may come before that is known.
    let mut opening = fetch(&group, &topic, 0, body!([]));
    if let Value::Struct(fields) = &mut opening {
        fields.set("MaxWaitMs", 0.into());
    }
    let is_known = |answer: &Struct| leaf(answer, "Responses[0].TopicId") != Value::Null;
    session.wait(ApiKey::ShareFetch, 1, &opening, &is_known)?;
    offsets(session, &group, &topic)?;
    let leave = heartbeat(&group, MEMBER, -1, Value::Null);
    session.call(ApiKey::ShareGroupHeartbeat, &leave)?;
    offsets(session, &group, &topic)?;
    session.call(ApiKey::DeleteGroups, &body!({ GroupsNames: [(&group)] }))?;
    session.call(ApiKey::ShareGroupDescribe, &body!({ GroupIds: [(&group)] }))?;
    Ok(())
}

/// Records acquired and acknowledged, from an offset that was set before anyone joined.
pub(super) fn acknowledgement_sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 1, &[])?;
    let group = session.new_name("share");
    for _ in 0..2 {
        let batch = Batch::random(&mut session.random);
        produce(session, &topic, &batch)?;
    }
    let alter = body!({ GroupId: (&group), Topics: [{ TopicName: (&topic.name), Partitions: [{ PartitionIndex: 0, StartOffset: 0 }] }] });
    session.call(ApiKey::AlterShareGroupOffsets, &alter)?;
    let join = heartbeat(&group, MEMBER, 0, body!([(&topic.name)]));
    session.call(ApiKey::ShareGroupHeartbeat, &join)?;
    wait_for_assignment(session, &join)?;
    session.call(ApiKey::ShareFetch, &fetch(&group, &topic, 0, body!([])))?;
    let kind = *session.random.choice(&[0, 1, 2, 3, 4, 9]);
    let first = *session.random.choice(&[0, 0, 0, 1, 50]);
    let batches =
        body!([{ FirstOffset: first, LastOffset: (first + 1), AcknowledgeTypes: [kind] }]);
    if session.random.chance(1, 2) {
        let request = body!({
            GroupId: (&group), MemberId: MEMBER, ShareSessionEpoch: 1,
            Topics: [{ TopicId: (topic.id.clone()), Partitions: [{ PartitionIndex: 0, AcknowledgementBatches: batches }] }],
        });
        session.call(ApiKey::ShareAcknowledge, &request)?;
    } else {
        session.call(ApiKey::ShareFetch, &fetch(&group, &topic, 1, batches))?;
    }
    let close = body!({ GroupId: (&group), MemberId: MEMBER, ShareSessionEpoch: (-1), Topics: [] });
    session.call(ApiKey::ShareAcknowledge, &close)?;
    let leave = heartbeat(&group, MEMBER, -1, Value::Null);
    session.call(ApiKey::ShareGroupHeartbeat, &leave)?;
    Ok(())
}

/// Waits until the member has its partitions, whose state is made in the background; a member that
/// joins once more is told all of them.
fn wait_for_assignment(session: &mut Session<'_>, join: &Value) -> Result<(), Stop> {
    let done = |answer: &Struct| {
        let partition = leaf(answer, "Assignment.TopicPartitions[0].Partitions[0]");
        partition != Value::Null
    };
    session.wait(ApiKey::ShareGroupHeartbeat, 1, join, &done)
}

fn odd_requests(
    session: &mut Session<'_>,
    group: &str,
    topic: &Topic,
    epoch: i64,
) -> Result<(), Stop> {
    let odd = [
        heartbeat(group, STRANGER, 7, Value::Null),
        heartbeat(group, MEMBER, epoch + 5, Value::Null),
        heartbeat("", MEMBER, 0, body!([(&topic.name)])),
        heartbeat("no-such-group", MEMBER, 3, Value::Null),
    ];
    let odd = session.random.choice(&odd).clone();
    session.call(ApiKey::ShareGroupHeartbeat, &odd)?;
    let epoch = *session.random.choice(&[5, -1]);
    session.call(ApiKey::ShareFetch, &fetch(group, topic, epoch, body!([])))?;
    Ok(())
}

fn offsets(session: &mut Session<'_>, group: &str, topic: &Topic) -> Result<(), Stop> {
    let describe = body!({ Groups: [{ GroupId: group, Topics: [{ TopicName: (&topic.name), Partitions: [0] }] }] });
    session.call(ApiKey::DescribeShareGroupOffsets, &describe)?;
    let name = *session
        .random
        .choice(&[topic.name.as_str(), "no-such-topic"]);
    match session.random.below(2) {
        0 => {
            let alter = body!({ GroupId: group, Topics: [{ TopicName: name, Partitions: [{ PartitionIndex: 0, StartOffset: 0 }] }] });
            session.call(ApiKey::AlterShareGroupOffsets, &alter)?;
        }
        _ => {
            let delete = body!({ GroupId: group, Topics: [{ TopicName: name }] });
            session.call(ApiKey::DeleteShareGroupOffsets, &delete)?;
        }
    }
    Ok(())
}
