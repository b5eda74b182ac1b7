//! Kafka's record batches (magic 2): read in place, built, compressed, and validated.
//!
//! ```text
//!  log, fetch ──> Batches ──> RecordBatch ──> Records ──> Record { key, value, headers }
//!  client, coordinator ──> BatchBuilder ──> one batch
//! ```
//!
//! Invariants:
//! - A view never allocates and never reads beyond its batch; corrupt bytes are an `Err`.
//! - Nothing that a peer compressed comes out without a limit.
//! - A setter never turns a batch with a wrong crc into one with a right crc.
//! - No I/O, no clock, no randomness.
//!
//! Reading order: `attributes`, `batch`, `batch_mut`, `compression`, `record`, `batch_builder`.

#![forbid(unsafe_code)]

pub mod attributes;
pub mod batch;
pub mod batch_builder;
mod batch_mut;
pub mod compression;
mod crc;
pub mod record;
mod record_layout;

pub use attributes::{Attributes, TimestampType};
pub use batch::{BatchError, Batches, RecordBatch};
pub use batch_builder::{BatchBuilder, BatchHeader};
pub use batch_mut::RecordBatchMut;
pub use compression::{Codec, Compression, Compressor, DecompressError, Decompressor};
pub use record::{Header, Headers, InvalidRecord, ReadRecordsError, Record, Records};
