//! The measured part of a run: load runs before it, and its counts go from edge to edge.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use super::Target;
use crate::process::Processes;

/// What the server has done by some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// Requests that were answered.
    pub(super) requests: u64,
    pub(super) records: u64,
    /// Bytes of the records' values, whatever their compression.
    pub(super) bytes: u64,
}

impl Work {
    fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            records: self.records - earlier.records,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    WarmUp,
    Measured,
    Over,
}

/// An edge of the window.
#[derive(Clone, Copy, Debug)]
struct Edge {
    at: Instant,
    work: Work,
    cpu_time: Option<Duration>,
}

/// A run that warms up, is measured, and ends.
#[derive(Debug)]
pub(super) struct Window {
    processes: Processes,
    started: Instant,
    warmup: Duration,
    duration: Duration,
    max_bytes: u64,
    begin: Option<Edge>,
    end: Option<Edge>,
}

impl Window {
    /// Begins the warm-up.
    pub(super) fn start(target: &Target) -> Self {
        Self {
            processes: target.processes.clone(),
            started: Instant::now(),
            warmup: target.warmup,
            duration: target.duration,
            max_bytes: target.max_bytes,
            begin: None,
            end: None,
        }
    }

    /// Lets only time end the window: what is only read takes no room.
    pub(super) fn without_byte_limit(mut self) -> Self {
        self.max_bytes = u64::MAX;
        self
    }

    /// Moves on when it is time to; `work` is everything since the start.
    pub(super) fn advance(&mut self, now: Instant, work: Work) -> Result<Phase> {
        let edge = |processes: &Processes| -> Result<Edge> {
            Ok(Edge {
                at: now,
                work,
                cpu_time: processes.cpu_time()?,
            })
        };
        match (&self.begin, &self.end) {
            (None, _) if now - self.started >= self.warmup || work.bytes >= self.max_bytes => {
                self.begin = Some(edge(&self.processes)?);
                Ok(Phase::Measured)
            }
            (None, _) => Ok(Phase::WarmUp),
            (Some(begin), None) => {
                let done = now - begin.at >= self.duration
                    || work.since(begin.work).bytes >= self.max_bytes;
                if !done {
                    return Ok(Phase::Measured);
                }
                self.end = Some(edge(&self.processes)?);
                Ok(Phase::Over)
            }
            (Some(_), Some(_)) => Ok(Phase::Over),
        }
    }

    /// What was measured; `null` where no process is watched.
    pub(super) fn into_json(self) -> Result<Value> {
        let (Some(begin), Some(end)) = (self.begin, self.end) else {
            anyhow::bail!("the run ended before its window");
        };
        let work = end.work.since(begin.work);
        let seconds = (end.at - begin.at).as_secs_f64();
        let cpu_seconds = begin
            .cpu_time
            .zip(end.cpu_time)
            .map(|(begin, end)| (end - begin).as_secs_f64());
        let per = |amount: f64| cpu_seconds.filter(|_| amount > 0.0).map(|cpu| cpu / amount);
        Ok(json!({
            "seconds": seconds,
            "requests": work.requests,
            "records": work.records,
            "bytes": work.bytes,
            "mb_per_second": work.bytes as f64 / 1e6 / seconds,
            "requests_per_second": work.requests as f64 / seconds,
            "cpu_seconds": cpu_seconds,
            "cpu_seconds_per_gb": per(work.bytes as f64 / 1e9),
            "cpu_seconds_per_million_requests": per(work.requests as f64 / 1e6),
            "resident_mb": self.processes.resident_bytes()?.map(|bytes| bytes as f64 / 1e6),
        }))
    }
}
