//! Classic groups by the raw protocol: joins and rebalances, offsets, description, deletion.

use coordinator::messages::ConsumerProtocolSubscription;
use interpreter::{Struct, Value};
use model::Message as _;
use wire::ApiKey;

use super::body::body;
use super::session::{Session, Stop, integer, value};
use super::topics::{Topic, UNKNOWN_ID, create};

const ANY: (i16, i16) = (0, i16::MAX);
const MEMBER_ID_REQUIRED: i64 = 79;
const REBALANCE_IN_PROGRESS: i64 = 27;

/// A member as the coordinator knows it.
struct Member {
    id: Value,
    generation: i64,
}

/// The subscription of a consumer to one topic.
fn subscription(topic: &str) -> Vec<u8> {
    const VERSION: i16 = 3;
    let subscription = ConsumerProtocolSubscription {
        topics: vec![topic].into(),
        ..ConsumerProtocolSubscription::default()
    };
    let mut bytes = VERSION.to_be_bytes().to_vec();
    subscription.write(VERSION, &mut bytes);
    bytes
}

fn join_body(group: &str, member: &Value, protocols: &[&str]) -> Value {
    let protocols = protocols
        .iter()
        .map(|name| body!({ Name: (*name), Metadata: (subscription(group)) }));
    let protocols: Vec<Value> = protocols.collect();
    body!({
        GroupId: group,
        SessionTimeoutMs: 20_000,
        RebalanceTimeoutMs: 20_000,
        MemberId: (member.clone()),
        ProtocolType: "consumer",
        Protocols: protocols,
    })
}

/// Joins as the only member on the connection of `client`.
fn join(session: &mut Session<'_>, client: usize, group: &str) -> Result<Member, Stop> {
    let mut id = Value::string("");
    let protocols = ["range", "roundrobin"];
    let range = if session.random.chance(1, 2) {
        (0, 3)
    } else {
        (4, 9)
    };
    let mut answer = session.call_as(
        client,
        ApiKey::JoinGroup,
        range,
        &join_body(group, &id, &protocols),
    )?;
    if integer(&answer, "ErrorCode") == MEMBER_ID_REQUIRED {
        id = value(&answer, "MemberId");
        answer = session.call_as(
            client,
            ApiKey::JoinGroup,
            range,
            &join_body(group, &id, &protocols),
        )?;
    }
    Ok(Member {
        id: value(&answer, "MemberId"),
        generation: integer(&answer, "GenerationId"),
    })
}

fn sync(
    session: &mut Session<'_>,
    group: &str,
    member: &Member,
    assigned: &[&Member],
) -> Result<Struct, Stop> {
    let assignments = assigned
        .iter()
        .map(|member| body!({ MemberId: (member.id.clone()), Assignment: (&b"assigned"[..]) }));
    let assignments: Vec<Value> = assignments.collect();
    let request = body!({
        GroupId: group,
        GenerationId: (member.generation),
        MemberId: (member.id.clone()),
        ProtocolType: "consumer",
        ProtocolName: "range",
        Assignments: assignments,
    });
    session.call(ApiKey::SyncGroup, &request)
}

fn member_body(group: &str, member: &Member) -> Value {
    body!({ GroupId: group, GenerationId: (member.generation), MemberId: (member.id.clone()) })
}

fn leave(session: &mut Session<'_>, group: &str, member: &Value) -> Result<(), Stop> {
    let request = body!({
        GroupId: group,
        MemberId: (member.clone()),
        Members: [{ MemberId: (member.clone()), Reason: "over" }],
    });
    session.call(ApiKey::LeaveGroup, &request)?;
    Ok(())
}

