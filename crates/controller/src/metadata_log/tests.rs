mod crashes;
mod faults;
mod losses;
mod snapshots;

use super::*;
use metadata::BrokerRegistration;
use metadata::{
    ConfigResource, MetadataVersion, Partition, SnapshotId, VoterEndpoint, metadata_batch,
    read_snapshot,
};
use model::{BrokerEpoch, Now, Offset, Uuid};
use proptest::prelude::*;
use raft::{AppendError, OpenError, ReplicaKey};
use std::collections::BTreeMap;
use std::path::Path;
use storage::disk::{DiskFile, OpenMode};
use storage::meta_properties::read_meta_properties;
use storage::sim::{Crash, SimDisk};

const NODE_ID: BrokerId = BrokerId(1);

fn directory_id(number: u128) -> Uuid {
    Uuid::from_u128(0xd0_0000 + number)
}

pub(super) fn config() -> MetadataLogConfig {
    MetadataLogConfig {
        max_record_bytes_between_snapshots: 20 << 20,
        max_snapshot_interval_ms: Some(3_600_000),
        segment_bytes: 1 << 30,
        segment_ms: i64::MAX,
        retention_bytes: 100 << 20,
        retention_ms: i64::MAX,
        max_batch_size_bytes: 8 << 20,
        delete_delay_ms: 0,
    }
}

fn endpoints(port: u16) -> Vec<VoterEndpoint> {
    vec![VoterEndpoint {
        listener: "CONTROLLER".to_owned(),
        host: "localhost".to_owned(),
        port,
    }]
}

fn feature(name: &str, level: i16) -> MetadataRecord {
    MetadataRecord::FeatureLevel {
        name: name.to_owned(),
        level,
    }
}

fn bootstrap() -> Vec<MetadataRecord> {
    vec![
        feature(MetadataVersion::FEATURE, 30),
        feature("eligible.leader.replicas.version", 1),
    ]
}

fn prepare(
    disk: &SimDisk,
    directories: &[&str],
    is_dynamic: bool,
) -> Result<LogDirectories, OpenMetadataLogError> {
    prepare_known(disk, directories, is_dynamic, Some(&BTreeMap::new()))
}

fn prepare_known(
    disk: &SimDisk,
    directories: &[&str],
    is_dynamic: bool,
    known: Option<&BTreeMap<Uuid, usize>>,
) -> Result<LogDirectories, OpenMetadataLogError> {
    let paths: Vec<PathBuf> = directories.iter().map(PathBuf::from).collect();
    // A later call draws other ids than the first one.
    let is_new = disk.status(Path::new("/a/meta.properties")).is_err();
    let mut drawn = if is_new { 0 } else { 10 };
    let mut options = DirectoryOptions {
        directories: &paths,
        metadata_directory: &paths[0],
        node_id: NODE_ID,
        new_cluster_id: "cluster",
        new_directory_id: &mut || {
            drawn += 1;
            directory_id(drawn)
        },
        new_quorum: is_dynamic.then(|| endpoints(9093)),
        bootstrap_records: &bootstrap(),
        is_observer: false,
        now_ms: 1_000,
    };
    let found = find_log_directories(disk, &mut options)?;
    found.prepare(disk, &mut options, known)
}

fn options(directory: &str, directory_id: Uuid) -> MetadataLogOptions {
    MetadataLogOptions {
        directory: PathBuf::from(directory),
        local: LocalVoter {
            id: NODE_ID,
            directory_id,
            endpoints: endpoints(9093),
        },
        fixed_voters: None,
        bootstrap_records: bootstrap(),
        min_insync_replicas: 2,
        config: config(),
        now_ms: 1_000,
    }
}

/// Options of a node whose configuration names the voter, on a disk that is prepared for it.
pub(crate) fn fixed_voter(disk: &SimDisk) -> MetadataLogOptions {
    let directories = prepare(disk, &["/a"], false).expect("new");
    let id = directories.id_of(Path::new("/a")).expect("prepared");
    MetadataLogOptions {
        fixed_voters: Some(vec![NODE_ID]),
        ..options("/a", id)
    }
}

