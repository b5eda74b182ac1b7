use super::*;
use model::Offset;
use std::sync::Barrier;
use std::sync::atomic::AtomicI64;
use storage::sim::SimDisk;

fn file(disk: &SimDisk) -> CheckpointFile<SimDisk> {
    CheckpointFile::new(disk.clone(), PathBuf::from("/checkpoint"))
}

fn offsets(entries: &[(&str, i64)]) -> OffsetCheckpoint {
    let entries = entries.iter();
    entries
        .map(|(topic, offset)| (TopicPartition::new(*topic, 0), Offset(*offset)))
        .collect()
}

fn text(entries: &[(&str, i64)]) -> CheckpointText {
    let offsets = offsets(entries);
    let entries = offsets.iter().map(|(name, offset)| (name, *offset));
    entries.collect()
}

fn content(disk: &SimDisk) -> OffsetCheckpoint {
    read_checkpoint(disk, Path::new("/checkpoint")).unwrap()
}

#[test]
fn no_older_gathering_comes_after_a_newer_one() {
    let disk = SimDisk::default();
    let file = file(&disk);
    let truth = AtomicI64::new(0);
    let begin = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                begin.wait();
                for _ in 0..200 {
                    let changed = truth.fetch_add(1, Ordering::AcqRel) + 1;
                    file.write(|| text(&[("topic", truth.load(Ordering::Acquire))]))
                        .expect("nobody else renames its file");
                    let written = content(&disk)[&TopicPartition::new("topic", 0)];
                    assert!(
                        written >= Offset(changed),
                        "{written} is older than {changed}"
                    );
                }
            });
        }
    });
    assert_eq!(content(&disk), offsets(&[("topic", 1600)]));
}

#[test]
fn who_waits_shares_one_gathering_and_never_an_older_one() {
    let disk = SimDisk::default();
    let file = file(&disk);
    let gathered_count = AtomicI64::new(0);
    let gather = || {
        gathered_count.fetch_add(1, Ordering::AcqRel);
        CheckpointText::default()
    };
    std::thread::scope(|scope| {
        let write = || {
            // These ask while this gathering is on its way, so it is too old for them.
            let waiting: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| file.write(gather).unwrap()))
                .collect();
            while file.asked_count.load(Ordering::Acquire) < 5 {
                std::thread::yield_now();
            }
            drop(waiting);
            gather()
        };
        file.write(write).unwrap();
    });
    assert_eq!(gathered_count.into_inner(), 2);
}

#[test]
fn a_write_that_fails_is_nobodys() {
    let disk = SimDisk::default();
    let file = file(&disk);
    disk.fail_writes_to(Some("checkpoint.tmp"));
    assert!(file.write(|| text(&[("topic", 1)])).is_err());
    disk.fail_writes_to(None);
    file.write(|| text(&[("topic", 2)])).unwrap();
    assert_eq!(content(&disk), offsets(&[("topic", 2)]));
}

#[test]
fn a_start_drops_the_entries_of_what_is_not_there() {
    let disk = SimDisk::default();
    let path = Path::new("/checkpoint");
    write_checkpoint(&disk, path, &offsets(&[("here", 1), ("gone", 2)])).unwrap();
    let is_there = |name: &TopicPartition| name.topic == "here";
    let read = file(&disk).read_at_start(is_there, |_| true).unwrap();
    assert_eq!(read, offsets(&[("here", 1)]));
    assert_eq!(content(&disk), read, "they are off the disk as well");
    let before = disk.change_count();
    assert_eq!(file(&disk).read_at_start(is_there, |_| true).unwrap(), read);
    assert_eq!(disk.change_count(), before, "there was nothing to drop");
}

#[test]
fn what_somebody_else_is_writing_has_not_been_written() {
    let checkpointed = Checkpointed::default();
    let mut calls = Vec::new();
    let written = checkpointed.unless_written(Kind::HighWatermarks, 7, || {
        // As at a stop, while the periodic task has the file open.
        checkpointed.unless_written(Kind::HighWatermarks, 7, || {
            calls.push("the stop's");
            Ok::<(), ()>(())
        })?;
        Ok::<(), ()>(())
    });
    assert_eq!(written, Ok(()));
    assert_eq!(calls, ["the stop's"]);
    let count_of = |kind, change_count, outcome: Result<(), ()>| {
        let mut count = 0;
        let written = checkpointed.unless_written(kind, change_count, || {
            count += 1;
            outcome
        });
        assert!(count == 0 || written == outcome);
        count
    };
    assert_eq!(count_of(Kind::HighWatermarks, 7, Ok(())), 0, "by both");
    assert_eq!(count_of(Kind::RecoveryPoints, 7, Ok(())), 1, "of each kind");
    assert_eq!(
        count_of(Kind::HighWatermarks, 8, Err(())),
        1,
        "a change, and a failure"
    );
    assert_eq!(
        count_of(Kind::HighWatermarks, 8, Ok(())),
        1,
        "after a failure"
    );
}

#[test]
fn a_start_keeps_what_is_wanted_whoever_wrote_the_file() {
    let disk = SimDisk::default();
    let path = Path::new("/checkpoint");
    let texts = [
        "0\n2\na 0 1\nb 0 2\n",
        // Another program's order, and one with an entry that goes.
        "0\n2\nb 0 2\na 0 1\n",
        "0\n3\na 0 1\nb 0 2\ngone 0 3\n",
    ];
    for text in texts {
        storage::replace_file(&disk, path, text.as_bytes()).unwrap();
        let is_there = |name: &TopicPartition| name.topic != "gone";
        let is_wanted = |name: &TopicPartition| name.topic == "b";
        let read = file(&disk).read_at_start(is_there, is_wanted).unwrap();
        assert_eq!(read, offsets(&[("b", 2)]));
        assert_eq!(content(&disk), offsets(&[("a", 1), ("b", 2)]));
    }
    storage::replace_file(&disk, path, b"0\n2\na 0 1\na 0 2\n").unwrap();
    let read = file(&disk).read_at_start(|_| true, |_| true).unwrap();
    assert_eq!(read, offsets(&[]), "a partition that comes twice is damage");
}
