//! Loading: the whole log of a partition is replayed, in its order, before anybody is answered.

use super::{CoordinatorShard, Unreplayed};
use crate::group::RecordOrigin;
use model::{Now, Offset, ProducerId};
use record::{Batches, ControlRecord, Decompressor, RecordBatch, TransactionResult};
use std::fmt;

/// How many bytes of the log are read at once.
const LOAD_BYTES: usize = 1024 * 1024;

/// What a batch of a coordinator's records may expand to.
const BATCH_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A log that is read whole.
pub trait LogReader {
    /// Why nothing was read.
    type Error: fmt::Display;

    /// The first offset and the one after the last.
    fn bounds(&self) -> (Offset, Offset);

    /// Whole batches from `offset` on, at least one.
    ///
    /// # Errors
    /// Why nothing was read.
    fn read(&self, offset: Offset, max_bytes: usize) -> Result<Vec<u8>, Self::Error>;

    /// A batch at this offset is damaged, and is left out.
    fn note_damage(&self, offset: Offset);

    /// A record is left out.
    fn note_skipped(&self, offset: Offset, reason: &str);
}

/// What a coordinator finds in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEntry<'a> {
    /// A record.
    Record {
        /// Where it stands, and of whose transaction it is.
        origin: RecordOrigin,
        /// Its key.
        key: &'a [u8],
        /// Its value; `None` for a tombstone.
        value: Option<&'a [u8]>,
    },
    /// The end of a transaction that wrote to the log.
    TransactionEnd {
        /// Its producer.
        producer_id: ProducerId,
        /// Whether its records count.
        is_commit: bool,
    },
}

/// Why a log was not replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError<E> {
    /// It cannot be read.
    Read(E),
    /// What is in it cannot be replayed, and a human must look.
    Content(String),
}

/// A shard with everything in its log, and the offset up to which that is.
///
/// # Errors
/// Why the log cannot be replayed.
pub fn load_shard<S: CoordinatorShard, L: LogReader>(
    mut shard: S,
    log: &L,
    now: Now,
) -> Result<(S, Offset), LoadError<L::Error>> {
    let end_offset = replay_log(log, |entry| match entry {
        LogEntry::Record { origin, key, value } => match shard.replay(now, origin, key, value) {
            Ok(()) => Ok(()),
            Err(Unreplayed::Skipped(reason)) => {
                log.note_skipped(origin.offset, &reason);
                Ok(())
            }
            Err(Unreplayed::Fatal(reason)) => Err(format!("record {}: {reason}", origin.offset)),
        },
        LogEntry::TransactionEnd {
            producer_id,
            is_commit,
        } => {
            shard.replay_transaction_end(producer_id, is_commit);
            Ok(())
        }
    })?;
    Ok((shard, end_offset))
}

/// What loading keeps from one batch to the next.
#[derive(Debug, Default)]
struct LoadBuffers {
    decompressor: Decompressor,
    scratch: Vec<u8>,
}

/// Shows `replay` everything in a log, in its order; gives the offset after the last record. A batch whose
/// checksum is wrong is left out.
///
/// # Errors
/// Why the log cannot be read, or what `replay` says.
pub fn replay_log<L: LogReader>(
    log: &L,
    mut replay: impl FnMut(LogEntry<'_>) -> Result<(), String>,
) -> Result<Offset, LoadError<L::Error>> {
    let mut buffers = LoadBuffers::default();
    let (mut offset, end) = log.bounds();
    let at = |offset: Offset| {
        move |error: String| LoadError::Content(format!("at offset {offset}: {error}"))
    };
    while offset < end {
        let bytes = log.read(offset, LOAD_BYTES).map_err(LoadError::Read)?;
        let before = offset;
        for batch in Batches::new(&bytes) {
            let batch = batch.map_err(|error| at(offset)(error.to_string()))?;
            if batch.is_crc_valid() {
                replay_batch(&batch, &mut buffers, &mut replay).map_err(at(offset))?;
            } else {
                log.note_damage(offset);
            }
            // Damage must not make it begin again and again.
            offset = batch.next_offset().min(end).max(offset + 1);
            if offset >= end {
                break;
            }
        }
        if offset == before {
            let error = format!("no batch can be read at offset {offset}");
            return Err(LoadError::Content(error));
        }
    }
    Ok(end)
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
    let producer_id = match batch.is_transactional() {
        true => batch.producer_id(),
        false => ProducerId::NONE,
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
            let origin = RecordOrigin {
                offset: record.offset,
                producer_id,
            };
            let value = record.value;
            replay(LogEntry::Record { origin, key, value })?;
        }
    }
    Ok(())
}
