//! Metadata logs and snapshots of Apache Kafka are read whole and written alike.

use metadata::{
    BatchContentError, MetadataImage, MetadataLoader, MetadataRecord, MetadataVersion, Provenance,
    QuorumRecord, QuorumState, Snapshot, SnapshotId, read_bootstrap_snapshot,
    read_metadata_records, read_quorum_records, read_snapshot, write_snapshot,
};
use model::{BrokerId, LeaderEpoch, Offset, ProducerId};
use record::{Batches, Decompressor};
use std::path::{Path, PathBuf};

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/kafka-4.3.1")
        .join(path)
}

fn bytes_of(path: &str) -> Vec<u8> {
    std::fs::read(fixture(path)).expect("fixture")
}

const LOG: &str = "00000000000000000000.log";

/// The image of the log up to `end_offset`, and the control records on the way.
fn replay(path: &str, end_offset: i64) -> (MetadataImage, Vec<QuorumRecord>) {
    let bytes = bytes_of(path);
    let mut loader = MetadataLoader::default();
    let mut quorum = Vec::new();
    for batch in Batches::new(&bytes) {
        let batch = batch.expect("a batch of Kafka");
        if batch.base_offset() >= Offset(end_offset) {
            break;
        }
        let at = Provenance {
            last_offset: batch.last_offset(),
            last_epoch: batch.partition_leader_epoch(),
            last_timestamp_ms: batch.max_timestamp(),
        };
        if batch.is_control() {
            quorum.extend(read_quorum_records(&batch).expect("known records"));
            loader.advance(at);
        } else {
            let read = read_metadata_records(&batch, |_, record| {
                loader.replay(&record, at).expect("records that fit");
                Ok::<(), BatchContentError>(())
            });
            read.expect("known records");
        }
    }
    assert!(!loader.is_in_transaction());
    (loader.image().clone(), quorum)
}

fn snapshot(folder: &str, id: SnapshotId) -> Snapshot<MetadataImage> {
    read_snapshot(&bytes_of(&format!("{folder}/{id}")), id).expect("a snapshot of Kafka")
}

fn snapshot_ids(folder: &str) -> Vec<SnapshotId> {
    let entries = std::fs::read_dir(fixture(folder)).expect("fixture");
    let mut ids: Vec<SnapshotId> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    ids.sort();
    ids
}

#[test]
fn the_log_up_to_a_snapshot_says_what_the_snapshot_says() {
    for folder in ["dynamic", "static"] {
        for id in snapshot_ids(folder) {
            if id == SnapshotId::BOOTSTRAP {
                continue;
            }
            let (image, _) = replay(&format!("{folder}/{LOG}"), id.end_offset.0);
            assert_eq!(snapshot(folder, id).content, image, "{folder} {id}");
        }
    }
}

#[test]
fn the_whole_log_is_read() {
    let (image, quorum) = replay(&format!("dynamic/{LOG}"), i64::MAX);
    assert_eq!(image.metadata_version(), MetadataVersion::LATEST);
    assert!(image.features.has_eligible_leader_replicas());
    let topics: Vec<_> = image.topics.iter().map(|topic| &*topic.name).collect();
    assert_eq!(topics, ["one", "three"]);
    assert_eq!(
        image
            .topics
            .by_name("one")
            .map(|topic| topic.partition_count()),
        Some(2)
    );
    assert_eq!(image.next_producer_id, ProducerId(1000));
    assert_eq!(image.configs.of_topic("gone"), None);
    assert_eq!(
        image.configs.of_topic("three").map(|config| config.len()),
        Some(1)
    );
    assert_eq!((image.acls.len(), image.scram.len()), (1, 1));
    assert_eq!(image.client_quotas.len(), 2);
    assert_eq!(image.cluster.controllers().len(), 1);
    let [leader, version, QuorumRecord::VoterSet(voters)] = &quorum[..] else {
        panic!("{quorum:?}");
    };
    assert_eq!(
        *leader,
        QuorumRecord::LeaderChange {
            leader_id: BrokerId(1),
            voters: vec![BrokerId(1)],
            granting_voters: vec![BrokerId(1)]
        }
    );
    assert_eq!(*version, QuorumRecord::KRaftVersion(1));
    assert_eq!(voters[0].endpoints[0].listener, "CONTROLLER");
    let bootstrap = snapshot("dynamic", SnapshotId::BOOTSTRAP);
    assert_eq!(bootstrap.quorum.voters.as_ref(), Some(voters));
    assert_eq!(bootstrap.content, MetadataImage::default());

    let (image, quorum) = replay(&format!("static/{LOG}"), i64::MAX);
    assert_eq!(image.scram.len(), 2);
    assert_eq!(quorum.len(), 1);
}

