//! What a member is to do: Kafka Streams' `AssignmentInfo`, the user data of SyncGroup.
//!
//! | field | in version |
//! |--|--|
//! | i32 version | all |
//! | i32 version that all members know | 3 and later |
//! | task id* of active tasks | all |
//! | (task id, (topic, i32 partition)*)* of standby tasks | all |
//! | (host, i32 port, (topic, i32 partition)*)* of active tasks | 2 to 4 |
//! | (i32 index, topic)*, the dictionary of topics | 5 and later |
//! | (host, i32 port, (i32 index, i32 partition)*)* of active tasks | 5 and later |
//! | the same of standby tasks | 6 and later |
//! | i32 error code | 4 and later |
//! | i64 time of the next rebalance, ms | 7 and later |
//!
//! A list has an i32 count before it, a topic or host a u16 length. A task id is an i32 sub-topology
//! and an i32 partition, from version 10 on with an i32 length of a named topology, which is 0.

use super::super::FormatError;
use super::super::field_reader::{FieldReader, write_count};
use super::{LATEST_VERSION, NAMED_TOPOLOGY_FROM, OfVersion, TaskId};
use std::collections::BTreeMap;

/// A member's time of the next rebalance when there is none to come.
const NO_REBALANCE: i64 = i64::MAX;
/// The fewest bytes of a topic and a partition.
const TOPIC_PARTITION_BYTES_MIN: usize = 2 + 4;
/// The fewest bytes of a host with its port and its partitions.
const HOST_BYTES_MIN: usize = 2 + 4 + 4;

/// What the leader tells a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberAssignment<'a> {
    /// The version that it is written in.
    pub version: i32,
    /// The greatest version that all members know; before version 3 the version itself.
    pub commonly_supported_version: i32,
    /// The task of each partition that the member is assigned, by topic and partition. A task of
    /// two inputs is there twice.
    pub active_tasks: Vec<TaskId>,
    /// The standby tasks and the partitions of their changelogs' sources.
    pub standby_tasks: Vec<StandbyTask<'a>>,
    /// Which instance has which partitions as active ones; from version 2 on.
    pub active_hosts: Vec<HostPartitions<'a>>,
    /// Which instance has which partitions as standbys; from version 6 on.
    pub standby_hosts: Vec<HostPartitions<'a>>,
    /// Why there is nothing to do; from version 4 on.
    pub error: AssignmentError,
    /// When the member is to join again, in ms of its clock: `None` for never, 0 for at once.
    pub next_rebalance_ms: Option<i64>,
}

/// A task that a member keeps a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandbyTask<'a> {
    /// The task.
    pub task: TaskId,
    /// The partitions of the task.
    pub partitions: Vec<AssignedPartition<'a>>,
}

/// The partitions of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPartitions<'a> {
    /// Where it answers interactive queries.
    pub host: &'a str,
    /// Where it answers interactive queries.
    pub port: i32,
    /// Its partitions.
    pub partitions: Vec<AssignedPartition<'a>>,
}

/// A partition, borrowed from the user data: a topic may be in many of its lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AssignedPartition<'a> {
    /// The topic's name.
    pub topic: &'a str,
    /// The partition's index within the topic.
    pub partition: i32,
}

/// Why a leader assigned nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AssignmentError {
    /// There is an assignment.
    #[default]
    None,
    /// A source topic is missing.
    IncompleteSourceTopicMetadata,
    /// The leader knows a lower version only.
    VersionProbing,
    /// The leader failed.
    Assignment,
    /// A member asked for all to shut down.
    ShutdownRequested,
}

impl AssignmentError {
    /// Every error, in the order of their codes.
    const ALL: [Self; 5] = [
        Self::None,
        Self::IncompleteSourceTopicMetadata,
        Self::VersionProbing,
        Self::Assignment,
        Self::ShutdownRequested,
    ];

    fn of_code(code: i32) -> Result<Self, FormatError> {
        let known = usize::try_from(code)
            .ok()
            .and_then(|code| Self::ALL.get(code));
        known.copied().ok_or(FormatError::UnknownFlag(code))
    }
}

