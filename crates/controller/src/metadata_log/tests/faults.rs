//! What a disk that is full, fails or forgets, or a lack of file descriptors, does to the log.

use super::*;

#[test]
fn a_full_disk_ends_when_there_is_room_again() {
    for partition_count in [1, 130_000] {
        let disk = new_disk();
        let mut log = open(&disk).expect("new");
        log.append(&topic(1, 1), 2_000).expect("fits");
        let end_offset = log.end_offset();
        disk.set_full(true);
        for _ in 0..2 {
            let failed = log.append(&topic(2, partition_count), 2_000).map(|_| ());
            assert!(matches!(
                failed,
                Err(AppendMetadataError::Quorum(AppendError::Log(_)))
            ));
            assert!(!log.has_failed());
            assert_eq!(names(log.image()), ["t1"]);
        }
        disk.set_full(false);
        let appended = log.append(&topic(3, 1), 3_000).expect("there is room");
        assert_eq!(appended.last_offset, end_offset + 1, "nothing is between");
        let before = content(log.image());
        drop(log);
        disk.crash(Crash::LosesUnsynced);
        assert_eq!(content(open(&disk).expect("there").image()), before);
    }
}

#[test]
fn a_level_that_finds_no_room_is_not_raised() {
    let disk = new_disk();
    let fixed = fixed_voter(&disk);
    let mut log = open_with(&disk, fixed.clone()).expect("new");
    let end_offset = log.end_offset();
    disk.set_full(true);
    let failed = log.raise_kraft_version(1, 2_000).map(|_| ());
    assert!(matches!(
        failed,
        Err(AppendMetadataError::Quorum(AppendError::Log(_)))
    ));
    assert_eq!(log.kraft_version(), 0);
    disk.set_full(false);
    log.append(&topic(1, 1), 3_000).expect("there is room");
    assert_eq!(log.end_offset(), end_offset + 2, "nothing is between");
    log.raise_kraft_version(1, 4_000).expect("there is room");
    // What is written after it is mended does not cut it.
    disk.set_full(true);
    log.append(&topic(2, 1), 5_000).expect_err("no room");
    disk.set_full(false);
    log.append(&topic(3, 1), 6_000).expect("there is room");
    drop(log);
    disk.crash(Crash::LosesUnsynced);
    let log = open_with(&disk, fixed).expect("there");
    assert_eq!(log.kraft_version(), 1);
    assert_eq!(names(log.image()), ["t1", "t3"]);
}

#[test]
fn a_snapshot_that_could_not_be_written_is_due_again() {
    let disk = new_disk();
    let often = MetadataLogConfig {
        max_record_bytes_between_snapshots: 100,
        ..config()
    };
    let mut log = open_as(&disk, often).expect("new");
    log.append(&topic(1, 5), 2_000).expect("fits");
    let job = log.snapshot_due(2_000).expect("enough was appended");
    disk.set_full(true);
    let written = job.run(2_000);
    log.complete_snapshot(written, 2_000).expect_err("no room");
    disk.set_full(false);
    assert!(log.snapshot_due(2_001).is_none(), "after a pause");
    let job = log.snapshot_due(62_000).expect("due again");
    log.complete_snapshot(job.run(62_000), 62_000)
        .expect("works");
    assert_eq!(
        content(open(&disk).expect("there").image()),
        content(log.image())
    );
}

/// Those of the one that does not fit a batch with others, too.
#[test]
fn of_appends_that_share_a_flush_all_take_effect_or_what_is_left_is_forgotten() {
    let disk = new_disk();
    let mut log = open(&disk).expect("new");
    let before = log.image().clone();
    log.stage(&topic(1, 1), 2_000).expect("fits");
    log.stage(&topic(1, 1), 2_000).expect_err("it is taken");
    let offset = log.stage(&topic(2, 1), 2_000).expect("fits");
    assert_eq!(names(log.staged_image()), ["t1", "t2"]);
    assert!(Arc::ptr_eq(log.image(), &before), "nothing is flushed");
    assert_eq!(log.end_offset(), offset);
    let appended = log.flush(2_000).expect("works");
    assert_eq!(appended.last_offset, offset - 1);
    assert_eq!(appended.delta.partitions().count(), 2);
    assert_eq!(names(log.image()), ["t1", "t2"]);

    log.stage(&topic(3, 1), 3_000).expect("fits");
    log.stage(&topic(4, 1), 3_000).expect("fits");
    disk.set_full(true);
    log.flush(3_000).expect_err("no room");
    assert_eq!(names(log.staged_image()), ["t1", "t2"]);
    disk.set_full(false);
    log.append(&topic(4, 1), 4_000).expect("there is room");
    drop(log);
    disk.crash(Crash::LosesUnsynced);
    let log = open(&disk).expect("there");
    assert_eq!(names(log.image()), ["t1", "t2", "t4"]);
}
