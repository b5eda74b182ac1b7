//! What a member has and can do: Kafka Streams' `SubscriptionInfo`, the user data of JoinGroup.
//!
//! | field | in version |
//! |--|--|
//! | i32 version | all |
//! | i32 latest supported version | 3 and later |
//! | process id of 16 bytes | all |
//! | (i32 sub-topology, i32 partition)* of active tasks; of standby tasks | up to 6 |
//! | i32 length, `host:port` | 2 and later |
//! | (i32 sub-topology, (i32 partition, i64 offset sum)*)* | 7 to 9 |
//! | (i32 sub-topology, i32 partition, i64 offset sum, named topology)* | 10 and later |
//! | i8 unique field | 8 and later |
//! | i32 error code | 9 and later |
//! | (bytes key, bytes value)* of client tags | 11 |

use super::super::FormatError;
use super::super::field_reader::{FieldReader, write_count, write_sized};
use super::{LATEST_VERSION, NAMED_TOPOLOGY_FROM, OfVersion, TaskId};
use std::collections::BTreeMap;

/// The offset sum of a task that runs as an active one.
pub const LATEST_OFFSET: i64 = -2;
/// The offset sum of a task of whose state nothing is known.
pub const UNKNOWN_OFFSET_SUM: i64 = -3;
/// The error code of a member that asks for all to shut down.
pub const SHUTDOWN_REQUESTED: i32 = 4;

/// What a member tells the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSubscription {
    /// The version that it is written in.
    pub version: i32,
    /// The greatest version that the member knows; before version 3 the version itself.
    pub latest_supported_version: i32,
    /// Of the process that the member is a thread of.
    pub process_id: [u8; 16],
    /// `host:port` for interactive queries; empty for none, and before version 2.
    pub user_endpoint: String,
    /// How far the member's state of each task is: the sum of its changelog offsets,
    /// [`LATEST_OFFSET`] or [`UNKNOWN_OFFSET_SUM`]. Up to version 6 it says only whether the task
    /// was active, which is [`LATEST_OFFSET`], or a standby.
    pub task_offset_sums: BTreeMap<TaskId, i64>,
    /// Changes with each join, so that the bytes do.
    pub unique_field: i8,
    /// [`SHUTDOWN_REQUESTED`], or 0.
    pub error_code: i32,
    /// Tags of the process, for the distribution of standbys.
    pub client_tags: BTreeMap<String, String>,
}

impl MemberSubscription {
    /// Reads the user data of a subscription.
    ///
    /// # Errors
    /// When the bytes are not whole, or name a topology.
    pub fn read(bytes: &[u8]) -> Result<OfVersion<Self>, FormatError> {
        let mut reader = FieldReader::new(bytes);
        let version = reader.i32()?;
        if version < 1 {
            return Err(FormatError::UnknownVersion(version));
        }
        let latest_supported_version = match version {
            3.. => reader.i32()?,
            _ => version,
        };
        if version > LATEST_VERSION {
            return Ok(OfVersion::Newer {
                version,
                latest_supported_version,
            });
        }
        let mut subscription = Self {
            version,
            latest_supported_version,
            process_id: reader.array()?,
            user_endpoint: String::new(),
            task_offset_sums: BTreeMap::new(),
            unique_field: 0,
            error_code: 0,
            client_tags: BTreeMap::new(),
        };
        subscription.read_tasks_and_endpoint(&mut reader)?;
        if version >= 8 {
            subscription.unique_field = i8::from_be_bytes(reader.array()?);
        }
        if version >= 9 {
            subscription.error_code = reader.i32()?;
        }
        if version >= 11 {
            let tag = |reader: &mut FieldReader<'_>| Ok((owned(reader)?, owned(reader)?));
            subscription.client_tags = reader.list(8, tag)?.into_iter().collect();
        }
        reader.end()?;
        Ok(OfVersion::Known(subscription))
    }

