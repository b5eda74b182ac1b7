//! What a disk that is full, fails or forgets, or a lack of file descriptors, does to the log.

use super::*;

#[test]
fn after_a_failed_write_nothing_is_taken() {
    let disk = new_disk();
    let mut log = open(&disk).expect("new");
    disk.fail_syncs_of(Some(".log"));
    let failed = log.append(&topic(1, 1), 2_000).map(|_| ());
    assert!(matches!(failed, Err(AppendMetadataError::Log(_))));
    disk.fail_syncs_of(None);
    let failed = log.append(&topic(1, 1), 2_000).map(|_| ());
    assert!(matches!(failed, Err(AppendMetadataError::Failed)));
    assert!(log.has_failed() && names(log.image()).is_empty());
}

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
            assert!(matches!(failed, Err(AppendMetadataError::Log(_))));
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
    assert!(matches!(failed, Err(AppendMetadataError::Log(_))));
    assert_eq!(log.describe_quorum(0).kraft_version, 0);
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
    assert_eq!(log.describe_quorum(0).kraft_version, 1);
    assert_eq!(names(log.image()), ["t1", "t3"]);
}

/// A disk that loses a byte while the server runs, and is full once after that.
#[test]
fn mending_never_cuts_what_the_image_knows() {
    let path = Path::new("/a/__cluster_metadata-0/00000000000000000000.log");
    // In the middle, and in the last batch that was acknowledged, which looks like a crash's.
    for from_end in [400, 10] {
        let disk = new_disk();
        let mut log = open(&disk).expect("new");
        for number in 0..12 {
            log.append(&topic(number, 1), 2_000).expect("fits");
        }
        let file = disk.open(path, OpenMode::Write).expect("there");
        let at = file.length().expect("there") - from_end;
        let mut byte = [0];
        file.read_full_at(&mut byte, at).expect("there");
        file.write_at(&[byte[0] ^ 1], at).expect("works");
        let before = disk.read(path, 1 << 20).expect("there");
        disk.set_full(true);
        log.append(&topic(20, 1), 2_000).expect_err("no room");
        disk.set_full(false);
        assert!(!log.has_failed());
        let failed = log.append(&topic(21, 1), 3_000).map(|_| ());
        assert!(matches!(failed, Err(AppendMetadataError::Log(_))));
        assert!(log.has_failed(), "for good");
        let after = disk.read(path, 1 << 20).expect("there");
        assert_eq!(&after[..before.len()], before, "{from_end}");
        log.close(4_000).expect_err("nothing is written any more");
        assert_eq!(disk.read(path, 1 << 20).expect("there"), after);
        // Nor by the next start, to which the last batch looks like one that a crash has torn.
        drop(log);
        for _ in 0..2 {
            let refused = open(&disk).map(|_| ());
            assert!(
                matches!(refused, Err(OpenMetadataLogError::Damaged { .. })),
                "{from_end}: {refused:?}"
            );
        }
        assert_eq!(disk.read(path, 1 << 20).expect("there"), after);
        // Somebody has mended it; from then on it is a log like any other.
        file.write_at(&byte, at).expect("works");
        let mut log = open(&disk).expect("mended");
        assert_eq!(names(log.image()).len(), 12);
        log.append(&topic(22, 1), 5_000).expect("fits");
        let names = files(&disk, "/a/__cluster_metadata-0");
        assert!(
            !names.iter().any(|name| name.ends_with(".synced")),
            "{names:?}"
        );
    }
}

#[test]
fn a_log_that_was_torn_is_closed_in_order_if_there_is_room() {
    let disk = new_disk();
    let mut log = open(&disk).expect("new");
    disk.set_full(true);
    log.append(&topic(1, 1), 2_000).expect_err("no room");
    disk.set_full(false);
    log.close(3_000).expect("there is room");
    assert_eq!(files(&disk, "/a").len(), 3);
    assert!(names(open(&disk).expect("there").image()).is_empty());

    let mut log = open(&disk).expect("there");
    disk.set_full(true);
    log.append(&topic(1, 1), 2_000).expect_err("no room");
    // A new file is empty, so it can be made; what is to be in it cannot.
    log.close(3_000).expect_err("no room to mend it");
}

#[test]
fn a_lack_of_file_descriptors_ends_when_it_has_passed() {
    let disk = new_disk();
    let options = MetadataLogOptions {
        config: MetadataLogConfig {
            segment_bytes: 2_000,
            ..config()
        },
        ..options("/a", directory_id(1))
    };
    prepare(&disk, &["/a"], true).expect("new");
    let mut log = open_with(&disk, options.clone()).expect("new");
    let (mut failures, mut expected) = (0, Vec::new());
    for number in 0..40 {
        // A new segment needs descriptors.
        disk.set_out_of_files(true);
        let failed = log.append(&topic(number, 1), 2_000).is_err();
        disk.set_out_of_files(false);
        failures += usize::from(failed);
        assert!(!log.has_failed());
        if failed {
            log.append(&topic(number, 1), 2_000).expect("one more try");
        }
        expected.push(format!("t{number}"));
    }
    assert!(failures > 1, "{failures}");
    expected.sort();
    disk.crash(Crash::LosesUnsynced);
    let log = open_with(&disk, options).expect("there");
    let mut found = names(log.image());
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_snapshot_that_could_not_be_written_is_due_again() {
    let disk = new_disk();
    let mut log = open(&disk).expect("new");
    log.config.max_record_bytes_between_snapshots = 100;
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

/// The tail that a full disk leaves, and the mark of an orderly stop beside it.
#[test]
fn a_torn_tail_is_cut_whatever_the_mark_says() {
    for cut_bytes in [1, 30, 80] {
        let disk = new_disk();
        let mut log = open(&disk).expect("new");
        log.append(&topic(1, 1), 2_000).expect("fits");
        log.append(&topic(2, 1), 2_000).expect("fits");
        log.close(3_000).expect("works");
        let path = "/a/__cluster_metadata-0/00000000000000000000.log";
        let file = disk.open(Path::new(path), OpenMode::Write).expect("there");
        let length = file.length().expect("there");
        file.truncate(length - cut_bytes).expect("works");
        let mark = Path::new("/a/.kafka_cleanshutdown");
        drop(disk.open(mark, OpenMode::Create).expect("made"));
        assert_eq!(names(open(&disk).expect("mended").image()), ["t1"]);
    }
}

/// The batch is larger than what is read of the log at once.
#[test]
fn a_large_batch_at_the_end_of_an_orderly_stop_is_no_damage() {
    let disk = new_disk();
    let mut log = open(&disk).expect("new");
    log.append(&topic(1, 30_000), 2_000).expect("fits");
    log.close(3_000).expect("works");
    let path = Path::new("/a/__cluster_metadata-0/00000000000000000000.log");
    let file = disk.open(path, OpenMode::Read).expect("there");
    assert!(file.length().expect("there") > 2 << 20);
    let mark = Path::new("/a/.kafka_cleanshutdown");
    drop(disk.open(mark, OpenMode::Create).expect("made"));
    assert_eq!(names(open(&disk).expect("whole").image()), ["t1"]);
}
