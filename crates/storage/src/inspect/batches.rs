//! The batches of a segment or of a metadata snapshot, one after the other.

use model::Offset;
use record::RecordBatch;
use record::batch_layout::{HEADER_SIZE_UP_TO_MAGIC_BYTES, batch_size_bytes};
use std::io::{self, Read};

/// Reads a file batch by batch into one buffer, which grows to the largest batch and no further than
/// the file.
#[derive(Debug)]
pub struct BatchReader<R> {
    file: R,
    position: u64,
    size_bytes: u64,
    buffer: Vec<u8>,
}

/// The next thing in a file of batches.
#[derive(Debug)]
pub enum NextBatch<'a> {
    /// A batch, and where it starts.
    Batch(u64, RecordBatch<'a>),
    /// What follows from there on is no batch.
    Fault(u64, String),
    /// The file ends, or what is left of it is zeros.
    End,
}

impl<R: Read> BatchReader<R> {
    /// Reads a file of so many bytes from its start.
    pub const fn new(file: R, size_bytes: u64) -> Self {
        Self {
            file,
            position: 0,
            size_bytes,
            buffer: Vec::new(),
        }
    }

    /// The next batch. After a fault there is nothing more to read.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next_batch(&mut self) -> io::Result<NextBatch<'_>> {
        let start = self.position;
        let left = self.size_bytes.saturating_sub(start);
        if left == 0 {
            return Ok(NextBatch::End);
        }
        self.buffer.clear();
        self.read_up_to(HEADER_SIZE_UP_TO_MAGIC_BYTES as u64)?;
        let size = match batch_size_bytes(&self.buffer) {
            Ok(size) if size as u64 <= left => size,
            Ok(size) => {
                let fault = format!("a batch of {size} bytes, of which the file has {left}");
                return Ok(NextBatch::Fault(start, fault));
            }
            // A file that was allocated ahead ends in zeros.
            Err(_) if self.buffer.iter().all(|byte| *byte == 0) => return Ok(NextBatch::End),
            Err(error) => return Ok(NextBatch::Fault(start, error.to_string())),
        };
        self.read_up_to(size as u64)?;
        self.position = start + size as u64;
        Ok(match RecordBatch::parse(&self.buffer) {
            Ok((batch, _)) => NextBatch::Batch(start, batch),
            Err(error) => NextBatch::Fault(start, error.to_string()),
        })
    }

    /// Fills the buffer up to `size_bytes`, less where the file ends.
    fn read_up_to(&mut self, size_bytes: u64) -> io::Result<()> {
        let missing = size_bytes - self.buffer.len() as u64;
        let mut part = (&mut self.file).take(missing);
        part.read_to_end(&mut self.buffer).map(|_| ())
    }
}

/// What is wrong with a batch as such, after batches below `next_offset`. Its records are not read.
pub fn batch_faults(batch: &RecordBatch<'_>, next_offset: Offset) -> Vec<String> {
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
