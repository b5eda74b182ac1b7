//! The segment that a compaction writes: files `.cleaned`, complete and synced before anybody knows
//! of them. Its indexes collect in memory.

use std::sync::Arc;

use model::Offset;
use record::{BatchBuilder, BatchHeader, Codec, Compression, Compressor, RecordBatch};

use super::CleanError;
use super::batch_records::{BatchRecords, RecordBuffers};
use super::rules::{BatchFate, CleaningRules, KeyVerdict};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Context, StorageError};
use crate::file_name::{FileKind, FileName, FileState, PartitionFiles};
use crate::segment::Segment;
use crate::stored_batch::StoredBatch;
use crate::transaction_index::AbortedTransaction;

/// A segment with the files that it has.
#[derive(Debug)]
pub(crate) struct CleanedFiles<D: Disk> {
    pub(crate) segment: Segment<D>,
    /// The log first.
    pub(crate) kinds: Vec<FileKind>,
}

/// The segment being written.
pub(super) struct Target<D: Disk> {
    segment: Segment<D>,
    file: Arc<D::File>,
    name: FileName,
    buffer: Vec<u8>,
    buffer_bytes: usize,
    index_interval_bytes: u32,
    /// Where the buffer begins in the file.
    written_bytes: u64,
    builder: BatchBuilder,
    compressor: Compressor,
}

impl<D: Disk> Target<D> {
    pub(super) fn create(
        files: &PartitionFiles<D>,
        base_offset: Offset,
        (buffer_bytes, index_interval_bytes): (usize, u32),
    ) -> Result<Self, CleanError> {
        let name = FileName::new(base_offset, FileKind::Log).in_state(FileState::Cleaned);
        let file = files.open(name, OpenMode::Replace).map_err(super::gone)?;
        let file = Arc::new(file);
        Ok(Self {
            segment: Segment::of_cleaned(base_offset),
            file,
            name,
            buffer: Vec::new(),
            buffer_bytes,
            index_interval_bytes,
            written_bytes: 0,
            builder: BatchBuilder::new(BatchHeader::default()),
            compressor: Compressor::new(),
        })
    }

    /// Where the next batch goes.
    pub(super) fn position(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    /// The segment has a marker that aborts this transaction.
    pub(super) fn push_aborted(&mut self, transaction: AbortedTransaction) {
        self.segment.transaction_index.push(transaction);
    }

    /// Adds a batch whose records have nothing to say.
    pub(super) fn push_without_records(
        &mut self,
        files: &PartitionFiles<D>,
        batch: &RecordBatch<'_>,
        fate: BatchFate,
    ) -> Result<(), CleanError> {
        match fate {
            BatchFate::Whole => self.push_original(files, batch),
            BatchFate::Empty => self.push_empty(files, batch),
            BatchFate::Gone | BatchFate::ByKey { .. } | BatchFate::WholeWithHorizon => Ok(()),
        }
    }

    /// Adds what stays of a batch.
    pub(super) fn push_judged(
        &mut self,
        files: &PartitionFiles<D>,
        rules: &CleaningRules<'_>,
        batch: &RecordBatch<'_>,
        fate: BatchFate,
        verdict: &KeyVerdict,
        records: BatchRecords<'_>,
    ) -> Result<(), CleanError> {
        match verdict.kept_count() {
            0 if fate == (BatchFate::ByKey { keeps_empty: true }) => self.push_empty(files, batch),
            0 => Ok(()),
            _ if verdict.keeps_all() => self.push_original(files, batch),
            _ => {
                let horizon_ms = match verdict.needs_horizon() {
                    true => Some(rules.new_horizon_ms()),
                    false => batch.delete_horizon_ms(),
                };
                self.push_rebuilt(files, batch, horizon_ms, verdict, records)
            }
        }
    }

    fn push_original(
        &mut self,
        files: &PartitionFiles<D>,
        batch: &RecordBatch<'_>,
    ) -> Result<(), CleanError> {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(batch.bytes());
        self.take(files, start)
    }

    fn push_empty(
        &mut self,
        files: &PartitionFiles<D>,
        batch: &RecordBatch<'_>,
    ) -> Result<(), CleanError> {
        self.builder.reset(BatchHeader {
            last_offset: Some(batch.last_offset()),
            max_timestamp: Some(batch.max_timestamp()),
            delete_horizon_ms: None,
            ..BatchHeader::of(batch)
        });
        let start = self.buffer.len();
        self.buffer
            .extend_from_slice(self.builder.build_uncompressed());
        self.take(files, start)
    }

    fn push_rebuilt(
        &mut self,
        files: &PartitionFiles<D>,
        batch: &RecordBatch<'_>,
        delete_horizon_ms: Option<i64>,
        verdict: &KeyVerdict,
        records: BatchRecords<'_>,
    ) -> Result<(), CleanError> {
        let header = BatchHeader {
            last_offset: Some(batch.last_offset()),
            delete_horizon_ms,
            ..BatchHeader::of(batch)
        };
        let records = match records {
            BatchRecords::InMemory(records) => records,
            BatchRecords::Streamed(buffers) => {
                return self.push_streamed(files, batch, header, verdict, buffers);
            }
        };
        self.builder.reset(header);
        for (record, keeps) in records.zip(verdict.keeps()) {
            if let (Ok(record), true) = (record, keeps) {
                self.builder.append_record(record.offset, &record);
            }
        }
        let start = self.buffer.len();
        let compression = batch.compression().unwrap_or(Compression::None);
        self.builder.build(
            Codec::from(compression),
            &mut self.compressor,
            &mut self.buffer,
        );
        self.builder.shrink_to(2 * self.buffer_bytes);
        self.take(files, start)
    }

    fn push_streamed(
        &mut self,
        files: &PartitionFiles<D>,
        batch: &RecordBatch<'_>,
        header: BatchHeader,
        verdict: &KeyVerdict,
        buffers: &mut RecordBuffers,
    ) -> Result<(), CleanError> {
        let rebuilt = batch.with_kept_records(
            header,
            verdict.keeps(),
            (&mut buffers.decompressor, buffers.limit_bytes),
            (&mut self.compressor, i32::MAX as usize),
        );
        let rebuilt = rebuilt.expect("the records were read when they were judged");
        let Some(rebuilt) = rebuilt else {
            return Err(CleanError::TooLarge {
                file: files.path(self.name),
            });
        };
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&rebuilt);
        self.take(files, start)
    }