impl<'a> MemberAssignment<'a> {
    /// Reads the user data of an assignment.
    ///
    /// # Errors
    /// When the bytes are not whole, name a topology, or have an unknown error code.
    pub fn read(bytes: &'a [u8]) -> Result<OfVersion<Self>, FormatError> {
        let mut reader = FieldReader::new(bytes);
        let version = reader.i32()?;
        if version < 1 {
            return Err(FormatError::UnknownVersion(version));
        }
        let commonly_supported_version = match version {
            3.. => reader.i32()?,
            _ => version,
        };
        if version > LATEST_VERSION {
            return Ok(OfVersion::Newer {
                version,
                latest_supported_version: commonly_supported_version,
            });
        }
        let task_bytes = if version >= NAMED_TOPOLOGY_FROM {
            12
        } else {
            8
        };
        let mut assignment = Self {
            version,
            commonly_supported_version,
            active_tasks: reader.list(task_bytes, |reader| read_task(version, reader))?,
            standby_tasks: reader.list(task_bytes + 4, |reader| {
                Ok(StandbyTask {
                    task: read_task(version, reader)?,
                    partitions: read_partitions(reader)?,
                })
            })?,
            active_hosts: Vec::new(),
            standby_hosts: Vec::new(),
            error: AssignmentError::None,
            next_rebalance_ms: None,
        };
        assignment.read_hosts(&mut reader)?;
        if version >= 4 {
            assignment.error = AssignmentError::of_code(reader.i32()?)?;
        }
        if version >= 7 {
            let time_ms = reader.i64()?;
            assignment.next_rebalance_ms = Some(time_ms).filter(|&time_ms| time_ms != NO_REBALANCE);
        }
        reader.end()?;
        Ok(OfVersion::Known(assignment))
    }

    fn read_hosts(&mut self, reader: &mut FieldReader<'a>) -> Result<(), FormatError> {
        match self.version {
            ..2 => return Ok(()),
            2..5 => self.active_hosts = read_hosts(reader, read_partitions)?,
            5.. => {
                let entry = |reader: &mut FieldReader<'a>| Ok((reader.i32()?, read_text(reader)?));
                let topics = reader.list(6, entry)?.into_iter().collect();
                self.active_hosts = read_hosts(reader, |reader| read_indexed(&topics, reader))?;
                if self.version >= 6 {
                    self.standby_hosts =
                        read_hosts(reader, |reader| read_indexed(&topics, reader))?;
                }
            }
        }
        Ok(())
    }

    /// The user data, in the assignment's version. What the version does not have is left out.
    ///
    /// # Panics
    /// When the version is none of 1 to 11, or a topic or host takes 64 KiB or more.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_with_hosts(&self.hosts_to_bytes())
    }

    /// The part of the user data that tells of hosts. It is the same for all members of a group, and the most of what
    /// a large group is told.
    ///
    /// # Panics
    /// When a topic or host takes 64 KiB or more.
    pub fn hosts_to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.version {
            ..2 => {}
            2..5 => write_hosts(&self.active_hosts, write_text, &mut bytes),
            5.. => self.write_indexed_hosts(&mut bytes),
        }
        bytes
    }

    /// As `to_bytes`, with the hosts as `hosts_to_bytes` has written them.
    ///
    /// # Panics
    /// As `to_bytes`.
    pub fn to_bytes_with_hosts(&self, hosts: &[u8]) -> Vec<u8> {
        let version = self.version;
        let is_known = (1..=LATEST_VERSION).contains(&version);
        assert!(is_known, "an assignment is written in a known version");
        let mut bytes = version.to_be_bytes().to_vec();
        if version >= 3 {
            bytes.extend_from_slice(&self.commonly_supported_version.to_be_bytes());
        }
        write_count(self.active_tasks.len(), &mut bytes);
        for task in &self.active_tasks {
            write_task(version, *task, &mut bytes);
        }
        write_count(self.standby_tasks.len(), &mut bytes);
        for StandbyTask { task, partitions } in &self.standby_tasks {
            write_task(version, *task, &mut bytes);
            write_partitions(partitions, write_text, &mut bytes);
        }
        bytes.extend_from_slice(hosts);
        if version >= 4 {
            bytes.extend_from_slice(&(self.error as i32).to_be_bytes());
        }
        if version >= 7 {
            let time_ms = self.next_rebalance_ms.unwrap_or(NO_REBALANCE);
            bytes.extend_from_slice(&time_ms.to_be_bytes());
        }
        bytes
    }

    fn write_indexed_hosts(&self, out: &mut Vec<u8>) {
        let standby_hosts = match self.version {
            6.. => &self.standby_hosts[..],
            _ => &[],
        };
        let hosts = self.active_hosts.iter().chain(standby_hosts);
        let partitions = hosts.flat_map(|host| &host.partitions);
        let topics = partitions.map(|partition| (partition.topic, 0));
        let mut topics: BTreeMap<&str, i32> = topics.collect();
        for (index, known) in (0..).zip(topics.values_mut()) {
            *known = index;
        }
        write_count(topics.len(), out);
        for (topic, index) in &topics {
            out.extend_from_slice(&index.to_be_bytes());
            write_text(topic, out);
        }
        let write_index = |topic: &str, out: &mut Vec<u8>| {
            out.extend_from_slice(&topics[topic].to_be_bytes());
        };
        write_hosts(&self.active_hosts, write_index, out);
        if self.version >= 6 {
            write_hosts(standby_hosts, write_index, out);
        }
    }
}

