//! Snapshots of a leader's log: when they are due, and what they let go.

use super::*;
use model::Offset;

fn snapshot(replica: &mut Replica<SimDisk>, state: &mut State) -> Option<SnapshotId> {
    state.apply(replica);
    let draft = replica.begin_snapshot(state.id(), 2_000)?;
    let written = state.write(&draft);
    replica.complete_snapshot(written, 2_000).expect("works");
    Some(draft.id())
}

#[test]
fn a_log_without_the_snapshot_before_it_is_left_alone() {
    let disk = new_disk();
    let mut options = options(voter());
    options.config.retention_bytes = 0;
    let (mut replica, mut state) = lead_with(&disk, options).expect("new");
    let mut newest = None;
    for value in ["a", "b"] {
        append(&mut replica, &[value]).expect("fits");
        replica.log.log.roll_segment(2_000).expect("works");
        newest = snapshot(&mut replica, &mut state);
    }
    assert!(replica.start_offset() > Offset(0));
    drop(replica);
    let folder = Path::new("/a").join(METADATA_LOG_FOLDER);
    let kept = folder.join(SnapshotId::BOOTSTRAP.to_string());
    let newest = folder.join(newest.expect("written").to_string());
    disk.rename(&newest, &kept).expect("renamed");
    let refused = lead(&disk).map(|_| ());
    assert!(matches!(refused, Err(OpenError::MissingSnapshot { .. })));
    assert!(disk.status(&kept).is_ok(), "nothing was removed");
}

/// An operator is told which file it is, before anything is made of it.
#[test]
fn a_snapshot_that_is_too_large_to_be_read_is_told_of() {
    let directory = trials::directory();
    let folder = directory.path().join(METADATA_LOG_FOLDER);
    std::fs::create_dir(&folder).expect("new");
    let id = SnapshotId {
        end_offset: Offset(7),
        epoch: LeaderEpoch(1),
    };
    let path = folder.join(id.to_string());
    let file = std::fs::File::create(&path).expect("new");
    // It takes no room.
    file.set_len(1 << 31).expect("works");
    let options = ReplicaOptions {
        directory: directory.path().to_owned(),
        ..options(voter())
    };
    let refused = Replica::open(storage::disk::RealDisk, options);
    let words = refused.expect_err("too large").to_string();
    let expect = format!("`{}` has 2147483648 bytes", path.display());
    assert!(words.starts_with(&expect), "{words}");
    assert_eq!(file.metadata().expect("there").len(), 1 << 31);
}

#[test]
fn a_snapshot_is_due_by_bytes_and_by_time_and_after_a_pause() {
    let disk = new_disk();
    let mut options = options(voter());
    options.config.max_record_bytes_between_snapshots = 300;
    let (mut replica, mut state) = lead_with(&disk, options).expect("new");
    assert!(!replica.is_snapshot_due(1_000));
    assert!(replica.is_snapshot_due(3_601_000), "an hour has gone by");
    assert!(replica.is_snapshot_due(0), "the clock was set back");
    append(&mut replica, &["v".repeat(300).as_str()]).expect("fits");
    assert!(replica.is_snapshot_due(1_000), "enough was appended");
    state.apply(&mut replica);
    let draft = replica.begin_snapshot(state.id(), 1_000).expect("due");
    assert!(!replica.is_snapshot_due(1_000), "it is being written");
    assert!(replica.begin_snapshot(state.id(), 1_000).is_none());
    disk.set_full(true);
    let written = state.write(&draft);
    replica
        .complete_snapshot(written, 1_000)
        .expect_err("no room");
    disk.set_full(false);
    assert!(!replica.is_snapshot_due(1_001), "after a pause");
    assert!(replica.is_snapshot_due(61_000));
    assert!(snapshot(&mut replica, &mut state).is_some());
    assert!(snapshot(&mut replica, &mut state).is_none(), "there is one");
    assert!(!replica.is_snapshot_due(i64::MAX), "nothing was appended");
}

/// It would take the place of the log, and no start could read it.
#[test]
fn a_snapshot_that_would_be_too_large_to_be_read_is_not_written() {
    let disk = new_disk();
    let mut options = options(voter());
    options.config.retention_bytes = 0;
    let (mut replica, mut state) = lead_with(&disk, options).expect("new");
    append(&mut replica, &["a"]).expect("fits");
    replica.log.log.roll_segment(2_000).expect("works");
    state.apply(&mut replica);
    let before = files(&disk);
    let mut draft = replica.begin_snapshot(state.id(), 1_000).expect("new");
    let size_bytes = state.write_bytes(draft.id()).len() as u64;
    draft.size_bytes_max = size_bytes - 1;
    let refused = state.write(&draft);
    let refused = replica.complete_snapshot(refused, 1_000);
    let words = refused.expect_err("too large").to_string();
    assert!(words.contains("the log before it stays"), "{words}");
    assert_eq!((files(&disk), replica.start_offset()), (before, Offset(0)));
    assert!(!replica.is_snapshot_due(1_001), "after a pause");
    drop(replica);
    let (mut replica, mut state) = lead(&disk).expect("the log is there");
    assert_eq!(state.values, ["a"]);
    state.apply(&mut replica);
    let mut draft = replica.begin_snapshot(state.id(), 1_000).expect("new");
    draft.size_bytes_max = state.write_bytes(draft.id()).len() as u64;
    state.write(&draft).expect("it is as large as one can be");
}

