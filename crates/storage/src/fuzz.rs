//! Entry points for fuzzing what recovery and lookups make of damaged files.

use model::{LeaderEpoch, Offset};
use std::path::Path;

use record::{BatchBuilder, BatchHeader, Compression};

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::log::{AppendOptions, Log};
use crate::log_opening::LogOpening;
use crate::recovery::OpenError;
use crate::sim::SimDisk;

const DIRECTORY: &str = "/topic-0";

fn opening(disk: &SimDisk) -> LogOpening<SimDisk> {
    let partition = model::TopicPartition::new("topic", 0);
    LogOpening::new(disk.clone(), DIRECTORY.into(), partition)
}

fn write(disk: &SimDisk, name: &str, bytes: &[u8]) {
    let file = disk.open(&Path::new(DIRECTORY).join(name), OpenMode::Replace);
    let file = file.expect("this disk does not fail");
    file.write_at(bytes, 0).expect("this disk does not fail");
}

/// Takes any bytes for a segment's log file: recovery keeps a prefix of whole batches, and a
/// second recovery finds nothing more to mend.
pub fn fuzz_segment_recovery(bytes: &[u8]) {
    let disk = SimDisk::default();
    let directory = Path::new(DIRECTORY);
    disk.create_directory(directory)
        .expect("this disk does not fail");
    let name = "00000000000000000000.log";
    write(&disk, name, bytes);
    let first = match Log::open(opening(&disk)) {
        Ok(first) => first,
        // Such a segment is left as it is, for whoever can read it.
        Err(OpenError::OldFormat { .. }) => {
            let left = disk.read(&directory.join(name), u64::MAX);
            assert_eq!(left.expect("the file is there"), bytes);
            return;
        }
        Err(error) => panic!("a damaged segment is not opened: {error}"),
    };
    let kept = disk.read(&directory.join(name), u64::MAX);
    let kept = kept.expect("the file is there");
    assert!(bytes.starts_with(&kept), "what is kept was there before");
    assert_eq!(first.log.size_bytes(), kept.len() as u64);
    let end_offset = first.log.log_end_offset();
    let second = Log::open(opening(&disk)).expect("a recovered log opens");
    assert!(second.events.iter().all(|event| !event.is_loss()));
    assert_eq!(second.log.log_end_offset(), end_offset);
}

/// Takes any bytes for the indexes of a log that was closed in order: what is in the log is read
/// all the same.
pub fn fuzz_indexes(bytes: &[u8]) {
    let disk = SimDisk::default();
    let mut log = Log::create(opening(&disk)).expect("this disk does not fail");
    for timestamp in 0..20 {
        let mut builder = BatchBuilder::new(BatchHeader::default());
        builder.append(timestamp, None, Some(&[b'v'; 2000]), &[]);
        let mut batch = builder.into_batch(Compression::None);
        let appended = log.append_as_leader(&mut batch, AppendOptions::client(LeaderEpoch(0), 0));
        appended.expect("a batch that is in order");
    }
    log.close(0).expect("this disk does not fail");
    let third = bytes.len() / 3;
    let names = ["index", "timeindex", "txnindex"];
    for (name, bytes) in names.iter().zip(bytes.chunks(third.max(1))) {
        write(&disk, &format!("00000000000000000000.{name}"), bytes);
    }
    let mut opening = opening(&disk);
    opening.is_clean = true;
    let log = Log::open(opening).expect("indexes do not keep a log from opening");
    let log = log.log;
    assert_eq!(log.log_end_offset(), Offset(20));
    for offset in 0..20 {
        let mut buffer = Vec::new();
        let next = log.read_into(Offset(offset), 1, Offset::MAX, &mut buffer);
        assert_eq!(next.expect("the batch is there"), Offset(offset + 1));
        // With a wrong time index the answer may be wrong; it is one nevertheless.
        let _ = log.offset_for_timestamp(offset);
    }
    let _ = (
        log.aborted_transactions(Offset::ZERO, Offset(20)),
        log.max_timestamp_offset(),
    );
}
