//! Free memory of the machine, touched once.
//!
//! The host of a virtual machine gives it a page when the page is first written to, which costs
//! whoever writes as much again as the write itself. The first servers of a run would pay for that
//! in their page cache, and the later ones would not.

use std::fs;

use anyhow::{Context as _, Result};

use crate::flags::Flags;

const PAGE_BYTES: usize = 4096;

/// Writes to `--mb` of memory, or to most of what is free, and gives it back.
pub(crate) fn touch(mut flags: Flags) -> Result<()> {
    let asked_mb: Option<usize> = flags.optional("mb")?;
    flags.finish()?;
    let bytes = match asked_mb {
        Some(megabytes) => megabytes * 1_000_000,
        None => free_bytes()? / 20 * 17,
    };
    // Zeroed memory of this size is not there before it is written to.
    let mut memory = vec![0_u8; bytes];
    memory
        .iter_mut()
        .step_by(PAGE_BYTES)
        .for_each(|byte| *byte = 1);
    std::hint::black_box(&memory);
    Ok(())
}

fn free_bytes() -> Result<usize> {
    let path = "/proc/meminfo";
    let text = fs::read_to_string(path).context(path)?;
    free_bytes_of(&text).with_context(|| format!("{path} has no MemFree"))
}

fn free_bytes_of(text: &str) -> Option<usize> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemFree:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_not_available_memory() {
        let text = "MemTotal: 9 kB\nMemFree:   3 kB\nMemAvailable:   7 kB\n";
        assert_eq!(free_bytes_of(text), Some(3072));
    }
}