fn read_task(version: i32, reader: &mut FieldReader<'_>) -> Result<TaskId, FormatError> {
    let task = TaskId::read(reader)?;
    if version >= NAMED_TOPOLOGY_FROM && reader.i32()? != 0 {
        return Err(FormatError::NamedTopology);
    }
    Ok(task)
}

fn write_task(version: i32, task: TaskId, out: &mut Vec<u8>) {
    task.write(out);
    if version >= NAMED_TOPOLOGY_FROM {
        write_count(0, out);
    }
}

fn read_text<'a>(reader: &mut FieldReader<'a>) -> Result<&'a str, FormatError> {
    let length = reader.u16()?;
    let text = reader.take(i32::from(length))?;
    str::from_utf8(text).map_err(|_| FormatError::InvalidUtf8)
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    let length = u16::try_from(text.len()).expect("a topic or a host is shorter than 64 KiB");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn read_partitions<'a>(
    reader: &mut FieldReader<'a>,
) -> Result<Vec<AssignedPartition<'a>>, FormatError> {
    reader.list(TOPIC_PARTITION_BYTES_MIN, |reader| {
        Ok(AssignedPartition {
            topic: read_text(reader)?,
            partition: reader.i32()?,
        })
    })
}

/// Partitions whose topics are in the dictionary.
fn read_indexed<'a>(
    topics: &BTreeMap<i32, &'a str>,
    reader: &mut FieldReader<'a>,
) -> Result<Vec<AssignedPartition<'a>>, FormatError> {
    reader.list(8, |reader| {
        let topic = topics.get(&reader.i32()?);
        Ok(AssignedPartition {
            topic: topic.ok_or(FormatError::Contradiction)?,
            partition: reader.i32()?,
        })
    })
}

fn write_partitions(
    partitions: &[AssignedPartition<'_>],
    write_topic: impl Fn(&str, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    write_count(partitions.len(), out);
    for AssignedPartition { topic, partition } in partitions {
        write_topic(topic, out);
        out.extend_from_slice(&partition.to_be_bytes());
    }
}

fn read_hosts<'a>(
    reader: &mut FieldReader<'a>,
    mut partitions: impl FnMut(&mut FieldReader<'a>) -> Result<Vec<AssignedPartition<'a>>, FormatError>,
) -> Result<Vec<HostPartitions<'a>>, FormatError> {
    reader.list(HOST_BYTES_MIN, |reader| {
        Ok(HostPartitions {
            host: read_text(reader)?,
            port: reader.i32()?,
            partitions: partitions(reader)?,
        })
    })
}

fn write_hosts(
    hosts: &[HostPartitions<'_>],
    write_topic: impl Fn(&str, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    write_count(hosts.len(), out);
    for host in hosts {
        write_text(host.host, out);
        out.extend_from_slice(&host.port.to_be_bytes());
        write_partitions(&host.partitions, &write_topic, out);
    }
}
