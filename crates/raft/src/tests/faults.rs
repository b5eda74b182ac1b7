//! What a disk that is full, fails or forgets, or a lack of file descriptors, does to a leader's log.

use super::*;
use model::Offset;

fn flip(disk: &SimDisk, at: u64) -> Vec<u8> {
    let file = disk.open(Path::new(LOG), OpenMode::Write).expect("there");
    let mut byte = [0];
    file.read_full_at(&mut byte, at).expect("there");
    file.write_at(&[byte[0] ^ 1], at).expect("works");
    disk.read(Path::new(LOG), 1 << 20).expect("there")
}

fn length(disk: &SimDisk) -> u64 {
    disk.status(Path::new(LOG)).expect("there").length
}

/// The values of a log that is opened again.
fn reopened(disk: &SimDisk) -> Vec<String> {
    lead(disk).expect("whole").1.values
}

#[test]
fn after_a_failed_sync_nothing_is_taken() {
    let disk = new_disk();
    let (mut replica, mut state) = lead(&disk).expect("new");
    disk.fail_syncs_of(Some(".log"));
    let failed = append(&mut replica, &["a"]);
    assert!(matches!(failed, Err(AppendError::Log(_))));
    disk.fail_syncs_of(None);
    assert_eq!(append(&mut replica, &["a"]), Err(AppendError::Failed));
    state.apply(&mut replica);
    assert!(replica.has_failed() && state.values.is_empty());
}

/// A disk that loses a byte while the server runs, and is full once after that.
#[test]
fn mending_never_cuts_what_is_committed() {
    // In the middle, and in the last batch that was acknowledged, which looks like a crash's.
    for from_end in [400, 10] {
        let disk = new_disk();
        let (mut replica, _) = lead(&disk).expect("new");
        for number in 0..12 {
            append(&mut replica, &[&format!("v{number}")]).expect("fits");
        }
        let at = length(&disk) - from_end;
        let before = flip(&disk, at);
        disk.set_full(true);
        append(&mut replica, &["x"]).expect_err("no room");
        disk.set_full(false);
        assert!(!replica.has_failed());
        let failed = append(&mut replica, &["y"]);
        assert!(matches!(failed, Err(AppendError::Log(_))));
        assert!(replica.has_failed(), "for good");
        let after = disk.read(Path::new(LOG), 1 << 20).expect("there");
        assert_eq!(&after[..before.len()], before, "{from_end}");
        replica
            .close(4_000)
            .expect_err("nothing is written any more");
        assert_eq!(disk.read(Path::new(LOG), 1 << 20).expect("there"), after);
        // Nor by the next start, to which the last batch looks like one that a crash has torn.
        drop(replica);
        for _ in 0..2 {
            let refused = lead(&disk).map(|_| ()).expect_err("damaged");
            assert!(
                matches!(&refused, OpenError::Damaged { note: Some(note), .. }
                    if refused.to_string().contains(&note.display().to_string())),
                "{from_end}: {refused:?}"
            );
        }
        assert_eq!(disk.read(Path::new(LOG), 1 << 20).expect("there"), after);
        // Somebody has mended it; from then on it is a log like any other.
        flip(&disk, at);
        let (mut replica, state) = lead(&disk).expect("mended");
        assert_eq!(state.values.len(), 12);
        append(&mut replica, &["z"]).expect("fits");
        assert!(!files(&disk).iter().any(|name| name.ends_with(".synced")));
    }
}

#[test]
fn a_log_that_was_torn_is_closed_in_order_if_there_is_room() {
    let disk = new_disk();
    let (mut replica, _) = lead(&disk).expect("new");
    disk.set_full(true);
    append(&mut replica, &["a"]).expect_err("no room");
    disk.set_full(false);
    replica.close(3_000).expect("there is room");
    let (mut replica, state) = lead(&disk).expect("there");
    assert!(state.values.is_empty());
    disk.set_full(true);
    append(&mut replica, &["a"]).expect_err("no room");
    // A new file is empty, so it can be made; what is to be in it cannot.
    replica.close(3_000).expect_err("no room to mend it");
}

