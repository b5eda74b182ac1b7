//! Produce at a fixed rate, with a consumer that follows: latencies of both.
//!
//! Request `n` of a connection is due at a time that the schedule fixes in advance. Latencies count
//! from there, so that a server that stalls is charged for every request that had to wait. A batch
//! that the consumer receives tells by its partition and offset which request it came with.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use wire::ApiKey;

use super::client::{PRODUCE_VERSION, body_of, produce_error};
use super::fetcher::{AtEnd, Fetcher};
use super::frames::{self, Frames};
use super::latencies::Latencies;
use super::window::{Phase, Window, Work};
use super::{Batching, Target};

const LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Time to start the threads before the first request is due.
const LEAD: Duration = Duration::from_millis(50);

/// When each request of a connection is due.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    first: Instant,
    interval: Duration,
    measured_from: Instant,
    end: Instant,
}

impl Schedule {
    fn due(&self, request: u64) -> Option<Instant> {
        let due = self.first + Duration::from_nanos(self.interval.as_nanos() as u64 * request);
        (due < self.end).then_some(due)
    }

    fn is_measured(&self, due: Instant) -> bool {
        due >= self.measured_from
    }
}

/// A connection's part of the plan.
#[derive(Debug)]
struct Part {
    frames: Frames,
    schedule: Schedule,
    answered: AtomicU64,
    batches: AtomicU64,
}

/// Runs the load and reports on the window.
pub(super) fn run(target: &Target, batching: &Batching, bytes_per_second: f64) -> Result<Value> {
    ensure!(bytes_per_second > 0.0, "--mb-per-second must be positive");
    let count = usize::try_from(target.partitions)?;
    ensure!(
        count >= batching.connections,
        "each connection needs a partition of its own"
    );
    let all = frames::build(target, batching)?;
    all.iter().try_for_each(open)?;
    let parts = plan(target, all, bytes_per_second);
    let mut window = Window::start(target).without_byte_limit();
    let (produced, consumed) = thread::scope(|scope| -> Result<_> {
        let parts = &parts;
        let consumers: Vec<_> = (target.distinct_leaders().into_iter())
            .map(|leader| scope.spawn(move || follow(target, leader, parts)))
            .collect();
        let mut producers = Vec::new();
        for part in parts {
            let stream = TcpStream::connect(part.frames.leader)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LIMIT))?;
            let writer = stream.try_clone()?;
            producers.push((
                scope.spawn(move || send(writer, part)),
                scope.spawn(move || receive(stream, part)),
            ));
        }
        while window.advance(Instant::now(), work_of(parts))? != Phase::Over {
            thread::sleep(POLL_INTERVAL);
        }
        let mut latencies = Latencies::default();
        for (writer, reader) in producers {
            writer.join().expect("a writer does not panic")?;
            latencies.append(reader.join().expect("a reader does not panic")?);
        }
        let mut consumed = Latencies::default();
        for consumer in consumers {
            consumed.append(consumer.join().expect("a consumer does not panic")?);
        }
        Ok((latencies, consumed))
    })?;
    let mut result = window.into_json()?;
    result["load"] = json!("paced");
    result["latency"] = produced.into_json();
    result["end_to_end_latency"] = consumed.into_json();
    Ok(result)
}

/// Sends each request once, so that every partition has its files before the schedule begins: servers
/// differ in whether they make them with the topic or with the first record.
fn open(frames: &Frames) -> Result<()> {
    let mut stream = TcpStream::connect(frames.leader)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut answer = Vec::new();
    for (frame, _) in &frames.requests {
        stream.write_all(frame)?;
        read_answer(&mut stream, &mut answer).context("no answer to the first request")?;
    }
    Ok(())
}

/// Reads the answer to a produce request that was accepted.
fn read_answer(stream: &mut TcpStream, answer: &mut Vec<u8>) -> Result<()> {
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let size = usize::try_from(i32::from_be_bytes(size)).context("a negative size")?;
    answer.resize(size, 0);
    stream.read_exact(answer)?;
    match produce_error(body_of(answer, ApiKey::Produce, PRODUCE_VERSION)?)? {
        Some(error) => bail!("a batch was refused: {error}"),
        None => Ok(()),
    }
}

