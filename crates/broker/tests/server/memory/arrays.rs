//! Requests that are as large as one array makes them, for every array of every request that is
//! served: of elements that are all the same, of elements that all differ, and of such below a long name.
//!
//! They are made by interpreting the schema, so an API that is served tomorrow is among them.

use broker::served::on_listener;
use codegen::{Field, FieldType, Message, StructType};
use interpreter::{Struct, Value, default_struct, encode};
use std::path::Path;
use wire::{ApiKey, RequestHeader};

/// How the elements of an array compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Elements {
    Same,
    Distinct,
    /// As well, in a struct whose texts are long.
    BelowLongNames,
}

impl Elements {
    const ALL: [Self; 3] = [Self::Same, Self::Distinct, Self::BelowLongNames];
}

/// So long are the names that arrays are below.
const LONG_NAME_BYTES: usize = 1_000;

/// A request of which one array makes nearly all.
#[derive(Debug)]
pub(crate) struct Large {
    /// The API, the array and its elements.
    pub(crate) what: String,
    pub(crate) frame: Vec<u8>,
    /// With fewer elements, where it has more than are allowed.
    pub(crate) fewer: Option<Vec<u8>>,
}

impl Large {
    /// With no more elements than are allowed.
    pub(crate) fn allowed(&self) -> &[u8] {
        self.fewer.as_ref().unwrap_or(&self.frame)
    }
}

/// Every such request of the highest version served, in turn: each of about so many bytes, and with
/// `elements_max` elements if those are fewer.
pub(crate) fn large_requests(bytes: usize, elements_max: usize) -> impl Iterator<Item = Large> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/schema");
    let schema = codegen::parse_folder(&folder).expect("the schema can be read");
    // Others are waited for in these, or nothing is left to be asked afterwards.
    let is_asked = |api: ApiKey| !matches!(api, ApiKey::UnregisterBroker | ApiKey::JoinGroup);
    let served = on_listener(false).filter(move |one| is_asked(one.api));
    served.flat_map(move |served| {
        let (api, version) = (served.api, served.max_version);
        let name = format!("{api}Request");
        let found = schema.messages.iter().find(|one| one.name == name);
        let message = found.expect("the schema has its request").clone();
        let cases = paths(&message, message.root(), version)
            .into_iter()
            .flat_map(|path| Elements::ALL.map(|elements| (path.clone(), elements)));
        let is_below_some = |(path, elements): &(Vec<String>, Elements)| {
            *elements != Elements::BelowLongNames || path.len() > 1
        };
        let cases: Vec<_> = cases.filter(is_below_some).collect();
        cases.into_iter().map(move |(path, elements)| {
            let limits = (bytes, elements_max);
            let (frame, fewer) = frames(api, version, &message, &path, elements, limits);
            Large {
                what: format!("{api} v{version} {} {elements:?}", path.join(".")),
                frame,
                fewer,
            }
        })
    })
}

/// The arrays below a struct, by the names of their fields.
fn paths(message: &Message, one: &StructType, version: i16) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for field in fields(one, version) {
        if field.array {
            found.push(vec![field.name.clone()]);
        }
        for mut path in struct_of(message, field)
            .map(|inner| paths(message, inner, version))
            .unwrap_or_default()
        {
            path.insert(0, field.name.clone());
            found.push(path);
        }
    }
    found
}

fn fields(one: &StructType, version: i16) -> impl Iterator<Item = &Field> {
    let fields = one.fields.iter();
    fields.filter(move |field| field.versions.contains(version))
}

fn struct_of<'m>(message: &'m Message, field: &Field) -> Option<&'m StructType> {
    match &field.kind {
        FieldType::Struct(name) => message.struct_named(name),
        _ => None,
    }
}

/// The frame of so many bytes, and another one if that has too many elements.
fn frames(
    api: ApiKey,
    version: i16,
    message: &Message,
    path: &[String],
    elements: Elements,
    (bytes, elements_max): (usize, usize),
) -> (Vec<u8>, Option<Vec<u8>>) {
    let of_count = |count| {
        let mut value = sound(message, message.root(), version);
        fill(
            message,
            message.root(),
            version,
            &mut value,
            path,
            elements,
            count,
        );
        encode(message, version, &value)
    };
    let (few, more) = (of_count(100).len(), of_count(200).len());
    let count = bytes * 100 / (more - few).max(1);
    let frame_of_count = |count| {
        let mut frame = Vec::new();
        let start = wire::begin_frame(&mut frame);
        let header = RequestHeader {
            api_key: api as i16,
            api_version: version,
            correlation_id: 7,
            client_id: Some("large"),
        };
        header.encode(api.is_request_flexible(version), &mut frame);
        frame.extend(of_count(count));
        wire::finish_frame(&mut frame, start, 0);
        frame
    };
    let fewer = (count > elements_max).then(|| frame_of_count(elements_max));
    (frame_of_count(count), fewer)
}

