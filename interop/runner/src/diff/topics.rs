//! The life of topics: creation in every form, metadata by name and id, growth, deletion.

use interpreter::{Random, Value};
use wire::ApiKey;

use super::body::body;
use super::leaf::leaf;
use super::session::{Session, Stop};

/// A topic that exists on both sides.
#[derive(Clone, Debug)]
pub(super) struct Topic {
    pub(super) name: String,
    /// The stand-in of its id.
    pub(super) id: Value,
    pub(super) partitions: i32,
}

/// An id that no topic has.
pub(super) const UNKNOWN_ID: [u8; 16] = [7; 16];

/// Creates a topic with `configs`.
pub(super) fn create(
    session: &mut Session<'_>,
    partitions: i32,
    configs: &[(&str, &str)],
) -> Result<Topic, Stop> {
    let name = session.new_name("topic");
    let configs = configs
        .iter()
        .map(|(name, value)| body!({ Name: (*name), Value: (*value) }));
    let configs: Vec<Value> = configs.collect();
    let topic = body!({
        Name: (&name), NumPartitions: partitions, ReplicationFactor: 1, Configs: configs,
    });
    session.call(
        ApiKey::CreateTopics,
        &body!({ Topics: [topic], TimeoutMs: 10_000 }),
    )?;
    // Version 12 is the first with both name and id.
    let question = body!({ Topics: [{ Name: (&name) }], AllowAutoTopicCreation: false });
    let metadata = session.call_within(ApiKey::Metadata, (12, 13), &question)?;
    Ok(Topic {
        name,
        id: leaf(&metadata, "Topics[0].TopicId"),
        partitions,
    })
}

/// A random walk through everything that can be done to topics.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let partitions = 1 + session.random.below(3) as i32;
    let topic = create(session, partitions, &[])?;
    for _ in 0..8 {
        match session.random.below(8) {
            0 | 1 => create_oddly(session, &topic)?,
            2 | 3 => describe(session, &topic)?,
            4 => grow(session, &topic)?,
            5 => delete_oddly(session)?,
            6 => describe_pages(session, &topic)?,
            _ => cluster(session)?,
        }
    }
    delete(session, &topic)
}

fn create_oddly(session: &mut Session<'_>, existing: &Topic) -> Result<(), Stop> {
    let long = "x".repeat(250);
    let fresh = session.new_name("odd");
    let names = ["", ".", "..", "a b", "ü", &long, &existing.name, &fresh];
    let random = &mut session.random;
    let is_odd = random.chance(1, 2);
    let name = if is_odd {
        random.choice(&names)
    } else {
        fresh.as_str()
    };
    let choice = random.below(7);
    let partitions = match choice {
        0 => *random.choice(&[0, -1, -2, 4]),
        _ => 1,
    };
    let factor = match choice {
        1 => *random.choice(&[0, -1, -2, 2, 3]),
        _ => 1,
    };
    let configs = match choice {
        2 => odd_configs(random),
        _ => body!([]),
    };
    let (partitions, factor, assignments) = match choice {
        3 if random.chance(4, 5) => (-1, -1, odd_assignments(random)),
        3 => (partitions, factor, odd_assignments(random)),
        _ => (partitions, factor, body!([])),
    };
    let topic = body!({
        Name: name,
        NumPartitions: partitions,
        ReplicationFactor: factor,
        Configs: configs,
        Assignments: assignments,
    });
    let count = if random.chance(1, 6) { 2 } else { 1 };
    let request = body!({
        Topics: (vec![topic; count]),
        TimeoutMs: (timeout_ms(random)),
        ValidateOnly: (random.chance(1, 4)),
    });
    session.call(ApiKey::CreateTopics, &request)?;
    Ok(())
}

/// Time enough, or none at all.
fn timeout_ms(random: &mut Random) -> i32 {
    *random.choice(&[10_000, 10_000, 10_000, 10_000, 0, -1])
}

fn odd_configs(random: &mut Random) -> Value {
    let (name, value) = *random.choice(&[
        ("cleanup.policy", Some("compact")),
        ("cleanup.policy", Some("bogus")),
        ("no.such.config", Some("1")),
        ("retention.ms", Some("soon")),
        ("retention.ms", None),
        ("segment.bytes", Some("1")),
        ("min.insync.replicas", Some("2")),
    ]);
    let value = value.map_or(Value::Null, Value::from);
    body!([{ Name: name, Value: value }, { Name: "compression.type", Value: "lz4" }])
}

fn odd_assignments(random: &mut Random) -> Value {
    let assignments = [
        body!([{ PartitionIndex: 0, BrokerIds: [1] }]),
        body!([{ PartitionIndex: 0, BrokerIds: [1] }, { PartitionIndex: 1, BrokerIds: [1] }]),
        body!([{ PartitionIndex: 1, BrokerIds: [1] }]),
        body!([{ PartitionIndex: 0, BrokerIds: [9] }]),
        body!([{ PartitionIndex: 0, BrokerIds: [1, 1] }]),
        body!([{ PartitionIndex: 0, BrokerIds: [] }]),
        body!([{ PartitionIndex: 0, BrokerIds: [1] }, { PartitionIndex: 0, BrokerIds: [1] }]),
    ];
    random.choice(&assignments).clone()
}

