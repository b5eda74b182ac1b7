//! Records, borrowed from the bytes that hold them.
//!
//! A compressed batch is decompressed into the caller's scratch buffer, up to the caller's limit;
//! the records of an uncompressed batch are slices of the batch itself.

use std::borrow::Cow;

use model::Offset;

use crate::attributes::TimestampType;
use crate::batch::RecordBatch;
use crate::compression::{Compression, Decompressor, Expanded};
use crate::read_error::{InvalidRecord, ReadRecordsError};
use crate::record_layout::{SliceSource, Source, read_record, skip_header};
use crate::record_stream::StreamSource;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Unused by every version of the format.
    pub attributes: i8,
    /// Time of creation or of append, in ms; -1 for none.
    pub timestamp: i64,
    /// Offset in the partition.
    pub offset: Offset,
    /// The key, if any.
    pub key: Option<&'a [u8]>,
    /// The value; a record without one is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, in the producer's order.
    pub headers: Headers<'a>,
}

/// One header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The key. Kafka means UTF-8 but never checks it.
    pub key: &'a [u8],
    /// The value, if any.
    pub value: Option<&'a [u8]>,
}

impl<'a> Header<'a> {
    /// The key as text, with replacement characters for what is not UTF-8, as Java reads it.
    pub fn key_text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.key)
    }
}

/// The headers of a record, checked when the record was read and decoded when they are iterated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Headers<'a> {
    /// How many headers there are.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The headers as they are encoded, without their count.
    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The headers, in order.
    pub fn iter(&self) -> impl Iterator<Item = Header<'a>> + use<'a> {
        let end = self.bytes.len();
        let mut source = SliceSource::new(self.bytes);
        (0..self.count).map(move |_| {
            let (key, value) = skip_header(&mut source, end)
                .expect("the headers were read together with their record");
            Header {
                key: source.slice(key),
                value: value.map(|value| source.slice(value)),
            }
        })
    }
}

/// The records of a batch, in order of their offsets.
///
/// The first fault is the last item. Bytes after the last record are a fault too.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    source: SliceSource<'a>,
    base_offset: Offset,
    base_timestamp: i64,
    log_append_time: Option<i64>,
    left_count: i32,
    is_ended: bool,
}

/// Where reading the records of a batch goes on after some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    position: usize,
    left_count: i32,
}

impl<'a> Records<'a> {
    /// The records of `batch` when `bytes` are what they are after decompression; the batch's own
    /// bytes if it is not compressed.
    pub fn decoded(batch: &RecordBatch<'_>, bytes: &'a [u8]) -> Self {
        Self::new(batch, bytes)
    }

    /// As [`Records::decoded`], but without the records before `start`, which comes from other
    /// records of the same batch.
    pub fn resume(batch: &RecordBatch<'_>, bytes: &'a [u8], start: ResumePoint) -> Self {
        Self {
            source: SliceSource::starting_at(bytes, start.position),
            left_count: start.left_count,
            ..Self::new(batch, bytes)
        }
    }

    /// Where the next record stands.
    pub fn resume_point(&self) -> ResumePoint {
        ResumePoint {
            position: self.source.position(),
            left_count: self.left_count,
        }
    }

    /// The records of `batch`, which are `bytes` after decompression.
    pub(crate) fn new(batch: &RecordBatch<'_>, bytes: &'a [u8]) -> Self {
        let log_append_time = match batch.timestamp_type() {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(batch.max_timestamp()),
        };
        Self {
            source: SliceSource::new(bytes),
            base_offset: batch.base_offset(),
            base_timestamp: batch.base_timestamp(),
            log_append_time,
            left_count: batch.record_count(),
            is_ended: false,
        }
    }

