//! What the keys and values of internal topics say.

use super::Payload;
use super::segment::text;
use crate::output::Row;
use coordinator::messages;
use metadata::{MetadataRecord, QuorumRecord};
use model::{DecodeError, Message, Reader};
use record::{ControlRecord, Record};

/// The row of a record with its key and value.
pub(super) fn payload_of(row: Row, is_control: bool, record: &Record<'_>, payload: Payload) -> Row {
    if is_control {
        return row.with("control", control(record));
    }
    match payload {
        Payload::Bytes => row
            .with("key", record.key.map(text))
            .with("payload", record.value.map(text)),
        Payload::Metadata => row.with("payload", record.value.map(metadata_value)),
        Payload::Offsets | Payload::Transactions => {
            let Some(key) = record.key else {
                return row.with("error", "a record without a key");
            };
            let (key, value) = keyed(payload, key, record.value);
            row.with("key", key).with("payload", value)
        }
    }
}

fn control(record: &Record<'_>) -> String {
    match ControlRecord::parse(record) {
        Ok(ControlRecord::EndTransaction(marker)) => format!(
            "{:?} coordinatorEpoch: {}",
            marker.result, marker.coordinator_epoch
        ),
        Ok(other) => match QuorumRecord::parse(record) {
            Ok(Some(quorum)) => format!("{quorum:?}"),
            _ => format!("{other:?}"),
        },
        Err(error) => error.to_string(),
    }
}

fn metadata_value(value: &[u8]) -> String {
    match MetadataRecord::from_bytes(value) {
        Ok(record) => format!("{record:?}"),
        Err(error) => format!("<{error}>"),
    }
}

/// Finds the messages of a key's type and shows both.
macro_rules! show_by_type {
    ($type:expr, $key:expr, $value:expr, $($name:ident $value_name:ident)*) => {
        match $type {
            $(id if id == messages::$name::ID => (
                shown($key, |reader| messages::$name::read(reader, 0)),
                $value.map(|value| shown(value, |reader| {
                    let version = reader.i16()?;
                    messages::$value_name::read(reader, version)
                })),
            ),)*
            id => (format!("<key of unknown type {id}>"), $value.map(text)),
        }
    };
}

/// A key, and its value unless it is a tombstone, of a coordinator's topic.
fn keyed(payload: Payload, key: &[u8], value: Option<&[u8]>) -> (String, Option<String>) {
    let mut reader = Reader::new(key);
    let Ok(key_type) = reader.i16() else {
        return ("<no type>".to_owned(), value.map(text));
    };
    let key = reader.remaining();
    if payload == Payload::Transactions {
        return show_by_type!(key_type, key, value, TransactionLogKey TransactionLogValue);
    }
    show_by_type!(key_type, key, value,
        LegacyOffsetCommitKey OffsetCommitValue
        OffsetCommitKey OffsetCommitValue
        GroupMetadataKey GroupMetadataValue
        ConsumerGroupMetadataKey ConsumerGroupMetadataValue
        ConsumerGroupPartitionMetadataKey ConsumerGroupPartitionMetadataValue
        ConsumerGroupMemberMetadataKey ConsumerGroupMemberMetadataValue
        ConsumerGroupTargetAssignmentMetadataKey ConsumerGroupTargetAssignmentMetadataValue
        ConsumerGroupTargetAssignmentMemberKey ConsumerGroupTargetAssignmentMemberValue
        ConsumerGroupCurrentMemberAssignmentKey ConsumerGroupCurrentMemberAssignmentValue
        ConsumerGroupRegularExpressionKey ConsumerGroupRegularExpressionValue
        ShareGroupMemberMetadataKey ShareGroupMemberMetadataValue
        ShareGroupMetadataKey ShareGroupMetadataValue
        ShareGroupTargetAssignmentMetadataKey ShareGroupTargetAssignmentMetadataValue
        ShareGroupTargetAssignmentMemberKey ShareGroupTargetAssignmentMemberValue
        ShareGroupCurrentMemberAssignmentKey ShareGroupCurrentMemberAssignmentValue
        ShareGroupStatePartitionMetadataKey ShareGroupStatePartitionMetadataValue
        StreamsGroupMetadataKey StreamsGroupMetadataValue
        StreamsGroupMemberMetadataKey StreamsGroupMemberMetadataValue
        StreamsGroupTargetAssignmentMetadataKey StreamsGroupTargetAssignmentMetadataValue
        StreamsGroupTargetAssignmentMemberKey StreamsGroupTargetAssignmentMemberValue
        StreamsGroupCurrentMemberAssignmentKey StreamsGroupCurrentMemberAssignmentValue
        StreamsGroupTopologyKey StreamsGroupTopologyValue
    )
}

/// What a message says, or why it cannot be read.
fn shown<'a, M: std::fmt::Debug>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Result<M, DecodeError>,
) -> String {
    match read(&mut Reader::new(bytes)) {
        Ok(message) => format!("{message:?}"),
        Err(error) => format!("<{error}>"),
    }
}
