//! Which core serves and which loads.

use anyhow::{Context as _, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A core for the server and another one for the load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    pub(super) server: usize,
    pub(super) load: usize,
}

impl Cores {
    /// The first and the last core that this process may run on; `None` when there is only one.
    pub(super) fn choose() -> Result<Option<Self>> {
        let allowed = sched_getaffinity(None).context("cannot tell the cores")?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        let (first, last) = (cores.next(), cores.next_back());
        Ok(first.zip(last).map(|(server, load)| Self { server, load }))
    }
}

/// Runs `start` on one core: a process that it starts stays there.
pub(super) fn on_core<T>(core: Option<usize>, start: impl FnOnce() -> Result<T>) -> Result<T> {
    let Some(core) = core else { return start() };
    let before = sched_getaffinity(None).context("cannot tell the cores")?;
    let mut one = CpuSet::new();
    one.set(core);
    sched_setaffinity(None, &one).with_context(|| format!("cannot run on core {core}"))?;
    let started = start();
    sched_setaffinity(None, &before).context("cannot go back to all cores")?;
    started
}
