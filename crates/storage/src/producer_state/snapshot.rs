//! `%020d.snapshot`: the state at an offset, so that only later batches need replaying.
//!
//! ```text
//!   i16 version 1 | u32 CRC-32C of what follows | i32 count
//!   per producer, 46 bytes: i64 producer id | i16 epoch | i32 last sequence | i64 last offset |
//!     i32 offset delta | i64 timestamp | i32 coordinator epoch | i64 first offset of the open
//!     transaction or -1
//! ```
//!
//! Of each producer's batches only the last is kept. All big-endian.

use model::{Offset, ProducerEpoch, ProducerId, Reader};

use super::{ProducerBatch, ProducerEntry, ProducerState};

const VERSION: i16 = 1;
/// What each producer takes.
pub(crate) const ENTRY_BYTES: usize = 46;
const HEAD_BYTES: usize = 6;

impl ProducerState {
    /// The bytes of the snapshot at [`ProducerState::end_offset`].
    pub(crate) fn to_snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(10 + self.producers.len() * ENTRY_BYTES);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let count = i32::try_from(self.producers.len()).expect("fewer than 2^31 producers");
        bytes.extend_from_slice(&count.to_be_bytes());
        for (producer_id, entry) in self.producers() {
            let last = entry.batches().last();
            let last_offset = last.map_or(Offset::NONE, |batch| batch.last_offset);
            let offset_delta = last.map_or(0, |batch| batch.offset_delta);
            let transaction = entry.transaction_first_offset().unwrap_or(Offset::NONE);
            bytes.extend_from_slice(&producer_id.0.to_be_bytes());
            bytes.extend_from_slice(&entry.producer_epoch().0.to_be_bytes());
            bytes.extend_from_slice(&entry.last_sequence().to_be_bytes());
            bytes.extend_from_slice(&last_offset.0.to_be_bytes());
            bytes.extend_from_slice(&offset_delta.to_be_bytes());
            bytes.extend_from_slice(&entry.last_timestamp_ms().to_be_bytes());
            bytes.extend_from_slice(&entry.coordinator_epoch().to_be_bytes());
            bytes.extend_from_slice(&transaction.0.to_be_bytes());
        }
        let crc = crc32c::crc32c(&bytes[HEAD_BYTES..]);
        bytes[2..HEAD_BYTES].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// The state that a snapshot at `offset` describes.
    pub(crate) fn from_snapshot(bytes: &[u8], offset: Offset) -> Result<Self, String> {
        let mut reader = Reader::new(bytes);
        let truncated = |_| "it is truncated".to_owned();
        let version = reader.i16().map_err(truncated)?;
        if version != VERSION {
            return Err(format!("its version is {version}, not {VERSION}"));
        }
        let crc = reader.u32().map_err(truncated)?;
        if crc32c::crc32c(reader.remaining()) != crc {
            return Err("its crc does not match".to_owned());
        }
        let count = reader.i32().map_err(truncated)?;
        if usize::try_from(count).map(|count| count * ENTRY_BYTES) != Ok(reader.remaining().len()) {
            return Err(format!("its length does not fit {count} producers"));
        }
        let mut state = Self::empty(offset);
        while !reader.is_empty() {
            let (producer_id, entry) = read_entry(&mut reader).map_err(truncated)?;
            let known = state
                .producers
                .insert(ProducerId(producer_id), Box::new(entry))
                .is_some();
            let transaction = entry.transaction_first_offset();
            if known
                || transaction
                    .is_some_and(|at| state.open.insert(at, ProducerId(producer_id)).is_some())
            {
                return Err(format!("it tells of producer {producer_id} twice"));
            }
        }
        Ok(state)
    }
}

fn read_entry(reader: &mut Reader<'_>) -> Result<(i64, ProducerEntry), model::DecodeError> {
    let producer_id = reader.i64()?;
    let producer_epoch = reader.i16()?;
    let last_sequence = reader.i32()?;
    let last_offset = Offset(reader.i64()?);
    let offset_delta = reader.i32()?;
    let timestamp_ms = reader.i64()?;
    let coordinator_epoch = reader.i32()?;
    let transaction_first_offset = Offset(reader.i64()?);
    let last_batch = ProducerBatch {
        last_sequence,
        last_offset,
        offset_delta,
        timestamp_ms,
    };
    let entry = ProducerEntry::restored(
        ProducerEpoch(producer_epoch),
        coordinator_epoch,
        timestamp_ms,
        (!transaction_first_offset.is_none()).then_some(transaction_first_offset),
        (!last_offset.is_none()).then_some(last_batch),
    );
    Ok((producer_id, entry))
}

/// Takes any bytes for a snapshot, with and without a right checksum: what it accepts must come
/// back from its own bytes.
pub fn fuzz_producer_snapshot(bytes: &[u8]) {
    let _ = ProducerState::from_snapshot(bytes, Offset::ZERO);
    let mut bytes = bytes.to_vec();
    if let Some((_, covered)) = bytes.split_at_checked(HEAD_BYTES) {
        let crc = crc32c::crc32c(covered);
        bytes[2..HEAD_BYTES].copy_from_slice(&crc.to_be_bytes());
    }
    if let Ok(state) = ProducerState::from_snapshot(&bytes, Offset::ZERO) {
        let again = ProducerState::from_snapshot(&state.to_snapshot(), Offset::ZERO);
        assert_eq!(again, Ok(state), "a snapshot is what it was written from");
    }
}
