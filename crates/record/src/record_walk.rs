//! The records of a batch as they come out of its codec, for those who must not keep them: a batch of
//! a megabyte may expand to a thousand.
//!
//! The memory this takes depends neither on the records nor on what they expand to. What is written
//! of them again is a batch, and takes what that takes.

use crate::attributes::TimestampType;
use crate::batch::RecordBatch;
use crate::batch_builder::BatchHeader;
use crate::batch_layout::NO_TIMESTAMP;
use crate::batch_rewriter::BatchRewriter;
use crate::compression::{Codec, Compression, Compressor, Decompressor, Expanded};
use crate::read_error::{InvalidRecord, ReadRecordsError};
use crate::record_layout::{
    SliceSource, Source, read_contents, read_contents_and_show_key, read_start,
};
use crate::record_stream::StreamSource;
use model::Offset;

/// What is known of a record whose key has been shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitedRecord {
    /// Offset in the partition.
    pub offset: Offset,
    /// Whether it has a key.
    pub has_key: bool,
    /// Whether it has a value; a record without one is a tombstone.
    pub has_value: bool,
}

/// Looks at records.
pub trait RecordVisitor {
    /// The next part of the key of the record that is being read.
    fn show_key(&mut self, part: &[u8]);
    /// The record has been read; `false` ends the walk.
    fn visit(&mut self, record: VisitedRecord) -> bool;
}

/// What is done with the records of a batch, from a slice or a stream.
trait Walk {
    fn go<S: Source>(&mut self, batch: &RecordBatch<'_>, source: &mut S) -> Result<bool, S::Error>;
}

impl RecordBatch<'_> {
    /// Shows the records to a visitor, one after the other. More than `limit_bytes` are an error, and
    /// so are bytes after the last.
    ///
    /// # Errors
    /// What is wrong with the records, once those before were shown.
    pub fn visit_records(
        &self,
        decompressor: &mut Decompressor,
        limit_bytes: usize,
        visitor: &mut impl RecordVisitor,
    ) -> Result<(), ReadRecordsError> {
        self.walk(decompressor, limit_bytes, &mut Visit(visitor))
    }

    /// The batch with those of its records that `keeps` says, which is asked for each in turn: with
    /// this header and the same codec. `None` where that takes more than `max_bytes`.
    ///
    /// # Errors
    /// What is wrong with the records.
    pub fn with_kept_records(
        &self,
        header: BatchHeader,
        keeps: impl Iterator<Item = bool>,
        (decompressor, limit_bytes): (&mut Decompressor, usize),
        (compressor, max_bytes): (&mut Compressor, usize),
    ) -> Result<Option<Vec<u8>>, ReadRecordsError> {
        let codec = Codec::from(self.compression().unwrap_or_default());
        let mut rewriting = Rewriting {
            rewriter: BatchRewriter::new(header, compressor.start(codec), max_bytes),
            keeps,
            max_timestamp: NO_TIMESTAMP,
        };
        self.walk(decompressor, limit_bytes, &mut rewriting)?;
        let max_timestamp = header.max_timestamp.unwrap_or(rewriting.max_timestamp);
        let rewritten = rewriting.rewriter.finish(max_timestamp);
        Ok(rewritten.map(|(bytes, _)| bytes))
    }

    fn walk(
        &self,
        decompressor: &mut Decompressor,
        limit_bytes: usize,
        walk: &mut impl Walk,
    ) -> Result<(), ReadRecordsError> {
        if self.record_count() < 0 {
            return Err(InvalidRecord::NegativeRecordCount.into());
        }
        let attributes = self.attributes();
        let unknown_codec = || ReadRecordsError::UnknownCodec(attributes.compression_id());
        let is_at_end = match attributes.compression().ok_or_else(unknown_codec)? {
            Compression::None => {
                let mut source = SliceSource::new(self.records_bytes());
                !walk.go(self, &mut source)? || source.is_at_end()
            }
            codec => {
                let stream = decompressor.start(codec, self.records_bytes(), limit_bytes);
                let mut buffer = Expanded::default();
                let mut source = StreamSource::new(stream, &mut buffer);
                !walk.go(self, &mut source)? || source.is_at_end()?
            }
        };
        match is_at_end {
            true => Ok(()),
            false => Err(InvalidRecord::TrailingBytes.into()),
        }
    }

