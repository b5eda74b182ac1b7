//! A fetch response written piece by piece, so that records can go from their file to the socket.
//!
//! The pieces are those of [`crate::messages::FetchResponse`]; a test holds the two equal in every
//! version. Between [`FetchResponseWriter::partition`] and the next call the caller appends, or
//! sends from elsewhere, exactly the record bytes that it announced.

use crate::messages::fetch_response::{EpochEndOffset, LeaderIdAndEpoch};
use crate::produce_response::write_node_endpoints;
use model::varint::write_unsigned_varint;
use model::{Element, ErrorCode, Message, Uuid, Version, Writer};

/// What stands at the front of the response.
#[derive(Debug, Clone, Copy)]
pub struct FetchResponseHead {
    /// How long the client is asked to wait.
    pub throttle_time_ms: i32,
    /// An error of the whole request, such as of its session.
    pub error: ErrorCode,
    /// The session that the request made or used; 0 for none.
    pub session_id: i32,
    /// How many topics follow.
    pub topic_count: usize,
}

/// What a response says of a partition beside its records.
#[derive(Debug, Clone, Copy)]
pub struct FetchResponsePartition<'a> {
    /// The partition's index.
    pub index: i32,
    /// An error of this partition.
    pub error: ErrorCode,
    /// The first offset that is not replicated; -1 unknown.
    pub high_watermark: i64,
    /// The first offset of an open transaction, or the high watermark; -1 unknown.
    pub last_stable_offset: i64,
    /// The first offset that there is; -1 unknown.
    pub log_start_offset: i64,
    /// Where the log of the fetcher leaves that of the leader (KIP-595).
    pub diverging_epoch: Option<(i32, i64)>,
    /// The leader to ask instead, with its epoch.
    pub current_leader: Option<(i32, i32)>,
    /// Producer id and first offset of transactions that were aborted; `None` unless asked for.
    pub aborted_transactions: Option<&'a [(i64, i64)]>,
    /// The replica to fetch from instead; -1 for none.
    pub preferred_read_replica: i32,
    /// How many bytes of records follow.
    pub records_bytes: usize,
}

/// Writes a fetch response in one version.
#[derive(Debug)]
pub struct FetchResponseWriter {
    version: Version,
    /// The tagged fields of the partition whose records are being appended.
    tags: Vec<u8>,
}

impl FetchResponseWriter {
    /// A writer for `version`.
    pub fn new(version: i16) -> Self {
        let version = crate::messages::FetchResponse::layout(version);
        Self {
            version,
            tags: Vec::new(),
        }
    }

    /// Appends the front of the response.
    pub fn head(&mut self, head: &FetchResponseHead, out: &mut Vec<u8>) {
        out.extend_from_slice(&head.throttle_time_ms.to_be_bytes());
        if self.version.number >= 7 {
            out.extend_from_slice(&head.error.code().to_be_bytes());
            out.extend_from_slice(&head.session_id.to_be_bytes());
        }
        Writer::length(Some(head.topic_count), self.version.flexible, out);
    }

    /// Appends the front of a topic with `partition_count` partitions.
    pub fn topic(&mut self, name: &str, id: Uuid, partition_count: usize, out: &mut Vec<u8>) {
        if self.version.number >= 13 {
            out.extend_from_slice(&id.to_bytes());
        } else {
            Writer::string(Some(name), self.version.flexible, out);
        }
        Writer::length(Some(partition_count), self.version.flexible, out);
    }

    /// Appends a partition up to its records, whose bytes the caller adds, followed by
    /// [`FetchResponseWriter::end_partition`].
    pub fn partition(&mut self, partition: &FetchResponsePartition<'_>, out: &mut Vec<u8>) {
        let Version { number, flexible } = self.version;
        out.extend_from_slice(&partition.index.to_be_bytes());
        out.extend_from_slice(&partition.error.code().to_be_bytes());
        out.extend_from_slice(&partition.high_watermark.to_be_bytes());
        out.extend_from_slice(&partition.last_stable_offset.to_be_bytes());
        if number >= 5 {
            out.extend_from_slice(&partition.log_start_offset.to_be_bytes());
        }
        let aborted = partition.aborted_transactions;
        Writer::length(aborted.map(<[_]>::len), flexible, out);
        for (producer_id, first_offset) in aborted.unwrap_or_default() {
            out.extend_from_slice(&producer_id.to_be_bytes());
            out.extend_from_slice(&first_offset.to_be_bytes());
            if flexible {
                out.push(0);
            }
        }
        if number >= 11 {
            out.extend_from_slice(&partition.preferred_read_replica.to_be_bytes());
        }
        Writer::length(Some(partition.records_bytes), flexible, out);
        self.prepare_tags(partition);
    }

    /// Appends what follows a partition's records.
    pub fn end_partition(&mut self, out: &mut Vec<u8>) {
        if self.version.flexible {
            out.extend_from_slice(&self.tags);
        }
    }

    /// Appends what follows a topic's partitions.
    pub fn end_topic(&mut self, out: &mut Vec<u8>) {
        if self.version.flexible {
            out.push(0);
        }
    }

