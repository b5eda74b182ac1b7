//! A fetch request of a follower written piece by piece, so that its buffer can be reused and nothing is made
//! for a partition that is not in it.
//!
//! The pieces are those of [`crate::messages::FetchRequest`] in the versions that name topics by id; a test
//! holds the two equal in each. What is not written here, a follower leaves at its default.

use crate::messages::FetchRequest;
use model::varint::write_unsigned_varint;
use model::{BrokerEpoch, BrokerId, Fields, LeaderEpoch, Message, Uuid, Writer};
use std::ops::RangeInclusive;

/// From this version on the replica stands in a tagged field, with its epoch.
const REPLICA_STATE_SINCE: i16 = 15;

/// What a request says beside its partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchRequestHead {
    /// The follower; -1 is a consumer.
    pub replica_id: BrokerId,
    /// The registration of the follower's broker; sent from version 15 on (KIP-903).
    pub replica_epoch: BrokerEpoch,
    /// How long the leader may wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// The least bytes of records that are worth an answer.
    pub min_bytes: i32,
    /// The most bytes of records, but for a single batch that is larger.
    pub max_bytes: i32,
    /// The session, or 0.
    pub session_id: i32,
    /// The epoch of the session: 0 begins one.
    pub session_epoch: i32,
    /// How many topics follow.
    pub topic_count: usize,
}

/// What a request asks of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchRequestPartition {
    /// The partition's index.
    pub index: i32,
    /// The epoch of the leader that the follower knows.
    pub current_leader_epoch: LeaderEpoch,
    /// Where to begin.
    pub fetch_offset: i64,
    /// The epoch of the follower's last record; -1 for none.
    pub last_fetched_epoch: LeaderEpoch,
    /// Where the follower's log starts.
    pub log_start_offset: i64,
    /// The most bytes of records.
    pub max_bytes: i32,
}

/// Writes a fetch request in one version: the head, topics with their partitions, topics with partitions that
/// are forgotten, the end.
#[derive(Debug, Clone, Copy)]
pub struct FetchRequestWriter {
    has_replica_state: bool,
}

impl FetchRequestWriter {
    /// The versions that there are: before them topics have no ids.
    pub const VERSIONS: RangeInclusive<i16> = 13..=FetchRequest::MAX_VERSION;

    /// A writer for `version`; `None` for one that it does not write.
    #[inline]
    pub fn new(version: i16) -> Option<Self> {
        Self::VERSIONS.contains(&version).then_some(Self {
            has_replica_state: version >= REPLICA_STATE_SINCE,
        })
    }

    /// Appends the front of the request.
    #[inline]
    pub fn head(&self, head: &FetchRequestHead, out: &mut Vec<u8>) {
        if !self.has_replica_state {
            out.extend_from_slice(&head.replica_id.0.to_be_bytes());
        }
        let mut fields = [0; 21];
        Fields::of(&mut fields)
            .put(head.max_wait_ms.to_be_bytes())
            .put(head.min_bytes.to_be_bytes())
            .put(head.max_bytes.to_be_bytes())
            // The isolation level: all that there is.
            .put([0])
            .put(head.session_id.to_be_bytes())
            .put(head.session_epoch.to_be_bytes());
        out.extend_from_slice(&fields);
        Writer::length(Some(head.topic_count), true, out);
    }

    /// Appends the front of a topic with `partition_count` partitions.
    #[inline]
    pub fn topic(&self, id: Uuid, partition_count: usize, out: &mut Vec<u8>) {
        if partition_count < 0x7f {
            let mut fields = [0; 17];
            Fields::of(&mut fields)
                .put(id.to_bytes())
                .put([partition_count as u8 + 1]);
            out.extend_from_slice(&fields);
        } else {
            out.extend_from_slice(&id.to_bytes());
            Writer::length(Some(partition_count), true, out);
        }
    }

    /// Appends topics with the only partition of each: what most are where there are many topics.
    #[inline]
    pub fn topics_of_one(
        &self,
        topics: impl ExactSizeIterator<Item = (Uuid, FetchRequestPartition)>,
        out: &mut Vec<u8>,
    ) {
        append(topics, out, |(id, partition), fields: &mut [u8; 51]| {
            let rest = Fields::of(fields).put(id.to_bytes()).put([2]);
            // No tagged fields of the topic.
            put_partition(&partition, rest).put([0]);
        });
    }

    /// Appends partitions.
    #[inline]
    pub fn partitions(
        &self,
        partitions: impl ExactSizeIterator<Item = FetchRequestPartition>,
        out: &mut Vec<u8>,
    ) {
        append(partitions, out, |partition, fields: &mut [u8; 33]| {
            put_partition(&partition, Fields::of(fields));
        });
    }

    /// Appends what follows a topic's partitions.
    #[inline]
    pub fn end_topic(&self, out: &mut Vec<u8>) {
        out.push(0);
    }

    /// Appends how many topics with forgotten partitions follow.
    #[inline]
    pub fn forgotten(&self, topic_count: usize, out: &mut Vec<u8>) {
        Writer::length(Some(topic_count), true, out);
    }

    /// Appends a topic of which these partitions leave the session.
    pub fn forgotten_topic(
        &self,
        id: Uuid,
        partitions: impl ExactSizeIterator<Item = i32>,
        out: &mut Vec<u8>,
    ) {
        self.topic(id, partitions.len(), out);
        for index in partitions {
            out.extend_from_slice(&index.to_be_bytes());
        }
        self.end_topic(out);
    }

    /// Appends the end of the request.
    #[inline]
    pub fn end(&self, head: &FetchRequestHead, out: &mut Vec<u8>) {
        // No rack: followers are not sent elsewhere.
        Writer::string(Some(""), true, out);
        let has_replica =
            head.replica_id != BrokerId::NONE || head.replica_epoch != BrokerEpoch::NONE;
        if !self.has_replica_state || !has_replica {
            return out.push(0);
        }
        write_unsigned_varint(1, out);
        let mut fields = [0; 13];
        Fields::of(&mut fields)
            .put(head.replica_id.0.to_be_bytes())
            .put(head.replica_epoch.0.to_be_bytes())
            .put([0]);
        Writer::tagged(1, fields.len(), out);
        out.extend_from_slice(&fields);
    }
}

/// So many are appended with one look for room. Their bytes are zeroed first, which the nearest cache has to hold.
const APPENDED_COUNT: usize = 16;

/// Appends what takes as many bytes for each.
#[inline]
fn append<T, const N: usize>(
    mut each: impl ExactSizeIterator<Item = T>,
    out: &mut Vec<u8>,
    put: impl Fn(T, &mut [u8; N]),
) {
    out.reserve(each.len() * N);
    while each.len() > 0 {
        let start = out.len();
        out.resize(start + each.len().min(APPENDED_COUNT) * N, 0);
        let (places, _) = out[start..].as_chunks_mut();
        for (place, one) in places.iter_mut().zip(&mut each) {
            put(one, place);
        }
    }
}

/// The fields of a partition: 33 bytes.
#[inline]
fn put_partition<'b>(partition: &FetchRequestPartition, fields: Fields<'b>) -> Fields<'b> {
    fields
        .put(partition.index.to_be_bytes())
        .put(partition.current_leader_epoch.0.to_be_bytes())
        .put(partition.fetch_offset.to_be_bytes())
        .put(partition.last_fetched_epoch.0.to_be_bytes())
        .put(partition.log_start_offset.to_be_bytes())
        .put(partition.max_bytes.to_be_bytes())
        // No tagged fields.
        .put([0])
}