/// The voters of a snapshot are those of its end, and not of what comes after.
#[test]
fn an_old_snapshot_goes_when_its_time_is_over_and_the_newest_stays() {
    let mut options = options(voter());
    options.config.retention_ms = 1_000;
    let (mut replica, mut state) = lead_with(&new_disk(), options).expect("new");
    for value in ["a", "b"] {
        append(&mut replica, &[value]).expect("fits");
        state.apply(&mut replica);
        snapshot(&mut replica, &mut state).expect("none is written");
    }
    let oldest = replica.log.snapshots.all()[0].timestamp_ms;
    let over_at = oldest.expect("it is whole") + 1_000;
    let count_at = |replica: &mut Replica<SimDisk>, now_ms| {
        replica.clean(now_ms).expect("works");
        replica.log.snapshots.all().len()
    };
    assert_eq!(count_at(&mut replica, over_at), 2);
    assert_eq!(count_at(&mut replica, over_at + 1), 1);
    assert_eq!(replica.newest_snapshot(), Some(state.id()));
    assert_eq!(count_at(&mut replica, i64::MAX), 1);
}

#[test]
fn a_snapshot_has_the_voters_of_its_time() {
    let disk = new_disk();
    let (mut replica, mut state) = lead(&disk).expect("new");
    append(&mut replica, &["a"]).expect("fits");
    state.apply(&mut replica);
    let before = state.id();
    replica.raise_kraft_version(1, 2_000).expect("works");
    let draft = replica.begin_snapshot(before, 2_000).expect("new");
    assert_eq!(draft.quorum().kraft_version, 0);
    let written = state.write(&draft);
    replica.complete_snapshot(written, 2_000).expect("works");
    state.apply(&mut replica);
    let draft = replica.begin_snapshot(state.id(), 2_000).expect("new");
    assert_eq!(draft.quorum().kraft_version, 1);
    assert_eq!(draft.quorum().voters.as_ref().map(Vec::len), Some(1));
}

/// Its end is no reason to give up a log that waits for room.
#[test]
fn a_snapshot_that_ends_while_the_log_is_torn_lets_nothing_go() {
    let disk = new_disk();
    let mut options = options(voter());
    options.config.retention_bytes = 0;
    let (mut replica, mut state) = lead_with(&disk, options).expect("new");
    append(&mut replica, &["a"]).expect("fits");
    snapshot(&mut replica, &mut state).expect("the first one");
    append(&mut replica, &["b"]).expect("fits");
    state.apply(&mut replica);
    let draft = replica.begin_snapshot(state.id(), 2_000).expect("new");
    let written = state.write(&draft);
    disk.set_full(true);
    append(&mut replica, &["c"]).expect_err("no room");
    disk.set_full(false);
    replica.complete_snapshot(written, 2_000).expect("written");
    assert!(!replica.has_failed());
    append(&mut replica, &["d"]).expect("there is room");
    replica.clean(2_000).expect("works");
    assert_eq!(replica.start_offset(), draft.id().end_offset);
    state.apply(&mut replica);
    assert_eq!(state.values, ["a", "b", "d"]);
}

/// Puts a snapshot beside the log, which ends far below.
fn put_beyond(disk: &SimDisk, bytes: impl FnOnce(SnapshotId) -> Vec<u8>) {
    let id = SnapshotId {
        end_offset: Offset(100),
        epoch: LeaderEpoch(1),
    };
    let path = Path::new("/a").join(METADATA_LOG_FOLDER);
    let file = disk.open(&path.join(id.to_string()), OpenMode::Create);
    file.expect("made").write_at(&bytes(id), 0).expect("room");
}

#[test]
fn a_damaged_snapshot_takes_the_place_of_no_log() {
    let disk = new_disk();
    let (mut replica, _) = lead(&disk).expect("new");
    append(&mut replica, &["a"]).expect("fits");
    drop(replica);
    put_beyond(&disk, |id| {
        let mut bytes = snapshot_bytes(id, &["x"]);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        bytes
    });
    let before = disk.read(Path::new(LOG), 1 << 20).expect("there");
    let refused = Replica::open(disk.clone(), options(voter())).map(|_| ());
    assert!(
        matches!(refused, Err(OpenError::Snapshot { .. })),
        "{refused:?}"
    );
    assert_eq!(disk.read(Path::new(LOG), 1 << 20).ok(), Some(before));
}

/// Otherwise the next record would leave a gap in the log, which is damage to a later start.
#[test]
fn a_snapshot_beyond_the_log_takes_its_place_whatever_its_epoch() {
    let disk = new_disk();
    for _ in 0..2 {
        lead(&disk).expect("works");
    }
    put_beyond(&disk, |id| snapshot_bytes(id, &["x"]));
    for round in 0..3 {
        let (mut replica, state) = lead(&disk).expect("whole");
        assert_eq!(state.values.len(), 1 + round);
        append(&mut replica, &["y"]).expect("fits");
    }
}
