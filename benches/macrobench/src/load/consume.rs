//! Consumers that read a whole topic again and again from the page cache.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use record::Compression;
use serde_json::{Value, json};

use super::fetcher::{AtEnd, Fetcher};
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
        topic: target.topic.clone(),
        warmup: Duration::ZERO,
        duration: FILL_LIMIT,
        max_bytes: bytes,
        ..*target
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
    let mut fetcher = Fetcher::connect(target, AtEnd::Repeat)?;
    while !counts.is_over.load(Ordering::Relaxed) {
        let (mut records, mut bytes) = (0, 0);
        fetcher.poll(&mut |_, batch| {
            records += u64::try_from(batch.record_count()).unwrap_or(0);
            bytes += batch.size_in_bytes() as u64;
        })?;
        counts.requests.fetch_add(1, Ordering::Relaxed);
        counts.records.fetch_add(records, Ordering::Relaxed);
        counts.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    Ok(())
}