#[test]
fn records_are_written_as_kafka_writes_them() {
    let bytes = bytes_of(&format!("dynamic/{LOG}"));
    let (mut decompressor, mut scratch) = (Decompressor::default(), Vec::new());
    let mut count = 0;
    for batch in Batches::new(&bytes) {
        let batch = batch.expect("a batch of Kafka");
        let records = batch
            .records(&mut decompressor, &mut scratch, 1 << 20)
            .expect("uncompressed");
        for record in records {
            let record = record.expect("a record of Kafka");
            let value = record.value.expect("every record has a value");
            let written = if batch.is_control() {
                let control = QuorumRecord::parse(&record).expect("of the quorum");
                control.expect("known").to_bytes()
            } else {
                let record = MetadataRecord::from_bytes(value).expect("a known record");
                let written = record.to_bytes(MetadataVersion::LATEST);
                if matches!(
                    record,
                    MetadataRecord::RegisterBroker(_) | MetadataRecord::RegisterController(_)
                ) {
                    // Kafka writes features in the order of a hash map.
                    assert_eq!(written.len(), value.len());
                    assert_eq!(MetadataRecord::from_bytes(&written), Ok(record));
                    continue;
                }
                written
            };
            assert_eq!(written, value);
            count += 1;
        }
    }
    assert!(count > 70, "{count}");
}

#[test]
fn snapshots_are_as_long_as_those_of_kafka() {
    for folder in ["dynamic", "static"] {
        for id in snapshot_ids(folder) {
            let kafka = bytes_of(&format!("{folder}/{id}"));
            let snapshot = read_snapshot(&kafka, id).expect("a snapshot of Kafka");
            let mut written = Vec::new();
            let time_ms = snapshot.last_contained_log_timestamp_ms;
            write_snapshot(&snapshot.content, &snapshot.quorum, time_ms, &mut |batch| {
                written.extend_from_slice(batch);
                Ok::<(), ()>(())
            })
            .expect("the sink takes all");
            assert_eq!(written.len(), kafka.len(), "{folder} {id}");
        }
    }
}

#[test]
fn bootstrap_files_are_read() {
    let levels = |folder: &str| {
        let records = read_bootstrap_snapshot(&bytes_of(&format!("{folder}/bootstrap.checkpoint")))
            .expect("a bootstrap file of Kafka");
        let levels = records.iter().filter_map(|record| match record {
            MetadataRecord::FeatureLevel { name, level } => Some(format!("{name}={level}")),
            _ => None,
        });
        (levels.collect::<Vec<_>>(), records.len())
    };
    let (dynamic, count) = levels("dynamic");
    assert_eq!(
        dynamic,
        [
            "metadata.version=30",
            "eligible.leader.replicas.version=1",
            "group.version=1",
            "share.version=1",
            "streams.version=1",
            "transaction.version=2"
        ]
    );
    assert_eq!(count, 6);
    assert_eq!(levels("static").1, 7);
}

#[test]
fn quorum_states_are_read() {
    for folder in ["dynamic", "static"] {
        let text = std::fs::read_to_string(fixture(&format!("{folder}/quorum-state")));
        let text = text.expect("fixture");
        let state = QuorumState::from_text(&text).expect("of Kafka");
        assert_eq!(state.to_text(), text);
        assert_eq!(
            (state.leader_id, state.leader_epoch),
            (Some(BrokerId(1)), LeaderEpoch(1))
        );
    }
}
