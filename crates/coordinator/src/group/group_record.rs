//! A record of `__consumer_offsets` as it is read from the log.

use super::ReplayError;
use super::consumer::{ConsumerRecord, group_of_key, is_consumer_key};
use super::offset_store::CommittedOffset;
use super::records::{parse_group, parse_offset};
use crate::messages::{
    GroupMetadataKey, GroupMetadataValue, LegacyOffsetCommitKey, OffsetCommitKey,
};
use model::{Message, Offset, Reader};

/// A record of the log, as far as the coordinator knows its type.
#[derive(Debug)]
pub(super) enum GroupRecord<'a> {
    /// An offset, or that there is none any more.
    Offset {
        group_id: &'a str,
        topic: &'a str,
        partition: i32,
        offset: Option<CommittedOffset>,
    },
    /// A classic group, or that it is gone.
    Classic {
        group_id: &'a str,
        stored: Option<StoredGroup<'a>>,
    },
    /// Part of a consumer group.
    Consumer {
        group_id: &'a str,
        record: Box<ConsumerRecord<'a>>,
    },
    /// Part of a share or streams group.
    Modern { group_id: &'a str, key_type: i16 },
    /// Written by a later version.
    Unknown,
}

/// The value of a classic group's record.
#[derive(Debug, PartialEq)]
pub(super) struct StoredGroup<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) group: GroupMetadataValue<'a>,
}

impl<'a> GroupRecord<'a> {
    /// Reads a record that stands at `record_offset` of the log.
    pub(super) fn parse(
        record_offset: Offset,
        key: &'a [u8],
        value: Option<&'a [u8]>,
    ) -> Result<Self, ReplayError> {
        let mut reader = Reader::new(key);
        let key_type = reader.i16().map_err(ReplayError::Key)?;
        match key_type {
            LegacyOffsetCommitKey::ID | OffsetCommitKey::ID => {
                // Both types have the same fields.
                let key = OffsetCommitKey::read(&mut reader, 0).map_err(ReplayError::Key)?;
                let offset = value
                    .map(|value| parse_offset(record_offset, value))
                    .transpose()
                    .map_err(ReplayError::Value)?;
                Ok(Self::Offset {
                    group_id: key.group,
                    topic: key.topic,
                    partition: key.partition,
                    offset,
                })
            }
            GroupMetadataKey::ID => {
                let key = GroupMetadataKey::read(&mut reader, 0).map_err(ReplayError::Key)?;
                let stored = |bytes| parse_group(bytes).map(|group| StoredGroup { bytes, group });
                Ok(Self::Classic {
                    group_id: key.group,
                    stored: value.map(stored).transpose().map_err(ReplayError::Value)?,
                })
            }
            _ if is_consumer_key(key_type) => Ok(Self::Consumer {
                group_id: group_of_key(key).map_err(ReplayError::Key)?,
                record: Box::new(ConsumerRecord::parse(key, value)?),
            }),
            10..=15 | 17 | 19..=23 => Ok(Self::Modern {
                group_id: reader.string(false).map_err(ReplayError::Key)?,
                key_type,
            }),
            _ => Ok(Self::Unknown),
        }
    }
}
