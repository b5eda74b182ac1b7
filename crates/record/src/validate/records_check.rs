//! The checks that look at every record of a batch, without keeping any. A sink may take the records
//! at the same time.

use model::ErrorCode;

use super::{InvalidRecords, RecordError, RecordFault, ValidationRules};
use crate::attributes::TimestampType;
use crate::batch::RecordBatch;
use crate::batch_layout::NO_TIMESTAMP;
use crate::batch_rewriter::RecordSink;
use crate::compression::{Compression, Decompressor, Expanded};
use crate::read_error::{InvalidRecord, ReadRecordsError};
use crate::record_layout::{RecordLayout, SliceSource, Source, read_start};
use crate::record_stream::StreamSource;

/// What is known after the last record.
pub(super) struct CheckedRecords {
    /// The greatest timestamp, or the time of append.
    pub(super) max_timestamp: i64,
    /// Whether the offset deltas are 0, 1, 2 ...
    pub(super) has_consecutive_offsets: bool,
}

/// The state of a walk over the records of one batch.
pub(super) struct RecordsCheck<'a> {
    rules: &'a ValidationRules,
    now_ms: i64,
    record_count: i32,
    base_timestamp: i64,
    /// The timestamp of every record, for a batch that claims to have been appended.
    log_append_time: Option<i64>,
    max_timestamp: i64,
    has_consecutive_offsets: bool,
    /// `INVALID_TIMESTAMP` wins over `INVALID_RECORD`.
    error: Option<ErrorCode>,
    errors_count: usize,
    record_errors: Vec<RecordError>,
}

impl<'a> RecordsCheck<'a> {
    pub(super) fn new(batch: &RecordBatch<'_>, rules: &'a ValidationRules, now_ms: i64) -> Self {
        let is_log_append_time = batch.timestamp_type() == TimestampType::LogAppendTime;
        Self {
            rules,
            now_ms,
            record_count: batch.record_count(),
            base_timestamp: batch.base_timestamp(),
            log_append_time: is_log_append_time.then(|| batch.max_timestamp()),
            max_timestamp: NO_TIMESTAMP,
            has_consecutive_offsets: true,
            error: None,
            errors_count: 0,
            record_errors: Vec::new(),
        }
    }

    /// Walks over the records of the batch as they come out of their codec. The sink takes each.
    pub(super) fn check_all(
        mut self,
        batch: &RecordBatch<'_>,
        codec: Compression,
        decompressor: &mut Decompressor,
        scratch: &mut Expanded,
        sink: &mut impl RecordSink,
    ) -> Result<CheckedRecords, InvalidRecords> {
        let records = batch.records_bytes();
        if codec == Compression::None {
            let mut source = SliceSource::new(records);
            self.check_from(&mut source, sink)?;
            if !source.is_at_end() {
                return Err(InvalidRecord::TrailingBytes.into());
            }
            return self.finish();
        }
        let limit_bytes = self.rules.decompressed_max_bytes;
        let stream = decompressor.start(codec, records, limit_bytes);
        let mut source = StreamSource::new(stream, scratch);
        self.check_from(&mut source, sink)?;
        if !source.is_at_end().map_err(ReadRecordsError::from)? {
            return Err(InvalidRecord::TrailingBytes.into());
        }
        self.finish()
    }

    fn check_from<S: Source>(
        &mut self,
        source: &mut S,
        sink: &mut impl RecordSink,
    ) -> Result<(), S::Error> {
        for batch_index in 0..self.record_count {
            let start = read_start(source)?;
            let delta_timestamp = self.base_timestamp.wrapping_add(start.timestamp_delta);
            let timestamp = self.log_append_time.unwrap_or(delta_timestamp);
            let record = sink.take_record(source, start, timestamp)?;
            self.check(batch_index, timestamp, &record);
        }
        Ok(())
    }

    fn check(&mut self, batch_index: i32, timestamp: i64, record: &RecordLayout) {
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.has_consecutive_offsets &= record.offset_delta == batch_index;
        let fault = if self.rules.is_compacted && record.key.is_none() {
            Some(RecordFault::MissingKey)
        } else {
            self.timestamp_fault(timestamp)
        };
        if let Some(fault) = fault {
            self.add(RecordError { batch_index, fault });
        }
    }

    fn timestamp_fault(&self, timestamp: i64) -> Option<RecordFault> {
        let is_create_time = self.rules.timestamp_type == TimestampType::CreateTime;
        if is_create_time && timestamp != NO_TIMESTAMP {
            let (before_max, after_max) = (
                self.rules.timestamp_before_max_ms,
                self.rules.timestamp_after_max_ms,
            );
            let age_ms = self.now_ms.wrapping_sub(timestamp);
            if age_ms > before_max || age_ms.wrapping_neg() > after_max {
                return Some(RecordFault::TimestampOutOfRange {
                    timestamp,
                    min: self.now_ms.saturating_sub(before_max),
                    max: self.now_ms.saturating_add(after_max),
                });
            }
            return None;
        }
        self.log_append_time.map(|_| RecordFault::LogAppendTime)
    }

    #[cold]
    fn add(&mut self, record_error: RecordError) {
        self.errors_count += 1;
        if self.error != Some(ErrorCode::InvalidTimestamp) {
            self.error = Some(record_error.fault.error());
        }
        if self.record_errors.len() < InvalidRecords::RECORD_ERRORS_MAX {
            self.record_errors.push(record_error);
        }
    }

    /// What the walk has found.
    fn finish(self) -> Result<CheckedRecords, InvalidRecords> {
        if let Some(error) = self.error {
            let message = match error {
                // What Kafka's clients look for.
                ErrorCode::InvalidTimestamp => {
                    "One or more records have been rejected due to invalid timestamp".into()
                }
                _ => format!("{} records of the batch are invalid", self.errors_count).into(),
            };
            return Err(InvalidRecords {
                error,
                record_errors: self.record_errors,
                message,
                expands_beyond_limit: false,
            });
        }
        let max_timestamp = match self.rules.timestamp_type {
            TimestampType::CreateTime => self.max_timestamp,
            TimestampType::LogAppendTime => self.now_ms,
        };
        let has_consecutive_offsets = self.has_consecutive_offsets;
        Ok(CheckedRecords {
            max_timestamp,
            has_consecutive_offsets,
        })
    }
}