/// One member's life, with wrong requests in between.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 2, &[])?;
    let group = session.new_name("group");
    if session.random.chance(1, 2) {
        strangers(session, &group)?;
    }
    let mut member = join(session, 0, &group)?;
    sync(session, &group, &member, &[&member])?;
    for _ in 0..8 {
        match session.random.below(9) {
            0 => drop(session.call(ApiKey::Heartbeat, &member_body(&group, &member))?),
            1 => strangers(session, &group)?,
            2 => wrong_member(session, &group, &member)?,
            3 | 4 => commit(session, &group, Some(&member), &topic)?,
            5 => fetch_offsets(session, &group, &topic)?,
            6 => describe(session, &group)?,
            7 => {
                member = rejoin(session, &group, &member)?;
            }
            _ => join_oddly(session, &group)?,
        }
    }
    delete(session, &group, &topic)?;
    leave(session, &group, &member.id)?;
    commit(session, &group, None, &topic)?;
    fetch_offsets(session, &group, &topic)?;
    describe(session, &group)?;
    delete(session, &group, &topic)?;
    describe(session, &group)
}

/// Two members and the rebalances between them.
pub(super) fn rebalance_sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let group = session.new_name("group");
    let first = join(session, 1, &group)?;
    sync(session, &group, &first, &[&first])?;
    // The second member has to wait until the first has joined again.
    let protocols = if session.random.chance(1, 2) {
        &["range"][..]
    } else {
        &["sticky", "range"]
    };
    let newcomer = join_body(&group, &Value::string(""), protocols);
    session.send(2, ApiKey::JoinGroup, (0, 3), &newcomer)?;
    let heartbeat = member_body(&group, &first);
    let rebalancing = |answer: &Struct| integer(answer, "ErrorCode") == REBALANCE_IN_PROGRESS;
    session.wait(ApiKey::Heartbeat, 3, &heartbeat, &rebalancing)?;
    session.call_as(
        3,
        ApiKey::DescribeGroups,
        ANY,
        &body!({ Groups: [(&group)] }),
    )?;
    let again = join_body(&group, &first.id, &["range", "roundrobin"]);
    let leader = session.call_as(1, ApiKey::JoinGroup, ANY, &again)?;
    let follower = session.receive(2)?;
    let first = Member {
        id: value(&leader, "MemberId"),
        generation: integer(&leader, "GenerationId"),
    };
    let second = Member {
        id: value(&follower, "MemberId"),
        generation: integer(&follower, "GenerationId"),
    };
    // The second waits for the leader's assignment.
    let waiting = body!({ GroupId: (&group), GenerationId: (second.generation), MemberId: (second.id.clone()), ProtocolType: "consumer", ProtocolName: "range" });
    session.send(2, ApiKey::SyncGroup, ANY, &waiting)?;
    sync(session, &group, &first, &[&first, &second])?;
    session.receive(2)?;
    session.call(ApiKey::Heartbeat, &member_body(&group, &second))?;
    describe(session, &group)?;
    if session.random.chance(1, 2) {
        leave(session, &group, &first.id)?;
        session.call(ApiKey::Heartbeat, &member_body(&group, &second))?;
        leave(session, &group, &second.id)?;
    } else {
        let both = body!({ GroupId: (&group), Members: [
            { MemberId: (second.id.clone()) }, { MemberId: (first.id.clone()) }, { MemberId: "stranger" },
        ] });
        session.call_within(ApiKey::LeaveGroup, (3, 5), &both)?;
    }
    describe(session, &group)
}

