//! Faults that `shim.c` makes happen, and how long a sync takes: `struct control` of `shim.c`.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Result, ensure};
use rustix::io::Errno;

/// `struct control`: eight numbers and two texts, then two numbers.
const BYTES: usize = 32 + 2 * TEXT_BYTES;
const TEXT_BYTES: usize = 100;
const SYNC_DELAY_AT: u64 = 28;
const FROZEN_AT: u64 = BYTES as u64;
const CHANGING_AT: u64 = FROZEN_AT + 4;

/// Kinds of changes that can fail, by their bits.
pub(crate) const CREATE: u32 = 1 << 1;
pub(crate) const WRITE: u32 = 1 << 2;
pub(crate) const TRUNCATE: u32 = 1 << 3;
pub(crate) const RENAME: u32 = 1 << 4;
pub(crate) const UNLINK: u32 = 1 << 5;
pub(crate) const RMDIR: u32 = 1 << 6;
pub(crate) const MKDIR: u32 = 1 << 7;
pub(crate) const SYNC: u32 = 1 << 8;
/// Every opening, also for reading only.
pub(crate) const OPEN: u32 = 1 << 10;
/// `syncfs`.
pub(crate) const SYNC_ALL: u32 = 1 << 11;

/// Whatever changes the disk.
pub(crate) const CHANGES: u32 = CREATE | WRITE | TRUNCATE | RENAME | UNLINK | RMDIR | MKDIR;

/// Ways in which a disk or a process fails, each with what of it fails: no room, no descriptor, and
/// an error in whatever.
pub(crate) const FAILURES: [(u32, Errno); 3] = [
    (WRITE | CREATE | MKDIR, Errno::NOSPC),
    (OPEN, Errno::MFILE),
    (CHANGES | SYNC | SYNC_ALL | OPEN, Errno::IO),
];

/// Which changes fail, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault<'a> {
    pub(crate) kinds: u32,
    pub(crate) error: Errno,
    /// Texts that the path has, both.
    pub(crate) paths: [&'a str; 2],
    /// How many fail.
    pub(crate) count: u32,
    /// The first of them writes half of its bytes and says so.
    pub(crate) is_half: bool,
}

/// The file that a server's shim has mapped.
#[derive(Debug)]
pub(crate) struct Control {
    file: fs::File,
    sync_delay_us: u32,
}

impl Control {
    /// Makes the file; nothing fails yet.
    pub(crate) fn create(path: &Path, sync_delay_us: u32) -> Result<Self> {
        let file = fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        let control = Self {
            file,
            sync_delay_us,
        };
        control.write([0; 7], ["", ""])?;
        control.file.write_all_at(&[0; 8], FROZEN_AT)?;
        Ok(control)
    }

    /// Lets no change begin in the server while `act` ends it, and waits for one that has begun.
    pub(crate) fn frozen<T>(&self, act: impl FnOnce() -> T) -> Result<T> {
        self.file.write_all_at(&1_u32.to_ne_bytes(), FROZEN_AT)?;
        while self.number(CHANGING_AT)? != 0 {
            std::thread::yield_now();
        }
        let result = act();
        self.file.write_all_at(&[0; 8], FROZEN_AT)?;
        Ok(result)
    }

    /// Sets how long a sync takes from here on; returns how long it took before.
    pub(crate) fn delay_syncs(&mut self, sync_delay_us: u32) -> Result<u32> {
        let bytes = sync_delay_us.to_ne_bytes();
        self.file.write_all_at(&bytes, SYNC_DELAY_AT)?;
        Ok(std::mem::replace(&mut self.sync_delay_us, sync_delay_us))
    }

    /// Lets changes fail from here on.
    pub(crate) fn arm(&self, fault: &Fault<'_>) -> Result<()> {
        self.arm_after(fault, 0)
    }

    /// Lets changes fail when so many have gone by that could have.
    pub(crate) fn arm_after(&self, fault: &Fault<'_>, skip: u32) -> Result<()> {
        let error = u32::try_from(fault.error.raw_os_error())?;
        let numbers = [
            1,
            error,
            fault.kinds,
            skip,
            fault.count,
            u32::from(fault.is_half),
            0,
        ];
        self.write(numbers, fault.paths)
    }

    /// Nothing fails from here on; returns how many changes have.
    pub(crate) fn disarm(&self) -> Result<u32> {
        let hits = self.hits()?;
        self.write([0; 7], ["", ""])?;
        Ok(hits)
    }

    /// How many changes have failed.
    pub(crate) fn hits(&self) -> Result<u32> {
        self.number(24)
    }

    fn number(&self, at: u64) -> Result<u32> {
        let mut number = [0; 4];
        self.file.read_exact_at(&mut number, at)?;
        Ok(u32::from_ne_bytes(number))
    }

    fn write(&self, numbers: [u32; 7], texts: [&str; 2]) -> Result<()> {
        let mut bytes = Vec::with_capacity(BYTES);
        for number in numbers.iter().chain([&self.sync_delay_us]) {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        for text in texts {
            ensure!(text.len() < TEXT_BYTES, "`{text}` is too long");
            bytes.extend_from_slice(text.as_bytes());
            bytes.resize(32 + TEXT_BYTES * (1 + (bytes.len() - 32) / TEXT_BYTES), 0);
        }
        // The switch is turned off before anything else changes, and on after.
        self.file.write_all_at(&[0; 4], 0)?;
        self.file.write_all_at(&bytes[4..], 4)?;
        self.file.write_all_at(&bytes[..4], 0)?;
        Ok(())
    }
}
