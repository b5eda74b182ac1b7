use super::*;
use metadata::{BatchPlace, MetadataRecord, MetadataVersion, metadata_batch};
use model::{ErrorCode, LeaderEpoch, Offset};
use raft::{Content, Wanted};
use std::collections::BTreeMap;
use std::path::Path;
use storage::sim::{Crash, SimDisk};

const LEADER: LeaderAndEpoch = LeaderAndEpoch {
    leader_id: Some(BrokerId(9)),
    epoch: LeaderEpoch(1),
};

/// A follower, and the log of the leader that it follows.
struct World {
    disk: SimDisk,
    log: ObservedMetadataLog<SimDisk>,
    /// By their first offsets.
    batches: BTreeMap<i64, Vec<u8>>,
    end_offset: Offset,
}

fn options() -> ObservedLogOptions {
    ObservedLogOptions {
        directory: PathBuf::from("/a"),
        node_id: BrokerId(1),
        fixed_voters: Some(vec![BrokerId(9)]),
        timeouts: Timeouts::default(),
        config: super::super::tests::config(),
        now: Now::at_ms(1_000),
    }
}

fn open(disk: &SimDisk) -> ObservedMetadataLog<SimDisk> {
    let opened = ObservedMetadataLog::open(disk.clone(), options());
    opened.expect("it can be opened").0
}

fn feature(name: &str, level: i16) -> MetadataRecord {
    MetadataRecord::FeatureLevel {
        name: name.to_owned(),
        level,
    }
}

impl World {
    fn new() -> Self {
        let disk = SimDisk::default();
        disk.create_directory(Path::new("/a")).expect("new");
        disk.sync_directory(Path::new("/")).expect("there");
        let mut world = Self {
            log: open(&disk),
            disk,
            batches: BTreeMap::new(),
            end_offset: Offset(0),
        };
        world.learn();
        world
    }

    fn restart(&mut self) {
        self.disk.crash(Crash::LosesUnsynced);
        self.log = open(&self.disk);
    }

    /// The log learns who leads from whom it asks.
    fn learn(&mut self) {
        let request = self.log.poll_request(Now::at_ms(1_000)).expect("it asks");
        let answer = Answer::Answer {
            error: ErrorCode::NotLeaderOrFollower,
            leader: LEADER,
            content: Content::Records {
                bytes: &[],
                high_watermark: Offset::NONE,
            },
        };
        let learnt = self
            .log
            .handle_answer(request.number, answer, Now::at_ms(1_000));
        assert!(learnt.expect("it learns").is_none());
    }

    /// The leader appends a batch.
    fn append(&mut self, records: &[MetadataRecord]) {
        let place = BatchPlace {
            base_offset: self.end_offset,
            leader_epoch: LEADER.epoch,
            timestamp_ms: 1_000,
        };
        let batch = metadata_batch(records, MetadataVersion::LATEST, place);
        self.batches.insert(self.end_offset.0, batch);
        self.end_offset += records.len() as i64;
    }

    /// The log is answered with all from where it asks on, of which all below `high_watermark` is committed.
    fn fetch(
        &mut self,
        high_watermark: Offset,
    ) -> Result<Option<MetadataChange>, FollowMetadataError> {
        let now = Now::at_ms(2_000);
        let request = self.log.poll_request(now).expect("it asks");
        let fetch_offset = match request.wanted {
            Wanted::Log { fetch_offset, .. } => fetch_offset,
            Wanted::Snapshot { .. } => self.end_offset,
        };
        let asked = self.batches.range(fetch_offset.0..);
        let bytes: Vec<u8> = asked.flat_map(|(_, batch)| batch.clone()).collect();
        let answer = Answer::Answer {
            error: ErrorCode::None,
            leader: LEADER,
            content: Content::Records {
                bytes: &bytes,
                high_watermark,
            },
        };
        self.log.handle_answer(request.number, answer, now)
    }
}

#[test]
fn what_the_leader_has_committed_is_the_image() {
    let mut world = World::new();
    world.append(&[feature(MetadataVersion::FEATURE, 30)]);
    world.append(&[feature("group.version", 1)]);
    let change = world.fetch(Offset(1)).expect("taken").expect("a change");
    assert!(change.delta.before.is_empty());
    assert_eq!(change.delta.after.metadata_version().level(), 30);
    assert!(
        !world
            .log
            .image()
            .features
            .finalized()
            .contains_key("group.version")
    );
    assert!(world.log.has_caught_up());
    let change = world.fetch(Offset(2)).expect("taken").expect("a change");
    assert_eq!(change.delta.after.features.finalized()["group.version"], 1);
    assert!(world.fetch(Offset(2)).expect("taken").is_none());
    assert_eq!(world.log.leader(), LEADER);
}