pub(crate) fn open_with(
    disk: &SimDisk,
    options: MetadataLogOptions,
) -> Result<MetadataLog<SimDisk>, OpenMetadataLogError> {
    let now_ms = options.now_ms;
    let loaded = MetadataLog::load(disk.clone(), options)?;
    loaded.lead(now_ms).map(|opened| opened.log)
}

/// Prepares and opens `/a`.
pub(crate) fn open(disk: &SimDisk) -> Result<MetadataLog<SimDisk>, OpenMetadataLogError> {
    open_as(disk, config())
}

fn open_as(
    disk: &SimDisk,
    config: MetadataLogConfig,
) -> Result<MetadataLog<SimDisk>, OpenMetadataLogError> {
    let directories = prepare(disk, &["/a"], true)?;
    let id = directories.id_of(Path::new("/a")).expect("prepared");
    let options = MetadataLogOptions {
        config,
        ..options("/a", id)
    };
    open_with(disk, options)
}

pub(crate) fn new_disk() -> SimDisk {
    let disk = SimDisk::default();
    disk.create_directory(Path::new("/a")).expect("new");
    disk.sync_directory(Path::new("/")).expect("there");
    disk
}

fn topic(number: u128, partition_count: i32) -> Vec<MetadataRecord> {
    let topic_id = Uuid::from_u128(number + 100);
    let mut records = vec![MetadataRecord::Topic {
        name: format!("t{number}"),
        topic_id,
    }];
    records.extend((0..partition_count).map(|partition_id| {
        let partition = Partition {
            replicas: vec![NODE_ID],
            directories: vec![directory_id(1)],
            isr: vec![NODE_ID],
            leader: NODE_ID,
            ..Partition::default()
        };
        MetadataRecord::Partition {
            topic_id,
            partition_id,
            partition,
        }
    }));
    records
}

/// What an image says, apart from how far the log has come.
fn content(image: &MetadataImage) -> MetadataImage {
    MetadataImage {
        provenance: Provenance::EMPTY,
        ..image.clone()
    }
}

fn names(image: &MetadataImage) -> Vec<String> {
    let names = image.topics.iter().map(|topic| topic.name.to_string());
    names.collect()
}

fn text(disk: &SimDisk, path: &str) -> String {
    let bytes = disk.read(Path::new(path), 1 << 20).expect("there");
    String::from_utf8(bytes).expect("text")
}

