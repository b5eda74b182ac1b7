//! Configurations, quotas, features, access, reassignment and what else an operator asks for.

use interpreter::Value;
use wire::ApiKey;

use super::body::body;
use super::session::{Session, Stop};
use super::topics::{Topic, UNKNOWN_ID, create};

const TOPIC: i32 = 2;
const BROKER: i32 = 4;
const BROKER_LOGGER: i32 = 8;
const CLIENT_METRICS: i32 = 16;
const GROUP: i32 = 32;

/// Names and values of topic configs, right and wrong.
const CONFIGS: &[(&str, &str)] = &[
    ("retention.ms", "1000000000"),
    ("retention.ms", "-2"),
    ("cleanup.policy", "delete,compact"),
    ("cleanup.policy", "nonsense"),
    ("segment.bytes", "1048576"),
    ("max.message.bytes", "12345"),
    ("compression.type", "zstd"),
    ("compression.zstd.level", "99"),
    ("min.insync.replicas", "0"),
    ("no.such.config", "1"),
    ("flush.ms", "soon"),
    ("message.timestamp.type", "LogAppendTime"),
    ("unclean.leader.election.enable", "true"),
    ("leader.replication.throttled.replicas", "0:1"),
];

/// Loggers that both servers have, or neither, and their levels.
const LOGGERS: &[(&str, &str)] = &[
    ("root", "INFO"),
    ("root", "LOUD"),
    ("no.such.logger", "DEBUG"),
    ("", "WARN"),
];

const fn configs_of(kind: i32) -> &'static [(&'static str, &'static str)] {
    match kind {
        BROKER_LOGGER => LOGGERS,
        _ => CONFIGS,
    }
}

/// Configurations of a topic: described, changed, described again.
pub(super) fn config_sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 1, &[("retention.ms", "99999999")])?;
    for _ in 0..6 {
        match session.random.below(4) {
            0 | 1 => alter_incrementally(session, &topic)?,
            2 => alter(session, &topic)?,
            _ => describe_oddly(session, &topic)?,
        }
        describe(session, &topic)?;
    }
    Ok(())
}

fn describe(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let random = &mut session.random;
    let keys = match random.below(3) {
        0 => Value::Null,
        1 => body!(["retention.ms", "no.such.config"]),
        _ => body!([
            "cleanup.policy",
            "segment.bytes",
            "compression.type",
            "flush.ms"
        ]),
    };
    let request = body!({
        Resources: [{ ResourceType: TOPIC, ResourceName: (&topic.name), ConfigurationKeys: keys }],
        IncludeSynonyms: (random.chance(1, 2)),
        IncludeDocumentation: (random.chance(1, 4)),
    });
    session.call(ApiKey::DescribeConfigs, &request)?;
    Ok(())
}

fn describe_oddly(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let keys = body!([
        "log.retention.ms",
        "num.partitions",
        "message.max.bytes",
        "node.id"
    ]);
    let random = &mut session.random;
    let (kind, name) = *random.choice(&[
        (TOPIC, "no-such-topic"),
        (TOPIC, "a b"),
        (TOPIC, ""),
        (BROKER, "1"),
        (BROKER, ""),
        (BROKER, "7"),
        (BROKER, "one"),
        (BROKER_LOGGER, "7"),
        (CLIENT_METRICS, "no-such-subscription"),
        (GROUP, "no-such-group"),
        (0, "x"),
        (99, "x"),
    ]);
    let keys = if kind == BROKER { keys } else { Value::Null };
    let request = body!({
        Resources: [
            { ResourceType: kind, ResourceName: name, ConfigurationKeys: keys },
            { ResourceType: TOPIC, ResourceName: (&topic.name), ConfigurationKeys: [] },
        ],
        IncludeSynonyms: true,
    });
    session.call(ApiKey::DescribeConfigs, &request)?;
    session.call(
        ApiKey::ListConfigResources,
        &body!({ ResourceTypes: [kind] }),
    )?;
    Ok(())
}

fn resource(session: &mut Session<'_>, topic: &Topic) -> (i32, String) {
    let choice = session.random.below(8);
    match choice {
        0 => (TOPIC, "no-such-topic".into()),
        1 => (GROUP, session.new_name("group")),
        2 => (*session.random.choice(&[0, 99, BROKER_LOGGER]), "1".into()),
        3 => (BROKER, (*session.random.choice(&["7", "one"])).into()),
        _ => (TOPIC, topic.name.clone()),
    }
}