    /// Appends the end of the response: `node_endpoints` are the addresses of the leaders that the
    /// partitions name (id, host, port, rack; KIP-951).
    pub fn end(&mut self, node_endpoints: &[(i32, &str, i32, Option<&str>)], out: &mut Vec<u8>) {
        if self.version.flexible {
            let since = self.version.number >= 16;
            write_node_endpoints(if since { node_endpoints } else { &[] }, out);
        }
    }

    fn prepare_tags(&mut self, partition: &FetchResponsePartition<'_>) {
        self.tags.clear();
        if !self.version.flexible {
            return;
        }
        let count = u32::from(partition.diverging_epoch.is_some())
            + u32::from(partition.current_leader.is_some());
        write_unsigned_varint(count, &mut self.tags);
        if let Some((epoch, end_offset)) = partition.diverging_epoch {
            let diverging = EpochEndOffset { epoch, end_offset };
            Writer::tagged(0, diverging.encoded_size(self.version), &mut self.tags);
            diverging.encode(self.version, &mut self.tags);
        }
        if let Some((leader_id, leader_epoch)) = partition.current_leader {
            let leader = LeaderIdAndEpoch {
                leader_id,
                leader_epoch,
            };
            Writer::tagged(1, leader.encoded_size(self.version), &mut self.tags);
            leader.encode(self.version, &mut self.tags);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::FetchResponse;
    use crate::messages::fetch_response::{
        AbortedTransaction, FetchableTopicResponse, NodeEndpoint, PartitionData,
    };
    use model::Array;

    const ABORTED: &[(i64, i64)] = &[(7, 3), (8, 4)];

    fn partitions() -> [FetchResponsePartition<'static>; 3] {
        let plain = FetchResponsePartition {
            index: 0,
            error: ErrorCode::None,
            high_watermark: 10,
            last_stable_offset: 9,
            log_start_offset: 1,
            diverging_epoch: None,
            current_leader: None,
            aborted_transactions: None,
            preferred_read_replica: -1,
            records_bytes: 5,
        };
        let aborted = FetchResponsePartition {
            index: 1,
            aborted_transactions: Some(ABORTED),
            records_bytes: 200,
            ..plain
        };
        let moved = FetchResponsePartition {
            index: 2,
            error: ErrorCode::NotLeaderOrFollower,
            diverging_epoch: Some((3, 4)),
            current_leader: Some((5, 6)),
            records_bytes: 0,
            ..plain
        };
        [plain, aborted, moved]
    }

    fn streamed(version: i16) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = FetchResponseWriter::new(version);
        let head = FetchResponseHead {
            throttle_time_ms: 1,
            error: ErrorCode::None,
            session_id: 42,
            topic_count: 1,
        };
        writer.head(&head, &mut out);
        writer.topic("topic", Uuid::from_u128(77), 3, &mut out);
        for partition in partitions() {
            writer.partition(&partition, &mut out);
            out.resize(out.len() + partition.records_bytes, 0xab);
            writer.end_partition(&mut out);
        }
        writer.end_topic(&mut out);
        writer.end(&[(5, "host", 9092, Some("rack"))], &mut out);
        out
    }

    fn generated(version: i16) -> Vec<u8> {
        let records = [0xab; 200];
        let partitions: Vec<PartitionData<'_>> = partitions()
            .iter()
            .map(|p| PartitionData {
                partition_index: p.index,
                error_code: p.error.code(),
                high_watermark: p.high_watermark,
                last_stable_offset: p.last_stable_offset,
                log_start_offset: p.log_start_offset,
                diverging_epoch: p.diverging_epoch.map_or_else(EpochEndOffset::default, |d| {
                    EpochEndOffset {
                        epoch: d.0,
                        end_offset: d.1,
                    }
                }),
                current_leader: p
                    .current_leader
                    .map_or_else(LeaderIdAndEpoch::default, |l| LeaderIdAndEpoch {
                        leader_id: l.0,
                        leader_epoch: l.1,
                    }),
                aborted_transactions: p.aborted_transactions.map(|all| {
                    let all = all
                        .iter()
                        .map(|&(producer_id, first_offset)| AbortedTransaction {
                            producer_id,
                            first_offset,
                        });
                    all.collect()
                }),
                preferred_read_replica: p.preferred_read_replica,
                records: Some(&records[..p.records_bytes]),
                ..PartitionData::default()
            })
            .collect();
        let topic = FetchableTopicResponse {
            topic: "topic",
            topic_id: Uuid::from_u128(77),
            partitions: partitions.into(),
        };
        let endpoint = NodeEndpoint {
            node_id: 5,
            host: "host",
            port: 9092,
            rack: Some("rack"),
        };
        let response = FetchResponse {
            throttle_time_ms: 1,
            session_id: 42,
            responses: Array::from(vec![topic]),
            node_endpoints: Array::from(vec![endpoint]),
            ..FetchResponse::default()
        };
        response.to_bytes(version)
    }

    #[test]
    fn equals_the_generated_codec_in_every_version() {
        for version in 4..=18 {
            assert_eq!(streamed(version), generated(version), "version {version}");
        }
    }
}
