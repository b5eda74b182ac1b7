//! The records of one partition in an answer, batch by batch: what is to be delivered, and where
//! the next fetch goes on. Nothing is decompressed here.

use bytes::Bytes;
use model::{LeaderEpoch, Offset, ProducerId};
use record::{BatchError, ControlRecord, Decompressor, RecordBatch, TransactionResult};
use std::collections::BTreeSet;

/// What a reader knows about how to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanRules {
    /// Leave out records of aborted transactions.
    pub(crate) is_read_committed: bool,
    /// Compare each batch with its checksum.
    pub(crate) check_crcs: bool,
}

/// A batch with records that count.
#[derive(Debug, Clone)]
pub(crate) struct FetchedBatch {
    /// The whole batch, a slice of the answer.
    pub(crate) bytes: Bytes,
    pub(crate) last_offset: i64,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) record_count: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) batches: Vec<FetchedBatch>,
    /// The offset after all that was read, and the leader epoch of the last batch; `None` without
    /// a whole batch.
    pub(crate) next: Option<(i64, LeaderEpoch)>,
    /// What is wrong after all that was read.
    pub(crate) fault: Option<String>,
    /// Whether there was the front of a batch and nothing else.
    pub(crate) is_cut: bool,
}

/// Reads the batches of `bytes`, of which `aborted` are the aborted transactions by producer id and
/// first offset.
pub(crate) fn scan(bytes: &Bytes, aborted: &[(ProducerId, i64)], rules: ScanRules) -> Scanned {
    let mut found = Scanned::default();
    let mut aborted: Vec<(i64, ProducerId)> =
        aborted.iter().map(|(id, first)| (*first, *id)).collect();
    aborted.sort_unstable_by(|a, b| b.cmp(a));
    let mut aborting = BTreeSet::new();
    let mut rest: &[u8] = bytes;
    loop {
        let batch = match RecordBatch::parse(rest) {
            Ok((batch, tail)) => {
                rest = tail;
                batch
            }
            // Brokers cut what they send at the size they were asked for.
            Err(BatchError::Truncated) => break,
            Err(error) => {
                found.fault = Some(error.to_string());
                break;
            }
        };
        if rules.check_crcs && !batch.is_crc_valid() {
            found.fault = Some(format!(
                "the batch at offset {} has checksum {:#010x} and contents of {:#010x}",
                batch.base_offset(),
                batch.crc(),
                batch.computed_crc(),
            ));
            break;
        }
        if batch.last_offset_delta() < 0 || batch.last_offset() == Offset::MAX {
            found.fault = Some(format!("no batch ends at offset {}", batch.last_offset()));
            break;
        }
        found.next = Some((batch.next_offset().0, batch.partition_leader_epoch()));
        let is_visible = is_visible(&batch, &mut aborted, &mut aborting, rules);
        let record_count = usize::try_from(batch.record_count()).unwrap_or(0);
        // A batch that compaction emptied only tells that its offsets were used.
        if is_visible && record_count > 0 {
            found.batches.push(FetchedBatch {
                bytes: bytes.slice_ref(batch.bytes()),
                last_offset: batch.last_offset().0,
                leader_epoch: batch.partition_leader_epoch(),
                record_count,
            });
        }
    }
    found.is_cut = found.next.is_none() && found.fault.is_none() && !bytes.is_empty();
    found
}

/// Whether the application is to see the batch. `aborted` is sorted by first offset, the least
/// last; `aborting` are the producers whose aborted transaction goes on at this batch.
fn is_visible(
    batch: &RecordBatch<'_>,
    aborted: &mut Vec<(i64, ProducerId)>,
    aborting: &mut BTreeSet<ProducerId>,
    rules: ScanRules,
) -> bool {
    if rules.is_read_committed && batch.has_producer_id() {
        while let Some((_, producer_id)) =
            aborted.pop_if(|(first_offset, _)| *first_offset <= batch.last_offset().0)
        {
            aborting.insert(producer_id);
        }
        if batch.is_control() && ends_in_abort(batch) {
            aborting.remove(&batch.producer_id());
        } else if batch.is_transactional() && aborting.contains(&batch.producer_id()) {
            return false;
        }
    }
    !batch.is_control()
}

fn ends_in_abort(batch: &RecordBatch<'_>) -> bool {
    const MARKER_BYTES_MAX: usize = 1 << 16;
    let mut scratch = Vec::new();
    let records = batch.records(&mut Decompressor::new(), &mut scratch, MARKER_BYTES_MAX);
    let Ok(mut records) = records else {
        return false;
    };
    let Some(Ok(record)) = records.next() else {
        return false;
    };
    matches!(
        ControlRecord::parse(&record),
        Ok(ControlRecord::EndTransaction(marker)) if marker.result == TransactionResult::Abort
    )
}