fn alter_incrementally(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let (kind, resource_name) = resource(session, topic);
    let random = &mut session.random;
    let mut configs = Vec::new();
    for _ in 0..1 + random.below(2) {
        let (name, value) = *random.choice(configs_of(kind));
        let value = if random.chance(1, 8) {
            Value::Null
        } else {
            value.into()
        };
        // Not an operation that there is not: Kafka's controller resigns over it.
        let operation = *random.choice(&[0, 0, 0, 1, 2, 3]);
        configs.push(body!({ Name: name, ConfigOperation: operation, Value: value }));
    }
    let request = body!({
        Resources: [{ ResourceType: kind, ResourceName: (&resource_name), Configs: configs }],
        ValidateOnly: (random.chance(1, 4)),
    });
    session.call(ApiKey::IncrementalAlterConfigs, &request)?;
    Ok(())
}

fn alter(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let (kind, resource_name) = resource(session, topic);
    let random = &mut session.random;
    let (name, value) = *random.choice(CONFIGS);
    let value = if random.chance(1, 8) {
        Value::Null
    } else {
        value.into()
    };
    // Not twice the same resource: Kafka never answers that.
    let one = body!({ ResourceType: kind, ResourceName: (&resource_name), Configs: [{ Name: name, Value: value }] });
    let request = body!({ Resources: [one], ValidateOnly: (random.chance(1, 4)) });
    session.call(ApiKey::AlterConfigs, &request)?;
    Ok(())
}

/// One request of each of the rarer APIs, in turn and in some odd form.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 2, &[])?;
    for _ in 0..10 {
        match session.random.below(11) {
            0 => quotas(session)?,
            1 => scram(session)?,
            2 => acls(session)?,
            3 => tokens(session)?,
            4 => elections(session, &topic)?,
            5 => reassignments(session, &topic)?,
            6 => features(session)?,
            7 => quorum(session)?,
            8 => log_dirs(session, &topic)?,
            9 => sasl(session)?,
            _ => unregister(session)?,
        }
    }
    Ok(())
}

/// Leaves out what not both servers offer.
fn optional(session: &mut Session<'_>, api: ApiKey, body: &Value) -> Result<(), Stop> {
    match session.call(api, body) {
        Ok(_) | Err(Stop::NotOffered(_)) => Ok(()),
        Err(stop) => Err(stop),
    }
}

fn quotas(session: &mut Session<'_>) -> Result<(), Stop> {
    let user = session.new_name("user");
    let random = &mut session.random;
    let entity = *random.choice(&["user", "client-id", "ip", "nonsense"]);
    let key = *random.choice(&[
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "nonsense",
        "connection_creation_rate",
    ]);
    let change = body!({
        Entries: [{
            Entity: [{ EntityType: entity, EntityName: (&user) }],
            Ops: [{ Key: key, Value: (*random.choice(&[1000.5, 0.0, -1.0, 5.0])), Remove: (random.chance(1, 4)) }],
        }],
        ValidateOnly: (random.chance(1, 4)),
    });
    let match_type = *random.choice(&[0, 0, 1, 2, 7]);
    let filter = body!({
        Components: [{ EntityType: entity, MatchType: match_type, Match: (if match_type == 0 { Value::from(&user) } else { Value::Null }) }],
        Strict: (random.chance(1, 2)),
    });
    optional(session, ApiKey::AlterClientQuotas, &change)?;
    optional(session, ApiKey::DescribeClientQuotas, &filter)
}

fn scram(session: &mut Session<'_>) -> Result<(), Stop> {
    let user = session.new_name("user");
    let random = &mut session.random;
    let change = body!({
        Upsertions: [{
            Name: (&user), Mechanism: (*random.choice(&[1, 2, 0, 9])), Iterations: (*random.choice(&[4096, 1, 100_000])),
            Salt: (&b"salt-salt-salt"[..]), SaltedPassword: (&b"salted-password"[..]),
        }],
        Deletions: (if random.chance(1, 3) { body!([{ Name: (&user), Mechanism: 1 }]) } else { body!([]) }),
    });
    optional(session, ApiKey::AlterUserScramCredentials, &change)?;
    let users = body!({ Users: [{ Name: (&user) }, { Name: "no-such-user" }] });
    optional(session, ApiKey::DescribeUserScramCredentials, &users)
}

fn acls(session: &mut Session<'_>) -> Result<(), Stop> {
    let random = &mut session.random;
    let kind = *random.choice(&[2, 3, 1, 0, 99]);
    let filter = body!({ ResourceTypeFilter: kind, ResourceNameFilter: "x", PatternTypeFilter: 3, PrincipalFilter: null, HostFilter: null, Operation: 1, PermissionType: 1 });
    let create = body!({ Creations: [{ ResourceType: kind, ResourceName: "x", ResourcePatternType: 3, Principal: "User:a", Host: "*", Operation: 3, PermissionType: 3 }] });
    let delete = body!({ Filters: [{ ResourceTypeFilter: kind, ResourceNameFilter: "x", PatternTypeFilter: 3, Operation: 1, PermissionType: 1 }] });
    optional(session, ApiKey::DescribeAcls, &filter)?;
    optional(session, ApiKey::CreateAcls, &create)?;
    optional(session, ApiKey::DeleteAcls, &delete)
}

