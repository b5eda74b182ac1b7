//! What the operating system says of this process.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::time::{ClockId, clock_gettime};

/// Resident memory of this process, in bytes.
pub(crate) fn resident_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').nth(1).context("statm has fields")?;
    Ok(pages.parse::<u64>()? * 4096)
}

/// Files that this process has open.
pub(crate) fn open_file_count() -> Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}

/// Wall and processor time from here on.
pub(crate) struct Watch {
    wall: Instant,
    cpu: Duration,
}

impl Watch {
    pub(crate) fn start() -> Self {
        Self {
            wall: Instant::now(),
            cpu: cpu(),
        }
    }

    /// Wall time so far.
    pub(crate) fn wall(&self) -> Duration {
        self.wall.elapsed()
    }

    /// Processor time so far.
    pub(crate) fn cpu(&self) -> Duration {
        cpu() - self.cpu
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
