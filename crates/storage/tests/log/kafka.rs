//! A directory that Apache Kafka 4.3.1 has written and closed: what is in it, and that checking
//! it from its first byte writes the very files that Kafka has written.
//!
//! `fixture-0` holds two segments with batches of every codec and, in each of three rounds, one
//! transaction that was aborted and one that was committed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{BrokerId, LeaderEpoch, Offset, TopicPartition};
use record::{Batches, Decompressor};
use storage::checkpoint::{
    CLEANER_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT,
    read_checkpoint,
};
use storage::clean_shutdown::take_clean_shutdown;
use storage::log_directory::scan_log_directory;
use storage::meta_properties::read_meta_properties;
use storage::{Log, LogConfig, LogOpening, OpenedLog, RealDisk};
use trials::Directory;

fn copied_fixture() -> Directory {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kafka-4.3.1");
    let directory = trials::directory();
    copy(&source, directory.path());
    directory
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn open(directory: &Directory, is_clean: bool) -> OpenedLog<RealDisk> {
    let folder = directory.path().join("fixture-0");
    let partition = TopicPartition::new("fixture", 0);
    Log::open(LogOpening {
        config: Arc::new(LogConfig {
            // What the topic was configured with.
            index_interval_bytes: 200,
            ..LogConfig::default()
        }),
        is_clean,
        // Before any producer has expired.
        now_ms: 1_700_000_400_000,
        ..LogOpening::new(RealDisk, folder, partition)
    })
    .unwrap()
}

fn values(log: &Log<RealDisk>) -> Vec<(Offset, String)> {
    let mut found = Vec::new();
    let mut offset = Offset(0);
    let mut decompressor = Decompressor::new();
    while offset < log.log_end_offset() {
        let mut bytes = Vec::new();
        let mut scratch = Vec::new();
        offset = log.read_into(offset, 1, Offset::MAX, &mut bytes).unwrap();
        for batch in Batches::new(&bytes) {
            let batch = batch.unwrap();
            assert!(batch.is_crc_valid());
            if batch.is_control() {
                continue;
            }
            let records = batch
                .records(&mut decompressor, &mut scratch, 1 << 20)
                .unwrap();
            for record in records {
                let record = record.unwrap();
                let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
                found.push((record.offset, value));
            }
        }
    }
    found
}

fn files_of(directory: &Directory, extension: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(directory.path().join("fixture-0")).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let wanted = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    wanted
        .map(|path| (path.file_name().unwrap().into(), fs::read(&path).unwrap()))
        .collect()
}

#[test]
fn small_files_are_understood() {
    let directory = copied_fixture();
    let properties = read_meta_properties(&RealDisk, directory.path())
        .unwrap()
        .unwrap();
    assert_eq!(properties.cluster_id, "4L6g3nShT-eMCtK--X86sw");
    assert_eq!(properties.node_id, BrokerId(1));
    let id = properties.directory_id.unwrap();
    assert_eq!(id.to_string(), "tI2Ox9qVFlQ6yFWfz0pxuQ");
    let checkpoint = |name: &str| read_checkpoint(&RealDisk, &directory.path().join(name)).unwrap();
    let partition = TopicPartition::new("fixture", 0);
    let recovery_points = checkpoint(RECOVERY_POINT_CHECKPOINT);
    assert_eq!(recovery_points.get(&partition), Some(&Offset(104)));
    assert!(checkpoint(LOG_START_OFFSET_CHECKPOINT).is_empty());
    assert!(checkpoint(CLEANER_OFFSET_CHECKPOINT).is_empty());
    let mark = take_clean_shutdown(&RealDisk, directory.path()).unwrap();
    assert_eq!(mark.unwrap().broker_epoch, Some(model::BrokerEpoch(12)));
    let content = scan_log_directory(&RealDisk, directory.path()).unwrap();
    assert_eq!(content.partitions.len(), 1);
    assert_eq!(content.partitions[0].topic_partition, partition);
}

#[test]
fn a_closed_log_opens_as_it_is() {
    let directory = copied_fixture();
    let OpenedLog { log, events } = open(&directory, true);
    assert_eq!(events, []);
    assert_eq!(
        (log.log_start_offset(), log.log_end_offset()),
        (Offset(0), Offset(104))
    );
    assert_eq!(log.segment_count(), 2);
    assert_eq!(
        log.topic_id().unwrap().to_string(),
        "o97ZTS8JSzahaacuGx9HPA"
    );
    assert_eq!(log.leader_epochs().latest(), Some(LeaderEpoch(0)));
    check_content(&log);
}

fn check_content(log: &Log<RealDisk>) {
    let values = values(log);
    assert_eq!(values.len(), 97);
    for (at, (_, value)) in values.iter().enumerate() {
        let number: usize = value.rsplit_once(' ').unwrap().1.parse().unwrap();
        assert_eq!(number, at, "{value}");
    }
    let aborted: Vec<_> = log
        .aborted_transactions(Offset(0), Offset(104))
        .unwrap()
        .iter()
        .map(|one| (one.producer_id.0, one.first_offset.0, one.last_offset.0))
        .collect();
    let expected = [(5, 30, 32), (12, 64, 66), (19, 98, 101), (19, 102, 103)];
    assert_eq!(aborted, expected);
    assert_eq!(
        log.aborted_transactions(Offset(67), Offset(98)).unwrap(),
        []
    );
    assert_eq!(log.producer_state().producers().len(), 21);
    assert_eq!(log.producer_state().first_open_transaction(), None);
    let youngest = log.max_timestamp_offset().unwrap().unwrap();
    let first = log
        .offset_for_timestamp(1_700_000_000_000 + 40)
        .unwrap()
        .unwrap();
    assert_eq!(first.offset, Offset(4));
    assert!(youngest.timestamp_ms > 1_795_000_000_000);
}

#[test]
fn checking_writes_the_files_that_kafka_has_written() {
    let directory = copied_fixture();
    let extensions = ["log", "index", "timeindex", "txnindex"];
    let before = extensions.map(|extension| files_of(&directory, extension));
    // What a crash leaves of the active segment's indexes: their room, filled with zeros.
    for extension in ["index", "timeindex"] {
        let path = directory
            .path()
            .join(format!("fixture-0/{:020}.{extension}", 32));
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(1_048_560).unwrap();
    }
    for entry in fs::read_dir(directory.path().join("fixture-0")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "snapshot")
        {
            fs::remove_file(path).unwrap();
        }
    }
    let OpenedLog { log, events } = open(&directory, false);
    assert_eq!(events, []);
    check_content(&log);
    let after = extensions.map(|extension| files_of(&directory, extension));
    assert_eq!(before, after);
}

#[test]
fn a_snapshot_is_what_replaying_gives() {
    let from_snapshot = copied_fixture();
    let replayed = copied_fixture();
    for offset in [32, 104] {
        let path = replayed
            .path()
            .join(format!("fixture-0/{offset:020}.snapshot"));
        fs::remove_file(path).unwrap();
    }
    let shown = |directory: &Directory| {
        let log = open(directory, true).log;
        let producers = log.producer_state().producers();
        let producer = producers.map(|(id, entry)| {
            let last = entry.batches().last();
            let last =
                last.map(|batch| (batch.last_sequence, batch.last_offset, batch.offset_delta));
            let (epoch, coordinator) = (entry.producer_epoch(), entry.coordinator_epoch());
            let transaction = entry.transaction_first_offset();
            (
                id,
                epoch,
                last,
                entry.last_timestamp_ms(),
                coordinator,
                transaction,
            )
        });
        producer.collect::<Vec<_>>()
    };
    assert_eq!(shown(&from_snapshot), shown(&replayed));
}
