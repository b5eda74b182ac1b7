//! Parts of log files on their way to a socket, and what of them is in memory.
//!
//! What is in the page cache goes out without waiting for anything but the socket. What is not
//! would hold up the thread, and every connection on it, for as long as the disk takes: so it is
//! asked first (`RWF_NOWAIT`), one page at the front of a range and one at the end of each piece,
//! since files are read and forgotten from the front. A piece that is cold is read on a thread for
//! blocking work, and sent then. File systems that cannot say are taken to be warm.

use crate::scheduling::disk_watch::DiskWatch;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// What is sent without a pause.
pub(super) const PIECE_BYTES: u64 = 1024 * 1024;

/// A part of a file, sent as it is.
#[derive(Debug, Clone)]
pub(crate) struct FileRange {
    /// Stays open, and so readable, even when its name is removed.
    pub(crate) file: Arc<File>,
    /// Where the range begins.
    pub(crate) position: u64,
    /// How long it is.
    pub(crate) length: usize,
    /// The log directory that the file is in, and who watches it.
    pub(crate) directory_index: usize,
    pub(crate) disks: Arc<DiskWatch>,
}

/// Appends the range to `out` if all of it is in memory; leaves `out` as it is otherwise.
#[cfg(target_os = "linux")]
pub(crate) fn copy_cached(range: &FileRange, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.resize(start + range.length, 0);
    let is_copied = read_cached(&range.file, &mut out[start..], range.position)
        .is_ok_and(|count| count == range.length);
    if !is_copied {
        out.truncate(start);
    }
    is_copied
}

/// Without a way to ask, nothing is known to be in memory.
#[cfg(not(target_os = "linux"))]
pub(crate) fn copy_cached(_range: &FileRange, _out: &mut Vec<u8>) -> bool {
    false
}

/// Reads what is in memory at `position`; nothing comes from the disk.
#[cfg(target_os = "linux")]
fn read_cached(file: &File, buffer: &mut [u8], position: u64) -> rustix::io::Result<usize> {
    use rustix::io::{ReadWriteFlags, preadv2};
    let mut buffers = [io::IoSliceMut::new(buffer)];
    preadv2(file, &mut buffers, position, ReadWriteFlags::NOWAIT)
}

/// Whether the page at `position` has to come from the disk.
#[cfg(target_os = "linux")]
fn is_cold(file: &File, position: u64) -> bool {
    read_cached(file, &mut [0], position) == Err(rustix::io::Errno::AGAIN)
}

/// Without a way to ask, whoever sends a piece reads it off the workers.
#[cfg(not(target_os = "linux"))]
const fn is_cold(_file: &File, _position: u64) -> bool {
    false
}

/// Has a piece in memory before it is sent.
///
/// # Errors
/// Of the file.
pub(super) async fn warm(range: &FileRange, position: u64, end: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let is_first = position == range.position;
    // What lies between may be cold as well, which matters where the disk has been slow.
    let is_cold = range.disks.reads_slowly(range.directory_index)
        || (is_first && is_cold(&range.file, position))
        || is_cold(&range.file, end - 1);
    if !is_cold {
        return Ok(());
    }
    let file = range.file.clone();
    let read = move || {
        let mut chunk = vec![0; 128 * 1024];
        let mut position = position;
        while position < end {
            let length = chunk.len().min((end - position) as usize);
            match file.read_at(&mut chunk[..length], position) {
                Ok(0) => break,
                Ok(count) => position += count as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    let _permit = range.disks.cold_read(range.directory_index).await;
    tokio::task::spawn_blocking(read)
        .await
        .map_err(io::Error::other)?
}

/// Reads a piece of a range, for a transport that cannot send files.
///
/// # Errors
/// Of the file.
#[cfg(any(test, not(target_os = "linux")))]
pub(crate) async fn read(range: &FileRange, position: u64, length: usize) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let file = range.file.clone();
    let length = length.min(PIECE_BYTES as usize / 8);
    let _permit = range.disks.cold_read(range.directory_index).await;
    let read = tokio::task::spawn_blocking(move || {
        let mut piece = vec![0; length];
        let count = file.read_at(&mut piece, position)?;
        piece.truncate(count);
        Ok(piece)
    });
    read.await.map_err(io::Error::other)?
}
