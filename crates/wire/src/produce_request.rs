//! A produce request read in one pass, its records in place.
//!
//! What is read is [`crate::messages::ProduceRequest`]; a test holds the two equal in every version,
//! also for what is damaged. The generated message checks every partition before it shows the first,
//! and reads it again for each array around it when it is shown. Here the caller is told of each
//! partition as it is read, and acts on none before the end is reached without error.

use crate::messages::ProduceRequest;
use model::{DecodeError, Message, Reader, Uuid, Version};

/// What stands at the front of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProduceRequestHead<'a> {
    /// The transaction that the batches belong to.
    pub transactional_id: Option<&'a str>,
    /// Whose acknowledgement the client waits for: 0 nobody's, 1 the leader's, -1 all replicas'.
    pub acks: i16,
    /// How long the leader may wait for the replicas.
    pub timeout_ms: i32,
}

/// The topic that a partition is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProduceRequestTopic<'a> {
    /// Its name; empty from version 13 on.
    pub name: &'a str,
    /// Its id; zero before version 13.
    pub id: Uuid,
}

/// A partition of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProduceRequestPartition<'a> {
    /// The partition's index.
    pub index: i32,
    /// Its record batches.
    pub records: Option<&'a [u8]>,
}

/// Reads the request at the front of `body` and calls `partition` with each partition of each topic,
/// in their order. Bytes after the request are left alone.
///
/// # Errors
/// A [`DecodeError`] when the bytes are not a request of this version, when its arrays have more
/// than `elements_max` elements in all, or what `partition` says; by then some partitions may have
/// been told.
#[inline]
pub fn read_produce_request<'a>(
    body: &'a [u8],
    version: i16,
    elements_max: usize,
    mut partition: impl FnMut(
        &ProduceRequestTopic<'a>,
        ProduceRequestPartition<'a>,
    ) -> Result<(), DecodeError>,
) -> Result<ProduceRequestHead<'a>, DecodeError> {
    if !(ProduceRequest::MIN_VERSION..=ProduceRequest::MAX_VERSION).contains(&version) {
        return Err(DecodeError::UnsupportedVersion);
    }
    let version = ProduceRequest::layout(version);
    let mut reader = Reader::new(body);
    let head = ProduceRequestHead {
        transactional_id: reader.nullable_string(version.flexible)?,
        acks: reader.i16()?,
        timeout_ms: reader.i32()?,
    };
    let mut elements_left = elements_max;
    for _ in 0..array_length(&mut reader, version, &mut elements_left)? {
        let (name, id) = if version.number >= 13 {
            ("", reader.uuid()?)
        } else {
            (reader.string(version.flexible)?, Uuid::ZERO)
        };
        let topic = ProduceRequestTopic { name, id };
        for _ in 0..array_length(&mut reader, version, &mut elements_left)? {
            let frequent = version.flexible.then(|| frequent_partition(&reader));
            let told = if let Some((told, after)) = frequent.flatten() {
                reader = after;
                told
            } else {
                any_partition(&mut reader, version)?
            };
            partition(&topic, told)?;
        }
        end_struct(&mut reader, version)?;
    }
    end_struct(&mut reader, version)?;
    Ok(head)
}

/// A partition in any form that the version allows.
fn any_partition<'a>(
    reader: &mut Reader<'a>,
    version: Version,
) -> Result<ProduceRequestPartition<'a>, DecodeError> {
    let index = reader.i32()?;
    let records = reader.nullable_bytes(version.flexible)?;
    end_struct(reader, version)?;
    Ok(ProduceRequestPartition { index, records })
}

/// A partition of a flexible version in the form that nearly all have: records of less than 16 KiB
/// and no tagged field, read with two comparisons of bounds in place of one for each field. `None`
/// when it has another form or is damaged, with nothing read.
#[inline]
fn frequent_partition<'a>(
    reader: &Reader<'a>,
) -> Option<(ProduceRequestPartition<'a>, Reader<'a>)> {
    let bytes = reader.remaining();
    let [i0, i1, i2, i3, low, high, ..] = *bytes else {
        return None;
    };
    let (compact_length, records_at) = if low < 0x80 {
        (usize::from(low), 5)
    } else if high < 0x80 {
        (usize::from(low & 0x7f) | usize::from(high) << 7, 6)
    } else {
        return None;
    };
    let records_bytes = compact_length.checked_sub(1)?;
    let (records, after) = bytes[records_at..].split_at_checked(records_bytes)?;
    let [0, after @ ..] = after else {
        return None;
    };
    let told = ProduceRequestPartition {
        index: i32::from_be_bytes([i0, i1, i2, i3]),
        records: Some(records),
    };
    Some((told, Reader::new(after)))
}

/// Tagged fields end each struct of a flexible version; none is known.
#[inline]
fn end_struct(reader: &mut Reader<'_>, version: Version) -> Result<(), DecodeError> {
    if version.flexible {
        reader.skip_tagged_fields()?;
    }
    Ok(())
}

/// The length of an array that may not be null, taken off the elements that are left. Each element
/// takes at least a byte, so what is left of the bytes bounds it, too.
#[inline]
fn array_length(
    reader: &mut Reader<'_>,
    version: Version,
    elements_left: &mut usize,
) -> Result<usize, DecodeError> {
    let length = reader.length(version.flexible)?;
    let length = length.ok_or(DecodeError::UnexpectedNull)?;
    if length > reader.remaining().len() {
        return Err(DecodeError::Truncated);
    }
    let left = elements_left.checked_sub(length);
    *elements_left = left.ok_or(DecodeError::TooManyElements)?;
    Ok(length)
}