/// What the leader had told before stays known.
#[test]
fn what_is_at_hand_counts_only_once_the_leader_has_told_how_far() {
    let mut world = World::new();
    world.append(&[feature(MetadataVersion::FEATURE, 30)]);
    world.append(&[feature("group.version", 1)]);
    world.fetch(Offset(1)).expect("taken");
    world.restart();
    let levels = world.log.image().features.finalized();
    assert_eq!(levels[MetadataVersion::FEATURE], 30);
    assert!(!levels.contains_key("group.version") && !world.log.has_caught_up());
    let change = world.fetch(Offset(2)).expect("taken").expect("a change");
    assert_eq!(change.delta.after.features.finalized()["group.version"], 1);
    assert!(world.log.has_caught_up());
}

#[test]
fn a_snapshot_is_known_at_once() {
    let mut world = World::new();
    world.append(&[feature(MetadataVersion::FEATURE, 30)]);
    world.fetch(Offset(1)).expect("taken");
    assert!(world.log.snapshot_due(3_000).is_none());
    let later_ms = 3_600_000 * 2;
    let job = world.log.snapshot_due(later_ms).expect("it is time");
    let written = job.run(later_ms);
    let done = world.log.complete_snapshot(written, later_ms);
    done.expect("written");
    world.restart();
    assert_eq!(world.log.image().metadata_version().level(), 30);
    assert!(!world.log.has_caught_up());
}

#[test]
fn what_this_build_does_not_know_is_not_followed() {
    let mut world = World::new();
    world.append(&[feature(MetadataVersion::FEATURE, 99)]);
    let error = world.fetch(Offset(1)).expect_err("unknown");
    assert!(error.is_final(), "{error}");
}

mod log_directories {
    use super::super::super::{DirectoryOptions, OpenMetadataLogError, find_log_directories};
    use super::*;
    use model::Uuid;
    use std::collections::BTreeMap;

    /// Prepares `/a`, for the metadata log, and `/b`, of an observer of which the metadata know these
    /// directories.
    fn prepare(disk: &SimDisk, known: &[u128]) -> Result<Vec<Uuid>, OpenMetadataLogError> {
        let paths = [PathBuf::from("/a"), PathBuf::from("/b")];
        let mut drawn = 0xd0;
        let mut options = DirectoryOptions {
            directories: &paths,
            metadata_directory: &paths[0],
            node_id: BrokerId(1),
            new_cluster_id: "cluster",
            new_directory_id: &mut || {
                drawn += 1;
                Uuid::from_u128(drawn)
            },
            new_quorum: None,
            bootstrap_records: &[],
            is_observer: true,
            now_ms: 1_000,
        };
        let found = find_log_directories(disk, &mut options)?;
        assert_eq!(found.prepared().cluster_id, "cluster");
        // The log is followed before the directory has its id.
        let opened = ObservedMetadataLog::open(disk.clone(), super::options());
        opened.expect("it can be opened");
        let known: BTreeMap<_, _> = known.iter().map(|id| (Uuid::from_u128(*id), 1)).collect();
        let prepared = found.prepare(disk, &mut options, Some(&known))?;
        Ok(prepared.directories.iter().map(|(_, id)| *id).collect())
    }

    #[test]
    fn an_observer_marks_no_directory_before_it_knows_which_ones_it_has() {
        let disk = SimDisk::default();
        for path in ["/a", "/b"] {
            disk.create_directory(Path::new(path)).expect("new");
        }
        for _ in 0..2 {
            let refused = prepare(&disk, &[0xe0]);
            let is_lost = |error: &_| matches!(error, OpenMetadataLogError::LostDirectory { .. });
            assert!(refused.as_ref().is_err_and(is_lost), "{refused:?}");
        }
        let ids = prepare(&disk, &[]).expect("new ones");
        assert_eq!(ids.len(), 2);
        let names: Vec<_> = disk.list(Path::new("/a")).expect("there");
        let names: Vec<_> = names.iter().map(|entry| entry.name.as_str()).collect();
        assert!(!names.contains(&"bootstrap.checkpoint"), "{names:?}");
        assert_eq!(
            prepare(&disk, &[u128::from_be_bytes(ids[0].to_bytes()), 0xe0]).expect("they have ids"),
            ids
        );
    }

    #[test]
    fn a_metadata_log_that_is_lost_comes_from_the_quorum() {
        let disk = SimDisk::default();
        for path in ["/a", "/b", "/b/topic-0"] {
            disk.create_directory(Path::new(path)).expect("new");
        }
        let refused = prepare(&disk, &[]);
        assert!(matches!(
            refused,
            Err(OpenMetadataLogError::NoMetaProperties { .. })
        ));
        let disk = SimDisk::default();
        for path in ["/a", "/b"] {
            disk.create_directory(Path::new(path)).expect("new");
        }
        let ids = prepare(&disk, &[]).expect("new ones");
        disk.create_directory(Path::new("/b/topic-0")).expect("new");
        assert_eq!(prepare(&disk, &[]).expect("they are used"), ids);
    }
}
