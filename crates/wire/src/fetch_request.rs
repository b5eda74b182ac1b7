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

    /// Appends a partition.
    #[inline]
    pub fn partition(&self, partition: &FetchRequestPartition, out: &mut Vec<u8>) {
        let mut fields = [0; 33];
        Fields::of(&mut fields)
            .put(partition.index.to_be_bytes())
            .put(partition.current_leader_epoch.0.to_be_bytes())
            .put(partition.fetch_offset.to_be_bytes())
            .put(partition.last_fetched_epoch.0.to_be_bytes())
            .put(partition.log_start_offset.to_be_bytes())
            .put(partition.max_bytes.to_be_bytes())
            // No tagged fields.
            .put([0]);
        out.extend_from_slice(&fields);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::fetch_request::{
        FetchPartition, FetchTopic, ForgottenTopic, ReplicaState,
    };

    const ONE: Uuid = Uuid::from_u128(7);
    const OTHER: Uuid = Uuid::from_u128(8);

    fn head(replica_id: BrokerId, topic_count: usize) -> FetchRequestHead {
        FetchRequestHead {
            replica_id,
            replica_epoch: BrokerEpoch(i64::from(replica_id.0)),
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 10 << 20,
            session_id: 0x0102_0304,
            session_epoch: 9,
            topic_count,
        }
    }

    fn partition(index: i32) -> FetchRequestPartition {
        FetchRequestPartition {
            index,
            current_leader_epoch: LeaderEpoch(5),
            fetch_offset: 1_000_000_007,
            last_fetched_epoch: LeaderEpoch(index - 1),
            log_start_offset: 77,
            max_bytes: 1 << 20,
        }
    }

    type Topics<'a> = [(Uuid, &'a [i32])];

    fn streamed(
        version: i16,
        replica_id: BrokerId,
        topics: &Topics<'_>,
        gone: &Topics<'_>,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let writer = FetchRequestWriter::new(version).unwrap();
        let head = head(replica_id, topics.len());
        writer.head(&head, &mut out);
        for (id, indexes) in topics {
            writer.topic(*id, indexes.len(), &mut out);
            for index in *indexes {
                writer.partition(&partition(*index), &mut out);
            }
            writer.end_topic(&mut out);
        }
        writer.forgotten(gone.len(), &mut out);
        for (id, indexes) in gone {
            writer.forgotten_topic(*id, indexes.iter().copied(), &mut out);
        }
        writer.end(&head, &mut out);
        out
    }

    fn generated(
        version: i16,
        replica_id: BrokerId,
        topics: &Topics<'_>,
        gone: &Topics<'_>,
    ) -> Vec<u8> {
        let head = head(replica_id, topics.len());
        let partition = |index: &i32| {
            let asked = partition(*index);
            FetchPartition {
                partition: asked.index,
                current_leader_epoch: asked.current_leader_epoch.0,
                fetch_offset: asked.fetch_offset,
                last_fetched_epoch: asked.last_fetched_epoch.0,
                log_start_offset: asked.log_start_offset,
                partition_max_bytes: asked.max_bytes,
                ..FetchPartition::default()
            }
        };
        let topic = |(id, indexes): &(Uuid, &[i32])| FetchTopic {
            topic_id: *id,
            partitions: indexes.iter().map(partition).collect(),
            ..FetchTopic::default()
        };
        let forgotten = |(id, indexes): &(Uuid, &[i32])| ForgottenTopic {
            topic_id: *id,
            partitions: indexes.iter().copied().collect(),
            ..ForgottenTopic::default()
        };
        let request = FetchRequest {
            replica_id: head.replica_id,
            replica_state: ReplicaState {
                replica_id: head.replica_id,
                replica_epoch: head.replica_epoch,
            },
            max_wait_ms: head.max_wait_ms,
            min_bytes: head.min_bytes,
            max_bytes: head.max_bytes,
            session_id: head.session_id,
            session_epoch: head.session_epoch,
            topics: topics.iter().map(topic).collect(),
            forgotten_topics_data: gone.iter().map(forgotten).collect(),
            ..FetchRequest::default()
        };
        request.to_bytes(version)
    }

    #[test]
    fn equals_the_generated_codec_in_every_version() {
        let many: Vec<i32> = (0..300).collect();
        let topics: &[&Topics<'_>] = &[
            &[],
            &[(ONE, &[3])],
            &[(ONE, &[0, 1, 2]), (OTHER, &[7]), (ONE, &many)],
            &[(ONE, &many[..126]), (OTHER, &many[..127])],
        ];
        for version in FetchRequestWriter::VERSIONS {
            for replica_id in [BrokerId(4), BrokerId::NONE] {
                for asked in topics {
                    for gone in topics {
                        assert_eq!(
                            streamed(version, replica_id, asked, gone),
                            generated(version, replica_id, asked, gone),
                            "version {version}, {asked:?}, {gone:?}"
                        );
                    }
                }
            }
        }
        assert!(FetchRequestWriter::new(12).is_none());
        assert!(FetchRequestWriter::new(FetchRequest::MAX_VERSION + 1).is_none());
    }
}
