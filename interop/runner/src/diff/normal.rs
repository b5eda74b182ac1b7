//! Answers made comparable: what differs between two right servers gets the same form on both
//! sides.
//!
//! - Record batches become structs.
//! - Arrays of structs are sorted: no client relies on their order.
//! - Ports, times of the run and free disk space become words; error messages become presence.
//! - Ids that the server has chosen become their stand-ins, see [`Names`].

use std::time::{SystemTime, UNIX_EPOCH};

use interpreter::{Struct, Value};

use super::batches;
use super::names::{NameKind, Names};

/// Numbers this close to the clock are times of the run.
const NOW_WINDOW_MS: i64 = 600_000;

/// How a field of an answer is made comparable.
enum Rule {
    /// A name that the server has given.
    Name(NameKind),
    /// Text for people: only whether there is any.
    Text,
    /// Anything, of which only null or zero is told apart.
    Volatile,
    /// The server's own port.
    Port,
    /// Record batches.
    Records,
    /// Numbers in an order that nobody relies on.
    Set,
}

/// The rules by message (empty for all) and field.
const RULES: &[(&str, &str, Rule)] = &[
    ("", "ErrorMessage", Rule::Text),
    ("", "BatchIndexErrorMessage", Rule::Text),
    ("", "AcknowledgeErrorMessage", Rule::Text),
    ("", "StatusDetail", Rule::Text),
    ("DescribeConfigsResponse", "Documentation", Rule::Text),
    // The controller listens on another port.
    ("DescribeQuorumResponse", "Port", Rule::Volatile),
    ("", "Port", Rule::Port),
    ("", "ClusterId", Rule::Volatile),
    ("", "BrokerEpoch", Rule::Volatile),
    ("", "FinalizedFeaturesEpoch", Rule::Volatile),
    ("", "Records", Rule::Records),
    // A transaction's partitions come in the order of Kafka's hash table.
    ("DescribeTransactionsResponse", "Partitions", Rule::Set),
    ("", "ProducerId", Rule::Name(NameKind::Producer)),
    ("", "MemberId", Rule::Name(NameKind::Member)),
    ("JoinGroupResponse", "Leader", Rule::Name(NameKind::Member)),
    (
        "FetchResponse",
        "SessionId",
        Rule::Name(NameKind::FetchSession),
    ),
    (
        "DescribeLogDirsResponse",
        "LogDir",
        Rule::Name(NameKind::LogDir),
    ),
    ("DescribeLogDirsResponse", "TotalBytes", Rule::Volatile),
    ("DescribeLogDirsResponse", "UsableBytes", Rule::Volatile),
    ("DescribeQuorumResponse", "HighWatermark", Rule::Volatile),
    ("DescribeQuorumResponse", "LogEndOffset", Rule::Volatile),
    (
        "GetTelemetrySubscriptionsResponse",
        "SubscriptionId",
        Rule::Volatile,
    ),
];

/// The answer in its comparable form; new names get their stand-ins.
pub(super) fn normalize(message: &str, answer: &Struct, names: &mut Names) -> Struct {
    let normal = Normalizer {
        message,
        now_ms: now_ms(),
    };
    let sorted = normal.sorted(answer, names);
    normal.named(&sorted, names)
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.expect("the clock is past 1970");
    i64::try_from(since.as_millis()).expect("the time fits in 64 bits")
}

struct Normalizer<'a> {
    message: &'a str,
    now_ms: i64,
}

