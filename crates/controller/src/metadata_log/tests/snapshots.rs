//! When snapshots are taken, and what goes with old ones.

use super::*;
use model::Offset;

#[test]
fn snapshots_are_taken_and_old_ones_go_with_their_segments() {
    let disk = new_disk();
    let directories = prepare(&disk, &["/a"], true).expect("new");
    let id = directories.id_of(Path::new("/a")).expect("prepared");
    let small = MetadataLogOptions {
        config: MetadataLogConfig {
            max_record_bytes_between_snapshots: 500,
            segment_bytes: 600,
            retention_bytes: 1_500,
            ..config()
        },
        ..options("/a", id)
    };
    let mut log = open_with(&disk, small.clone()).expect("new");
    let mut ids = Vec::new();
    for number in 0..40 {
        let now_ms = 2_000 + number as i64;
        log.append(&topic(number, 1), now_ms).expect("fits");
        if let Some(job) = log.snapshot_due(now_ms) {
            assert!(log.snapshot_due(now_ms).is_none(), "one at a time");
            ids.push(job.id());
            log.complete_snapshot(job.run(now_ms), now_ms)
                .expect("works");
        }
    }
    assert!(ids.len() > 5, "{ids:?}");
    let newest = *ids.last().expect("some");
    let stored: Vec<SnapshotId> = files(&disk, "/a/__cluster_metadata-0")
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    assert!(stored.len() < ids.len() && stored.last() == Some(&newest));
    assert!(log.start_offset() > Offset(0) && stored[0].end_offset == log.start_offset());
    let bytes = disk
        .read(
            &Path::new("/a/__cluster_metadata-0").join(newest.to_string()),
            1 << 20,
        )
        .expect("there");
    let snapshot = read_snapshot(&bytes, newest).expect("whole");
    assert_eq!(snapshot.quorum.kraft_version, 1);
    let before = content(log.image());
    drop(log);
    let log = open_with(&disk, small).expect("there");
    assert_eq!(content(log.image()), before);
    assert_eq!(names(log.image()).len(), 40);
}

#[test]
fn a_snapshot_is_due_after_some_time_if_anything_was_written() {
    let disk = new_disk();
    let mut log = open(&disk).expect("new");
    assert!(log.snapshot_due(2_000).is_none());
    let hour_ms = 3_600_000;
    let job = log.snapshot_due(1_000 + hour_ms).expect("due");
    log.complete_snapshot(job.run(0), 0).expect("works");
    assert!(log.snapshot_due(1_000 + 3 * hour_ms).is_none());
    log.append(&topic(1, 1), 2_000).expect("fits");
    let job = log.snapshot_due(1_000 + 3 * hour_ms).expect("due");
    log.complete_snapshot(job.run(0), 0).expect("works");
    log.append(&topic(2, 1), 2_000).expect("fits");
    assert!(
        log.snapshot_due(2_000).is_some(),
        "the clock was set back: when the last one was is not known"
    );
}