    fn read_tasks_and_endpoint(&mut self, reader: &mut FieldReader<'_>) -> Result<(), FormatError> {
        if self.version <= 6 {
            for offset_sum in [LATEST_OFFSET, UNKNOWN_OFFSET_SUM] {
                let tasks = reader.list(8, TaskId::read)?;
                let sums = tasks.into_iter().map(|task| (task, offset_sum));
                self.task_offset_sums.extend(sums);
            }
        }
        if self.version >= 2 {
            self.user_endpoint = owned(reader)?;
        }
        match self.version {
            ..=6 => {}
            7..NAMED_TOPOLOGY_FROM => {
                for _ in 0..reader.count(8)? {
                    let subtopology = reader.i32()?;
                    for _ in 0..reader.count(12)? {
                        let task = TaskId {
                            subtopology,
                            partition: reader.i32()?,
                        };
                        self.task_offset_sums.insert(task, reader.i64()?);
                    }
                }
            }
            _ => {
                for _ in 0..reader.count(18)? {
                    let (task, offset_sum) = (TaskId::read(reader)?, reader.i64()?);
                    if reader.i16()? > 0 {
                        return Err(FormatError::NamedTopology);
                    }
                    self.task_offset_sums.insert(task, offset_sum);
                }
            }
        }
        Ok(())
    }

    /// The user data, in the subscription's version. What the version does not have is left out.
    ///
    /// # Panics
    /// When the version is none of 1 to 11.
    pub fn to_bytes(&self) -> Vec<u8> {
        let version = self.version;
        let is_known = (1..=LATEST_VERSION).contains(&version);
        assert!(is_known, "a subscription is written in a known version");
        let mut bytes = version.to_be_bytes().to_vec();
        if version >= 3 {
            bytes.extend_from_slice(&self.latest_supported_version.to_be_bytes());
        }
        bytes.extend_from_slice(&self.process_id);
        if version <= 6 {
            self.write_previous_tasks(&mut bytes);
        }
        if version >= 2 {
            write_sized(Some(self.user_endpoint.as_bytes()), &mut bytes);
        }
        match version {
            ..=6 => {}
            7..NAMED_TOPOLOGY_FROM => self.write_sums_by_subtopology(&mut bytes),
            _ => self.write_sums(&mut bytes),
        }
        if version >= 8 {
            bytes.extend_from_slice(&self.unique_field.to_be_bytes());
        }
        if version >= 9 {
            bytes.extend_from_slice(&self.error_code.to_be_bytes());
        }
        if version >= 11 {
            write_count(self.client_tags.len(), &mut bytes);
            for (key, value) in &self.client_tags {
                write_sized(Some(key.as_bytes()), &mut bytes);
                write_sized(Some(value.as_bytes()), &mut bytes);
            }
        }
        bytes
    }

    fn write_previous_tasks(&self, out: &mut Vec<u8>) {
        for is_active in [true, false] {
            let sums = self.task_offset_sums.iter();
            let tasks = sums.filter(|(_, sum)| (**sum == LATEST_OFFSET) == is_active);
            write_count(tasks.clone().count(), out);
            tasks.for_each(|(task, _)| task.write(out));
        }
    }

    fn write_sums_by_subtopology(&self, out: &mut Vec<u8>) {
        let sums: Vec<(&TaskId, &i64)> = self.task_offset_sums.iter().collect();
        let of_subtopologies =
            sums.chunk_by(|(one, _), (other, _)| one.subtopology == other.subtopology);
        write_count(of_subtopologies.clone().count(), out);
        for sums in of_subtopologies {
            out.extend_from_slice(&sums[0].0.subtopology.to_be_bytes());
            write_count(sums.len(), out);
            for (task, offset_sum) in sums {
                out.extend_from_slice(&task.partition.to_be_bytes());
                out.extend_from_slice(&offset_sum.to_be_bytes());
            }
        }
    }

    fn write_sums(&self, out: &mut Vec<u8>) {
        /// The length of no named topology.
        const NULL: i16 = -1;
        write_count(self.task_offset_sums.len(), out);
        for (task, offset_sum) in &self.task_offset_sums {
            task.write(out);
            out.extend_from_slice(&offset_sum.to_be_bytes());
            out.extend_from_slice(&NULL.to_be_bytes());
        }
    }
}

fn owned(reader: &mut FieldReader<'_>) -> Result<String, FormatError> {
    reader.text().map(str::to_owned)
}
