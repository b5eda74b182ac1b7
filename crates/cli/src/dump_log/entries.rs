//! Indexes, held against the segment beside them, and snapshots of producers.

use super::Shown;
use super::segment::{batches_of, fault_row};
use crate::output::{Cell, Output, Row};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use storage::inspect::{
    LogFile, LogFileKind, SegmentOutline, aborted_transactions, offset_index_entries,
    offset_index_faults, producer_snapshot, time_index_entries, time_index_faults,
    transaction_index_faults,
};

/// The outline of the segment that an index belongs to; `None` when there is none.
fn outline_beside(index: &Path) -> io::Result<Option<SegmentOutline>> {
    let segment = index.with_extension("log");
    match segment.exists() {
        true => SegmentOutline::read(batches_of(&segment)?).map(Some),
        false => Ok(None),
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
    let outline = outline_beside(path)?;
    let entries = offset_index_entries(bytes, file.offset);
    let rows = entries.iter().map(|entry| {
        Row::new()
            .with("offset", entry.offset.0)
            .with("position", entry.position)
    });
    let faults = offset_index_faults(bytes, file.offset, outline.as_ref());
    Ok((rows.collect(), faults))
}

fn time_index(path: &Path, file: LogFile, bytes: &[u8]) -> io::Result<RowsAndFaults> {
    let outline = outline_beside(path)?;
    let entries = time_index_entries(bytes, file.offset);
    let rows = entries.iter().map(|entry| {
        Row::new()
            .with("timestamp", entry.timestamp_ms)
            .with("offset", entry.offset.0)
    });
    let faults = time_index_faults(bytes, file.offset, outline.as_ref());
    Ok((rows.collect(), faults))
}

fn transaction_index(bytes: &[u8]) -> RowsAndFaults {
    let entries = aborted_transactions(bytes);
    let rows = entries.iter().map(|entry| {
        Row::new()
            .with("producerId", entry.producer_id.0)
            .with("firstOffset", entry.first_offset.0)
            .with("lastOffset", entry.last_offset.0)
            .with("lastStableOffset", entry.last_stable_offset.0)
    });
    (rows.collect(), transaction_index_faults(bytes))
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
            .with(
                "currentTxnFirstOffset",
                entry.transaction_first_offset().map(|offset| offset.0),
            )
            .with("lastTimestamp", entry.last_timestamp_ms())
            .with("lastSequence", entry.last_sequence())
            .with(
                "lastOffset",
                last_offset.map_or(Cell::Missing, |offset| Cell::from(offset.0)),
            )
    });
    (rows.collect(), Vec::new())
}