fn plan(target: &Target, all: Vec<Frames>, bytes_per_second: f64) -> Vec<Part> {
    let start = Instant::now() + LEAD;
    let measured_from = start + target.warmup;
    let end = measured_from + target.duration;
    let connections = all.len();
    let parts = all.into_iter().enumerate().map(|(index, frames)| {
        let count = frames.requests.len();
        let bytes: u64 = (0..count).map(|number| frames.work_of(number).bytes).sum();
        let mean = bytes as f64 / count as f64;
        let interval = Duration::from_secs_f64(mean * connections as f64 / bytes_per_second);
        Part {
            frames,
            schedule: Schedule {
                first: start + interval * index as u32 / connections as u32,
                interval,
                measured_from,
                end,
            },
            answered: AtomicU64::new(0),
            batches: AtomicU64::new(0),
        }
    });
    parts.collect()
}

fn work_of(parts: &[Part]) -> Work {
    let mut work = Work::default();
    for part in parts {
        let batches = part.batches.load(Ordering::Relaxed);
        work.requests += part.answered.load(Ordering::Relaxed);
        work.records += batches * part.frames.batch.records;
        work.bytes += batches * part.frames.batch.bytes;
    }
    work
}

fn send(mut stream: TcpStream, part: &Part) -> Result<()> {
    for number in 0.. {
        let Some(due) = part.schedule.due(number) else {
            return Ok(());
        };
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let (frame, _) = &part.frames.requests[number as usize % part.frames.requests.len()];
        stream.write_all(frame)?;
    }
    Ok(())
}

fn receive(mut stream: TcpStream, part: &Part) -> Result<Latencies> {
    let mut latencies = Latencies::default();
    let mut answer = Vec::new();
    for number in 0.. {
        let Some(due) = part.schedule.due(number) else {
            break;
        };
        read_answer(&mut stream, &mut answer)
            .with_context(|| format!("produce request {number} of a connection"))?;
        let latency = due.elapsed();
        if part.schedule.is_measured(due) {
            latencies.push(latency);
        }
        let (_, partitions) = &part.frames.requests[number as usize % part.frames.requests.len()];
        part.answered.fetch_add(1, Ordering::Relaxed);
        part.batches
            .fetch_add(partitions.len() as u64, Ordering::Relaxed);
    }
    Ok(latencies)
}

/// Where a partition's batches come from: a connection, and one of the requests that it repeats.
#[derive(Clone, Copy, Debug)]
struct Origin<'a> {
    part: &'a Part,
    request: u64,
}

impl Origin<'_> {
    /// When the batch with this base offset was due; never, for the first of its partition.
    fn due(&self, base_offset: i64) -> Option<Instant> {
        let number = u64::try_from(base_offset).ok()? / self.part.frames.batch.records;
        let repetition = number.checked_sub(1)?;
        let count = self.part.frames.requests.len() as u64;
        self.part.schedule.due(repetition * count + self.request)
    }
}

/// Fetches from a leader until the first batch of each of its partitions and every batch of the
/// schedule that goes to them have come.
fn follow(target: &Target, leader: SocketAddr, parts: &[Part]) -> Result<Latencies> {
    let mut origins = vec![None; usize::try_from(target.partitions)?];
    let mut expected = 0;
    for part in parts.iter().filter(|part| part.frames.leader == leader) {
        for (request, (_, partitions)) in part.frames.requests.iter().enumerate() {
            for &partition in partitions {
                let request = request as u64;
                origins[usize::try_from(partition)?] = Some(Origin { part, request });
                expected += 1;
            }
        }
        let requests = (0..).take_while(|&number| part.schedule.due(number).is_some());
        let partitions = requests.map(|n| {
            part.frames.requests[n as usize % part.frames.requests.len()]
                .1
                .len()
        });
        expected += partitions.sum::<usize>();
    }
    let mut fetcher = Fetcher::connect(target, leader, AtEnd::Follow)?;
    let mut latencies = Latencies::default();
    let mut last = Instant::now() + LEAD;
    let mut received = 0;
    while received < expected {
        let before = received;
        fetcher.poll(&mut |partition, batch| {
            received += 1;
            let now = Instant::now();
            let origin = origins.get(partition).copied().flatten();
            let due = origin.and_then(|origin| Some((origin, origin.due(batch.base_offset().0)?)));
            if let Some((origin, due)) = due
                && origin.part.schedule.is_measured(due)
            {
                latencies.push(now.saturating_duration_since(due));
            }
        })?;
        if received > before {
            last = Instant::now();
        }
        ensure!(
            last.elapsed() < LIMIT,
            "{received} of {expected} batches came"
        );
    }
    Ok(latencies)
}
