//! Telling messages of before Kafka 0.11 from damage.
//!
//! ```text
//!   i64 offset | i32 size of the rest | u32 CRC-32 of what follows | i8 magic 0 or 1 | ...
//! ```
//!
//! A torn write often ends in zeros, which look like magic 0. Only a message whose checksum
//! matches is taken for one; a log that holds one is refused, not cut.

use std::io;

use super::OpenError;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::file_name::{FileName, PartitionFiles};

/// Where the checksum is, and what it covers from.
const CRC_OFFSET: usize = 12;
const COVERED_OFFSET: usize = 16;
/// Where the magic number is, in every format.
const MAGIC_OFFSET: usize = 16;
/// Beyond this a size is that of damage.
const SIZE_MAX_BYTES: usize = 256 << 20;

/// Refuses the segment in `file`, which is called `name`, if it begins with such a message. Reads no
/// more than its first bytes unless they look like one.
pub(super) fn refuse<D: Disk>(
    files: &PartitionFiles<D>,
    name: FileName,
    file: &D::File,
    file_length: u64,
) -> Result<(), OpenError> {
    let mut head = [0; MAGIC_OFFSET + 1];
    let mut found_magic = || {
        let is_whole = file.read_full_at(&mut head, 0)? == head.len();
        let magic = head[MAGIC_OFFSET] as i8;
        let is_old = is_whole && matches!(magic, 0 | 1) && is_message(file, 0, file_length)?;
        Ok(is_old.then_some(magic))
    };
    match found_magic() {
        Ok(None) => Ok(()),
        Ok(Some(magic)) => Err(OpenError::OldFormat {
            file: files.path(name),
            position: 0,
            magic,
        }),
        Err(error) => Err(StorageError::new("read", &files.path(name), error).into()),
    }
}

/// Whether a whole message of magic 0 or 1 is at `position`.
pub(super) fn is_message<F: DiskFile>(
    file: &F,
    position: u64,
    file_length: u64,
) -> io::Result<bool> {
    let mut head = [0; COVERED_OFFSET];
    if file.read_full_at(&mut head, position)? < head.len() {
        return Ok(false);
    }
    let field = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
    let size_bytes = i32::from_be_bytes(field(8));
    let covered_bytes = usize::try_from(size_bytes)
        .ok()
        .and_then(|size| size.checked_sub(4));
    let left = file_length.saturating_sub(position + COVERED_OFFSET as u64);
    let Some(covered_bytes) = covered_bytes
        .filter(|covered| *covered > 0 && *covered <= SIZE_MAX_BYTES && *covered as u64 <= left)
    else {
        return Ok(false);
    };
    let mut covered = vec![0; covered_bytes];
    file.read_full_at(&mut covered, position + COVERED_OFFSET as u64)?;
    Ok(crc32(&covered) == u32::from_be_bytes(field(CRC_OFFSET)))
}

/// CRC-32 as in zip files, bit by bit: it is computed once per log at most.
fn crc32(bytes: &[u8]) -> u32 {
    let shift = |crc: u32| match crc & 1 {
        1 => (crc >> 1) ^ 0xedb8_8320,
        _ => crc >> 1,
    };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| shift(crc));
    !bytes.iter().fold(!0, byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, OpenMode};
    use crate::sim::SimDisk;

    #[test]
    fn checksum_is_that_of_zip() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_message_is_told_from_zeros() {
        let check = |bytes: &[u8], expected: bool| {
            let disk = SimDisk::default();
            let path = std::path::Path::new("/x");
            let file = disk.open(path, OpenMode::Create).unwrap();
            file.write_at(bytes, 0).unwrap();
            let found = is_message(&file, 0, bytes.len() as u64).unwrap();
            assert_eq!(found, expected, "{bytes:?}");
        };
        // Magic 0, attributes 0, null key, value "v".
        let covered = b"\0\0\xff\xff\xff\xff\0\0\0\x01v";
        let mut message = [0i64.to_be_bytes().as_slice(), &15i32.to_be_bytes()].concat();
        message.extend(crc32(covered).to_be_bytes());
        message.extend(covered);
        check(&message, true);
        message[20] ^= 1;
        check(&message, false);
        check(&message[..20], false);
        let mut torn = message[..12].to_vec();
        torn.resize(40, 0);
        check(&torn, false);
        check(&[0; 40], false);
    }
}
