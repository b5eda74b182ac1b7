//! What the keys and values of internal topics say: JSON with the names of Kafka's schemas, as Apache
//! Kafka's own dump tool prints it.

use super::Payload;
use crate::output::{Cell, Row, json_text};
use codegen::{Field, FieldType, Message, StructType};
use data_encoding::BASE64;
use interpreter::{Struct, Value, decode, default_value};
use model::{DecodeError, Reader, Uuid};
use record::{ControlRecord, ControlRecordKind, Record, TransactionResult};
use std::sync::LazyLock;

/// The keys and values of `__consumer_offsets`.
static GROUP_RECORDS: LazyLock<Vec<Message>> =
    LazyLock::new(|| messages(coordinator::messages::SCHEMAS[0]));
/// Those of `__transaction_state`.
static TRANSACTION_RECORDS: LazyLock<Vec<Message>> =
    LazyLock::new(|| messages(coordinator::messages::SCHEMAS[1]));
/// The values of `__cluster_metadata`.
static METADATA_RECORDS: LazyLock<Vec<Message>> =
    LazyLock::new(|| messages(metadata::messages::SCHEMAS[0]));
/// The values of its control records.
static CONTROL_RECORDS: LazyLock<Vec<Message>> =
    LazyLock::new(|| messages(metadata::messages::SCHEMAS[1]));

/// Fields that are shown to nobody, as what is typed on a terminal ends up in scripts and tickets.
const SECRETS: [&str; 3] = ["Salt", "StoredKey", "ServerKey"];

/// The only version of the frame around a metadata record.
const FRAME_VERSION: u32 = 1;

fn messages(schema: &str) -> Vec<Message> {
    let parsed = codegen::parse(schema).expect("the build has parsed the same text");
    parsed.messages
}

/// The row of a record with its key and value.
pub(super) fn payload_of(row: Row, is_control: bool, record: &Record<'_>, payload: Payload) -> Row {
    if is_control {
        return control(row, record);
    }
    match payload {
        Payload::Bytes => row
            .with("key", record.key.map(text))
            .with("payload", record.value.map(text)),
        Payload::Metadata => row.with("payload", record.value.map(metadata_value)),
        Payload::Offsets => keyed(row, &GROUP_RECORDS, record),
        Payload::Transactions => keyed(row, &TRANSACTION_RECORDS, record),
    }
}

/// Bytes as text, with replacement characters for what is not UTF-8.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn control(row: Row, record: &Record<'_>) -> Row {
    let (name, message, value) = match ControlRecord::parse(record) {
        Err(error) => return row.with("error", error.to_string()),
        Ok(ControlRecord::EndTransaction(marker)) => {
            let result = match marker.result {
                TransactionResult::Abort => "ABORT",
                TransactionResult::Commit => "COMMIT",
            };
            return row
                .with("endTxnMarker", result)
                .with("coordinatorEpoch", marker.coordinator_epoch);
        }
        Ok(ControlRecord::Other(kind, value)) => match kind {
            ControlRecordKind::LeaderChange => ("LeaderChange", "LeaderChangeMessage", value),
            ControlRecordKind::SnapshotHeader => ("SnapshotHeader", "SnapshotHeaderRecord", value),
            ControlRecordKind::SnapshotFooter => ("SnapshotFooter", "SnapshotFooterRecord", value),
            ControlRecordKind::KRaftVersion => ("KRaftVersion", "KRaftVersionRecord", value),
            ControlRecordKind::KRaftVoters => ("KRaftVoters", "VotersRecord", value),
            other => return row.with("controlType", i32::from(other.id())),
        },
    };
    let message = CONTROL_RECORDS.iter().find(|one| one.name == message);
    let message = message.expect("every control record has a schema");
    // The message's own first field is its version.
    let value = value.unwrap_or_default();
    let shown = Reader::new(value)
        .i16()
        .map_err(|error| error.to_string())
        .and_then(|version| data(message, version, value));
    row.with(name, cell(shown))
}