fn tokens(session: &mut Session<'_>) -> Result<(), Stop> {
    let create = body!({ OwnerPrincipalType: null, OwnerPrincipalName: null, Renewers: [], MaxLifetimeMs: (-1) });
    optional(session, ApiKey::CreateDelegationToken, &create)?;
    let hmac = &b"no-such-token"[..];
    optional(
        session,
        ApiKey::RenewDelegationToken,
        &body!({ Hmac: hmac, RenewPeriodMs: 1 }),
    )?;
    optional(
        session,
        ApiKey::ExpireDelegationToken,
        &body!({ Hmac: hmac, ExpiryTimePeriodMs: 1 }),
    )?;
    optional(
        session,
        ApiKey::DescribeDelegationToken,
        &body!({ Owners: null }),
    )
}

fn elections(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let random = &mut session.random;
    let name = *random.choice(&[topic.name.as_str(), "no-such-topic"]);
    let request = body!({
        ElectionType: (*random.choice(&[0, 1, 5])),
        TopicPartitions: [{ Topic: name, Partitions: [0, 9] }],
        TimeoutMs: 2_000,
    });
    optional(session, ApiKey::ElectLeaders, &request)
}

fn reassignments(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let random = &mut session.random;
    let replicas = [
        Value::Null,
        body!([1]),
        body!([9]),
        body!([]),
        body!([1, 1]),
    ];
    let name = *random.choice(&[topic.name.as_str(), "no-such-topic"]);
    let request = body!({
        TimeoutMs: 2_000,
        AllowReplicationFactorChange: (random.chance(1, 2)),
        Topics: [{ Name: name, Partitions: [{ PartitionIndex: (*random.choice(&[0, 9])), Replicas: (random.choice(&replicas).clone()) }] }],
    });
    optional(session, ApiKey::AlterPartitionReassignments, &request)?;
    let list =
        body!({ TimeoutMs: 2_000, Topics: [{ Name: (&topic.name), PartitionIndexes: [0] }] });
    optional(session, ApiKey::ListPartitionReassignments, &list)
}

fn features(session: &mut Session<'_>) -> Result<(), Stop> {
    let random = &mut session.random;
    let request = body!({
        TimeoutMs: 2_000,
        FeatureUpdates: [{ Feature: "no.such.feature", MaxVersionLevel: (*random.choice(&[0, 1, 5])), UpgradeType: (*random.choice(&[1, 2, 3])) }],
        ValidateOnly: true,
    });
    optional(session, ApiKey::UpdateFeatures, &request)
}

fn quorum(session: &mut Session<'_>) -> Result<(), Stop> {
    let name = *session
        .random
        .choice(&["__cluster_metadata", "no-such-topic"]);
    let request = body!({ Topics: [{ TopicName: name, Partitions: [{ PartitionIndex: 0 }] }] });
    optional(session, ApiKey::DescribeQuorum, &request)?;
    let remove = body!({ ClusterId: "another-cluster", VoterId: 99, VoterDirectoryId: UNKNOWN_ID });
    optional(session, ApiKey::RemoveRaftVoter, &remove)?;
    let add = body!({ ClusterId: "another-cluster", TimeoutMs: 1_000, VoterId: 99, VoterDirectoryId: UNKNOWN_ID, Listeners: [{ Name: "CONTROLLER", Host: "127.0.0.1", Port: 1 }] });
    optional(session, ApiKey::AddRaftVoter, &add)
}

fn log_dirs(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let request = body!({ Dirs: [{ Path: "/no/such/dir", Topics: [{ Name: (&topic.name), Partitions: [0, 9] }] }] });
    optional(session, ApiKey::AlterReplicaLogDirs, &request)?;
    let describe = body!({ Topics: [{ Topic: (&topic.name), Partitions: [0, 1] }, { Topic: "no-such-topic", Partitions: [0] }] });
    optional(session, ApiKey::DescribeLogDirs, &describe)
}

/// The listener has no SASL.
fn sasl(session: &mut Session<'_>) -> Result<(), Stop> {
    optional(
        session,
        ApiKey::SaslHandshake,
        &body!({ Mechanism: "PLAIN" }),
    )?;
    optional(
        session,
        ApiKey::SaslAuthenticate,
        &body!({ AuthBytes: (&b"\0a\0b"[..]) }),
    )
}

fn unregister(session: &mut Session<'_>) -> Result<(), Stop> {
    optional(session, ApiKey::UnregisterBroker, &body!({ BrokerId: 99 }))
}
