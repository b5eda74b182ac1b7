//! What a partition costs that nobody writes to, and one that is used now and then.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::ALLOCATOR;
use crate::support::batch;
use model::{LeaderEpoch, Offset, TopicPartition, Uuid};
use stats_alloc::Region;
use storage::{AppendOptions, IdleLog, Log, LogOpening, OpenFiles, RealDisk};
use trials::alone;

/// Tests that run beside this one have files of their own.
fn open_file_count(directory: &Path) -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets
        .filter(|target| target.starts_with(directory))
        .count()
}

#[test]
fn an_idle_partition_holds_little_memory_and_no_files() {
    let directory = trials::directory();
    let before = open_file_count(directory.path());
    let mut logs = Vec::new();
    for partition in 0..100 {
        let folder = directory.path().join(format!("topic-{partition}"));
        let partition = TopicPartition::new("topic", partition);
        let log = Log::create(LogOpening {
            topic_id: Some(Uuid::METADATA_TOPIC),
            ..LogOpening::new(RealDisk, folder, partition)
        });
        logs.push(log.unwrap());
    }
    assert_eq!(
        open_file_count(directory.path()) - before,
        100,
        "the active segment's log file"
    );
    let files = fs::read_dir(directory.path().join("topic-0")).unwrap();
    assert_eq!(files.count(), 2, "the log file and the topic's id");
    for log in &mut logs {
        for _ in 0..100 {
            let mut records = batch(0, &["some value"]);
            log.append_as_leader(&mut records, AppendOptions::client(LeaderEpoch(0), 0))
                .unwrap();
        }
    }
    assert!(
        open_file_count(directory.path()) - before <= 300,
        "and its indexes'"
    );
    for log in &mut logs {
        log.close_idle_files();
        log.close_idle_files();
    }
    let kept = open_file_count(directory.path()) - before;
    assert_eq!(kept, 100, "what nobody has synced stays open");
    for log in &mut logs {
        log.flush(0).unwrap();
        log.close_idle_files();
        log.close_idle_files();
    }
    assert_eq!(open_file_count(directory.path()), before);
    for log in &mut logs {
        assert!(
            log.read(Offset(0), 1000, Offset::MAX, true)
                .unwrap()
                .length()
                > 0
        );
    }
    assert!(size_of::<Log<RealDisk>>() < 1024);
    assert!(size_of::<IdleLog>() <= 80);
}

#[test]
fn an_open_log_holds_little_memory() {
    alone("cost::an_open_log_holds_little_memory", check_open_log);
}

/// Of many logs most have one segment, one leader epoch, no producers and a batch or two.
fn check_open_log() {
    const COUNT: usize = 100;
    let open_files = Arc::new(OpenFiles::new(usize::MAX));
    let directory = trials::directory();
    let mut logs = Vec::with_capacity(COUNT);
    let region = Region::new(ALLOCATOR);
    for partition in 0..COUNT {
        // The name of a directory takes as much as it is long.
        let folder = directory.path().join(format!("topic-{partition}"));
        let mut log = Log::create(LogOpening {
            topic_id: Some(Uuid::METADATA_TOPIC),
            open_files: open_files.clone(),
            ..LogOpening::new(
                RealDisk,
                folder,
                TopicPartition::new("topic", partition as i32),
            )
        })
        .unwrap();
        let mut records = batch(0, &["some value"]);
        log.append_as_leader(&mut records, AppendOptions::client(LeaderEpoch(0), 0))
            .unwrap();
        logs.push(log);
    }
    let change = region.change();
    let names = logs.iter().map(|log| log.directory().as_os_str().len());
    let held = change.bytes_allocated - change.bytes_deallocated - names.sum::<usize>();
    let pieces = (change.allocations - change.deallocations) / COUNT;
    assert!(held < 800 * COUNT, "{} bytes of each", held / COUNT);
    assert!(pieces < 10, "in {pieces} pieces");
}