/// `frame version | type | version | body`.
fn metadata_value(value: &[u8]) -> Cell {
    let mut reader = Reader::new(value);
    let mut next = || -> Result<u32, DecodeError> { reader.unsigned_varint() };
    let head = (|| Ok::<_, DecodeError>((next()?, next()?, next()?)))();
    let (id, version) = match head {
        Ok((FRAME_VERSION, id, version)) => (id, version),
        Ok((frame_version, ..)) => return unknown(&format!("frame version {frame_version}")),
        Err(error) => return cell(Err(error.to_string())),
    };
    let is_it = |one: &&Message| one.id.is_some_and(|known| u32::try_from(known) == Ok(id));
    let Some(message) = METADATA_RECORDS.iter().find(is_it) else {
        return unknown(&format!("record of unknown type {id}"));
    };
    let shown = i16::try_from(version)
        .map_err(|_| format!("unknown version {version}"))
        .and_then(|version| data(message, version, reader.remaining()));
    let shown = shown.map(|data| {
        let name = json_text(&constant(&message.name));
        format!("{{\"type\":{name},\"version\":{version},\"data\":{data}}}")
    });
    cell(shown)
}

/// A key with its type, and its value, unless it is a tombstone, with its version. Kafka writes both
/// numbers as text.
fn keyed(row: Row, messages: &[Message], record: &Record<'_>) -> Row {
    let Some(key) = record.key else {
        return row.with("error", "a record without a key");
    };
    let mut reader = Reader::new(key);
    let Ok(id) = reader.i16() else {
        return row.with("error", "a record whose key has no type");
    };
    let is_key = |one: &&Message| one.id == Some(id) && one.name.ends_with("Key");
    let Some(key) = messages.iter().find(is_key) else {
        let key = unknown(&format!("key of unknown type {id}"));
        return row.with("key", key).with("payload", record.value.map(text));
    };
    // The oldest keys of offsets have values in the form of the newer ones.
    let stem = key
        .name
        .trim_end_matches("Key")
        .trim_start_matches("Legacy");
    let value_name = format!("{stem}Value");
    let value = messages.iter().find(|one| one.name == value_name);
    let shown = data(key, 0, reader.remaining());
    let key = cell(shown.map(|data| format!("{{\"type\":\"{id}\",\"data\":{data}}}")));
    let payload = record.value.zip(value).map(|(bytes, message)| {
        let mut reader = Reader::new(bytes);
        let shown = reader
            .i16()
            .map_err(|error| error.to_string())
            .and_then(|version| Ok((version, data(message, version, reader.remaining())?)));
        let shown =
            shown.map(|(version, data)| format!("{{\"version\":\"{version}\",\"data\":{data}}}"));
        cell(shown)
    });
    row.with("key", key).with("payload", payload)
}

/// JSON, or why there is none.
fn cell(shown: Result<String, String>) -> Cell {
    shown.map_or_else(|reason| unknown(&reason), Cell::Json)
}

fn unknown(what: &str) -> Cell {
    Cell::Text(format!("<{what}>"))
}

/// The fields of a message.
fn data(message: &Message, version: i16, bytes: &[u8]) -> Result<String, String> {
    if !message.versions.contains(version) {
        return Err(format!("{} has unknown version {version}", message.name));
    }
    let value = decode(message, version, bytes).map_err(|error| error.to_string())?;
    Ok(object(message, version, message.root(), &value))
}

fn object(message: &Message, version: i16, one: &StructType, value: &Struct) -> String {
    let field = |field: &Field| {
        let value = value.field(&field.name)?;
        // A tagged field is there when it says something.
        if field.tag.is_some() && *value == default_value(message, field, version) {
            return None;
        }
        let shown = match SECRETS.contains(&field.name.as_str()) {
            true => json_text("(hidden)"),
            false => json(message, version, field, value),
        };
        Some(format!("{}:{shown}", json_text(&lower_first(&field.name))))
    };
    let fields: Vec<String> = one.fields.iter().filter_map(field).collect();
    format!("{{{}}}", fields.join(","))
}

