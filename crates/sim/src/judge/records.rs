//! The records that a consumer finds in what a fetch has brought.

use crate::protocol::Fetched;
use model::{LeaderEpoch, ProducerId};
use record::{Batches, ControlRecord, Decompressor, TransactionResult};
use std::collections::BTreeSet;

/// A record that a consumer has read.
#[derive(Debug)]
pub(crate) struct ReadRecord {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) value: String,
}

#[derive(Debug, Default)]
pub(super) struct ReadRecords {
    pub(super) records: Vec<ReadRecord>,
    /// The offset after the last batch.
    pub(super) end: Option<i64>,
}

/// The records that a consumer shows its application, as a client of Kafka finds them.
pub(super) fn records_of(fetched: &Fetched, is_committed: bool) -> Result<ReadRecords, String> {
    let (mut decompressor, mut scratch) = (Decompressor::default(), Vec::new());
    // Each begins once: the producer goes on to other transactions.
    let mut begun: BTreeSet<(i64, ProducerId)> =
        fetched.aborted.iter().map(|one| (one.1.0, one.0)).collect();
    let mut aborted = BTreeSet::new();
    let mut read = ReadRecords::default();
    for batch in Batches::new(&fetched.records) {
        let batch = batch.map_err(|error| error.to_string())?;
        if !batch.is_crc_valid() {
            return Err("a checksum is wrong".to_owned());
        }
        read.end = Some(batch.next_offset().0);
        let producer_id = batch.producer_id();
        while let Some((first, id)) = begun.first().copied()
            && first <= batch.last_offset().0
        {
            begun.pop_first();
            aborted.insert(id);
        }
        let records = batch.records(&mut decompressor, &mut scratch, 1 << 20);
        for record in records.map_err(|error| error.to_string())? {
            let record = record.map_err(|error| error.to_string())?;
            if batch.is_control() {
                let ended = ControlRecord::parse(&record);
                if matches!(ended, Ok(ControlRecord::EndTransaction(marker))
                    if marker.result == TransactionResult::Abort)
                {
                    aborted.remove(&producer_id);
                }
            } else if !(is_committed && batch.is_transactional() && aborted.contains(&producer_id))
            {
                read.records.push(ReadRecord {
                    offset: record.offset.0,
                    leader_epoch: batch.partition_leader_epoch(),
                    value: String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned(),
                });
            }
        }
    }
    Ok(read)
}