    /// Takes the batch at `start` of the buffer into account.
    fn take(&mut self, files: &PartitionFiles<D>, start: usize) -> Result<(), CleanError> {
        let position = self.written_bytes + start as u64;
        let batch = StoredBatch::parse(&self.buffer[start..], position)
            .expect("what was copied or built is a batch");
        if batch.end_position() > i32::MAX as u64 {
            return Err(CleanError::TooLarge {
                file: files.path(self.name),
            });
        }
        self.segment.note(&batch, self.index_interval_bytes);
        match self.buffer.len() >= self.buffer_bytes {
            true => Ok(self.write(files)?),
            false => Ok(()),
        }
    }

    fn write(&mut self, files: &PartitionFiles<D>) -> Result<(), StorageError> {
        let written = self.file.write_at(&self.buffer, self.written_bytes);
        written.context("write", &files.path(self.name))?;
        self.written_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(2 * self.buffer_bytes);
        Ok(())
    }

    /// Makes everything durable, with the time of change of what it was made from.
    #[allow(
        clippy::result_large_err,
        reason = "the target comes back to be discarded, once per group"
    )]
    pub(super) fn finish(
        mut self,
        files: &PartitionFiles<D>,
        modified_ms: i64,
    ) -> Result<CleanedFiles<D>, (Self, CleanError)> {
        match self.complete(files, modified_ms) {
            Ok(kinds) => Ok(CleanedFiles {
                segment: self.segment,
                kinds,
            }),
            Err(error) => Err((self, super::gone(error))),
        }
    }

    fn complete(
        &mut self,
        files: &PartitionFiles<D>,
        modified_ms: i64,
    ) -> Result<Vec<FileKind>, StorageError> {
        self.write(files)?;
        let path = files.path(self.name);
        self.file.sync().context("sync", &path)?;
        self.file
            .set_modified_ms(modified_ms)
            .context("set the time of", &path)?;
        let kinds = self.segment.write_cleaned_indexes(files, modified_ms)?;
        files.sync_directory()?;
        Ok(kinds)
    }

    /// Removes what has been written.
    pub(super) fn discard(self, files: &PartitionFiles<D>) -> Result<(), StorageError> {
        for kind in FileKind::OF_SEGMENT {
            files.remove(&files.path(FileName { kind, ..self.name }))?;
        }
        Ok(())
    }
}