/// A static member: replaced by another with its instance id, and fenced.
pub(super) fn static_sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let group = session.new_name("group");
    let static_body = |id: &Value| -> Value {
        let mut join = join_body(&group, id, &["range"]);
        if let Value::Struct(fields) = &mut join {
            fields
                .fields
                .push(("GroupInstanceId".into(), Value::string("instance")));
        }
        join
    };
    let range = (5, 9);
    let answer = session.call_within(ApiKey::JoinGroup, range, &static_body(&Value::string("")))?;
    let old = Member {
        id: value(&answer, "MemberId"),
        generation: integer(&answer, "GenerationId"),
    };
    let heartbeat = |member: &Member, instance: &str| -> Value {
        body!({ GroupId: (&group), GenerationId: (member.generation), MemberId: (member.id.clone()), GroupInstanceId: instance })
    };
    let sync = |member: &Member| -> Value {
        body!({ GroupId: (&group), GenerationId: (member.generation), MemberId: (member.id.clone()), GroupInstanceId: "instance", ProtocolType: "consumer", ProtocolName: "range", Assignments: [{ MemberId: (member.id.clone()), Assignment: (&b"a"[..]) }] })
    };
    session.call_within(ApiKey::SyncGroup, (3, 5), &sync(&old))?;
    session.call_within(ApiKey::Heartbeat, (3, 4), &heartbeat(&old, "instance"))?;
    session.call_within(ApiKey::Heartbeat, (3, 4), &heartbeat(&old, "stranger"))?;
    let answer = session.call_within(ApiKey::JoinGroup, range, &static_body(&Value::string("")))?;
    let new = Member {
        id: value(&answer, "MemberId"),
        generation: integer(&answer, "GenerationId"),
    };
    session.call_within(ApiKey::Heartbeat, (3, 4), &heartbeat(&old, "instance"))?;
    session.call_within(ApiKey::SyncGroup, (3, 5), &sync(&old))?;
    session.call_within(ApiKey::SyncGroup, (3, 5), &sync(&new))?;
    session.call_within(ApiKey::Heartbeat, (3, 4), &heartbeat(&new, "instance"))?;
    describe(session, &group)?;
    let leaving = body!({ GroupId: (&group), Members: [
        { MemberId: "", GroupInstanceId: "instance" }, { MemberId: "", GroupInstanceId: "stranger" },
    ] });
    session.call_within(ApiKey::LeaveGroup, (3, 5), &leaving)?;
    describe(session, &group)
}

fn strangers(session: &mut Session<'_>, group: &str) -> Result<(), Stop> {
    let stranger = Member {
        id: Value::string("stranger"),
        generation: *session.random.choice(&[-1, 0, 1, 2]),
    };
    let name = (*session.random.choice(&[group, "no-such-group", ""])).to_owned();
    match session.random.below(3) {
        0 => drop(session.call(ApiKey::Heartbeat, &member_body(&name, &stranger))?),
        1 => drop(sync(session, &name, &stranger, &[])?),
        _ => leave(session, &name, &stranger.id)?,
    }
    Ok(())
}

fn wrong_member(session: &mut Session<'_>, group: &str, member: &Member) -> Result<(), Stop> {
    let wrong = Member {
        id: member.id.clone(),
        generation: member.generation + *session.random.choice(&[-1, 1, 10]),
    };
    session.call(ApiKey::Heartbeat, &member_body(group, &wrong))?;
    sync(session, group, &wrong, &[])?;
    Ok(())
}

fn rejoin(session: &mut Session<'_>, group: &str, member: &Member) -> Result<Member, Stop> {
    let request = join_body(group, &member.id, &["roundrobin", "range"]);
    let answer = session.call(ApiKey::JoinGroup, &request)?;
    let member = Member {
        id: value(&answer, "MemberId"),
        generation: integer(&answer, "GenerationId"),
    };
    // Version 5 compares the protocol's name, which is that of the first choice.
    let request = body!({ GroupId: group, GenerationId: (member.generation), MemberId: (member.id.clone()), Assignments: [{ MemberId: (member.id.clone()), Assignment: (&b"again"[..]) }] });
    session.call(ApiKey::SyncGroup, &request)?;
    Ok(member)
}

/// Joins that are refused, so that nobody else is in the group afterwards.
fn join_oddly(session: &mut Session<'_>, group: &str) -> Result<(), Stop> {
    let stranger = Value::string("stranger");
    let mut request = join_body(group, &stranger, &["range"]);
    if let Value::Struct(fields) = &mut request {
        match session.random.below(6) {
            0 => drop(fields.set("GroupId", "".into())),
            1 => drop(fields.set(
                "SessionTimeoutMs",
                (*session.random.choice(&[1, i32::MAX])).into(),
            )),
            2 => drop(fields.set("ProtocolType", "connect".into())),
            3 => drop(fields.set("Protocols", Value::Array(Vec::new()))),
            4 => drop(fields.set(
                "Protocols",
                body!([{ Name: "other", Metadata: (&b""[..]) }]),
            )),
            _ => {}
        }
    }
    session.call(ApiKey::JoinGroup, &request)?;
    Ok(())
}

