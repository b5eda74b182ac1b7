//! A fetch response written piece by piece, so that records can go from their file to the socket.
//!
//! The pieces are those of [`crate::messages::FetchResponse`]; a test holds the two equal in every
//! version. Between [`FetchResponseWriter::partition`] and the next call the caller appends, or
//! sends from elsewhere, exactly the record bytes that it announced.

use crate::messages::fetch_response::{EpochEndOffset, LeaderIdAndEpoch};
use crate::produce_response::write_node_endpoints;
use model::varint::unsigned_varint_bytes;
use model::{
    BrokerId, Element, ErrorCode, Fields, LeaderEpoch, Message, Offset, ProducerId, Uuid, Version,
    Writer,
};

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
    pub high_watermark: Offset,
    /// The first offset of an open transaction, or the high watermark; -1 unknown.
    pub last_stable_offset: Offset,
    /// The first offset that there is; -1 unknown.
    pub log_start_offset: Offset,
    /// Where the log of the fetcher leaves that of the leader (KIP-595).
    pub diverging_epoch: Option<(LeaderEpoch, Offset)>,
    /// The leader to ask instead, with its epoch.
    pub current_leader: Option<(BrokerId, LeaderEpoch)>,
    /// Producer id and first offset of transactions that were aborted; `None` unless asked for.
    pub aborted_transactions: Option<&'a [(ProducerId, Offset)]>,
    /// The replica to fetch from instead; -1 for none.
    pub preferred_read_replica: BrokerId,
    /// How many bytes of records follow.
    pub records_bytes: usize,
}

impl FetchResponsePartition<'_> {
    #[inline]
    const fn has_tags(&self) -> bool {
        self.diverging_epoch.is_some() || self.current_leader.is_some()
    }
}

/// Writes a fetch response in one version.
#[derive(Debug, Clone, Copy)]
pub struct FetchResponseWriter {
    version: Version,
}

impl FetchResponseWriter {
    /// A writer for `version`.
    #[inline]
    pub fn new(version: i16) -> Self {
        let version = crate::messages::FetchResponse::layout(version);
        Self { version }
    }

    /// Appends the front of the response.
    #[inline]
    pub fn head(&self, head: &FetchResponseHead, out: &mut Vec<u8>) {
        let mut fields = [0; 10];
        let rest = Fields::of(&mut fields).put(head.throttle_time_ms.to_be_bytes());
        if self.version.number >= 7 {
            rest.put(head.error.code().to_be_bytes())
                .put(head.session_id.to_be_bytes());
            append_with_length(fields, head.topic_count, self.version.flexible, out);
        } else {
            out.extend_from_slice(&head.throttle_time_ms.to_be_bytes());
            Writer::length(Some(head.topic_count), false, out);
        }
    }

    /// Appends the front of a topic with `partition_count` partitions.
    #[inline]
    pub fn topic(&self, name: &str, id: Uuid, partition_count: usize, out: &mut Vec<u8>) {
        if self.version.number >= 13 {
            append_with_length(id.to_bytes(), partition_count, true, out);
        } else {
            Writer::string(Some(name), self.version.flexible, out);
            Writer::length(Some(partition_count), self.version.flexible, out);
        }
    }

    /// Appends a partition up to its records, whose bytes the caller adds, followed by
    /// [`FetchResponseWriter::end_partition`].
    pub fn partition(&self, partition: &FetchResponsePartition<'_>, out: &mut Vec<u8>) {
        if self.version.flexible {
            flexible_partition(partition, out);
        } else {
            self.inflexible_partition(partition, out);
        }
    }

    /// Appends what follows the records of the partition that was appended last.
    #[inline]
    pub fn end_partition(&self, partition: &FetchResponsePartition<'_>, out: &mut Vec<u8>) {
        if !self.version.flexible {
            return;
        }
        if partition.has_tags() {
            self.tags(partition, out);
        } else {
            out.push(0);
        }
    }

    /// Appends the whole of a partition that has no records: the most frequent answer where many
    /// partitions are asked for.
    #[inline]
    pub fn partition_without_records(
        &self,
        partition: &FetchResponsePartition<'_>,
        out: &mut Vec<u8>,
    ) {
        let is_fixed = self.version.flexible
            && partition.aborted_transactions.is_none()
            && !partition.has_tags();
        if is_fixed {
            let mut fields = [0; 37];
            // The compact length of nothing, and no tagged fields.
            put_fixed(partition, Fields::of(&mut fields)).put([1, 0]);
            out.extend_from_slice(&fields);
        } else {
            self.both_ends(partition, out);
        }
    }

    #[cold]
    fn both_ends(&self, partition: &FetchResponsePartition<'_>, out: &mut Vec<u8>) {
        self.partition(partition, out);
        self.end_partition(partition, out);
    }

