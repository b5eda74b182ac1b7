//! The records of one batch for those who look at each: expanded in memory or, where they would take
//! too much of it, as they come out of their codec.

use model::Offset;
use record::{
    Compression, DecompressError, Decompressor, ReadRecordsError, RecordBatch, RecordVisitor,
    Records, VisitedRecord,
};

use super::offset_map::{KeyHasher, OffsetMap};
use crate::config::LogConfig;

/// Decompressed, a batch may be this many times `max.message.bytes`, and no more than the floor
/// below needs.
const EXPANSION_MAX: usize = 1024;
const EXPANSION_FLOOR_BYTES: usize = 64 << 20;

/// What expands to more is not kept in memory. It is decompressed again for each look at it.
const IN_MEMORY_BYTES: usize = 16 << 20;

/// Where the records of compressed batches are decompressed.
pub(super) struct RecordBuffers {
    pub(super) decompressor: Decompressor,
    scratch: Vec<u8>,
    pub(super) limit_bytes: usize,
}

impl RecordBuffers {
    pub(super) fn new(config: &LogConfig) -> Self {
        let max_bytes = config.max_message_bytes as usize;
        Self {
            decompressor: Decompressor::new(),
            scratch: Vec::new(),
            limit_bytes: max_bytes
                .saturating_mul(EXPANSION_MAX)
                .clamp(EXPANSION_FLOOR_BYTES, i32::MAX as usize),
        }
    }

    /// The records of a batch.
    pub(super) fn records<'s, 'a: 's>(
        &'s mut self,
        batch: &RecordBatch<'a>,
    ) -> Result<BatchRecords<'s>, ReadRecordsError> {
        let bytes = batch.records_bytes();
        let codec = batch.compression();
        let unknown_codec = || ReadRecordsError::UnknownCodec(batch.attributes().compression_id());
        let codec = codec.ok_or_else(unknown_codec)?;
        if codec == Compression::None {
            return Ok(BatchRecords::InMemory(Records::decoded(batch, bytes)));
        }
        self.scratch.clear();
        let kept_bytes = self.limit_bytes.min(IN_MEMORY_BYTES);
        let expanded = self
            .decompressor
            .decompress(codec, bytes, kept_bytes, &mut self.scratch);
        match expanded {
            Ok(()) => Ok(BatchRecords::InMemory(Records::decoded(
                batch,
                &self.scratch,
            ))),
            Err(DecompressError::TooLarge { .. }) if kept_bytes < self.limit_bytes => {
                self.scratch = Vec::new();
                Ok(BatchRecords::Streamed(self))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The records of one batch.
pub(super) enum BatchRecords<'s> {
    InMemory(Records<'s>),
    /// They come out of their codec as they are looked at.
    Streamed(&'s mut RecordBuffers),
}

impl BatchRecords<'_> {
    /// Shows the records of `batch`, which these are.
    pub(super) fn visit(
        &mut self,
        batch: &RecordBatch<'_>,
        visitor: &mut impl RecordVisitor,
    ) -> Result<(), ReadRecordsError> {
        let records = match self {
            Self::InMemory(records) => records.clone(),
            Self::Streamed(buffers) => {
                let limit_bytes = buffers.limit_bytes;
                return batch.visit_records(&mut buffers.decompressor, limit_bytes, visitor);
            }
        };
        for record in records {
            let record = record?;
            record.key.into_iter().for_each(|key| visitor.show_key(key));
            let visited = VisitedRecord {
                offset: record.offset,
                has_key: record.key.is_some(),
                has_value: record.value.is_some(),
            };
            if !visitor.visit(visited) {
                break;
            }
        }
        Ok(())
    }
}

/// Notes the keys of records in a map until it is full.
pub(super) struct KeyIndexer<'m> {
    map: &'m mut OffsetMap,
    /// Records before are not noted.
    first_offset: Offset,
    key: KeyHasher,
    pub(super) is_full: bool,
}

impl<'m> KeyIndexer<'m> {
    pub(super) fn new(map: &'m mut OffsetMap, first_offset: Offset) -> Self {
        Self {
            key: map.hasher(),
            map,
            first_offset,
            is_full: false,
        }
    }
}

impl RecordVisitor for KeyIndexer<'_> {
    fn show_key(&mut self, part: &[u8]) {
        self.key.write(part);
    }

    fn visit(&mut self, record: VisitedRecord) -> bool {
        if record.has_key {
            let is_noted = record.offset >= self.first_offset;
            self.is_full = is_noted && !self.map.put_digest(&self.key, record.offset);
            self.key = self.map.hasher();
        }
        !self.is_full
    }
}
