//! What is wrong with a file of a log, alone or beside the segment that it belongs to.

use std::fmt::Display;

use super::{
    BatchReader, LogFile, LogFileKind, NextBatch, aborted_transactions, batch_faults,
    offset_index_entries, producer_snapshot, time_index_entries,
};
use crate::AbortedTransaction;
use crate::index_file::IndexEntry;
use crate::offset_index::OffsetEntry;
use crate::time_index::TimeEntry;
use model::Offset;
use record::Decompressor;
use std::io::{self, Read};

/// Where the batches of a segment are, to hold an index against.
#[derive(Debug, Default)]
pub struct SegmentOutline {
    batches: Vec<BatchOutline>,
}

#[derive(Debug, Clone, Copy)]
struct BatchOutline {
    position: u64,
    last_offset: Offset,
    max_timestamp_ms: i64,
}

impl SegmentOutline {
    /// The outline of what is left to read of a segment, up to its first fault.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(mut segment: BatchReader<impl Read>) -> io::Result<Self> {
        let mut batches = Vec::new();
        while let NextBatch::Batch(position, batch) = segment.next_batch()? {
            batches.push(BatchOutline {
                position,
                last_offset: batch.last_offset(),
                max_timestamp_ms: batch.max_timestamp(),
            });
        }
        Ok(Self { batches })
    }

    fn offset_fault(&self, offset: Offset, position: u32) -> Option<String> {
        let at = self
            .batches
            .binary_search_by_key(&u64::from(position), |batch| batch.position);
        match at {
            Ok(at) if self.batches[at].last_offset == offset => None,
            Ok(at) => Some(format!(
                "the batch at position {position} ends with offset {}, not {offset}",
                self.batches[at].last_offset
            )),
            Err(_) => Some(format!("no batch starts at position {position}")),
        }
    }

    fn time_fault(&self, timestamp_ms: i64, offset: Offset) -> Option<String> {
        let up_to = self
            .batches
            .partition_point(|batch| batch.last_offset <= offset);
        let largest = self.batches[..up_to]
            .iter()
            .map(|batch| batch.max_timestamp_ms)
            .max()?;
        (largest > timestamp_ms).then(|| {
            format!("a batch up to offset {offset} has timestamp {largest}, above {timestamp_ms}")
        })
    }
}

/// What is wrong with the offset index of the segment at `base_offset`, of which this is the outline if
/// it is there.
pub fn offset_index_faults(
    bytes: &[u8],
    base_offset: Offset,
    segment: Option<&SegmentOutline>,
) -> Vec<String> {
    let entries = offset_index_entries(bytes, base_offset);
    let wrong = |outline: &SegmentOutline| -> Vec<String> {
        let each = entries.iter();
        each.filter_map(|entry| outline.offset_fault(entry.offset, entry.position))
            .collect()
    };
    let mut faults = segment.map(wrong).unwrap_or_default();
    faults.extend(length_fault(bytes.len(), OffsetEntry::SIZE_BYTES));
    faults.extend(order_fault(entries.iter().map(|entry| entry.offset)));
    faults
}

/// What is wrong with a time index; as [`offset_index_faults`].
pub fn time_index_faults(
    bytes: &[u8],
    base_offset: Offset,
    segment: Option<&SegmentOutline>,
) -> Vec<String> {
    let entries = time_index_entries(bytes, base_offset);
    let wrong = |outline: &SegmentOutline| -> Vec<String> {
        let each = entries.iter();
        each.filter_map(|entry| outline.time_fault(entry.timestamp_ms, entry.offset))
            .collect()
    };
    let mut faults = segment.map(wrong).unwrap_or_default();
    faults.extend(length_fault(bytes.len(), TimeEntry::SIZE_BYTES));
    faults.extend(order_fault(entries.iter().map(|entry| entry.timestamp_ms)));
    faults
}

/// What is wrong with a transaction index.
pub fn transaction_index_faults(bytes: &[u8]) -> Vec<String> {
    let entry_count = aborted_transactions(bytes).len();
    let left = bytes.len() - entry_count * AbortedTransaction::SIZE_BYTES;
    let fault = (left > 0).then(|| format!("its last {left} bytes are no entry"));
    fault.into_iter().collect()
}

/// What is wrong with a file, beside the bytes of its segment where those are given. A batch is
/// decompressed to `decompressed_bytes_max` at most.
pub fn faults_of(
    file: LogFile,
    bytes: &[u8],
    segment: Option<&[u8]>,
    decompressed_bytes_max: usize,
) -> Vec<String> {
    let outline = segment.map(|segment| {
        let reader = BatchReader::new(segment, segment.len() as u64);
        SegmentOutline::read(reader).unwrap_or_default()
    });
    match file.kind {
        LogFileKind::Log => segment_faults(bytes, decompressed_bytes_max),
        LogFileKind::OffsetIndex => offset_index_faults(bytes, file.offset, outline.as_ref()),
        LogFileKind::TimeIndex => time_index_faults(bytes, file.offset, outline.as_ref()),
        LogFileKind::TransactionIndex => transaction_index_faults(bytes),
        LogFileKind::ProducerSnapshot => {
            let fault = producer_snapshot(bytes, file.offset).err();
            fault.into_iter().collect()
        }
    }
}

fn segment_faults(bytes: &[u8], decompressed_bytes_max: usize) -> Vec<String> {
    let mut reader = BatchReader::new(bytes, bytes.len() as u64);
    let (mut decompressor, mut scratch) = (Decompressor::new(), Vec::new());
    let (mut faults, mut next_offset) = (Vec::new(), Offset::MIN);
    loop {
        let batch = match reader.next_batch() {
            Ok(NextBatch::Batch(_, batch)) => batch,
            Ok(NextBatch::Fault(position, fault)) => {
                faults.push(format!("at {position}: {fault}"));
                return faults;
            }
            Ok(NextBatch::End) => return faults,
            Err(error) => {
                faults.push(error.to_string());
                return faults;
            }
        };
        faults.extend(batch_faults(&batch, next_offset));
        match batch.records(&mut decompressor, &mut scratch, decompressed_bytes_max) {
            Err(error) => faults.push(error.to_string()),
            Ok(records) => {
                let wrong = records.filter_map(Result::err);
                faults.extend(wrong.map(|error| error.to_string()));
            }
        }
        next_offset = batch.next_offset();
    }
}

fn length_fault(length_bytes: usize, entry_bytes: usize) -> Option<String> {
    (!length_bytes.is_multiple_of(entry_bytes))
        .then(|| format!("its length of {length_bytes} bytes is no multiple of {entry_bytes}"))
}

fn order_fault<T: Ord + Display>(values: impl Iterator<Item = T> + Clone) -> Option<String> {
    let mut pairs = values.clone().zip(values.skip(1));
    let (before, after) = pairs.find(|(before, after)| before >= after)?;
    Some(format!("{after} comes after {before}"))
}
