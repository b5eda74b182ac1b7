//! Kafka's record batches (magic 2): read in place, built, compressed, and validated.
//!
//! ```text
//!  producer's bytes ──> ParsedHeader ──> ProduceValidator ──> ValidatedBatch: the bytes as they came,
//!                                          │                  or other bytes ──> log
//!                                          └──> InvalidRecords: error code, faulty records
//!  log, fetch ──> Batches ──> RecordBatch ──> Records ──> Record { key, value, headers }
//!  client ──> BatchBuilder ──> one batch
//!  coordinator ──> BatchBuilder ──> ValidatedBatch ──> log
//! ```
//!
//! Invariants:
//! - A view never allocates and never reads beyond its batch; corrupt bytes are an `Err`.
//! - Nothing that a peer compressed comes out without a limit.
//! - What goes into a log as its leader is a `ValidatedBatch`: its header is read once, its crc and its
//!   records are checked once, or known to this program, which has built it.
//! - A setter never turns a batch with a wrong crc into one with a right crc.
//! - No I/O, no clock, no randomness.
//!
//! Reading order: `attributes`, `batch`, `parsed_header`, `batch_mut`, `compression`, `record`, `batch_builder`,
//! `control`, `validate`, `validated_batch`.

#![forbid(unsafe_code)]

mod attributes;
mod batch;
mod batch_builder;
pub mod batch_layout;
mod batch_mut;
mod batch_rewriter;
mod compression;
mod control;
mod crc;
mod parsed_header;
mod read_error;
mod record;
mod record_layout;
mod record_stream;
mod record_walk;
mod validate;
mod validated_batch;

pub use attributes::{Attributes, TimestampType};
pub use batch::{Batches, RecordBatch, fuzz_batches};
pub use batch_builder::{BatchBuilder, BatchHeader};
pub use batch_layout::BatchError;
pub use batch_mut::RecordBatchMut;
pub use compression::{
    Codec, Compression, Compressor, DecompressError, Decompressor, fuzz_lz4, fuzz_snappy,
};
pub use control::{
    ControlRecord, ControlRecordKind, EndTransactionMarker, InvalidControlRecord,
    TransactionResult, fuzz_control_record,
};
pub use parsed_header::ParsedHeader;
pub use read_error::{InvalidRecord, ReadRecordsError};
pub use record::{Header, Headers, Record, Records, ResumePoint, fuzz_records};
pub use record_walk::{RecordVisitor, VisitedRecord};
pub use validate::{
    InvalidRecords, ProduceValidator, RecordError, RecordFault, TargetCompression, ValidationRules,
    accept_produced, fuzz_validate_produce,
};
pub use validated_batch::ValidatedBatch;
