//! Batches and records of a segment or of a metadata snapshot.

use super::payload::payload_of;
use super::{Payload, Shown};
use crate::output::{Cell, Output, Row};
use record::batch::{HEADER_SIZE_UP_TO_MAGIC_BYTES, batch_size_bytes};
use record::{Decompressor, Record, RecordBatch, TimestampType};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

/// A batch decompresses to no more than this.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 30;

/// Reads a file batch by batch into one buffer.
#[derive(Debug)]
pub(super) struct BatchReader {
    file: BufReader<File>,
    position: u64,
    size_bytes: u64,
    buffer: Vec<u8>,
}

/// The next thing in a file of batches.
#[derive(Debug)]
pub(super) enum Next<'a> {
    /// A batch, and where it starts.
    Batch(u64, RecordBatch<'a>),
    /// What follows is no batch.
    Fault(u64, String),
    End,
}

impl BatchReader {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self {
            size_bytes: file.metadata()?.len(),
            file: BufReader::with_capacity(1 << 20, file),
            position: 0,
            buffer: Vec::new(),
        })
    }

    pub(super) fn next(&mut self) -> io::Result<Next<'_>> {
        let start = self.position;
        let left = self.size_bytes.saturating_sub(start);
        if left == 0 {
            return Ok(Next::End);
        }
        self.buffer.clear();
        self.read_up_to(HEADER_SIZE_UP_TO_MAGIC_BYTES as u64)?;
        let size = match batch_size_bytes(&self.buffer) {
            Ok(size) if size as u64 <= left => size,
            Ok(size) => {
                let fault = format!("a batch of {size} bytes, of which the file has {left}");
                return Ok(Next::Fault(start, fault));
            }
            // A file that was allocated ahead ends in zeros.
            Err(_) if self.buffer.iter().all(|byte| *byte == 0) => return Ok(Next::End),
            Err(error) => return Ok(Next::Fault(start, error.to_string())),
        };
        self.read_up_to(size as u64)?;
        self.position = start + size as u64;
        Ok(match RecordBatch::parse(&self.buffer) {
            Ok((batch, _)) => Next::Batch(start, batch),
            Err(error) => Next::Fault(start, error.to_string()),
        })
    }

    /// Fills the buffer up to `size_bytes`, less where the file ends.
    fn read_up_to(&mut self, size_bytes: u64) -> io::Result<()> {
        let missing = size_bytes - self.buffer.len() as u64;
        let mut part = (&mut self.file).take(missing);
        part.read_to_end(&mut self.buffer).map(|_| ())
    }
}

/// Dumps the batches of a file; the number of faults.
pub(super) fn dump<W: Write>(
    path: &Path,
    shown: Shown,
    output: &mut Output<W>,
) -> io::Result<usize> {
    let mut reader = BatchReader::open(path)?;
    let mut decompressor = Decompressor::new();
    let mut scratch = Vec::new();
    let mut fault_count = 0;
    let mut next_offset = i64::MIN;
    loop {
        let (position, batch) = match reader.next()? {
            Next::Batch(position, batch) => (position, batch),
            Next::Fault(position, fault) => {
                output.row(&fault_row(path, position, &fault))?;
                return Ok(fault_count + 1);
            }
            Next::End => return Ok(fault_count),
        };
        if !shown.is_quiet {
            output.row(&batch_row(&batch, position))?;
        }
        let records = batch.records(&mut decompressor, &mut scratch, DECOMPRESSED_BYTES_MAX);
        let mut faults = faults_of(&batch, next_offset);
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
        next_offset = batch.next_offset();
    }
}

/// What is wrong with a batch as such, after batches below `next_offset`.
fn faults_of(batch: &RecordBatch<'_>, next_offset: i64) -> Vec<String> {
    let mut faults = Vec::new();
    if !batch.is_crc_valid() {
        faults.push(format!(
            "crc {} does not match the computed {}",
            batch.crc(),
            batch.computed_crc()
        ));
    }
    if batch.base_offset() < next_offset {
        faults.push(format!(
            "base offset {} is below {next_offset}, where the batch before it ends",
            batch.base_offset()
        ));
    }
    faults
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
        .with("baseOffset", batch.base_offset())
        .with("lastOffset", batch.last_offset())
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
        .with("offset", record.offset)
        .with("timestamp", record.timestamp)
        .with("keySize", size(record.key))
        .with("valueSize", size(record.value))
        .with("headers", Cell::List(headers));
    payload_of(row, batch.is_control(), record, payload)
}

/// Bytes as text, with replacement characters for what is not UTF-8.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
