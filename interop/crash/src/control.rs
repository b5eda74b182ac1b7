//! Faults that `shim.c` makes happen, and how long a sync takes: `struct control` of `shim.c`.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Result, ensure};
use rustix::io::Errno;

/// `struct control`: eight numbers and two texts.
const BYTES: usize = 32 + 2 * TEXT_BYTES;
const TEXT_BYTES: usize = 100;

/// Kinds of changes that can fail, by their bits.
pub(crate) const CREATE: u32 = 1 << 1;
pub(crate) const WRITE: u32 = 1 << 2;
pub(crate) const RENAME: u32 = 1 << 4;
pub(crate) const MKDIR: u32 = 1 << 7;
/// Every opening, also for reading only.
pub(crate) const OPEN: u32 = 1 << 10;

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
        Ok(control)
    }

    /// Lets changes fail from here on.
    pub(crate) fn arm(&self, fault: &Fault<'_>) -> Result<()> {
        let error = u32::try_from(fault.error.raw_os_error())?;
        let numbers = [
            1,
            error,
            fault.kinds,
            0,
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
        let mut hits = [0; 4];
        self.file.read_exact_at(&mut hits, 24)?;
        Ok(u32::from_ne_bytes(hits))
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