    #[inline]
    fn read(&mut self) -> Result<Option<Record<'a>>, InvalidRecord> {
        match self.left_count {
            0 if self.source.is_at_end() => return Ok(None),
            0 => return Err(InvalidRecord::TrailingBytes),
            ..0 => return Err(InvalidRecord::NegativeRecordCount),
            _ => self.left_count -= 1,
        }
        let layout = read_record(&mut self.source)?;
        let timestamp = self.base_timestamp.wrapping_add(layout.timestamp_delta);
        Ok(Some(Record {
            attributes: layout.attributes,
            timestamp: self.log_append_time.unwrap_or(timestamp),
            offset: self
                .base_offset
                .wrapping_add(i64::from(layout.offset_delta)),
            key: layout.key.map(|key| self.source.slice(key)),
            value: layout.value.map(|value| self.source.slice(value)),
            headers: Headers {
                bytes: self.source.slice(layout.headers),
                count: layout.header_count,
            },
        }))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, InvalidRecord>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_ended {
            return None;
        }
        let record = self.read().transpose();
        self.is_ended = !matches!(record, Some(Ok(_)));
        record
    }
}

impl std::iter::FusedIterator for Records<'_> {}

impl<'a> RecordBatch<'a> {
    /// The records. Those of a compressed batch are decompressed into `scratch`, whose former
    /// contents are lost; more than `limit_bytes` of them are an error.
    pub fn records<'s>(
        &self,
        decompressor: &mut Decompressor,
        scratch: &'s mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<Records<'s>, ReadRecordsError>
    where
        'a: 's,
    {
        let attributes = self.attributes();
        let unknown_codec = || ReadRecordsError::UnknownCodec(attributes.compression_id());
        let bytes = match attributes.compression().ok_or_else(unknown_codec)? {
            Compression::None => self.records_bytes(),
            codec => {
                scratch.clear();
                decompressor.decompress(codec, self.records_bytes(), limit_bytes, scratch)?;
                scratch
            }
        };
        Ok(Records::new(self, bytes))
    }
}

impl RecordBatch<'_> {
    /// The timestamp and offset of the first record that `is_wanted`, which is given both. Records
    /// of a compressed batch are looked at as they come out of the codec: the memory depends neither
    /// on them nor on what they expand to. More than `limit_bytes` are an error.
    pub fn find_record(
        &self,
        decompressor: &mut Decompressor,
        limit_bytes: usize,
        is_wanted: impl Fn(i64, Offset) -> bool,
    ) -> Result<Option<(i64, Offset)>, ReadRecordsError> {
        let attributes = self.attributes();
        let unknown_codec = || ReadRecordsError::UnknownCodec(attributes.compression_id());
        match attributes.compression().ok_or_else(unknown_codec)? {
            Compression::None => {
                let mut source = SliceSource::new(self.records_bytes());
                Ok(self.find_in(&mut source, is_wanted)?)
            }
            codec => {
                let stream = decompressor.start(codec, self.records_bytes(), limit_bytes);
                self.find_in(
                    &mut StreamSource::new(stream, &mut Expanded::default()),
                    is_wanted,
                )
            }
        }
    }

    fn find_in<S: Source>(
        &self,
        source: &mut S,
        is_wanted: impl Fn(i64, Offset) -> bool,
    ) -> Result<Option<(i64, Offset)>, S::Error> {
        for _ in 0..self.record_count() {
            let layout = read_record(source)?;
            let timestamp = match self.timestamp_type() {
                TimestampType::CreateTime => {
                    self.base_timestamp().wrapping_add(layout.timestamp_delta)
                }
                TimestampType::LogAppendTime => self.max_timestamp(),
            };
            let offset_delta = i64::from(layout.offset_delta);
            let offset = self.base_offset().wrapping_add(offset_delta);
            if is_wanted(timestamp, offset) {
                return Ok(Some((timestamp, offset)));
            }
        }
        Ok(None)
    }
}

/// Reads arbitrary bytes as the records of a batch, uncompressed or not.
pub fn fuzz_records(bytes: &[u8]) {
    const LIMIT_BYTES: usize = 1 << 20;
    let Ok((batch, _)) = RecordBatch::parse(bytes) else {
        return;
    };
    let mut scratch = Vec::new();
    let records = batch.records(&mut Decompressor::new(), &mut scratch, LIMIT_BYTES);
    let Ok(records) = records else { return };
    let mut count = 0;
    let mut is_failed = false;
    for record in records {
        assert!(!is_failed, "the first fault is the last item");
        match record {
            Ok(record) => {
                count += 1;
                assert_eq!(record.headers.iter().count(), record.headers.len());
            }
            Err(_) => is_failed = true,
        }
    }
    assert!(is_failed || count == batch.record_count());
}

#[cfg(test)]
mod tests;