/// A struct of something that exists and changes nothing.
fn sound(message: &Message, one: &StructType, version: i16) -> Struct {
    let mut value = default_struct(message, one, version);
    for field in fields(one, version) {
        let known = match (&field.kind, field.name.as_str()) {
            (_, _) if field.array => continue,
            (FieldType::String, "TransactionalId" | "V3AndBelowTransactionalId") => {
                Value::string("transaction")
            }
            (FieldType::String, name) if name.contains("Group") => Value::string("group"),
            (FieldType::String, "Topic" | "TopicName" | "Name" | "ResourceName") => {
                Value::string("topic")
            }
            (FieldType::Bool, name) if name.to_lowercase() == "validateonly" => Value::Bool(true),
            (FieldType::Integer(_), "Acks") => Value::Integer(1),
            (FieldType::Integer(_), "ResourceType") => Value::Integer(2),
            (FieldType::Bool, "AllowAutoTopicCreation") => Value::Bool(false),
            _ => continue,
        };
        value.set(&field.name, known);
    }
    value
}

fn set_long_names(one: &StructType, version: i16, value: &mut Struct) {
    for field in fields(one, version).filter(|field| !field.array && field.tag.is_none()) {
        if matches!(field.kind, FieldType::String) {
            value.set(&field.name, Value::String("n".repeat(LONG_NAME_BYTES)));
        }
    }
}

/// Puts `count` elements into the array at `path`, and one into each array on the way.
fn fill(
    message: &Message,
    one: &StructType,
    version: i16,
    value: &mut Struct,
    path: &[String],
    elements: Elements,
    count: usize,
) {
    let field = fields(one, version).find(|field| field.name == path[0]);
    let field = field.expect("a path is one of fields");
    let inner = struct_of(message, field);
    if let [_, rest @ ..] = path
        && !rest.is_empty()
    {
        let inner = inner.expect("a path goes on in structs");
        let mut next = sound(message, inner, version);
        if elements == Elements::BelowLongNames {
            set_long_names(inner, version, &mut next);
        }
        fill(message, inner, version, &mut next, rest, elements, count);
        let next = Value::Struct(next);
        let next = match field.array {
            true => Value::Array(vec![next]),
            false => next,
        };
        value.set(&path[0], next);
        return;
    }
    let made = |number| element(message, field, version, elements, number);
    let array = match elements {
        Elements::Same => vec![made(0); count],
        Elements::Distinct | Elements::BelowLongNames => (0..count).map(made).collect(),
    };
    value.set(&path[0], Value::Array(array));
}

fn element(
    message: &Message,
    field: &Field,
    version: i16,
    elements: Elements,
    number: usize,
) -> Value {
    let Some(one) = struct_of(message, field) else {
        return leaf(&field.kind, elements, number);
    };
    let mut value = default_struct(message, one, version);
    for field in fields(one, version).filter(|field| !field.array) {
        if elements != Elements::Same && struct_of(message, field).is_none() {
            let keeps = matches!(field.kind, FieldType::Bytes | FieldType::Records)
                || field.tag.is_some()
                || field.name == "ResourceType";
            if !keeps {
                value.set(&field.name, leaf(&field.kind, elements, number));
            }
        }
        if field.name == "ResourceType" {
            value.set(&field.name, Value::Integer(2));
        }
    }
    Value::Struct(value)
}

fn leaf(kind: &FieldType, elements: Elements, number: usize) -> Value {
    let number = match elements {
        Elements::Same => 0,
        Elements::Distinct | Elements::BelowLongNames => number,
    };
    match kind {
        FieldType::Bool => Value::Bool(false),
        FieldType::Integer("i8") => Value::Integer(number as i64 % 100),
        FieldType::Integer("i16" | "u16") => Value::Integer(number as i64 % 30_000),
        FieldType::Integer(_) => Value::Integer(number as i64),
        FieldType::Float64 => Value::Float(number as f64),
        FieldType::Uuid => {
            let mut bytes = [0; 16];
            bytes[8..].copy_from_slice(&(number as u64 + 1_000).to_be_bytes());
            Value::Uuid(bytes)
        }
        FieldType::String if elements == Elements::Same => Value::string(""),
        FieldType::String => Value::String(short_name(number)),
        FieldType::Bytes | FieldType::Records => Value::Bytes(Vec::new()),
        FieldType::Struct(_) => unreachable!("a leaf is no struct"),
    }
}

/// A name of few bytes that no other number has.
fn short_name(number: usize) -> String {
    const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut left = number;
    let mut name = String::from("n");
    while left > 0 {
        name.push(char::from(DIGITS[left % DIGITS.len()]));
        left /= DIGITS.len();
    }
    name
}