#[test]
fn a_lack_of_file_descriptors_ends_when_it_has_passed() {
    let disk = new_disk();
    let mut options = options(voter());
    options.config.segment_bytes = 300;
    let (mut replica, _) = lead_with(&disk, options.clone()).expect("new");
    let (mut failures, mut expected) = (0, Vec::new());
    for number in 0..40 {
        let value = format!("v{number}");
        // A new segment needs descriptors.
        disk.set_out_of_files(true);
        let failed = append(&mut replica, &[&value]).is_err();
        disk.set_out_of_files(false);
        failures += usize::from(failed);
        assert!(!replica.has_failed());
        if failed {
            append(&mut replica, &[&value]).expect("one more try");
        }
        expected.push(value);
    }
    assert!(failures > 1, "{failures}");
    disk.crash(Crash::LosesUnsynced);
    assert_eq!(lead_with(&disk, options).expect("there").1.values, expected);
}

/// The tail that a full disk leaves, and the mark of an orderly stop beside it.
#[test]
fn a_torn_tail_is_cut_whatever_the_mark_says() {
    for cut_bytes in [1, 30, 65] {
        let disk = new_disk();
        let (mut replica, _) = lead(&disk).expect("new");
        append(&mut replica, &["a"]).expect("fits");
        append(&mut replica, &["b"]).expect("fits");
        drop(replica);
        let file = disk.open(Path::new(LOG), OpenMode::Write).expect("there");
        file.truncate(length(&disk) - cut_bytes).expect("works");
        let mark = Path::new("/a/.kafka_cleanshutdown");
        drop(disk.open(mark, OpenMode::Create).expect("made"));
        assert_eq!(reopened(&disk), ["a"]);
    }
}

/// Where a batch ends a log looks whole.
#[test]
fn a_log_that_ends_before_what_an_orderly_stop_has_left_is_not_led() {
    let disk = new_disk();
    let (mut replica, _) = lead(&disk).expect("new");
    append(&mut replica, &["a"]).expect("fits");
    let with_one = length(&disk);
    append(&mut replica, &["b"]).expect("fits");
    replica.close(3_000).expect("works");
    drop(replica);
    let whole = disk.read(Path::new(LOG), 1 << 20).expect("there");
    let file = disk.open(Path::new(LOG), OpenMode::Write).expect("there");
    file.truncate(with_one).expect("works");
    for _ in 0..2 {
        let refused = lead(&disk).map(|_| ()).expect_err("too short");
        assert!(
            matches!(&refused, OpenError::Damaged { position, note: Some(_), .. } if *position == with_one),
            "{refused:?}"
        );
        assert_eq!(length(&disk), with_one);
    }
    file.write_at(&whole[with_one as usize..], with_one)
        .expect("works");
    assert_eq!(reopened(&disk), ["a", "b"]);
    // What is left after a crash is all that is known.
    assert!(!files(&disk).iter().any(|name| name.ends_with(".synced")));
}

/// The batch is larger than what is read of the log at once.
#[test]
fn a_large_batch_at_the_end_of_an_orderly_stop_is_no_damage() {
    let disk = new_disk();
    let (mut replica, _) = lead(&disk).expect("new");
    let large = "v".repeat(3 << 20);
    append(&mut replica, &[&large]).expect("fits");
    replica.close(3_000).expect("works");
    let mark = Path::new("/a/.kafka_cleanshutdown");
    drop(disk.open(mark, OpenMode::Create).expect("made"));
    let mut state = State::default();
    let opened = Replica::open(disk, options(voter()));
    let mut replica = opened.expect("whole").replica;
    while replica.next_committed().expect("whole").is_some() {}
    state.end_offset = replica.high_watermark();
    assert_eq!(state.end_offset, Offset(2));
}

/// Which no crash leaves behind a leader that syncs each batch before the next; of an observer's log it
/// is nothing.
#[test]
fn a_damaged_batch_before_a_whole_one_is_told_from_a_crash_by_who_has_written() {
    let disk = new_disk();
    let (mut replica, _) = lead(&disk).expect("new");
    append(&mut replica, &["a"]).expect("fits");
    let at = length(&disk) - 5;
    append(&mut replica, &["b"]).expect("fits");
    drop(replica);
    flip(&disk, at);
    let refused = lead(&disk).map(|_| ());
    assert!(
        matches!(refused, Err(OpenError::Damaged { .. })),
        "{refused:?}"
    );
    let opened = Replica::open(disk, options(observer())).expect("it is cut");
    assert_eq!(opened.replica.end_offset(), Offset(1));
}

