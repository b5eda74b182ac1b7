//! Requests of every API and version that both servers offer, filled in by the names of their
//! fields: a topic's name here, a partition's number there, right and wrong.

use codegen::{Field, FieldType, Message, StructType};
use interpreter::{Random, Struct, Value, default_value};
use wire::ApiKey;

use super::batches::Batch;
use super::body::body;
use super::produce::produce;
use super::session::{Session, Stop};
use super::topics::{Topic, UNKNOWN_ID, create};

/// APIs that would change the cluster under other sequences, show what those have left, or wait
/// for others.
pub(super) const LEFT_OUT: &[ApiKey] = &[
    ApiKey::AddRaftVoter,
    ApiKey::AlterClientQuotas,
    ApiKey::AlterConfigs,
    ApiKey::AlterShareGroupOffsets,
    ApiKey::AlterUserScramCredentials,
    ApiKey::ConsumerGroupHeartbeat,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::DeleteGroups,
    ApiKey::DescribeConfigs,
    ApiKey::DescribeLogDirs,
    ApiKey::DescribeShareGroupOffsets,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::JoinGroup,
    ApiKey::ListConfigResources,
    ApiKey::ListGroups,
    ApiKey::ListTransactions,
    ApiKey::RemoveRaftVoter,
    ApiKey::ShareGroupHeartbeat,
    ApiKey::StreamsGroupHeartbeat,
    ApiKey::UnregisterBroker,
    ApiKey::UpdateFeatures,
    ApiKey::WriteTxnMarkers,
];

/// Ten requests of APIs drawn at random.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 2, &[])?;
    let batch = Batch::random(&mut session.random);
    produce(session, &topic, &batch)?;
    let group = session.new_name("group");
    let offers: Vec<ApiKey> = session
        .offers()
        .into_iter()
        .map(|(api, ..)| api)
        .filter(|api| !LEFT_OUT.contains(api))
        .collect();
    for _ in 0..10 {
        let api = *session.random.choice(&offers);
        let body = filled(session, api, &topic, &group);
        session.call(api, &body)?;
    }
    // Nothing of it may have hurt the topic.
    session.call(
        ApiKey::Metadata,
        &body!({ Topics: [{ Name: (&topic.name) }] }),
    )?;
    Ok(())
}

/// A request that has something in each of its fields.
pub(super) fn filled(session: &mut Session<'_>, api: ApiKey, topic: &Topic, group: &str) -> Value {
    let message = session.request_message(api);
    let mut filler = Filler {
        message: &message,
        topic,
        group,
        random: &mut session.random,
    };
    let mut body = filler.fill(message.root());
    if api == ApiKey::Produce && body.field("Acks") == Some(&Value::Integer(0)) {
        body.set("Acks", Value::Integer(1));
    }
    Value::Struct(body)
}

struct Filler<'a> {
    message: &'a Message,
    topic: &'a Topic,
    group: &'a str,
    random: &'a mut Random,
}

impl Filler<'_> {
    /// The fields of all versions; the version to be sent takes those that it has.
    fn fill(&mut self, one: &StructType) -> Struct {
        let fields = one
            .fields
            .iter()
            .map(|field| (field.name.clone(), self.field(field)));
        Struct {
            fields: fields.collect(),
            unknown: Vec::new(),
        }
    }

    fn field(&mut self, field: &Field) -> Value {
        // Records are never null: Kafka does not answer that.
        let may_be_null = !field.nullable.is_empty() && field.kind != FieldType::Records;
        if may_be_null && self.random.chance(1, 5) {
            return Value::Null;
        }
        if field.tag.is_some() && self.random.chance(2, 3) {
            return default_value(self.message, field, field.versions.last);
        }
        if !field.array {
            return self.one(&field.name, &field.kind);
        }
        let counts: &[usize] = match field.name.as_str() {
            // Kafka does not answer a request for no transaction.
            "Transactions" => &[1],
            _ => &[0, 1, 1, 1, 2],
        };
        let count = *self.random.choice(counts);
        let elements = (0..count).map(|_| self.one(&field.name, &field.kind));
        Value::Array(elements.collect())
    }

    fn one(&mut self, name: &str, kind: &FieldType) -> Value {
        match kind {
            FieldType::Bool => Value::Bool(self.random.chance(1, 2)),
            FieldType::Integer(_) => Value::Integer(self.integer(name)),
            FieldType::Float64 => Value::Float(1.5),
            FieldType::Uuid => match self.random.below(4) {
                0 => UNKNOWN_ID.into(),
                1 => [0; 16].into(),
                _ => self.topic.id.clone(),
            },
            FieldType::String => self.text(name),
            FieldType::Bytes => Value::Bytes(self.random.bytes(5)),
            FieldType::Records => Value::Bytes(Batch::random(self.random).bytes()),
            FieldType::Struct(name) => {
                let one = self.message.struct_named(name);
                let one = one.expect("a field's struct is in its message").clone();
                Value::Struct(self.fill(&one))
            }
        }
    }

    fn integer(&mut self, name: &str) -> i64 {
        let choices: &[i64] = match name {
            "MaxWaitMs" => &[0, 10],
            "TimeoutMs" | "timeoutMs" => &[500, 500, 500, 0, -1],
            "MinBytes" => &[0, 1],
            "MaxBytes" | "PartitionMaxBytes" => &[1_000, 1_000_000],
            "Acks" => &[-1, 1],
            "BrokerId" | "NodeId" => &[1, 9],
            "SessionEpoch" => &[-1],
            "ShareSessionEpoch" => &[-1, 3],
            "ProducerId" | "V3AndBelowProducerId" => &[-1, 777_777_777],
            _ if name.contains("Timestamp") => &[-1, -2, 0],
            _ if name.contains("Partition") || name.contains("Index") => &[0, 0, 1, 9, -1],
            _ => &[-1, 0, 0, 1, 2, 5],
        };
        *self.random.choice(choices)
    }

    fn text(&mut self, name: &str) -> Value {
        let choices: &[&str] = match name {
            "GroupId" | "GroupsNames" | "Groups" | "Key" | "CoordinatorKeys" | "GroupIds" => {
                &[self.group, "no-such-group", ""]
            }
            "MemberId" => &["", "stranger"],
            "Name" | "Topic" | "TopicName" | "Topics" | "TopicNames" => {
                &[&self.topic.name, &self.topic.name, "no-such-topic", "a b"]
            }
            "TransactionalId" | "V3AndBelowTransactionalId" | "TransactionalIds" => {
                &["no-such-transaction", ""]
            }
            _ => &["", "x", "nonsense"],
        };
        (*self.random.choice(choices)).into()
    }
}