fn files(disk: &SimDisk, path: &str) -> Vec<String> {
    let entries = disk.list(Path::new(path)).expect("there");
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

#[test]
fn a_new_cluster_is_made_as_the_format_tool_makes_it() {
    let disk = new_disk();
    disk.create_directory(Path::new("/b")).expect("new");
    let directories = prepare(&disk, &["/a", "/b"], true).expect("new");
    assert!(directories.is_new_cluster);
    assert_eq!(directories.cluster_id, "cluster");
    assert_eq!(
        directories.directories,
        [
            (PathBuf::from("/a"), directory_id(1)),
            (PathBuf::from("/b"), directory_id(2))
        ]
    );
    assert_eq!(
        files(&disk, "/a"),
        [METADATA_LOG_FOLDER, BOOTSTRAP_CHECKPOINT, "meta.properties"]
    );
    assert_eq!(
        files(&disk, "/a/__cluster_metadata-0"),
        [SnapshotId::BOOTSTRAP.to_string()]
    );
    assert_eq!(
        files(&disk, "/b"),
        [BOOTSTRAP_CHECKPOINT, "meta.properties"]
    );
    let again = prepare(&disk, &["/a", "/b"], true).expect("prepared");
    assert_eq!(
        again,
        LogDirectories {
            is_new_cluster: false,
            ..directories
        }
    );
}

#[test]
fn a_new_cluster_begins_with_its_features() {
    let disk = new_disk();
    let log = open(&disk).expect("new");
    let image = log.image();
    assert_eq!(image.metadata_version(), MetadataVersion::LATEST);
    assert_eq!(
        image
            .configs
            .value(&ConfigResource::all_brokers(), "min.insync.replicas"),
        Some("2")
    );
    // Leader change, version and voters; begin, two features, one setting, end.
    assert_eq!(
        (log.end_offset(), log.leader_epoch()),
        (Offset(8), LeaderEpoch(1))
    );
    assert_eq!(image.provenance.last_offset, Offset(7));
    assert_eq!(
        text(&disk, "/a/__cluster_metadata-0/quorum-state"),
        format!(
            r#"{{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"{}","data_version":1}}"#,
            Uuid::ZERO
        )
    );
    let quorum = log.describe_quorum(Now::at_ms(5));
    assert_eq!(
        (quorum.high_watermark, quorum.kraft_version),
        (Offset(8), 1)
    );
    assert_eq!(quorum.voters[0].directory_id, directory_id(1));
}

#[test]
fn each_start_leads_a_new_epoch_of_the_same_metadata() {
    let disk = new_disk();
    let mut log = open(&disk).expect("new");
    let appended = log.append(&topic(1, 2), 2_000).expect("fits");
    assert_eq!(appended.last_offset, Offset(10));
    assert_eq!(appended.delta.partitions().count(), 2);
    let before = content(log.image());
    log.close(3_000).expect("works");
    for epoch in 2..5 {
        let log = open(&disk).expect("there");
        assert_eq!(log.leader_epoch(), LeaderEpoch(epoch));
        assert_eq!(content(log.image()), before);
        assert_eq!(log.end_offset(), Offset(10 + i64::from(epoch)));
    }
}

#[test]
fn voters_fixed_by_configuration_stay_out_of_the_log() {
    let disk = new_disk();
    let directories = prepare(&disk, &["/a"], false).expect("new");
    let id = directories.id_of(Path::new("/a")).expect("prepared");
    let fixed = |voters: &[BrokerId]| MetadataLogOptions {
        fixed_voters: Some(voters.to_vec()),
        ..options("/a", id)
    };
    let log = open_with(&disk, fixed(&[NODE_ID])).expect("new");
    assert_eq!(log.kraft_version(), 0);
    assert!(
        text(&disk, "/a/__cluster_metadata-0/quorum-state")
            .contains(r#""currentVoters":[{"voterId":1}],"data_version":0"#)
    );
    drop(log);
    let refused = open_with(&disk, fixed(&[BrokerId(1), BrokerId(2), BrokerId(3)])).map(|_| ());
    assert!(matches!(
        refused,
        Err(OpenMetadataLogError::Quorum(OpenError::VoterSet { .. }))
    ));
    open_with(&disk, fixed(&[NODE_ID])).expect("there");
    let path = Path::new("/a/__cluster_metadata-0/quorum-state");
    let others = text(&disk, "/a/__cluster_metadata-0/quorum-state")
        .replace(r#"{"voterId":1}"#, r#"{"voterId":1},{"voterId":2}"#);
    let file = disk.open(path, OpenMode::Replace).expect("there");
    file.write_at(others.as_bytes(), 0).expect("written");
    let refused = open_with(&disk, options("/a", id)).map(|_| ());
    assert!(matches!(
        refused,
        Err(OpenMetadataLogError::Quorum(OpenError::VoterSet { .. }))
    ));
}

#[test]
fn a_raised_kraft_version_takes_the_fixed_voter_into_the_log() {
    let disk = new_disk();
    let fixed = fixed_voter(&disk);
    let id = fixed.local.directory_id;
    let mut log = open_with(&disk, fixed.clone()).expect("new");
    let end_offset = log.end_offset();
    let image = log.raise_kraft_version(1, 2_000).expect("there is room");
    // The level and the voters, as one batch.
    assert_eq!(log.end_offset(), end_offset + 2);
    assert_eq!(image.provenance.last_offset, end_offset + 1);
    let quorum = log.describe_quorum(Now::at_ms(0));
    assert_eq!(
        (quorum.kraft_version, quorum.voters[0].directory_id),
        (1, id)
    );
    log.append(&topic(1, 2), 3_000).expect("fits");
    log.close(4_000).expect("works");
    for options in [options("/a", id), fixed] {
        let log = open_with(&disk, options).expect("there");
        let quorum = log.describe_quorum(Now::at_ms(0));
        assert_eq!(
            (quorum.kraft_version, quorum.voters[0].directory_id),
            (1, id)
        );
        assert_eq!(names(log.image()).len(), 1);
        assert!(
            text(&disk, "/a/__cluster_metadata-0/quorum-state").contains(r#""data_version":1"#)
        );
    }
}

#[test]
fn a_directory_with_features_of_a_later_version_is_left_as_it_is() {
    let later = |name: &str, level| MetadataRecord::FeatureLevel {
        name: name.to_owned(),
        level,
    };
    let disk = new_disk();
    let mut log = open(&disk).expect("new");
    let records = [later("group.version", 2), later("warp.version", 1)];
    log.append(&records, 2_000).expect("fits");
    log.close(3_000).expect("works");
    let read = |name: &str| {
        let path = Path::new("/a/__cluster_metadata-0").join(name);
        disk.read(&path, 1 << 20).expect("there")
    };
    let names = ["quorum-state", "00000000000000000000.log"];
    let before = names.map(read);
    let refused = open(&disk).map(|_| ()).expect_err("not known");
    let words = refused.to_string();
    assert!(
        words.starts_with("`group.version=2`, `warp.version=1` are finalized"),
        "{words}"
    );
    assert_eq!(names.map(read), before);

    let disk = new_disk();
    prepare(&disk, &["/a"], true).expect("new");
    let mut records = bootstrap();
    records.push(later("transaction.version", 3));
    let path = Path::new("/a").join(BOOTSTRAP_CHECKPOINT);
    let file = disk.open(&path, OpenMode::Replace).expect("there");
    let bytes = metadata::bootstrap_snapshot(&records, 1_000);
    file.write_at(&bytes, 0).expect("written");
    let refused = open(&disk).map(|_| ()).expect_err("not known");
    assert!(refused.to_string().contains("`transaction.version=3` is"));
}

#[test]
fn a_controller_that_moves_writes_where_it_is() {
    let disk = new_disk();
    let end_offset = open(&disk).expect("new").end_offset();
    let moved = MetadataLogOptions {
        local: LocalVoter {
            endpoints: endpoints(9999),
            ..options("/a", directory_id(1)).local
        },
        ..options("/a", directory_id(1))
    };
    let log = open_with(&disk, moved.clone()).expect("there");
    assert_eq!(log.end_offset(), end_offset + 3);
    drop(log);
    let log = open_with(&disk, moved).expect("there");
    assert_eq!(log.end_offset(), end_offset + 4);
}

#[test]
fn directories_of_others_are_refused() {
    let disk = new_disk();
    drop(open(&disk).expect("new"));
    let other = |disk: &SimDisk, line: (&str, &str)| {
        let properties = text(disk, "/a/meta.properties").replace(line.0, line.1);
        let path = Path::new("/b/meta.properties");
        let file = disk.open(path, OpenMode::Replace).expect("made");
        file.write_at(properties.as_bytes(), 0).expect("written");
        prepare(disk, &["/a", "/b"], true).map(|_| ())
    };
    disk.create_directory(Path::new("/b")).expect("new");
    let added = prepare(&disk, &["/a", "/b"], true).expect("one more");
    assert!(!added.is_new_cluster);
    assert_eq!(files(&disk, "/b"), ["meta.properties"]);
    let refused = other(&disk, ("cluster.id=cluster", "cluster.id=other"));
    assert!(matches!(
        refused,
        Err(OpenMetadataLogError::ClusterId { .. })
    ));
    let refused = other(&disk, ("node.id=1", "node.id=2"));
    assert!(matches!(refused, Err(OpenMetadataLogError::NodeId { .. })));
    let refused = other(&disk, ("", ""));
    assert!(matches!(
        refused,
        Err(OpenMetadataLogError::DuplicateDirectoryId { .. })
    ));
    let elsewhere = open_with(&disk, options("/a", directory_id(9))).map(|_| ());
    assert!(matches!(
        elsewhere,
        Err(OpenMetadataLogError::Quorum(
            OpenError::VoterDirectory { .. }
        ))
    ));
}

#[test]
fn records_that_do_not_fit_are_not_written() {
    let disk = new_disk();
    let mut log = open(&disk).expect("new");
    let end_offset = log.end_offset();
    let mut records = topic(1, 1);
    records.extend(topic(1, 1));
    let refused = log.append(&records, 2_000).map(|_| ());
    assert!(matches!(
        refused,
        Err(AppendMetadataError::Replay { index: 2, .. })
    ));
    assert_eq!(log.end_offset(), end_offset);
    assert!(names(log.image()).is_empty());
    log.append(&topic(1, 1), 2_000).expect("fits");
}

#[test]
fn without_records_beside_it_a_new_log_begins_with_those_of_the_configuration() {
    let begun = |removes: bool| {
        let disk = new_disk();
        prepare(&disk, &["/a"], true).expect("new");
        if removes {
            let path = Path::new("/a").join(BOOTSTRAP_CHECKPOINT);
            disk.remove_file(&path).expect("there");
        }
        content(open(&disk).expect("new").image())
    };
    assert_eq!(begun(true), begun(false));
}

/// As a crash leaves it that came before the first record, with what is left of an earlier deletion.
#[test]
fn directories_of_no_partition_do_not_speak_against_a_new_metadata_log() {
    let disk = new_disk();
    prepare(&disk, &["/a"], false).expect("new");
    let deleted = "t-0.0123456789abcdef0123456789abcdef-delete";
    for name in [METADATA_LOG_FOLDER, deleted] {
        let path = Path::new("/a").join(name);
        if disk.status(&path).is_err() {
            disk.create_directory(&path).expect("new");
        }
    }
    assert_eq!(files(&disk, "/a/__cluster_metadata-0"), [""; 0]);
    prepare(&disk, &["/a"], false).expect("nothing is missing");
}

#[test]
fn an_empty_directory_in_the_place_of_one_that_is_missing_is_refused() {
    let disk = new_disk();
    disk.create_directory(Path::new("/b")).expect("new");
    let paths = ["/a", "/b"];
    let directories = prepare(&disk, &paths, true).expect("new");
    let id = directories.id_of(Path::new("/b")).expect("prepared");
    let known = BTreeMap::from([(directory_id(1), 2), (id, 3)]);
    // All are there: one more is welcome.
    disk.create_directory(Path::new("/c")).expect("new");
    prepare_known(&disk, &["/a", "/b", "/c"], true, Some(&known)).expect("all are there");

    disk.remove_directory(Path::new("/b")).expect("there");
    disk.create_directory(Path::new("/b")).expect("unmounted");
    let refused = prepare_known(&disk, &paths, true, Some(&known)).map(|_| ());
    assert!(
        matches!(
            &refused,
            Err(OpenMetadataLogError::LostDirectory { ids, partition_count: 3, .. })
                if *ids == [id]
        ),
        "{refused:?}"
    );
    // To format it would be wrong where it is another node's that has got the same id.
    let advice = refused.expect_err("refused").to_string();
    let same_id = advice.find("with this `node.id`? Then give this one an id of its own.");
    assert!(
        same_id.is_some() && same_id < advice.find("format"),
        "{advice}"
    );
    assert!(files(&disk, "/b").is_empty());
    // Without it nothing can be taken for it, and whoever formats it has said so.
    prepare_known(&disk, &["/a"], true, Some(&known)).expect("one is missing");
    let formatted = text(&disk, "/a/meta.properties");
    let lines = formatted
        .lines()
        .filter(|line| !line.contains("directory.id"));
    let formatted: String = lines.flat_map(|line| [line, "\n"]).collect();
    let path = Path::new("/b/meta.properties");
    let file = disk.open(path, OpenMode::Create).expect("made");
    file.write_at(formatted.as_bytes(), 0).expect("written");
    prepare_known(&disk, &paths, true, Some(&known)).expect("given up");

    // The metadata themselves.
    disk.remove_directory(Path::new("/a")).expect("there");
    disk.create_directory(Path::new("/a")).expect("unmounted");
    let refused = prepare_known(&disk, &paths, true, Some(&known)).map(|_| ());
    assert!(matches!(
        refused,
        Err(OpenMetadataLogError::NoMetadata { .. })
    ));
    assert!(files(&disk, "/a").is_empty());
}

#[test]
fn a_record_that_no_batch_holds_is_not_written() {
    let mut log = open(&new_disk()).expect("new");
    let end_offset = log.end_offset();
    let mut records = topic(1, 1);
    records.push(MetadataRecord::UserScramCredential {
        key: metadata::ScramKey {
            mechanism: 1,
            user: "u".to_owned(),
        },
        credential: metadata::ScramCredential {
            salt: vec![7; BATCH_SIZE_BYTES_MAX],
            stored_key: Vec::new(),
            server_key: Vec::new(),
            iterations: 4096,
        },
    });
    let refused = log.append(&records, 2_000).map(drop);
    let expected = records.len() - 1;
    assert!(
        matches!(refused, Err(AppendMetadataError::TooLarge { index, .. }) if index == expected),
        "{refused:?}"
    );
    assert_eq!(log.end_offset(), end_offset);
    assert!(names(log.image()).is_empty());
    log.append(&topic(1, 1), 2_000).expect("fits");
}

#[test]
fn a_decision_beyond_one_batch_is_a_transaction() {
    let disk = new_disk();
    let mut log = open(&disk).expect("new");
    let end_offset = log.end_offset();
    let records = topic(1, 130_000);
    let appended = log.append(&records, 2_000).expect("fits");
    let count = records.len() as i64;
    // Beside the records there are the begin and the end of the transaction.
    assert_eq!(appended.last_offset, end_offset + count + 1);
    let before = content(log.image());
    drop(log);
    let log = open(&disk).expect("there");
    assert_eq!(content(log.image()), before);
}

#[test]
fn a_transaction_that_a_crash_left_open_is_aborted() {
    let disk = new_disk();
    let mut log = open(&disk).expect("new");
    log.append(&topic(1, 1), 2_000).expect("fits");
    let mut records = vec![MetadataRecord::BeginTransaction { name: None }];
    records.extend(topic(2, 3));
    let place = log.replica.next_place(2_000);
    let batch = metadata_batch(&records, MetadataVersion::LATEST, place);
    log.replica.append(vec![batch], 2_000).expect("works");
    log.replica.flush(2_000).expect("works");
    drop(log);
    for _ in 0..2 {
        let mut log = open(&disk).expect("there");
        assert_eq!(names(log.image()), ["t1"]);
        log.append(&topic(2, 1), 3_000).expect("fits");
        let removal = MetadataRecord::RemoveTopic {
            topic_id: log.image().topics.id_of("t2").expect("there"),
        };
        log.append(&[removal], 3_000).expect("fits");
    }
}

#[test]
fn directories_of_apache_kafka_are_opened() {
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../metadata/tests/fixtures/kafka-4.3.1");
    for (kind, kraft_version, scram_count) in [("dynamic", 1, 1), ("static", 0, 2)] {
        let disk = new_disk();
        let folder = Path::new("/a").join(METADATA_LOG_FOLDER);
        disk.create_directory(&folder).expect("new");
        for entry in std::fs::read_dir(fixtures.join(kind)).expect("fixture") {
            let entry = entry.expect("fixture");
            let bytes = std::fs::read(entry.path()).expect("fixture");
            let name = entry.file_name();
            let parent = match name.to_str() {
                Some(BOOTSTRAP_CHECKPOINT) => Path::new("/a"),
                _ => &folder,
            };
            let file = disk.open(&parent.join(name), OpenMode::Create);
            file.and_then(|file| file.write_at(&bytes, 0))
                .expect("copied");
        }
        // The directory ids of the fixtures, which their voters and partitions name.
        let id = match kind {
            "dynamic" => "gD-2j7xPT-qgO5-dYqR0lw".parse().expect("an id"),
            _ => directory_id(1),
        };
        let mut log = open_with(&disk, options("/a", id)).expect("of Kafka");
        assert_eq!(log.leader_epoch(), LeaderEpoch(2));
        assert_eq!(names(log.image()), ["one", "three"]);
        assert_eq!(log.image().scram.len(), scram_count);
        assert_eq!(log.kraft_version(), kraft_version);
        log.append(&topic(1, 1), 2_000).expect("fits");
        drop(log);
        let log = open_with(&disk, options("/a", id)).expect("of Kafka");
        assert_eq!(names(log.image()), ["one", "t1", "three"]);
    }
}

#[test]
fn no_directory_is_made_beside_metadata_that_know_of_none() {
    let disk = new_disk();
    prepare(&disk, &["/a"], true).expect("new");
    disk.create_directory(Path::new("/b")).expect("new");
    prepare_known(&disk, &["/a"], true, None).expect("nothing is missing");
    let refused = prepare_known(&disk, &["/a", "/b"], true, None).map(|_| ());
    let refused = refused.expect_err("a disk may be missing there");
    assert!(matches!(
        &refused,
        OpenMetadataLogError::UnformattedDirectory { directory } if directory == Path::new("/b")
    ));
    assert_eq!(files(&disk, "/b"), <[&str; 0]>::default());
    prepare(&disk, &["/a", "/b"], true).expect("formatted");
    prepare_known(&disk, &["/a", "/b"], true, None).expect("formatted");
}

/// Anybody may fetch, and call itself what it likes. Who was registered is told of as long as it fetches.
#[test]
fn only_who_was_a_node_of_the_cluster_is_told_as_an_observer() {
    let mut log = open(&new_disk()).expect("new");
    let id = BrokerId(7);
    let mut observers = |records: &[MetadataRecord], now_ms| -> Vec<BrokerId> {
        if !records.is_empty() {
            log.append(records, 2_000).expect("fits");
        }
        let fetch = FetchRequest {
            replica: Some(ReplicaKey {
                id,
                directory_id: Uuid::ZERO,
            }),
            leader_epoch: log.leader_epoch(),
            fetch_offset: log.end_offset(),
            last_fetched_epoch: log.leader_epoch(),
            high_watermark: Offset::MAX,
            max_wait_ms: 0,
            max_bytes: 1,
        };
        let answer = log.handle_fetch(&fetch, Now::at_ms(now_ms));
        assert_eq!(answer.error, model::ErrorCode::None);
        let described = log.describe_quorum(Now::at_ms(now_ms));
        described.observers.iter().map(|one| one.id).collect()
    };
    assert_eq!(observers(&[], 3_000), []);
    let registration = BrokerRegistration {
        id,
        epoch: BrokerEpoch(8),
        incarnation_id: Uuid::from_u128(9),
        endpoints: Vec::new(),
        features: Default::default(),
        rack: None,
        is_fenced: true,
        is_in_controlled_shutdown: false,
        is_migrating_zk_broker: false,
        directories: Vec::new(),
        cordoned_directories: None,
    };
    let registered = MetadataRecord::RegisterBroker(registration);
    assert_eq!(observers(&[registered], 3_000), [id]);
    let unregistered = MetadataRecord::UnregisterBroker {
        broker_id: id,
        broker_epoch: BrokerEpoch(8),
    };
    assert_eq!(observers(&[unregistered], 3_000), [id]);
    assert_eq!(observers(&[], 302_999), [id]);
    // Five minutes of silence later it is anybody.
    assert_eq!(observers(&[], 602_999), []);
}
