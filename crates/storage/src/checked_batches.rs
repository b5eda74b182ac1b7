//! Reading a log file batch by batch with every byte checked, as recovery does.
//!
//! The file passes through one window of fixed size, so a length that a damaged header claims
//! costs no memory. Transaction markers, whose content recovery needs, are read apart.

use std::io;

use record::batch_layout::{ATTRIBUTES_OFFSET, HEADER_SIZE_BYTES};
use record::{BatchError, EndTransactionMarker, RecordBatch};

use crate::disk::DiskFile;
use crate::stored_batch::{ScanError, StoredBatch};
use crate::transaction_marker::transaction_marker;

const WINDOW_BYTES: usize = 256 * 1024;
/// Markers are some 80 bytes; control batches beyond this are none.
const MARKER_BATCH_BYTES_MAX: u32 = 4096;

/// A batch with what reading all of it has shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckedBatch {
    pub(crate) batch: StoredBatch,
    /// Whether the bytes are those that were written.
    pub(crate) is_crc_valid: bool,
    pub(crate) marker: Option<EndTransactionMarker>,
}

/// The batches of a file from a position on, where one starts.
#[derive(Debug)]
pub(crate) struct CheckedBatches<'f, F> {
    file: &'f F,
    position: u64,
    end_position: u64,
    window: Vec<u8>,
    window_position: u64,
}

impl<'f, F: DiskFile> CheckedBatches<'f, F> {
    pub(crate) const fn new(file: &'f F, position: u64, end_position: u64) -> Self {
        Self {
            file,
            position,
            end_position,
            window: Vec::new(),
            window_position: 0,
        }
    }

