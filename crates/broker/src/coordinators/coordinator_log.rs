//! Logs of the coordinators' topics: read whole when a coordinator loads, appended to afterwards,
//! and flushed where `flush.messages` asks for it.

use crate::runtime::clock::now_ms;
use coordinator::CoordinatorRecord;
use record::{
    BatchBuilder, BatchHeader, Batches, Codec, Compression, ControlRecord, Decompressor,
    RecordBatch, TransactionResult, ValidatedBatch,
};
use replication::{AppendError, Partition};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use storage::StorageError;

/// How many bytes of the log are read at once.
const LOAD_BYTES: usize = 1024 * 1024;

/// What a batch of a coordinator's records may expand to.
const BATCH_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What a coordinator finds in its log.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LogEntry<'a> {
    /// A record.
    Record {
        offset: i64,
        /// The producer of a transactional batch; -1 for any other batch.
        producer_id: i64,
        key: &'a [u8],
        value: Option<&'a [u8]>,
    },
    /// The end of a transaction that wrote to the log.
    TransactionEnd { producer_id: i64, is_commit: bool },
}

/// What loading keeps from one batch to the next.
#[derive(Debug, Default)]
struct LoadBuffers {
    decompressor: Decompressor,
    scratch: Vec<u8>,
}

/// Makes a coordinator's log durable. Decisions that wait at the same time share a sync, and wait as
/// tasks rather than as threads.
#[derive(Debug, Default)]
pub(crate) struct GroupCommit {
    turn: tokio::sync::Mutex<()>,
}

impl GroupCommit {
    /// Makes everything below `end_offset` durable.
    ///
    /// # Errors
    /// When the disk fails; the log takes no more records then.
    pub(crate) async fn flush_up_to(
        &self,
        partition: &Arc<Partition>,
        end_offset: i64,
    ) -> Result<(), AppendError> {
        let _turn = self.turn.lock().await;
        if partition.flushed_end_offset() >= end_offset {
            return Ok(());
        }
        let flushed = partition.clone();
        let flush = move || flushed.flush_up_to(end_offset, now_ms());
        let stopping = |_| {
            Err(StorageError {
                operation: "sync",
                file: partition.directory(),
                source: io::Error::other("the server stops"),
            })
        };
        let outcome = tokio::task::spawn_blocking(flush).await;
        Ok(outcome.unwrap_or_else(stopping)?)
    }
}

/// How long after a lack of file descriptors a log is replayed again.
pub(crate) const REPLAY_PAUSE: Duration = Duration::from_secs(1);

/// Why a log was not replayed.
#[derive(Debug)]
pub(crate) enum ReplayLogError {
    /// There is no file descriptor left: what was replayed is to be thrown away, and the log to be
    /// replayed again after [`REPLAY_PAUSE`].
    OutOfFiles,
    /// A human must look.
    Failed(String),
}

impl From<String> for ReplayLogError {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// Shows `replay` everything in the log of a partition, in its order.
///
/// # Errors
/// Why the log cannot be read, or what `replay` says. A batch whose checksum is wrong is skipped.
pub(crate) fn replay_log(
    partition: &Partition,
    mut replay: impl FnMut(LogEntry<'_>) -> Result<(), String>,
) -> Result<(), ReplayLogError> {
    let mut buffers = LoadBuffers::default();
    let mut offset = partition.offsets().log_start_offset;
    let end = partition.offsets().log_end_offset;
    while offset < end {
        let bytes = partition.read_bytes(offset, LOAD_BYTES).map_err(|error| {
            match error.is_out_of_files() {
                true => ReplayLogError::OutOfFiles,
                false => ReplayLogError::Failed(error.to_string()),
            }
        })?;
        let before = offset;
        for batch in Batches::new(&bytes) {
            let batch = batch.map_err(|error| format!("at offset {offset}: {error}"))?;
            if batch.is_crc_valid() {
                replay_batch(&batch, &mut buffers, &mut replay)
                    .map_err(|error| format!("at offset {offset}: {error}"))?;
            } else {
                tracing::error!(%partition, offset, "a damaged batch of a coordinator is skipped");
            }
            // Damage must not make it begin again and again.
            offset = batch.next_offset().min(end).max(offset + 1);
        }
        if offset == before {
            return Err(format!("no batch can be read at offset {offset}").into());
        }
    }
    Ok(())
}

fn replay_batch(
    batch: &RecordBatch<'_>,
    buffers: &mut LoadBuffers,
    replay: &mut impl FnMut(LogEntry<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let LoadBuffers {
        decompressor,
        scratch,
    } = buffers;
    let records = batch.records(decompressor, scratch, BATCH_BYTES_MAX);
    let producer_id = if batch.is_transactional() {
        batch.producer_id()
    } else {
        -1
    };
    for record in records.map_err(|error| error.to_string())? {
        let record = record.map_err(|error| error.to_string())?;
        if batch.is_control() {
            if let Ok(ControlRecord::EndTransaction(marker)) = ControlRecord::parse(&record) {
                replay(LogEntry::TransactionEnd {
                    producer_id: batch.producer_id(),
                    is_commit: marker.result == TransactionResult::Commit,
                })?;
            }
            continue;
        }
        if let Some(key) = record.key {
            replay(LogEntry::Record {
                offset: record.offset,
                producer_id,
                key,
                value: record.value,
            })?;
        }
    }
    Ok(())
}

/// A batch of records of a coordinator, all with this timestamp.
pub(crate) fn batch_of(
    header: BatchHeader,
    records: &[CoordinatorRecord],
    now_ms: i64,
    codec: Codec,
) -> ValidatedBatch<'static> {
    let mut builder = BatchBuilder::new(header);
    for record in records {
        builder.append(now_ms, Some(&record.key), record.value.as_deref(), &[]);
    }
    builder.into_batch(codec)
}

/// The codec of a coordinator's batches: what the topic's `compression.type` demands, or with
/// `producer` the coordinator's `own`.
pub(crate) fn codec_of(partition: &Partition, own: Compression) -> Codec {
    partition.config().compression.unwrap_or(own.into())
}
