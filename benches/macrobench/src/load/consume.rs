//! Consumers that read a whole topic: again and again from the page cache, or once from the disk.

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use record::Compression;
use rustix::fs::Advice;
use serde_json::{Value, json};

use super::fetcher::{AtEnd, Fetcher};
use super::latencies::Latencies;
use super::window::{Phase, Window, Work};
use super::{Batching, Target, produce};

const POLL_INTERVAL: Duration = Duration::from_millis(2);
const FILL_LIMIT: Duration = Duration::from_secs(120);

/// What all consumers have read.
#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    is_over: AtomicBool,
}

impl Counts {
    fn work(&self) -> Work {
        Work {
            requests: self.requests.load(Ordering::Relaxed),
            records: self.records.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// Writes about `bytes` of records of 1 KiB in batches of 64 KiB.
pub(super) fn fill(target: &Target, bytes: u64) -> Result<()> {
    let filled = Target {
        warmup: Duration::ZERO,
        duration: FILL_LIMIT,
        max_bytes: bytes,
        ..target.clone()
    };
    let batching = Batching {
        connections: 4,
        record_bytes: 1024,
        batch_bytes: 64 * 1024,
        partitions_per_request: 1,
        compression: Compression::None,
        acks: 1,
    };
    produce::run(&filled, &batching, 5).map(drop)
}

/// Makes the files of a topic durable and drops them from the page cache.
pub(super) fn evict(dir: &Path, topic: &str) -> Result<()> {
    let mut evicted = 0;
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name();
        let partition = name.to_string_lossy().into_owned();
        if partition
            .rsplit_once('-')
            .is_none_or(|(name, _)| name != topic)
        {
            continue;
        }
        let files = match entry.file_type()?.is_dir() {
            true => fs::read_dir(entry.path())?
                .map(|file| Ok(file?.path()))
                .collect::<Result<Vec<_>>>()?,
            false => vec![entry.path()],
        };
        for file in files {
            let file = File::open(file)?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
            evicted += 1;
        }
    }
    ensure!(evicted > 0, "no files of `{topic}` below {}", dir.display());
    Ok(())
}

/// Reads the topic once with one consumer; it ends when nearly `bytes` have come.
pub(super) fn run_once(target: &Target, bytes: u64) -> Result<Value> {
    let counts = Counts::default();
    let target = Target {
        warmup: Duration::ZERO,
        duration: FILL_LIMIT,
        max_bytes: bytes / 100 * 95,
        ..target.clone()
    };
    let mut window = Window::start(&target);
    let mut fetcher = Fetcher::connect(&target, target.address, AtEnd::Repeat)?;
    let mut latencies = Latencies::default();
    while window.advance(Instant::now(), counts.work())? != Phase::Over {
        let asked_at = Instant::now();
        fetch(&mut fetcher, &counts)?;
        latencies.push(asked_at.elapsed());
    }
    let mut result = window.into_json()?;
    result["load"] = json!("consume from disk");
    result["latency"] = latencies.into_json();
    Ok(result)
}

/// Runs `consumers` threads and reports on the window. Its bytes are those of whole batches.
pub(super) fn run(target: &Target, consumers: usize) -> Result<Value> {
    ensure!(consumers > 0, "--consumers must be at least 1");
    let counts = Counts::default();
    let mut window = Window::start(target).without_byte_limit();
    thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..consumers)
            .map(|_| scope.spawn(|| consume(target, &counts)))
            .collect();
        let measured = loop {
            match window.advance(Instant::now(), counts.work()) {
                Ok(Phase::Over) => break Ok(()),
                Ok(_) if threads.iter().any(thread::ScopedJoinHandle::is_finished) => break Ok(()),
                Ok(_) => thread::sleep(POLL_INTERVAL),
                Err(error) => break Err(error),
            }
        };
        counts.is_over.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().expect("a consumer does not panic")?;
        }
        measured
    })?;
    let mut result = window.into_json()?;
    result["load"] = json!("consume");
    result["consumers"] = json!(consumers);
    Ok(result)
}

fn consume(target: &Target, counts: &Counts) -> Result<()> {
    let mut fetcher = Fetcher::connect(target, target.address, AtEnd::Repeat)?;
    while !counts.is_over.load(Ordering::Relaxed) {
        fetch(&mut fetcher, counts)?;
    }
    Ok(())
}

fn fetch(fetcher: &mut Fetcher, counts: &Counts) -> Result<()> {
    let (mut records, mut bytes) = (0, 0);
    fetcher.poll(&mut |_, batch| {
        records += u64::try_from(batch.record_count()).unwrap_or(0);
        bytes += batch.size_in_bytes() as u64;
    })?;
    counts.requests.fetch_add(1, Ordering::Relaxed);
    counts.records.fetch_add(records, Ordering::Relaxed);
    counts.bytes.fetch_add(bytes, Ordering::Relaxed);
    Ok(())
}