fn describe(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let by_name = body!({ Name: (&topic.name) });
    let by_id = body!({ TopicId: (&topic.id), Name: null });
    let unknown = body!({ Name: "no-such-topic" });
    let unknown_id = body!({ TopicId: UNKNOWN_ID, Name: null });
    let invalid = body!({ Name: "a b" });
    let random = &mut session.random;
    let (range, topics) = match random.below(6) {
        0 => ((0, 13), vec![by_name]),
        1 => ((10, 13), vec![by_id]),
        2 => ((0, 13), vec![by_name, unknown]),
        3 => ((10, 13), vec![by_name, unknown_id]),
        4 => ((0, 13), vec![invalid]),
        _ => ((1, 13), vec![]),
    };
    let request = body!({
        Topics: topics,
        AllowAutoTopicCreation: false,
        IncludeTopicAuthorizedOperations: (random.chance(1, 2)),
        IncludeClusterAuthorizedOperations: (random.chance(1, 4)),
    });
    session.call_within(ApiKey::Metadata, range, &request)?;
    Ok(())
}

fn grow(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let random = &mut session.random;
    let name = if random.chance(1, 6) {
        "no-such-topic"
    } else {
        &topic.name
    };
    let count = i64::from(topic.partitions) + *random.choice(&[-1, 0, 1, 2, -100]);
    let assignments = [
        Value::Null,
        Value::Null,
        body!([{ BrokerIds: [1] }]),
        body!([{ BrokerIds: [1] }, { BrokerIds: [1] }]),
        body!([{ BrokerIds: [5] }]),
        body!([]),
    ];
    let assignments = random.choice(&assignments).clone();
    let validate_only = random.chance(3, 4);
    let request = body!({
        Topics: [{ Name: name, Count: count, Assignments: assignments }],
        TimeoutMs: (timeout_ms(random)),
        ValidateOnly: validate_only,
    });
    session.call(ApiKey::CreatePartitions, &request)?;
    describe(session, topic)
}

fn delete_oddly(session: &mut Session<'_>) -> Result<(), Stop> {
    let names = ["no-such-topic", "a b", ""];
    let name = *session.random.choice(&names);
    match session.random.below(3) {
        0 => {
            let request = body!({ TopicNames: [name], Topics: [{ Name: name }], TimeoutMs: (timeout_ms(&mut session.random)) });
            session.call(ApiKey::DeleteTopics, &request)?;
        }
        1 => {
            let request =
                body!({ Topics: [{ Name: null, TopicId: UNKNOWN_ID }], TimeoutMs: 10_000 });
            session.call_within(ApiKey::DeleteTopics, (6, 6), &request)?;
        }
        _ => {
            let both = body!({ Name: name, TopicId: UNKNOWN_ID });
            let neither = body!({ Name: null });
            let request = body!({ Topics: [both, neither], TimeoutMs: 10_000 });
            session.call_within(ApiKey::DeleteTopics, (6, 6), &request)?;
        }
    }
    Ok(())
}

fn describe_pages(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let random = &mut session.random;
    let cursors = [
        Value::Null,
        body!({ TopicName: (&topic.name), PartitionIndex: 0 }),
        body!({ TopicName: (&topic.name), PartitionIndex: 1 }),
        body!({ TopicName: "zzz", PartitionIndex: 0 }),
        body!({ TopicName: (&topic.name), PartitionIndex: (-1) }),
    ];
    let request = body!({
        Topics: [{ Name: (&topic.name) }, { Name: "no-such-topic" }],
        ResponsePartitionLimit: (*random.choice(&[1, 2, 2000])),
        Cursor: (random.choice(&cursors).clone()),
    });
    session.call(ApiKey::DescribeTopicPartitions, &request)?;
    Ok(())
}

fn cluster(session: &mut Session<'_>) -> Result<(), Stop> {
    let random = &mut session.random;
    let request = body!({
        IncludeClusterAuthorizedOperations: (random.chance(1, 2)),
        EndpointType: (*random.choice(&[1, 1, 2, 3])),
        IncludeFencedBrokers: (random.chance(1, 2)),
    });
    session.call(ApiKey::DescribeCluster, &request)?;
    Ok(())
}

fn delete(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let by_name = body!({
        TopicNames: [(&topic.name)], Topics: [{ Name: (&topic.name) }], TimeoutMs: 10_000,
    });
    if session.random.chance(1, 2) {
        let by_id = body!({ Topics: [{ Name: null, TopicId: (&topic.id) }], TimeoutMs: 10_000 });
        session.call_within(ApiKey::DeleteTopics, (6, 6), &by_id)?;
    }
    session.call(ApiKey::DeleteTopics, &by_name)?;
    session.call(ApiKey::DeleteTopics, &by_name)?;
    describe(session, topic)
}