/// Of appends that share a flush, none is torn from the others by a crash.
#[test]
fn appends_that_share_a_flush_are_one_batch() {
    let disk = new_disk();
    let (mut replica, mut state) = lead(&disk).expect("new");
    for value in ["a", "b", "c"] {
        stage(&mut replica, &[value]).expect("fits");
    }
    let before = disk.read(Path::new(LOG), 1 << 20).expect("there").len();
    replica.flush(2_000).expect("works");
    let bytes = disk.read(Path::new(LOG), 1 << 20).expect("there");
    assert_eq!(Batches::new(&bytes[before..]).count(), 1);
    assert_eq!(values_of(&bytes[before..], Offset(0)), ["a", "b", "c"]);
    state.apply(&mut replica);
    assert_eq!(state.values, ["a", "b", "c"]);
    assert_eq!(state.end_offset, Offset(4));
}

/// Apache Kafka ends at a batch of the metadata log whose records differ in their timestamps.
#[test]
fn appends_that_share_a_flush_have_the_time_of_the_last_one() {
    for times in [[1_000, 1_001, 1_005], [1_005, 1_001, 1_000]] {
        let disk = new_disk();
        let (mut replica, _) = lead(&disk).expect("new");
        for now_ms in times {
            let appended = batch(replica.next_place(now_ms), &["a"]);
            replica.append(vec![appended], now_ms).expect("fits");
        }
        let before = disk.read(Path::new(LOG), 1 << 20).expect("there").len();
        replica.flush(2_000).expect("works");
        let bytes = disk.read(Path::new(LOG), 1 << 20).expect("there");
        let (merged, _) = RecordBatch::parse(&bytes[before..]).expect("one batch");
        let mut scratch = Vec::new();
        let records = merged.records(&mut Decompressor::default(), &mut scratch, usize::MAX);
        let timestamps = records
            .expect("whole")
            .map(|one| one.expect("whole").timestamp);
        assert_eq!(timestamps.collect::<Vec<_>>(), [times[2]; 3]);
    }
}

/// What one batch cannot hold keeps its own, as do control records and what counts together.
#[test]
fn what_no_batch_can_hold_is_flushed_batch_by_batch() {
    let disk = new_disk();
    let (mut replica, mut state) = lead(&disk).expect("new");
    let large = "v".repeat(5 << 20);
    stage(&mut replica, &[&large]).expect("fits");
    stage(&mut replica, &[&large]).expect("fits");
    let place = replica.next_place(2_000);
    let first = batch(place, &["begin"]);
    let base_offset = place.base_offset + 1;
    let second = batch(
        BatchPlace {
            base_offset,
            ..place
        },
        &["end"],
    );
    replica.append(vec![first, second], 2_000).expect("fits");
    stage(&mut replica, &["last"]).expect("fits");
    replica.raise_kraft_version(1, 2_000).expect("works");
    let bytes = disk.read(Path::new(LOG), 1 << 30).expect("there");
    // The start of the epoch, two large ones, the two that count together, the last one, the level.
    assert_eq!(Batches::new(&bytes).count(), 7);
    while let Some(Committed::Batches(batches)) = replica.next_committed().expect("works") {
        state.end_offset = batches.end_offset;
    }
    assert_eq!(state.end_offset, replica.end_offset());
    assert_eq!(replica.voters().kraft_version, 1);
}

/// The log may be torn by something else than an append: by what a snapshot lets go.
#[test]
fn what_could_not_be_flushed_is_not_flushed_later() {
    let disk = new_disk();
    let (mut replica, mut state) = lead(&disk).expect("new");
    stage(&mut replica, &["a"]).expect("fits");
    replica.log.state = quorum_log::LogState::Torn;
    disk.set_full(true);
    replica.flush(2_000).expect_err("no room to mend it");
    disk.set_full(false);
    append(&mut replica, &["b"]).expect("there is room");
    state.apply(&mut replica);
    assert_eq!(state.values, ["b"]);
}

#[test]
fn a_quorum_of_others_is_left_to_them() {
    let disk = new_disk();
    let others = |voters: &[BrokerId]| ReplicaOptions {
        fixed_voters: Some(voters.to_vec()),
        ..options(voter())
    };
    let refused = lead_with(&disk, others(&[BrokerId(1), BrokerId(2)])).map(|_| ());
    assert!(
        matches!(refused, Err(OpenError::VoterSet { .. })),
        "{refused:?}"
    );
    let nobody = ReplicaOptions {
        fixed_voters: None,
        ..options(voter())
    };
    let refused = lead_with(&new_disk(), nobody).map(|_| ());
    assert!(
        matches!(refused, Err(OpenError::NoVoters { .. })),
        "{refused:?}"
    );
    lead_with(&disk, others(&[BrokerId(1)])).expect("nothing has happened");
}
