//! A fetch response read in one pass, its records in place: as followers read it.
//!
//! What is read is [`crate::messages::FetchResponse`] in the versions that name topics by id, without what only
//! consumers look at; a test holds the two equal, also for what is damaged. Here the caller is told of each
//! partition as it is read, and acts on none before the end is reached without error.

use crate::messages::FetchResponse;
use crate::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, NodeEndpoint, SnapshotId,
};
use model::{
    Array, DecodeError, Element, ErrorCode, LeaderEpoch, Message, Offset, Reader, Uuid, Version,
};

/// From this version on topics are named by id.
const IDS_SINCE: i16 = 13;
/// The least bytes of a partition: up to the length of its records, where there are no aborted transactions, that
/// length, and the end. A length of two bytes takes the last of them, too.
const FIXED_BYTES: usize = 37;
/// From this version on the response may name where leaders are.
const ENDPOINTS_SINCE: i16 = 16;

/// What a response says of all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchAnswer {
    /// How long the caller is asked to wait.
    pub throttle_time_ms: i32,
    /// An error of the whole request, such as of its session.
    pub error: ErrorCode,
    /// The session that the request made or used; 0 for none.
    pub session_id: i32,
}

/// What a response says of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweredPartition<'a> {
    /// The partition's index.
    pub index: i32,
    /// The number of an error of this partition. It is known by its name when it is looked at, and most are none.
    pub error_code: i16,
    /// The first offset that is not replicated; -1 unknown.
    pub high_watermark: Offset,
    /// The first offset that there is; -1 unknown.
    pub log_start_offset: Offset,
    /// Where the log of the fetcher leaves that of the leader (KIP-595).
    pub diverging_epoch: Option<(LeaderEpoch, Offset)>,
    /// Record batches, the last of which may be cut off.
    pub records: &'a [u8],
}

/// Reads the response that `body` is and calls `partition` with each partition of each topic, in their order, and
/// with where in the body it begins: [`read_answered_partition`] reads it again from there.
///
/// # Errors
/// A [`DecodeError`] when the bytes are not a response of this version and nothing else, or what `partition`
/// says; by then some partitions may have been told.
#[inline]
pub fn read_fetch_response<'a, E: From<DecodeError>>(
    body: &'a [u8],
    version: i16,
    mut partition: impl FnMut(Uuid, &AnsweredPartition<'a>, usize) -> Result<(), E>,
) -> Result<FetchAnswer, E> {
    if !(IDS_SINCE..=FetchResponse::MAX_VERSION).contains(&version) {
        return Err(DecodeError::UnsupportedVersion.into());
    }
    let version = FetchResponse::layout(version);
    let mut reader = Reader::new(body);
    let answer = FetchAnswer {
        throttle_time_ms: reader.i32()?,
        error: ErrorCode::from_code(reader.i16()?),
        session_id: reader.i32()?,
    };
    let mut topics_left = array_length(&mut reader)?;
    let mut rest = reader.remaining();
    // Of the topic that is being read.
    let (mut topic_id, mut partitions_left) = (Uuid::ZERO, 0);
    // One loop, so that what is done with a partition stands in one place.
    while topics_left > 0 {
        if partitions_left == 0 {
            (topic_id, partitions_left, rest) = match frequent_topic(rest) {
                Some(frequent) => frequent,
                None => any_topic(rest)?,
            };
        }
        if partitions_left > 0 {
            let at = body.len() - rest.len();
            let (answered, after) = match frequent_partition(rest) {
                Some(frequent) => frequent,
                None => any_partition(rest, version)?,
            };
            rest = after;
            partition(topic_id, &answered, at)?;
            partitions_left -= 1;
        }
        if partitions_left == 0 {
            topics_left -= 1;
            rest = match rest {
                [0, after @ ..] => after,
                _ => past_tagged_fields(rest)?,
            };
        }
    }
    match rest {
        [0] => Ok(answer),
        _ => Ok(read_end(Reader::new(rest), version).map(|()| answer)?),
    }
}

/// The head of a topic of fewer than 127 partitions: its id, their number, and the bytes that follow. `None` when
/// it has more, or is damaged.
#[inline]
fn frequent_topic(bytes: &[u8]) -> Option<(Uuid, usize, &[u8])> {
    let (id, rest) = bytes.split_first_chunk()?;
    match *rest {
        [length @ 1..0x80, ref rest @ ..] => {
            Some((Uuid::from_bytes(*id), usize::from(length) - 1, rest))
        }
        _ => None,
    }
}

#[cold]
fn any_topic(bytes: &[u8]) -> Result<(Uuid, usize, &[u8]), DecodeError> {
    let mut reader = Reader::new(bytes);
    let topic_id = reader.uuid()?;
    let partition_count = array_length(&mut reader)?;
    Ok((topic_id, partition_count, reader.remaining()))
}

#[cold]
fn past_tagged_fields(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let mut reader = Reader::new(bytes);
    reader.skip_tagged_fields()?;
    Ok(reader.remaining())
}

