//! The core that a program runs on.

use anyhow::{Context as _, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps this thread, and those that it starts, on one core.
pub(crate) fn stay_on(core: Option<usize>) -> Result<()> {
    let Some(core) = core else { return Ok(()) };
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("cannot run on core {core}"))
}
