//! A log of ten thousand segments: made, opened, read, and idle.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use model::{LeaderEpoch, Offset, TopicPartition};
use record::{BatchBuilder, BatchHeader, Compression};
use storage::{AppendOptions, Log, LogConfig, LogOpening, RealDisk};

use crate::Row;
use crate::machine::{Watch, open_file_count, resident_bytes};

const SEGMENT_COUNT: u32 = 10_000;
const BATCHES_PER_SEGMENT: u32 = 8;
const READ_COUNT: u32 = 100_000;

fn opening(directory: &Path) -> LogOpening<RealDisk> {
    let partition = TopicPartition::new("topic", 0);
    LogOpening {
        is_clean: true,
        config: Arc::new(LogConfig {
            index_interval_bytes: 100,
            ..LogConfig::default()
        }),
        ..LogOpening::new(RealDisk, directory.to_owned(), partition)
    }
}

pub(crate) fn measure(directory: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let per_segment = |value: f64| value / f64::from(SEGMENT_COUNT);
    let watch = Watch::start();
    let mut log = Log::create(opening(directory))?;
    let mut builder = BatchBuilder::new(BatchHeader::default());
    builder.append(1, None, Some(&[7; 200]), &[]);
    for at in 0..i64::from(SEGMENT_COUNT) {
        for _ in 0..BATCHES_PER_SEGMENT {
            let mut batch = builder.clone().into_batch(Compression::None);
            log.append_as_leader(&mut batch, AppendOptions::client(LeaderEpoch(0), at))?;
        }
        log.roll_segment(at)?;
        // A broker flushes closed segments, and closes files that nobody uses.
        if at % 100 == 99 {
            log.flush(at)?;
            log.close_idle_files();
            log.close_idle_files();
        }
    }
    let micros = per_segment(watch.cpu().as_secs_f64() * 1e6);
    rows.push((
        "a segment: append 8 batches, roll, flush, CPU".to_owned(),
        format!("{micros:.0} us"),
    ));
    log.close(0)?;
    drop(log);
    let before = resident_bytes()?;
    let watch = Watch::start();
    let mut log = Log::open(opening(directory))?.log;
    let (wall, cpu) = (watch.wall(), watch.cpu());
    let memory = resident_bytes()?.saturating_sub(before) as f64;
    rows.push((
        format!("open a log of {SEGMENT_COUNT} segments, after a clean shutdown"),
        format!(
            "{:.2} s, {:.2} s of CPU",
            wall.as_secs_f64(),
            cpu.as_secs_f64()
        ),
    ));
    rows.push((
        "memory of a closed segment".to_owned(),
        format!("{:.0} bytes", per_segment(memory)),
    ));
    rows.push(random_reads(&log)?);
    log.close_idle_files();
    log.close_idle_files();
    rows.push((
        format!("open files of an idle log of {SEGMENT_COUNT} segments"),
        format!("{}", open_file_count()?.saturating_sub(4)),
    ));
    let watch = Watch::start();
    for _ in 0..100 {
        black_box(log.compaction_candidate(None, log.log_end_offset(), 1)?);
    }
    let micros = watch.cpu().as_secs_f64() * 1e6 / 100.0;
    rows.push((
        format!("choose what to compact, of {SEGMENT_COUNT} segments, CPU"),
        format!("{micros:.0} us"),
    ));
    let watch = Watch::start();
    black_box(log.delete_old_segments(log.log_end_offset(), 1)?);
    rows.push((
        format!("look for segments to delete among {SEGMENT_COUNT}, CPU"),
        format!("{:.0} us", watch.cpu().as_secs_f64() * 1e6),
    ));
    Ok(rows)
}

/// Reads at offsets all over the log, of 500 segments at a time so that few files are open.
fn random_reads(log: &Log<RealDisk>) -> Result<Row> {
    let offset_count = 500 * BATCHES_PER_SEGMENT;
    let watch = Watch::start();
    let mut offset = 1u32;
    for _ in 0..READ_COUNT {
        offset = offset.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let at = i64::from((offset >> 8) % offset_count);
        black_box(log.read(Offset(at), 1 << 20, Offset::MAX, true)?);
    }
    let nanos = watch.cpu().as_secs_f64() * 1e9 / f64::from(READ_COUNT);
    Ok((
        format!("find an offset in a log of {SEGMENT_COUNT} segments, CPU"),
        format!("{:.1} us", nanos / 1000.0),
    ))
}