/// Reads the partition at the front of `bytes`.
///
/// # Errors
/// A [`DecodeError`] when there is none in this version.
#[inline]
pub fn read_answered_partition(
    bytes: &[u8],
    version: i16,
) -> Result<AnsweredPartition<'_>, DecodeError> {
    match frequent_partition(bytes) {
        Some((frequent, _)) => Ok(frequent),
        None => any_partition(bytes, FetchResponse::layout(version)).map(|(any, _)| any),
    }
}

/// Reads what the partition at the front of `bytes` begins with in every form: the number of its error, its high
/// watermark, and where its log starts.
#[inline]
pub fn read_answered_offsets(bytes: &[u8]) -> Option<(i16, Offset, Offset)> {
    let fixed = bytes.first_chunk()?;
    let error_code = i16::from_be_bytes(field(fixed, 4));
    let (high_watermark, log_start_offset) = (field(fixed, 6), field(fixed, 22));
    Some((
        error_code,
        Offset(i64::from_be_bytes(high_watermark)),
        Offset(i64::from_be_bytes(log_start_offset)),
    ))
}

/// The length of an array that may not be null. Each element takes at least a byte, so what is left of the bytes
/// bounds it.
#[inline]
fn array_length(reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
    let length = reader.length(true)?.ok_or(DecodeError::UnexpectedNull)?;
    match length > reader.remaining().len() {
        true => Err(DecodeError::Truncated),
        false => Ok(length),
    }
}

/// A partition, and the bytes that follow it.
type Split<'a> = (AnsweredPartition<'a>, &'a [u8]);

/// A partition in the form that nearly all have: records of less than 16 KiB, no aborted transactions, and no
/// tagged field. `None` when it has another form or is damaged.
#[inline]
fn frequent_partition(bytes: &[u8]) -> Option<Split<'_>> {
    let fixed = bytes.first_chunk()?;
    // Null, which followers are told, or none.
    if fixed[30] > 1 {
        return None;
    }
    let (compact_length, start) = match (usize::from(fixed[35]), usize::from(fixed[36])) {
        (low @ ..0x80, _) => (low, 36),
        (low, high @ ..0x80) => (low & 0x7f | high << 7, 37),
        _ => return None,
    };
    // Null is as good as nothing.
    let end = start + compact_length.saturating_sub(1);
    let (0, after) = bytes.get(end..)?.split_first()? else {
        return None;
    };
    let records = &bytes[start..end];
    let told = AnsweredPartition {
        index: i32::from_be_bytes(field(fixed, 0)),
        error_code: i16::from_be_bytes(field(fixed, 4)),
        high_watermark: Offset(i64::from_be_bytes(field(fixed, 6))),
        log_start_offset: Offset(i64::from_be_bytes(field(fixed, 22))),
        diverging_epoch: None,
        records,
    };
    Some((told, after))
}

/// The bytes of a field that begins at `at`.
#[inline]
fn field<const N: usize>(fixed: &[u8; FIXED_BYTES], at: usize) -> [u8; N] {
    let bytes = fixed[at..].first_chunk();
    *bytes.expect("the field is within the fixed part")
}

/// A partition in any form.
#[cold]
fn any_partition(bytes: &[u8], version: Version) -> Result<Split<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let index = reader.i32()?;
    let error_code = reader.i16()?;
    let high_watermark = reader.i64()?;
    let _last_stable_offset = reader.i64()?;
    let log_start_offset = reader.i64()?;
    Array::<'_, AbortedTransaction>::decode_nullable(&mut reader, version)?;
    let _preferred_read_replica = reader.i32()?;
    let records = reader.nullable_bytes(true)?.unwrap_or_default();
    let mut diverging_epoch = None;
    reader.tagged_fields(|tag, field| {
        match tag {
            0 => {
                let end = EpochEndOffset::decode(field, version)?;
                diverging_epoch = Some((LeaderEpoch(end.epoch), Offset(end.end_offset)));
            }
            1 => {
                LeaderIdAndEpoch::decode(field, version)?;
            }
            2 => {
                SnapshotId::decode(field, version)?;
            }
            _ => {}
        }
        Ok(())
    })?;
    // A field at its default says as much as one that is not there.
    let diverging_epoch = diverging_epoch.filter(|(epoch, _)| !epoch.is_none());
    let told = AnsweredPartition {
        index,
        error_code,
        high_watermark: Offset(high_watermark),
        log_start_offset: Offset(log_start_offset),
        diverging_epoch,
        records,
    };
    Ok((told, reader.remaining()))
}

/// The end of the response, which may name where leaders are.
#[cold]
fn read_end(mut reader: Reader<'_>, version: Version) -> Result<(), DecodeError> {
    reader.tagged_fields(|tag, field| match tag {
        0 if version.number >= ENDPOINTS_SINCE => {
            Array::<'_, NodeEndpoint<'_>>::decode(field, version).map(drop)
        }
        _ => Ok(()),
    })?;
    match reader.is_empty() {
        true => Ok(()),
        false => Err(DecodeError::TrailingBytes),
    }
}