impl Normalizer<'_> {
    fn rule(&self, field: &str) -> Option<&'static Rule> {
        let rule = RULES.iter().find(|(message, name, _)| {
            *name == field && (message.is_empty() || *message == self.message)
        });
        rule.map(|(_, _, rule)| rule)
    }

    /// Everything but names in its comparable form, and arrays of structs in order.
    fn sorted(&self, one: &Struct, names: &Names) -> Struct {
        let fields = one.fields.iter().map(|(name, value)| {
            let value = match (self.rule(name), value) {
                (_, Value::Null) => Value::Null,
                (Some(Rule::Records), Value::Bytes(bytes)) => {
                    self.sorted_value(&batches::as_value(bytes), names)
                }
                (Some(Rule::Set), Value::Array(elements)) => {
                    let mut elements = elements.clone();
                    elements.sort_by_key(|element| element.as_integer());
                    Value::Array(elements)
                }
                (Some(Rule::Text), Value::String(_)) => Value::string("«text»"),
                (Some(Rule::Volatile), value) if !is_zero(value) => Value::string("«some»"),
                (Some(Rule::Port), Value::Integer(port)) if *port == i64::from(names.port) => {
                    Value::string("«port»")
                }
                (_, value) => self.sorted_value(value, names),
            };
            (name.clone(), value)
        });
        Struct {
            fields: fields.collect(),
            unknown: one.unknown.clone(),
        }
    }

    fn sorted_value(&self, value: &Value, names: &Names) -> Value {
        match value {
            Value::Struct(one) => Value::Struct(self.sorted(one, names)),
            Value::Array(elements) => {
                let elements = elements.iter();
                let mut elements: Vec<Value> = elements
                    .map(|element| self.sorted_value(element, names))
                    .collect();
                let are_batches = |element: &Value| {
                    let one = element.as_struct();
                    one.is_some_and(|one| one.field("IsCrcValid").is_some())
                };
                if !elements.iter().any(are_batches) {
                    elements.sort_by_cached_key(|element| match element {
                        Value::Struct(_) => self.masked(element, names).to_string(),
                        _ => String::new(),
                    });
                }
                Value::Array(elements)
            }
            Value::Integer(number)
                if number.abs_diff(self.now_ms) < NOW_WINDOW_MS.unsigned_abs() =>
            {
                Value::string("«now»")
            }
            value => value.clone(),
        }
    }

    /// The value with known stand-ins, and a mask for names not seen before.
    fn masked(&self, value: &Value, names: &Names) -> Value {
        let mask = |value: &Value| names.known(value).cloned().unwrap_or(Value::Null);
        match value {
            Value::Struct(one) => {
                let fields = one.fields.iter().map(|(name, value)| {
                    let value = match self.rule(name) {
                        Some(Rule::Name(kind)) if is_name(*kind, value) => mask(value),
                        _ => self.masked(value, names),
                    };
                    (name.clone(), value)
                });
                Value::Struct(Struct {
                    fields: fields.collect(),
                    unknown: Vec::new(),
                })
            }
            Value::Array(elements) => {
                let elements = elements.iter().map(|element| self.masked(element, names));
                Value::Array(elements.collect())
            }
            Value::Uuid(_) if !is_zero(value) => mask(value),
            value => value.clone(),
        }
    }

    /// Names replaced by their stand-ins.
    fn named(&self, one: &Struct, names: &mut Names) -> Struct {
        let mut fields = Vec::new();
        for (name, value) in &one.fields {
            let value = match self.rule(name) {
                Some(Rule::Name(kind)) if is_name(*kind, value) => names.stand_in(*kind, value),
                _ => self.named_value(value, names),
            };
            fields.push((name.clone(), value));
        }
        Struct {
            fields,
            unknown: one.unknown.clone(),
        }
    }

    fn named_value(&self, value: &Value, names: &mut Names) -> Value {
        match value {
            Value::Struct(one) => Value::Struct(self.named(one, names)),
            Value::Array(elements) => {
                let elements = elements.iter();
                Value::Array(elements.map(|e| self.named_value(e, names)).collect())
            }
            Value::Uuid(_) if !is_zero(value) => names.stand_in(NameKind::Uuid, value),
            Value::String(_) => names.known(value).unwrap_or(value).clone(),
            value => value.clone(),
        }
    }
}

/// Whether the value is a name, and not the absence of one. The first producer id is 0.
fn is_name(kind: NameKind, value: &Value) -> bool {
    match (kind, value) {
        (NameKind::Producer, Value::Integer(id)) => *id != -1,
        _ => !is_zero(value),
    }
}

/// Whether the value says that there is none: null, zero, minus one, or empty.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Integer(number) => matches!(number, 0 | -1),
        Value::Uuid(bytes) => *bytes == [0; 16],
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
