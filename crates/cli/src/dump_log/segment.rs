//! Batches and records of a segment or of a metadata snapshot.

use super::payload::{payload_of, text};
use super::{Payload, Shown};
use crate::output::{Cell, Output, Row};
use model::Offset;
use record::{Decompressor, Record, RecordBatch, TimestampType};
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;
use storage::inspect::{BatchReader, NextBatch, batch_faults};

/// A batch decompresses to no more than this.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 30;

/// Reads the batches of a file.
pub(super) fn batches_of(path: &Path) -> io::Result<BatchReader<BufReader<File>>> {
    let file = File::open(path)?;
    let size_bytes = file.metadata()?.len();
    let file = BufReader::with_capacity(1 << 20, file);
    Ok(BatchReader::new(file, size_bytes))
}

/// Dumps the batches of a file; the number of faults.
pub(super) fn dump<W: Write>(
    path: &Path,
    shown: Shown,
    output: &mut Output<W>,
) -> io::Result<usize> {
    let mut reader = batches_of(path)?;
    let mut decompressor = Decompressor::new();
    let mut scratch = Vec::new();
    let mut fault_count = 0;
    let mut next_offset = i64::MIN;
    loop {
        let (position, batch) = match reader.next_batch()? {
            NextBatch::Batch(position, batch) => (position, batch),
            NextBatch::Fault(position, fault) => {
                output.row(&fault_row(path, position, &fault))?;
                return Ok(fault_count + 1);
            }
            NextBatch::End => return Ok(fault_count),
        };
        if !shown.is_quiet {
            output.row(&batch_row(&batch, position))?;
        }
        let records = batch.records(&mut decompressor, &mut scratch, DECOMPRESSED_BYTES_MAX);
        let mut faults = batch_faults(&batch, Offset(next_offset));
        match records {
            Err(error) => faults.push(error.to_string()),
            Ok(records) => {
                for record in records {
                    match record {
                        Ok(record) if shown.records && !shown.is_quiet => {
                            output.row(&record_row(&batch, &record, shown.payload))?;
                        }
                        Ok(_) => {}
                        Err(error) => faults.push(error.to_string()),
                    }
                }
            }
        }
        for fault in &faults {
            output.row(&fault_row(path, position, fault))?;
        }
        fault_count += faults.len();
        next_offset = batch.next_offset().0;
    }
}

/// The row that tells of damage.
pub(super) fn fault_row(path: &Path, position: u64, fault: &str) -> Row {
    Row::new()
        .with("error", fault)
        .with("file", path.display().to_string())
        .with("position", position as i64)
}

fn batch_row(batch: &RecordBatch<'_>, position: u64) -> Row {
    let compression = batch.compression();
    let time = match batch.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    };
    Row::new()
        .with("baseOffset", batch.base_offset().0)
        .with("lastOffset", batch.last_offset().0)
        .with("count", batch.record_count())
        .with("baseSequence", batch.base_sequence())
        .with("lastSequence", batch.last_sequence())
        .with("producerId", batch.producer_id().0)
        .with("producerEpoch", batch.producer_epoch().0)
        .with("partitionLeaderEpoch", batch.partition_leader_epoch().0)
        .with("isTransactional", batch.is_transactional())
        .with("isControl", batch.is_control())
        .with("deleteHorizonMs", batch.delete_horizon_ms())
        .with("position", position as i64)
        .with(time, batch.max_timestamp())
        .with("size", batch.bytes().len() as i64)
        .with("magic", 2)
        .with(
            "compresscodec",
            compression.map_or("unknown", |codec| codec.name()),
        )
        .with("crc", batch.crc())
        .with("isvalid", batch.is_crc_valid())
}

fn record_row(batch: &RecordBatch<'_>, record: &Record<'_>, payload: Payload) -> Row {
    let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i64);
    let headers: Vec<Cell> = record
        .headers
        .iter()
        .map(|header| {
            Cell::Object(
                Row::new()
                    .with("key", header.key_text().into_owned())
                    .with("value", header.value.map(text)),
            )
        })
        .collect();
    let row = Row::new()
        .with("offset", record.offset.0)
        .with("timestamp", record.timestamp)
        .with("keySize", size(record.key))
        .with("valueSize", size(record.value))
        .with("headers", Cell::List(headers));
    payload_of(row, batch.is_control(), record, payload)
}
