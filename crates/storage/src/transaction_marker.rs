//! Finding the control record that ends a transaction in a partition.

use record::{ControlRecord, Decompressor, EndTransactionMarker, RecordBatch};

/// Markers have no need of compression; this bounds anybody else's.
const RECORDS_BYTES_MAX: usize = 4096;

/// The marker in a control batch; `None` for control records of other kinds and for bytes that
/// are none.
pub(crate) fn transaction_marker(batch: &RecordBatch<'_>) -> Option<EndTransactionMarker> {
    if !batch.is_control() || !batch.has_producer_id() {
        return None;
    }
    let mut scratch = Vec::new();
    let mut decompressor = Decompressor::new();
    let records = batch.records(&mut decompressor, &mut scratch, RECORDS_BYTES_MAX);
    let record = records.ok()?.next()?.ok()?;
    match ControlRecord::parse(&record) {
        Ok(ControlRecord::EndTransaction(marker)) => Some(marker),
        Ok(ControlRecord::Other(..)) | Err(_) => None,
    }
}
