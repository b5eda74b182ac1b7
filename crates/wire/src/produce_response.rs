//! A produce response written from results straight into the connection's buffer.
//!
//! The pieces are those of [`crate::messages::ProduceResponse`]; a test holds the two equal in every
//! version. A partition without errors of single records costs its fixed fields and nothing else.

use crate::messages::produce_response::LeaderIdAndEpoch;
use model::varint::{size_of_unsigned_varint, write_unsigned_varint};
use model::{BrokerId, Element, ErrorCode, Fields, LeaderEpoch, Message, Uuid, Version, Writer};

/// What a response says of a partition.
#[derive(Debug, Clone, Copy)]
pub struct ProduceResponsePartition<'a> {
    /// The partition's index.
    pub index: i32,
    /// Whether its records were appended.
    pub error: ErrorCode,
    /// The offset of the first record; -1 with an error.
    pub base_offset: i64,
    /// When the broker appended them, with LogAppendTime; -1 otherwise.
    pub log_append_time_ms: i64,
    /// The first offset that there is; -1 with an error.
    pub log_start_offset: i64,
    /// Records that the batch is refused for: index and message.
    pub record_errors: &'a [(i32, Option<String>)],
    /// What is wrong with the batch.
    pub error_message: Option<&'a str>,
    /// The leader to send to instead, with its epoch.
    pub current_leader: Option<(BrokerId, LeaderEpoch)>,
}

/// Writes a produce response in one version.
#[derive(Debug, Clone, Copy)]
pub struct ProduceResponseWriter {
    version: Version,
}

impl ProduceResponseWriter {
    /// A writer for `version`.
    #[inline]
    pub fn new(version: i16) -> Self {
        Self {
            version: crate::messages::ProduceResponse::layout(version),
        }
    }

    /// Appends the front of a response with `topic_count` topics.
    #[inline]
    pub fn head(&self, topic_count: usize, out: &mut Vec<u8>) {
        Writer::length(Some(topic_count), self.version.flexible, out);
    }

    /// Appends the front of a topic with `partition_count` partitions.
    #[inline]
    pub fn topic(&self, name: &str, id: Uuid, partition_count: usize, out: &mut Vec<u8>) {
        if self.version.number >= 13 {
            out.extend_from_slice(&id.to_bytes());
        } else {
            Writer::string(Some(name), self.version.flexible, out);
        }
        Writer::length(Some(partition_count), self.version.flexible, out);
    }

    /// Appends a partition.
    #[inline]
    pub fn partition(&self, partition: &ProduceResponsePartition<'_>, out: &mut Vec<u8>) {
        let is_plain = partition.record_errors.is_empty()
            && partition.error_message.is_none()
            && partition.current_leader.is_none();
        if self.version.flexible && is_plain {
            // No errors of records, no message and no tagged fields are a zero each but the first,
            // whose count is one more than it counts.
            let mut fields = [0; 33];
            Fields::of(&mut fields)
                .put(partition.index.to_be_bytes())
                .put(partition.error.code().to_be_bytes())
                .put(partition.base_offset.to_be_bytes())
                .put(partition.log_append_time_ms.to_be_bytes())
                .put(partition.log_start_offset.to_be_bytes())
                .put([1, 0, 0]);
            out.extend_from_slice(&fields);
        } else {
            self.any_partition(partition, out);
        }
    }

    #[cold]
    fn any_partition(&self, partition: &ProduceResponsePartition<'_>, out: &mut Vec<u8>) {
        let Version { number, flexible } = self.version;
        out.extend_from_slice(&partition.index.to_be_bytes());
        out.extend_from_slice(&partition.error.code().to_be_bytes());
        out.extend_from_slice(&partition.base_offset.to_be_bytes());
        out.extend_from_slice(&partition.log_append_time_ms.to_be_bytes());
        if number >= 5 {
            out.extend_from_slice(&partition.log_start_offset.to_be_bytes());
        }
        if number >= 8 {
            Writer::length(Some(partition.record_errors.len()), flexible, out);
            for (index, message) in partition.record_errors {
                out.extend_from_slice(&index.to_be_bytes());
                Writer::string(message.as_deref(), flexible, out);
                if flexible {
                    out.push(0);
                }
            }
            Writer::string(partition.error_message, flexible, out);
        }
        match partition.current_leader {
            Some((leader_id, leader_epoch)) if number >= 10 => {
                let leader = LeaderIdAndEpoch {
                    leader_id,
                    leader_epoch: leader_epoch.0,
                };
                out.push(1);
                Writer::tagged(0, leader.encoded_size(self.version), out);
                leader.encode(self.version, out);
            }
            _ if flexible => out.push(0),
            _ => {}
        }
    }

    /// Appends what follows a topic's partitions.
    #[inline]
    pub fn end_topic(&self, out: &mut Vec<u8>) {
        if self.version.flexible {
            out.push(0);
        }
    }

    /// Appends the end of the response: `node_endpoints` are the addresses of the leaders that the
    /// partitions name (id, host, port, rack; KIP-951).
    #[inline]
    pub fn end(
        &self,
        throttle_time_ms: i32,
        node_endpoints: &[(BrokerId, &str, i32, Option<&str>)],
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(&throttle_time_ms.to_be_bytes());
        if self.version.flexible {
            let since = self.version.number >= 10;
            write_node_endpoints(if since { node_endpoints } else { &[] }, out);
        }
    }
}

/// Appends the tagged fields at the end of a produce or fetch response: none, or the endpoints.
#[inline]
pub(crate) fn write_node_endpoints(
    node_endpoints: &[(BrokerId, &str, i32, Option<&str>)],
    out: &mut Vec<u8>,
) {
    if node_endpoints.is_empty() {
        out.push(0);
    } else {
        write_some_node_endpoints(node_endpoints, out);
    }
}

#[cold]
fn write_some_node_endpoints(
    node_endpoints: &[(BrokerId, &str, i32, Option<&str>)],
    out: &mut Vec<u8>,
) {
    let mut size = size_of_unsigned_varint(node_endpoints.len() as u32 + 1);
    for (_, host, _, rack) in node_endpoints {
        size += 8 + 1 + Writer::string_size(Some(host), true) + Writer::string_size(*rack, true);
    }
    write_unsigned_varint(1, out);
    Writer::tagged(0, size, out);
    write_unsigned_varint(node_endpoints.len() as u32 + 1, out);
    for (id, host, port, rack) in node_endpoints {
        out.extend_from_slice(&id.0.to_be_bytes());
        Writer::string(Some(host), true, out);
        out.extend_from_slice(&port.to_be_bytes());
        Writer::string(*rack, true, out);
        out.push(0);
    }
}