fn json(message: &Message, version: i16, field: &Field, value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => serde_json::Value::from(*value).to_string(),
        Value::Uuid(bytes) => json_text(&Uuid::from_bytes(*bytes).to_string()),
        Value::String(text) => json_text(text),
        Value::Bytes(bytes) => json_text(&BASE64.encode(bytes)),
        Value::Array(values) => {
            let values = values.iter();
            let values: Vec<String> = values
                .map(|value| json(message, version, field, value))
                .collect();
            format!("[{}]", values.join(","))
        }
        Value::Struct(value) => {
            let FieldType::Struct(name) = &field.kind else {
                unreachable!("a struct is read by a field of one");
            };
            let one = message.struct_named(name);
            object(message, version, one.expect("it was read by it"), value)
        }
    }
}

/// `TopicId` is `topicId`.
fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// `TopicRecord` is `TOPIC_RECORD`.
fn constant(name: &str) -> String {
    let mut constant = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !constant.is_empty() {
            constant.push('_');
        }
        constant.push(letter.to_ascii_uppercase());
    }
    constant
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadata::{MetadataRecord, MetadataVersion, ScramCredential, ScramKey};
    use model::Offset;

    #[test]
    fn records_have_the_names_of_their_schemas() {
        let shown = |record: &MetadataRecord| {
            metadata_value(&record.to_bytes(MetadataVersion::LATEST)).to_string()
        };
        let topic = MetadataRecord::Topic {
            name: "t".to_owned(),
            topic_id: Uuid::from_u128(1),
        };
        assert_eq!(
            shown(&topic),
            r#"{"type":"TOPIC_RECORD","version":0,"data":{"name":"t","topicId":"AAAAAAAAAAAAAAAAAAAAAQ"}}"#
        );
        let value = {
            let mut value = vec![0, 4];
            value.extend(model::Message::to_bytes(&coordinator_value(), 4));
            value
        };
        let record = Record {
            key: Some(b"\0\x01\0\x01g\0\x01t\0\0\0\x02"),
            value: Some(&value),
            attributes: 0,
            timestamp: 5,
            offset: Offset(0),
            headers: record::Headers::default(),
        };
        let row = payload_of(Row::new(), false, &record, Payload::Offsets);
        assert_eq!(
            Cell::Object(row).to_string(),
            "key: {\"type\":\"1\",\"data\":{\"group\":\"g\",\"topic\":\"t\",\"partition\":2}} \
             payload: {\"version\":\"4\",\"data\":{\"offset\":7,\"leaderEpoch\":0,\"metadata\":\"\",\
             \"commitTimestamp\":5}}"
        );
    }

    fn coordinator_value() -> coordinator::messages::OffsetCommitValue<'static> {
        coordinator::messages::OffsetCommitValue {
            offset: 7,
            leader_epoch: 0,
            commit_timestamp: 5,
            ..Default::default()
        }
    }

    #[test]
    fn keys_of_users_are_hidden() {
        let record = MetadataRecord::UserScramCredential {
            key: ScramKey {
                user: "u".to_owned(),
                mechanism: 1,
            },
            credential: ScramCredential {
                salt: vec![1, 2, 3],
                stored_key: vec![4, 5, 6],
                server_key: vec![7, 8, 9],
                iterations: 4096,
            },
        };
        let shown = metadata_value(&record.to_bytes(MetadataVersion::LATEST)).to_string();
        assert!(shown.contains("\"iterations\":4096"), "{shown}");
        assert_eq!(shown.matches("(hidden)").count(), 3, "{shown}");
    }

    #[test]
    fn what_is_damaged_is_told() {
        for bytes in [
            &b""[..],
            b"\x02\x02\0",
            b"\x01\x63\0",
            b"\x01\x02\x09",
            b"\x01\x02\0\x05",
        ] {
            assert!(
                metadata_value(bytes).to_string().starts_with('<'),
                "{bytes:?}"
            );
        }
    }
}