    /// The timestamp of a record with this delta.
    fn timestamp_of(&self, timestamp_delta: i64) -> i64 {
        match self.timestamp_type() {
            TimestampType::CreateTime => self.base_timestamp().wrapping_add(timestamp_delta),
            TimestampType::LogAppendTime => self.max_timestamp(),
        }
    }
}

struct Visit<'v, V>(&'v mut V);

impl<V: RecordVisitor> Walk for Visit<'_, V> {
    fn go<S: Source>(&mut self, batch: &RecordBatch<'_>, source: &mut S) -> Result<bool, S::Error> {
        for _ in 0..batch.record_count() {
            let start = read_start(source)?;
            let show = |part: &[u8]| self.0.show_key(part);
            let layout = read_contents_and_show_key(source, start, show)?;
            let record = VisitedRecord {
                offset: batch
                    .base_offset()
                    .wrapping_add(i64::from(layout.offset_delta)),
                has_key: layout.key.is_some(),
                has_value: layout.value.is_some(),
            };
            if !self.0.visit(record) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

struct Rewriting<'c, K> {
    rewriter: BatchRewriter<'c>,
    keeps: K,
    max_timestamp: i64,
}

impl<K: Iterator<Item = bool>> Walk for Rewriting<'_, K> {
    fn go<S: Source>(&mut self, batch: &RecordBatch<'_>, source: &mut S) -> Result<bool, S::Error> {
        for _ in 0..batch.record_count() {
            let start = read_start(source)?;
            if !self.keeps.next().unwrap_or_default() {
                read_contents(source, start)?;
                continue;
            }
            let timestamp = batch.timestamp_of(start.timestamp_delta);
            self.max_timestamp = self.max_timestamp.max(timestamp);
            self.rewriter
                .copy_record(source, start, timestamp, start.offset_delta)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch_builder::BatchBuilder;
    use crate::batch_layout::{ATTRIBUTES_OFFSET, HEADER_SIZE_BYTES};
    use proptest::prelude::*;

    const LIMIT_BYTES: usize = 64 << 20;

    /// What a visitor was shown.
    #[derive(Default)]
    struct Seen {
        key: Vec<u8>,
        records: Vec<(VisitedRecord, Vec<u8>)>,
        visits_max: usize,
    }

    impl RecordVisitor for Seen {
        fn show_key(&mut self, part: &[u8]) {
            self.key.extend_from_slice(part);
        }

        fn visit(&mut self, record: VisitedRecord) -> bool {
            let key = std::mem::take(&mut self.key);
            self.records.push((record, key));
            self.records.len() < self.visits_max
        }
    }

    type Nullable = Option<Vec<u8>>;

    fn text() -> impl Strategy<Value = Nullable> {
        // Longer than what comes out of a codec at once, too.
        let lengths = prop_oneof![9 => 0..40_usize, 1 => Just(200_000)];
        proptest::option::of((lengths, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]))
    }

    fn built(header: BatchHeader, codec: Compression, records: &[(Nullable, Nullable)]) -> Vec<u8> {
        let mut builder = BatchBuilder::new(header);
        for (at, (key, value)) in records.iter().enumerate() {
            builder.append(at as i64 * 7, key.as_deref(), value.as_deref(), &[]);
        }
        let mut bytes = Vec::new();
        builder.build(codec.into(), &mut Compressor::new(), &mut bytes);
        bytes
    }

    proptest! {
        #![proptest_config(trials::property(64))]

        #[test]
        fn what_is_seen_and_kept_is_what_is_there(
            records in proptest::collection::vec((text(), text(), any::<bool>()), 0..8),
            codec in proptest::sample::select(Compression::ALL.to_vec()),
            horizon_ms in proptest::option::of(0..1000_i64),
        ) {
            let contents: Vec<_> = records.iter().map(|(key, value, _)| (key.clone(), value.clone())).collect();
            let header = BatchHeader { base_offset: Offset(70), ..BatchHeader::default() };
            let bytes = built(header, codec, &contents);
            let (batch, _) = RecordBatch::parse(&bytes).unwrap();
            let mut decompressor = Decompressor::new();
            let mut seen = Seen { visits_max: usize::MAX, ..Seen::default() };
            batch.visit_records(&mut decompressor, LIMIT_BYTES, &mut seen).unwrap();
            let expected = (70..).zip(&contents).map(|(offset, (key, value))| {
                let record = VisitedRecord {
                    offset: Offset(offset),
                    has_key: key.is_some(),
                    has_value: value.is_some(),
                };
                (record, key.clone().unwrap_or_default())
            });
            prop_assert!(seen.records.iter().cloned().eq(expected));
            let mut first = Seen { visits_max: 1, ..Seen::default() };
            batch.visit_records(&mut decompressor, LIMIT_BYTES, &mut first).unwrap();
            prop_assert_eq!(first.records.len(), contents.len().min(1));

            let header = BatchHeader {
                last_offset: Some(batch.last_offset()),
                delete_horizon_ms: horizon_ms,
                ..BatchHeader::of(&batch)
            };
            let mut builder = BatchBuilder::new(header);
            let mut scratch = Vec::new();
            let all = batch.records(&mut Decompressor::new(), &mut scratch, LIMIT_BYTES).unwrap();
            for (record, (_, _, keeps)) in all.zip(&records) {
                let record = record.unwrap();
                if *keeps {
                    builder.append_record(record.offset, &record);
                }
            }
            let mut compressor = Compressor::new();
            let mut expected = Vec::new();
            builder.build(codec.into(), &mut compressor, &mut expected);
            let keeps = || records.iter().map(|(_, _, keeps)| *keeps);
            let mut kept = |max_bytes| batch.with_kept_records(
                header,
                keeps(),
                (&mut decompressor, LIMIT_BYTES),
                (&mut compressor, max_bytes),
            );
            let found = kept(usize::MAX).unwrap().unwrap();
            let (found, _) = RecordBatch::parse(&found).unwrap();
            let (expected, _) = RecordBatch::parse(&expected).unwrap();
            prop_assert!(found.is_crc_valid());
            let of_header = |batch: &RecordBatch<'_>| batch.bytes()[ATTRIBUTES_OFFSET..HEADER_SIZE_BYTES].to_vec();
            prop_assert_eq!(of_header(&found), of_header(&expected));
            let mut scratches = (Vec::new(), Vec::new());
            let found_records = found.records(&mut Decompressor::new(), &mut scratches.0, LIMIT_BYTES);
            let expected_records = expected.records(&mut Decompressor::new(), &mut scratches.1, LIMIT_BYTES);
            prop_assert!(found_records.unwrap().eq(expected_records.unwrap()));
            prop_assert_eq!(kept(found.size_in_bytes() - 1).unwrap(), None);
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let contents = [(Some(b"key".to_vec()), Some(vec![7; 1000]))];
        for codec in Compression::ALL {
            let bytes = built(BatchHeader::default(), codec, &contents);
            let visit = |bytes: &[u8], limit_bytes| {
                let (batch, _) = RecordBatch::parse(bytes).unwrap();
                let mut seen = Seen {
                    visits_max: usize::MAX,
                    ..Seen::default()
                };
                batch.visit_records(&mut Decompressor::new(), limit_bytes, &mut seen)
            };
            assert_eq!(visit(&bytes, 2000), Ok(()));
            let is_too_much = matches!(visit(&bytes, 500), Err(ReadRecordsError::Decompress(_)));
            assert_eq!(is_too_much, codec != Compression::None, "{codec:?}");
            for (count, expected) in [
                (2, InvalidRecord::Truncated),
                (-1, InvalidRecord::NegativeRecordCount),
                (0, InvalidRecord::TrailingBytes),
            ] {
                let mut other = bytes.clone();
                other[57..61].copy_from_slice(&i32::to_be_bytes(count));
                assert_eq!(visit(&other, 2000), Err(expected.into()), "{codec:?}");
            }
        }
    }
}
