//! Groups of the consumer protocol (KIP-848): heartbeats, epochs, assignment, description.

use interpreter::{Struct, Value};
use wire::ApiKey;

use super::body::body;
use super::session::{Session, Stop, integer, value};
use super::topics::{Topic, create};

/// A member as the coordinator knows it.
struct Member {
    id: Value,
    epoch: i64,
}

fn heartbeat(group: &str, member: &Member, topics: Value, owned: Value) -> Value {
    body!({
        GroupId: group,
        MemberId: (member.id.clone()),
        MemberEpoch: (member.epoch),
        RebalanceTimeoutMs: (if member.epoch == 0 { 30_000 } else { -1 }),
        SubscribedTopicNames: topics,
        TopicPartitions: owned,
    })
}

fn join(session: &mut Session<'_>, group: &str, topics: Value) -> Result<Member, Stop> {
    let (range, id) = if session.random.chance(1, 2) {
        ((0, 0), Value::string(""))
    } else {
        ((1, 1), Value::String(session.new_name("member")))
    };
    let joining = Member { id, epoch: 0 };
    let request = heartbeat(group, &joining, topics, Value::Array(Vec::new()));
    let answer = session.call_within(ApiKey::ConsumerGroupHeartbeat, range, &request)?;
    Ok(Member {
        id: value(&answer, "MemberId"),
        epoch: integer(&answer, "MemberEpoch"),
    })
}

fn beat(session: &mut Session<'_>, group: &str, member: &mut Member) -> Result<Struct, Stop> {
    let request = heartbeat(group, member, Value::Null, Value::Null);
    let answer = session.call(ApiKey::ConsumerGroupHeartbeat, &request)?;
    if integer(&answer, "ErrorCode") == 0 {
        member.epoch = integer(&answer, "MemberEpoch");
    }
    Ok(answer)
}

fn leave(session: &mut Session<'_>, group: &str, member: &Member) -> Result<(), Stop> {
    let leaving = Member {
        id: member.id.clone(),
        epoch: -1,
    };
    let request = heartbeat(group, &leaving, Value::Null, Value::Null);
    session.call(ApiKey::ConsumerGroupHeartbeat, &request)?;
    Ok(())
}

/// One member, sometimes a second, and wrong heartbeats.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 2, &[])?;
    let group = session.new_name("group");
    let names = body!([(&topic.name)]);
    let mut member = join(session, &group, names.clone())?;
    for _ in 0..6 {
        match session.random.below(6) {
            0 => drop(beat(session, &group, &mut member)?),
            1 => wrong_heartbeat(session, &group, &member)?,
            2 => describe(session, &group)?,
            3 => commit(session, &group, &member, &topic)?,
            4 => {
                let owned = body!([{ TopicId: (topic.id.clone()), Partitions: [0, 1] }]);
                let request = heartbeat(&group, &member, Value::Null, owned);
                session.call(ApiKey::ConsumerGroupHeartbeat, &request)?;
            }
            _ => classic_requests(session, &group, &member)?,
        }
    }
    if session.random.chance(1, 2) {
        let second = join(session, &group, names)?;
        describe(session, &group)?;
        leave(session, &group, &second)?;
    }
    leave(session, &group, &member)?;
    beat(session, &group, &mut member)?;
    describe(session, &group)?;
    session.call(ApiKey::DeleteGroups, &body!({ GroupsNames: [(&group)] }))?;
    describe(session, &group)
}

fn wrong_heartbeat(session: &mut Session<'_>, group: &str, member: &Member) -> Result<(), Stop> {
    let random = &mut session.random;
    let stranger = Member {
        id: Value::string("stranger"),
        epoch: *random.choice(&[0, 1, 5, -1, -2, -3]),
    };
    let wrong = Member {
        id: member.id.clone(),
        epoch: member.epoch + *random.choice(&[1, 10, -1]),
    };
    let request = match random.below(5) {
        0 if stranger.epoch != 0 => heartbeat(group, &stranger, Value::Null, Value::Null),
        1 => heartbeat(group, &wrong, Value::Null, Value::Null),
        2 => heartbeat("", member, Value::Null, Value::Null),
        3 => heartbeat("no-such-group", member, Value::Null, Value::Null),
        _ => body!({
            GroupId: group,
            MemberId: "newcomer",
            MemberEpoch: 0,
            RebalanceTimeoutMs: (*random.choice(&[-1, 0])),
            SubscribedTopicNames: [],
            TopicPartitions: null,
            ServerAssignor: "no-such-assignor",
        }),
    };
    session.call(ApiKey::ConsumerGroupHeartbeat, &request)?;
    Ok(())
}

fn describe(session: &mut Session<'_>, group: &str) -> Result<(), Stop> {
    let request =
        body!({ GroupIds: [group, "no-such-group", ""], IncludeAuthorizedOperations: true });
    session.call(ApiKey::ConsumerGroupDescribe, &request)?;
    session.call(ApiKey::DescribeGroups, &body!({ Groups: [group] }))?;
    Ok(())
}

fn commit(
    session: &mut Session<'_>,
    group: &str,
    member: &Member,
    topic: &Topic,
) -> Result<(), Stop> {
    let epoch = member.epoch + *session.random.choice(&[0, 0, 1, -1]);
    let request = body!({
        GroupId: group,
        GenerationIdOrMemberEpoch: epoch,
        MemberId: (member.id.clone()),
        Topics: [{ Name: (&topic.name), TopicId: (topic.id.clone()), Partitions: [{ PartitionIndex: 0, CommittedOffset: 4 }] }],
    });
    session.call(ApiKey::OffsetCommit, &request)?;
    let partitions =
        body!([{ Name: (&topic.name), TopicId: (topic.id.clone()), PartitionIndexes: [0] }]);
    let request = body!({
        GroupId: group,
        Topics: (partitions.clone()),
        Groups: [{ GroupId: group, MemberId: (member.id.clone()), MemberEpoch: epoch, Topics: partitions }],
    });
    session.call(ApiKey::OffsetFetch, &request)?;
    Ok(())
}

/// Requests of the classic protocol to a group of the other.
fn classic_requests(session: &mut Session<'_>, group: &str, member: &Member) -> Result<(), Stop> {
    let request =
        body!({ GroupId: group, GenerationId: (member.epoch), MemberId: (member.id.clone()) });
    session.call(ApiKey::Heartbeat, &request)?;
    let request = body!({ GroupId: group, GenerationId: (member.epoch), MemberId: (member.id.clone()), ProtocolType: "consumer", ProtocolName: "range" });
    session.call(ApiKey::SyncGroup, &request)?;
    Ok(())
}