    fn inflexible_partition(&self, partition: &FetchResponsePartition<'_>, out: &mut Vec<u8>) {
        let number = self.version.number;
        out.extend_from_slice(&partition.index.to_be_bytes());
        out.extend_from_slice(&partition.error.code().to_be_bytes());
        out.extend_from_slice(&partition.high_watermark.0.to_be_bytes());
        out.extend_from_slice(&partition.last_stable_offset.0.to_be_bytes());
        if number >= 5 {
            out.extend_from_slice(&partition.log_start_offset.0.to_be_bytes());
        }
        let aborted = partition.aborted_transactions;
        Writer::length(aborted.map(<[_]>::len), false, out);
        for (producer_id, first_offset) in aborted.unwrap_or_default() {
            out.extend_from_slice(&producer_id.0.to_be_bytes());
            out.extend_from_slice(&first_offset.0.to_be_bytes());
        }
        if number >= 11 {
            out.extend_from_slice(&partition.preferred_read_replica.0.to_be_bytes());
        }
        Writer::length(Some(partition.records_bytes), false, out);
    }

    #[cold]
    fn tags(&self, partition: &FetchResponsePartition<'_>, out: &mut Vec<u8>) {
        let FetchResponsePartition {
            diverging_epoch,
            current_leader,
            ..
        } = partition;
        let count = u8::from(diverging_epoch.is_some()) + u8::from(current_leader.is_some());
        out.push(count);
        if let Some((epoch, end_offset)) = *diverging_epoch {
            let diverging = EpochEndOffset {
                epoch: epoch.0,
                end_offset: end_offset.0,
            };
            Writer::tagged(0, diverging.encoded_size(self.version), out);
            diverging.encode(self.version, out);
        }
        if let Some((leader_id, leader_epoch)) = *current_leader {
            let leader = LeaderIdAndEpoch {
                leader_id,
                leader_epoch: leader_epoch.0,
            };
            Writer::tagged(1, leader.encoded_size(self.version), out);
            leader.encode(self.version, out);
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
    pub fn end(&self, node_endpoints: &[(BrokerId, &str, i32, Option<&str>)], out: &mut Vec<u8>) {
        if self.version.flexible {
            let since = self.version.number >= 16;
            write_node_endpoints(if since { node_endpoints } else { &[] }, out);
        }
    }
}

#[inline]
fn append_with_length<const N: usize>(
    fields: [u8; N],
    length: usize,
    flexible: bool,
    out: &mut Vec<u8>,
) {
    if flexible && length < 0x7f {
        let mut all = [0; 24];
        Fields::of(&mut all).put(fields).put([length as u8 + 1]);
        out.extend_from_slice(&all[..N + 1]);
    } else {
        out.extend_from_slice(&fields);
        Writer::length(Some(length), flexible, out);
    }
}

/// Appends a partition up to its records, in the flexible form.
#[inline]
fn flexible_partition(partition: &FetchResponsePartition<'_>, out: &mut Vec<u8>) {
    let (length, size) = unsigned_varint_bytes(partition.records_bytes as u32 + 1);
    if let Some(aborted) = partition.aborted_transactions {
        let mut fields = [0; 30];
        put_offsets(partition, Fields::of(&mut fields));
        out.extend_from_slice(&fields);
        Writer::length(Some(aborted.len()), true, out);
        for (producer_id, first_offset) in aborted {
            let mut fields = [0; 17];
            Fields::of(&mut fields)
                .put(producer_id.0.to_be_bytes())
                .put(first_offset.0.to_be_bytes());
            out.extend_from_slice(&fields);
        }
        out.extend_from_slice(&partition.preferred_read_replica.0.to_be_bytes());
        out.extend_from_slice(&length);
    } else {
        let mut fields = [0; 43];
        put_fixed(partition, Fields::of(&mut fields)).put(length);
        out.extend_from_slice(&fields);
    }
    out.truncate(out.len() - length.len() + size);
}

/// The fields up to the aborted transactions: 30 bytes.
#[inline]
fn put_offsets<'b>(partition: &FetchResponsePartition<'_>, fields: Fields<'b>) -> Fields<'b> {
    fields
        .put(partition.index.to_be_bytes())
        .put(partition.error.code().to_be_bytes())
        .put(partition.high_watermark.0.to_be_bytes())
        .put(partition.last_stable_offset.0.to_be_bytes())
        .put(partition.log_start_offset.0.to_be_bytes())
}

/// The fields up to the records, where no aborted transactions are told: 35 bytes.
#[inline]
fn put_fixed<'b>(partition: &FetchResponsePartition<'_>, fields: Fields<'b>) -> Fields<'b> {
    put_offsets(partition, fields)
        // Null for the aborted transactions.
        .put([0])
        .put(partition.preferred_read_replica.0.to_be_bytes())
}
