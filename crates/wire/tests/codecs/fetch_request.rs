//! The fetch request written by hand against the generated codec.

use model::{BrokerEpoch, BrokerId, LeaderEpoch, Message, Uuid};
use wire::fetch_request::*;
use wire::messages::FetchRequest;
use wire::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic, ReplicaState};

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

fn streamed(version: i16, replica_id: BrokerId, topics: &Topics<'_>, gone: &Topics<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let writer = FetchRequestWriter::new(version).unwrap();
    let head = head(replica_id, topics.len());
    writer.head(&head, &mut out);
    for (id, indexes) in topics {
        if let [index] = **indexes {
            writer.topics_of_one([(*id, partition(index))].into_iter(), &mut out);
            continue;
        }
        writer.topic(*id, indexes.len(), &mut out);
        writer.partitions(indexes.iter().map(|index| partition(*index)), &mut out);
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
