//! Many partitions that hold a little each: memory and files when nobody uses them.

use std::fs;
use std::path::Path;

use anyhow::Result;
use model::{LeaderEpoch, TopicPartition};
use record::{BatchBuilder, BatchHeader, Compression};
use storage::{AppendOptions, Log, LogOpening, RealDisk};

use crate::Row;
use crate::machine::{Watch, open_file_count, resident_bytes};

const PARTITION_COUNT: i32 = 2_000;

fn opening(directory: &Path, index: i32) -> LogOpening<RealDisk> {
    let partition = TopicPartition::new("topic", index);
    LogOpening {
        is_clean: true,
        ..LogOpening::new(RealDisk, directory.join(partition.to_string()), partition)
    }
}

pub(crate) fn measure(directory: &Path) -> Result<Vec<Row>> {
    fs::create_dir(directory)?;
    let per_partition = |value: f64| value / f64::from(PARTITION_COUNT);
    let mut builder = BatchBuilder::new(BatchHeader::default());
    builder.append(1, None, Some(&[7; 100]), &[]);
    let watch = Watch::start();
    for index in 0..PARTITION_COUNT {
        let mut log = Log::create(opening(directory, index))?;
        let mut batch = builder.clone().into_batch(Compression::None);
        log.append_as_leader(&mut batch, AppendOptions::client(LeaderEpoch(0), 1))?;
        log.close(1)?;
    }
    let made = watch.cpu();
    let before = resident_bytes()?;
    let watch = Watch::start();
    let mut logs = Vec::new();
    for index in 0..PARTITION_COUNT {
        let mut log = Log::open(opening(directory, index))?.log;
        log.close_idle_files();
        log.close_idle_files();
        logs.push(log);
    }
    let memory = resident_bytes()?.saturating_sub(before) as f64;
    let rows = vec![
        (
            "make a partition, append, close, CPU".to_owned(),
            format!("{:.0} us", per_partition(made.as_secs_f64() * 1e6)),
        ),
        (
            "open a partition after a clean shutdown, CPU".to_owned(),
            format!("{:.0} us", per_partition(watch.cpu().as_secs_f64() * 1e6)),
        ),
        (
            "memory of an idle partition's log".to_owned(),
            format!("{:.0} bytes", per_partition(memory)),
        ),
        (
            format!("open files of {PARTITION_COUNT} idle partitions"),
            format!("{}", open_file_count()?.saturating_sub(4)),
        ),
    ];
    drop(logs);
    Ok(rows)
}