fn commit(
    session: &mut Session<'_>,
    group: &str,
    member: Option<&Member>,
    topic: &Topic,
) -> Result<(), Stop> {
    let random = &mut session.random;
    let nobody = Member {
        id: Value::string(""),
        generation: -1,
    };
    let stranger = Member {
        id: Value::string("stranger"),
        generation: 1,
    };
    let member = match (member, random.below(6)) {
        (_, 0) => &stranger,
        (_, 1) | (None, _) => &nobody,
        (Some(member), _) => member,
    };
    let (name, id) = match random.below(6) {
        0 => ("no-such-topic", Value::from(UNKNOWN_ID)),
        _ => (topic.name.as_str(), topic.id.clone()),
    };
    let metadata = if random.chance(1, 8) {
        "m".repeat(5_000)
    } else {
        "note".to_owned()
    };
    let request = body!({
        GroupId: group,
        GenerationIdOrMemberEpoch: (member.generation),
        MemberId: (member.id.clone()),
        RetentionTimeMs: (-1),
        Topics: [{
            Name: name,
            TopicId: id,
            Partitions: [
                { PartitionIndex: 0, CommittedOffset: (*random.choice(&[0, 5, 1_000, -1])), CommittedLeaderEpoch: (*random.choice(&[-1, 0, 3])), CommittedMetadata: (&metadata) },
                { PartitionIndex: (*random.choice(&[1, 1, 9])), CommittedOffset: 7, CommittedMetadata: null },
            ],
        }],
    });
    session.call(ApiKey::OffsetCommit, &request)?;
    Ok(())
}

fn fetch_offsets(session: &mut Session<'_>, group: &str, topic: &Topic) -> Result<(), Stop> {
    let random = &mut session.random;
    let topics = body!([
        { Name: (&topic.name), TopicId: (topic.id.clone()), PartitionIndexes: [0, 1, 9] },
        { Name: "no-such-topic", TopicId: UNKNOWN_ID, PartitionIndexes: [0] },
    ]);
    let topics = if random.chance(1, 3) {
        Value::Null
    } else {
        topics
    };
    let stable = random.chance(1, 2);
    let stranger = random.chance(1, 6);
    let (member, epoch) = if stranger {
        (Value::string("stranger"), 4)
    } else {
        (Value::Null, -1)
    };
    let request = body!({
        GroupId: group,
        Topics: (topics.clone()),
        Groups: [
            { GroupId: group, MemberId: member, MemberEpoch: epoch, Topics: topics },
            { GroupId: "no-such-group", Topics: null },
        ],
        RequireStable: stable,
    });
    session.call(ApiKey::OffsetFetch, &request)?;
    Ok(())
}

fn describe(session: &mut Session<'_>, group: &str) -> Result<(), Stop> {
    let operations = session.random.chance(1, 2);
    let groups =
        body!({ Groups: [group, "no-such-group"], IncludeAuthorizedOperations: operations });
    session.call(ApiKey::DescribeGroups, &groups)?;
    if session.random.chance(1, 3) {
        let filters = [
            body!({}),
            body!({ StatesFilter: ["Empty"] }),
            body!({ StatesFilter: ["stable", "nonsense"] }),
            body!({ TypesFilter: ["classic"] }),
            body!({ TypesFilter: ["bogus"] }),
        ];
        let filter = session.random.choice(&filters).clone();
        session.call(ApiKey::ListGroups, &filter)?;
    }
    let keys = body!({ Key: group, KeyType: (*session.random.choice(&[0, 1, 2, 9])), CoordinatorKeys: [group, ""] });
    session.call(ApiKey::FindCoordinator, &keys)?;
    Ok(())
}

fn delete(session: &mut Session<'_>, group: &str, topic: &Topic) -> Result<(), Stop> {
    let offsets = body!({ GroupId: group, Topics: [
        { Name: (&topic.name), Partitions: [{ PartitionIndex: 0 }, { PartitionIndex: 9 }] },
        { Name: "no-such-topic", Partitions: [{ PartitionIndex: 0 }] },
    ] });
    session.call(ApiKey::OffsetDelete, &offsets)?;
    session.call(
        ApiKey::DeleteGroups,
        &body!({ GroupsNames: [group, "no-such-group", ""] }),
    )?;
    Ok(())
}
