//! Indexes, held against the segment beside them, and snapshots of producers.

use super::Shown;
use super::segment::{BatchReader, Next, fault_row};
use crate::output::{Cell, Output, Row};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use storage::inspect::{
    LogFile, LogFileKind, aborted_transactions, offset_index_entries, producer_snapshot,
    time_index_entries,
};

/// What an index is held against: the batches of its segment.
#[derive(Debug, Default)]
struct Outline {
    batches: Vec<BatchPlace>,
}

#[derive(Debug, Clone, Copy)]
struct BatchPlace {
    position: u64,
    last_offset: i64,
    max_timestamp_ms: i64,
}

impl Outline {
    /// The batches of the segment that an index belongs to; `None` when there is none.
    fn beside(index: &Path) -> io::Result<Option<Self>> {
        let segment = index.with_extension("log");
        if !segment.exists() {
            return Ok(None);
        }
        let mut reader = BatchReader::open(&segment)?;
        let mut outline = Self::default();
        while let Next::Batch(position, batch) = reader.next()? {
            outline.batches.push(BatchPlace {
                position,
                last_offset: batch.last_offset(),
                max_timestamp_ms: batch.max_timestamp(),
            });
        }
        Ok(Some(outline))
    }

    /// What is wrong with an entry of the offset index.
    fn offset_fault(&self, offset: i64, position: u32) -> Option<String> {
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

    /// What is wrong with an entry of the time index.
    fn time_fault(&self, timestamp_ms: i64, offset: i64) -> Option<String> {
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

/// Dumps an index or a snapshot; the number of faults.
pub(super) fn dump<W: Write>(
    path: &Path,
    file: LogFile,
    shown: Shown,
    output: &mut Output<W>,
) -> io::Result<usize> {
    let bytes = fs::read(path)?;
    let (rows, faults) = match file.kind {
        LogFileKind::Log => return Err(io::Error::other("a segment is no index")),
        LogFileKind::OffsetIndex => offset_index(path, file, &bytes)?,
        LogFileKind::TimeIndex => time_index(path, file, &bytes)?,
        LogFileKind::TransactionIndex => transaction_index(&bytes),
        LogFileKind::ProducerSnapshot => snapshot(file, &bytes),
    };
    if !shown.is_quiet {
        output.table(&rows)?;
    }
    for fault in &faults {
        output.row(&fault_row(path, 0, fault))?;
    }
    Ok(faults.len())
}

type RowsAndFaults = (Vec<Row>, Vec<String>);

fn offset_index(path: &Path, file: LogFile, bytes: &[u8]) -> io::Result<RowsAndFaults> {
    let outline = Outline::beside(path)?;
    let entries = offset_index_entries(bytes, file.offset);
    let rows = entries.iter().map(|entry| {
        Row::new()
            .with("offset", entry.offset)
            .with("position", entry.position)
    });
    let wrong = |entry: &storage::inspect::OffsetPosition| {
        outline.as_ref()?.offset_fault(entry.offset, entry.position)
    };
    let mut faults: Vec<String> = entries.iter().filter_map(wrong).collect();
    faults.extend(length_fault(bytes.len(), 8));
    faults.extend(order_fault(entries.iter().map(|entry| entry.offset)));
    Ok((rows.collect(), faults))
}

fn time_index(path: &Path, file: LogFile, bytes: &[u8]) -> io::Result<RowsAndFaults> {
    let outline = Outline::beside(path)?;
    let entries = time_index_entries(bytes, file.offset);
    let rows = entries.iter().map(|entry| {
        Row::new()
            .with("timestamp", entry.timestamp_ms)
            .with("offset", entry.offset)
    });
    let wrong = |entry: &storage::TimestampOffset| {
        outline
            .as_ref()?
            .time_fault(entry.timestamp_ms, entry.offset)
    };
    let mut faults: Vec<String> = entries.iter().filter_map(wrong).collect();
    faults.extend(length_fault(bytes.len(), 12));
    faults.extend(order_fault(entries.iter().map(|entry| entry.timestamp_ms)));
    Ok((rows.collect(), faults))
}

fn transaction_index(bytes: &[u8]) -> RowsAndFaults {
    let entries = aborted_transactions(bytes);
    let rows = entries.iter().map(|entry| {
        Row::new()
            .with("producerId", entry.producer_id.0)
            .with("firstOffset", entry.first_offset)
            .with("lastOffset", entry.last_offset)
            .with("lastStableOffset", entry.last_stable_offset)
    });
    let left = bytes.len() - entries.len() * 34;
    let fault = (left > 0).then(|| format!("its last {left} bytes are no entry"));
    (rows.collect(), fault.into_iter().collect())
}

fn snapshot(file: LogFile, bytes: &[u8]) -> RowsAndFaults {
    let state = match producer_snapshot(bytes, file.offset) {
        Ok(state) => state,
        Err(fault) => return (Vec::new(), vec![fault]),
    };
    let rows = state.producers().map(|(producer_id, entry)| {
        let last_offset = entry.batches().last().map(|batch| batch.last_offset);
        Row::new()
            .with("producerId", producer_id.0)
            .with("producerEpoch", entry.producer_epoch().0)
            .with("coordinatorEpoch", entry.coordinator_epoch())
            .with("currentTxnFirstOffset", entry.transaction_first_offset())
            .with("lastTimestamp", entry.last_timestamp_ms())
            .with("lastSequence", entry.last_sequence())
            .with("lastOffset", last_offset.map_or(Cell::Missing, Cell::from))
    });
    (rows.collect(), Vec::new())
}

fn length_fault(length_bytes: usize, entry_bytes: usize) -> Option<String> {
    (!length_bytes.is_multiple_of(entry_bytes))
        .then(|| format!("its length of {length_bytes} bytes is no multiple of {entry_bytes}"))
}

fn order_fault(values: impl Iterator<Item = i64> + Clone) -> Option<String> {
    let mut pairs = values.clone().zip(values.skip(1));
    let (before, after) = pairs.find(|(before, after)| before >= after)?;
    Some(format!("{after} comes after {before}"))
}
