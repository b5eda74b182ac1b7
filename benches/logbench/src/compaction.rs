//! A gigabyte of records, compacted: what it costs to find the latest of each key.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use model::{LeaderEpoch, TopicPartition};
use record::{BatchBuilder, BatchHeader, Compression};
use storage::{AppendOptions, CleanupPolicy, Log, LogConfig, LogOpening, OffsetMap, RealDisk};

use crate::Row;
use crate::machine::{Watch, resident_bytes};

const BYTES: u64 = 1 << 30;
const RECORDS_PER_BATCH: u64 = 100;
const DEDUPE_BUFFER_BYTES: u64 = 128 << 20;
const IO_BUFFER_BYTES: usize = 256 << 10;

/// What the records are like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    value_bytes: usize,
    /// Records per key.
    repetitions: u64,
    compression: Compression,
}

pub(crate) const SHAPES: [Shape; 3] = [
    Shape {
        name: "1-KiB",
        value_bytes: 1024,
        repetitions: 4,
        compression: Compression::None,
    },
    Shape {
        name: "100-byte",
        value_bytes: 100,
        repetitions: 4,
        compression: Compression::None,
    },
    Shape {
        name: "1-KiB-lz4",
        value_bytes: 1024,
        repetitions: 4,
        compression: Compression::Lz4,
    },
];

/// Records with values that compress to about the half, until they have a gigabyte uncompressed.
fn fill(log: &mut Log<RealDisk>, shape: Shape) -> Result<u64> {
    let record_bytes = shape.value_bytes as u64 + 24;
    let count = BYTES / record_bytes;
    let keys = count / shape.repetitions;
    let mut value = vec![b'x'; shape.value_bytes];
    let mut random = 1u64;
    let mut at = 0;
    while at < count {
        let mut builder = BatchBuilder::new(BatchHeader::default());
        for _ in 0..RECORDS_PER_BATCH {
            for byte in value.iter_mut().take(shape.value_bytes / 2) {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                *byte = (random >> 56) as u8;
            }
            let key = (random >> 20) % keys;
            builder.append(1, Some(&key.to_be_bytes()), Some(&value), &[]);
        }
        let mut batch = builder.into_batch(shape.compression);
        log.append_as_leader(&mut batch, AppendOptions::client(LeaderEpoch(0), 1))?;
        at += RECORDS_PER_BATCH;
    }
    Ok(at)
}

/// A log of such records whose last segment is empty.
fn create(directory: &Path, shape: Shape) -> Result<(Log<RealDisk>, u64)> {
    let partition = TopicPartition::new("topic", 0);
    let mut log = Log::create(LogOpening {
        config: Arc::new(LogConfig {
            segment_bytes: 128 << 20,
            max_message_bytes: 4 << 20,
            cleanup_policy: CleanupPolicy {
                delete: false,
                compact: true,
            },
            ..LogConfig::default()
        }),
        ..LogOpening::new(RealDisk, directory.to_owned(), partition)
    })?;
    let count = fill(&mut log, shape)?;
    log.roll_segment(1)?;
    log.flush(1)?;
    Ok((log, count))
}

/// Leaves the log as it is, for another cleaner.
pub(crate) fn write(directory: &Path, shape: Shape) -> Result<()> {
    let (mut log, _) = create(directory, shape)?;
    log.close(1)?;
    Ok(())
}

pub(crate) fn measure(directory: &Path, shape: Shape) -> Result<Vec<Row>> {
    let (mut log, count) = create(directory, shape)?;
    let before_bytes = log.size_bytes();
    let resident = resident_bytes()?;
    let mut peak = resident;
    let watch = Watch::start();
    let candidate = log.compaction_candidate(None, log.log_end_offset(), 1)?;
    let mut compaction = log.begin_compaction(&candidate.cleanable, 1, IO_BUFFER_BYTES);
    let records = compaction.dirty_record_count_max();
    let mut map = OffsetMap::new(DEDUPE_BUFFER_BYTES, 0.9, records, [1, 2]);
    compaction.index_keys(&mut map, &mut |_| true)?;
    let indexed = (watch.wall(), watch.cpu());
    while let Some(group) = compaction.next_group(&map) {
        let cleaned = compaction.clean_group(group, &map, &mut |_| true)?;
        peak = peak.max(resident_bytes()?);
        let replaced = log.replace_segments(cleaned, 1)?;
        anyhow::ensure!(replaced, "nobody else changes the log");
    }
    let (wall, cpu) = (watch.wall(), watch.cpu());
    let gigabytes = before_bytes as f64 / 1e9;
    let kept = u32::try_from(compaction.statistics().kept_count).context("not that many")?;
    let name = shape.name;
    Ok(vec![
        (
            format!("{name} records, {count} in {gigabytes:.2} GB: compaction, CPU per GB"),
            format!(
                "{:.2} s ({:.2} s of it for the map)",
                cpu.as_secs_f64() / gigabytes,
                indexed.1.as_secs_f64() / gigabytes
            ),
        ),
        (
            format!("{name} records: throughput, {kept} records left"),
            format!("{:.0} MB/s", gigabytes * 1e3 / wall.as_secs_f64()),
        ),
        (
            format!(
                "{name} records: memory while compacting, map of {} MB",
                map.memory_bytes() >> 20
            ),
            format!("{} MB", peak.saturating_sub(resident) >> 20),
        ),
    ])
}