    /// The next batch; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<CheckedBatch>, ScanError> {
        let position = self.position;
        if position >= self.end_position {
            return Ok(None);
        }
        let failed = |error| ScanError::Batch { position, error };
        let header = self.bytes_at(position, HEADER_SIZE_BYTES);
        let batch = StoredBatch::parse(header.map_err(ScanError::Io)?, position);
        let batch = batch.map_err(failed)?;
        if batch.end_position() > self.end_position {
            return Err(failed(BatchError::Truncated));
        }
        let crc = self.crc(&batch).map_err(ScanError::Io)?;
        let mut marker = None;
        if batch.attributes.is_control() && batch.size_bytes <= MARKER_BATCH_BYTES_MAX {
            let bytes = self.bytes_at(position, batch.size_bytes as usize);
            let bytes = bytes.map_err(ScanError::Io)?;
            let parsed = RecordBatch::parse(bytes).ok();
            marker = parsed.and_then(|(batch, _)| transaction_marker(&batch));
        }
        self.position = batch.end_position();
        Ok(Some(CheckedBatch {
            batch,
            is_crc_valid: crc == batch.crc,
            marker,
        }))
    }

    fn crc(&mut self, batch: &StoredBatch) -> io::Result<u32> {
        let mut position = batch.position + ATTRIBUTES_OFFSET as u64;
        let mut crc = 0;
        while position < batch.end_position() {
            let left = batch.end_position() - position;
            let bytes = self.bytes_at(position, 1)?;
            let length = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            crc = crc32c::crc32c_append(crc, &bytes[..length]);
            position += length as u64;
        }
        Ok(crc)
    }

    /// At least `length` bytes from `position` on, unless the file ends before; as many as the
    /// window happens to hold.
    fn bytes_at(&mut self, position: u64, length: usize) -> io::Result<&[u8]> {
        let start = position.checked_sub(self.window_position);
        let start = start.and_then(|start| usize::try_from(start).ok());
        let is_held = start.is_some_and(|start| start + length <= self.window.len());
        if let (true, Some(start)) = (is_held, start) {
            return Ok(&self.window[start..]);
        }
        let left = self.end_position.saturating_sub(position);
        let wanted = usize::try_from(left).map_or(WINDOW_BYTES, |left| left.min(WINDOW_BYTES));
        self.window.resize(wanted, 0);
        self.window_position = position;
        let read = self.file.read_full_at(&mut self.window, position)?;
        self.window.truncate(read);
        Ok(&self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, OpenMode};
    use crate::sim::SimDisk;
    use crate::stored_batch::StoredBatches;
    use model::Offset;
    use model::ProducerEpoch;
    use model::ProducerId;
    use proptest::prelude::*;
    use record::{BatchBuilder, BatchHeader, EndTransactionMarker, TransactionResult};

    fn file_of(batches: &[Vec<u8>]) -> crate::sim::SimFile {
        let disk = SimDisk::default();
        let path = std::path::Path::new("/x");
        let file = disk.open(path, OpenMode::Create).unwrap();
        file.write_at(&batches.concat(), 0).unwrap();
        file
    }

    /// A batch of one record with a value of so many bytes.
    fn batch(base_offset: Offset, value_bytes: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new(BatchHeader {
            base_offset,
            ..BatchHeader::default()
        });
        builder.append(7, None, Some(&vec![b'v'; value_bytes]), &[]);
        builder.into_uncompressed()
    }

    proptest! {
        #![proptest_config(trials::property(12))]
        #[test]
        fn batches_of_any_size_are_found_and_checked(
            sizes in prop::collection::vec(
                prop_oneof![0usize..100, 3000usize..5000, 250_000usize..280_000],
                0..8,
            ),
            damaged in any::<prop::sample::Index>(),
        ) {
            let mut batches: Vec<Vec<u8>> = Vec::new();
            for (at, size) in sizes.iter().enumerate() {
                batches.push(batch(Offset(at as i64), *size));
            }
            let victim = (!batches.is_empty()).then(|| damaged.index(batches.len()));
            if let Some(victim) = victim {
                let last = batches[victim].len() - 1;
                batches[victim][last] ^= 1;
            }
            let file = file_of(&batches);
            let end = batches.iter().map(Vec::len).sum::<usize>() as u64;
            let mut checked = CheckedBatches::new(&file, 0, end);
            let mut headers = StoredBatches::new(&file, 0, end);
            let mut position = 0;
            for (at, bytes) in batches.iter().enumerate() {
                let found = checked.next().unwrap().unwrap();
                prop_assert_eq!(found.batch.base_offset, Offset(at as i64));
                prop_assert_eq!(found.batch.position, position);
                prop_assert_eq!(found.is_crc_valid, victim != Some(at));
                prop_assert_eq!(headers.next().unwrap(), Some(found.batch));
                position += bytes.len() as u64;
            }
            prop_assert!(checked.next().unwrap().is_none());
            prop_assert!(headers.next().unwrap().is_none());
        }
    }

    #[test]
    fn markers_are_read() {
        let marker = EndTransactionMarker {
            result: TransactionResult::Abort,
            coordinator_epoch: 9,
        };
        let bytes = marker
            .into_batch(0, ProducerId(5), ProducerEpoch(1))
            .into_bytes();
        let end = 2 * bytes.len() as u64;
        let file = file_of(&[bytes.clone(), bytes]);
        let mut batches = CheckedBatches::new(&file, 0, end);
        for _ in 0..2 {
            let found = batches.next().unwrap().unwrap();
            assert_eq!(found.marker, Some(marker));
            assert!(found.is_crc_valid);
        }
    }

    #[test]
    fn a_length_beyond_the_end_costs_nothing() {
        let mut bytes = batch(Offset(0), 10);
        bytes[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
        let end = bytes.len() as u64;
        let file = file_of(&[bytes]);
        let is_truncated = |error: ScanError| {
            let truncated = BatchError::Truncated;
            matches!(error, ScanError::Batch { position: 0, error } if error == truncated)
        };
        assert!(is_truncated(
            CheckedBatches::new(&file, 0, end).next().unwrap_err()
        ));
        assert!(is_truncated(
            StoredBatches::new(&file, 0, end).next().unwrap_err()
        ));
        // An end that the file does not have, as after a truncation by somebody else.
        let failed = CheckedBatches::new(&file, 0, u64::MAX).next().unwrap_err();
        assert!(matches!(failed, ScanError::Io(_)));
    }
}
