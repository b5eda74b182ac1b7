//! A batch whose records are written again as they are read: with another codec, at offsets without
//! gaps.
//!
//! ```text
//!   codec or batch -> Source -> RecordSink -> CompressedStream -> batch
//! ```
//!
//! Key, value and headers of a record are copied as they are encoded, piece by piece where they have
//! not come out of their codec together. Memory is taken by the blocks of the two codecs and by the
//! batch that comes out, and that ends at its limit.

use model::varint::{size_of_varint, size_of_varlong, zigzag_i32, zigzag_i64};

use crate::batch_builder::{BatchHeader, Integers, RecordTotals};
use crate::batch_layout::{HEADER_SIZE_BYTES, NO_TIMESTAMP};
use crate::compression::CompressedStream;
use crate::parsed_header::ParsedHeader;
use crate::record_layout::{RecordLayout, RecordStart, Source, read_contents};

/// What becomes of records that are read one after the other.
pub(crate) trait RecordSink {
    /// Reads the key, the value and the headers of the next record, whose start has been read.
    fn take_record<S: Source>(
        &mut self,
        source: &mut S,
        start: RecordStart,
        timestamp: i64,
    ) -> Result<RecordLayout, S::Error>;
}

/// Records that are only looked at.
impl RecordSink for () {
    #[inline]
    fn take_record<S: Source>(
        &mut self,
        source: &mut S,
        start: RecordStart,
        _: i64,
    ) -> Result<RecordLayout, S::Error> {
        read_contents(source, start)
    }
}

/// A batch being written from the records of another one.
pub(crate) struct BatchRewriter<'a> {
    header: BatchHeader,
    stream: CompressedStream<'a>,
    /// Room for the header, then the records as far as they are compressed. Nothing if they are too
    /// large.
    output: Vec<u8>,
    max_bytes: usize,
    is_too_large: bool,
    base_timestamp: Option<i64>,
    record_count: i32,
}

impl<'a> BatchRewriter<'a> {
    /// A batch without records yet, which may take `max_bytes`.
    pub(crate) fn new(header: BatchHeader, stream: CompressedStream<'a>, max_bytes: usize) -> Self {
        Self {
            header,
            stream,
            output: vec![0; HEADER_SIZE_BYTES],
            max_bytes,
            is_too_large: false,
            base_timestamp: header.delete_horizon_ms,
            record_count: 0,
        }
    }

    /// The batch, with the time of append or the greatest timestamp of its records; `None` if it is
    /// too large.
    pub(crate) fn finish(mut self, max_timestamp: i64) -> Option<(Vec<u8>, ParsedHeader)> {
        if self.is_too_large {
            return None;
        }
        let compression = self.stream.compression();
        self.stream.finish(&mut self.output);
        if self.output.len() > self.max_bytes {
            return None;
        }
        self.header.max_timestamp = Some(max_timestamp);
        let totals = RecordTotals {
            base_timestamp: self.base_timestamp,
            max_timestamp: NO_TIMESTAMP,
            last_offset: self.header.base_offset + i64::from(self.record_count) - 1,
            record_count: self.record_count,
        };
        let header = self.header.write(&totals, compression, &mut self.output);
        Some((self.output, header))
    }

    /// Writes what stands before the key of the next record, whose key, value and headers take
    /// `contents_bytes`.
    #[inline]
    fn begin_record(&mut self, timestamp: i64, offset_delta: i32, contents_bytes: usize) {
        let base_timestamp = *self.base_timestamp.get_or_insert(timestamp);
        let timestamp_delta = timestamp.wrapping_sub(base_timestamp);
        self.record_count += 1;
        let body_bytes =
            1 + size_of_varlong(timestamp_delta) + size_of_varint(offset_delta) + contents_bytes;
        // A record may claim any size before a byte of it is there.
        let Ok(body_bytes) = i32::try_from(body_bytes) else {
            self.give_up();
            return;
        };
        let mut integers = Integers::default();
        integers.push(zigzag_i32(body_bytes).into());
        integers.push(0);
        integers.push(zigzag_i64(timestamp_delta));
        integers.push(zigzag_i32(offset_delta).into());
        self.write(integers.as_slice());
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if self.is_too_large {
            return;
        }
        self.stream.write(bytes, &mut self.output);
        if self.output.len() > self.max_bytes {
            self.give_up();
        }
    }

    /// Writes nothing any more. The records are read to their end nevertheless: they may be refused for
    /// another reason, which then is the one to tell.
    #[cold]
    fn give_up(&mut self) {
        self.is_too_large = true;
        self.output = Vec::new();
    }
}

impl RecordSink for BatchRewriter<'_> {
    #[inline]
    fn take_record<S: Source>(
        &mut self,
        source: &mut S,
        start: RecordStart,
        timestamp: i64,
    ) -> Result<RecordLayout, S::Error> {
        self.copy_record(source, start, timestamp, self.record_count)
    }
}

impl BatchRewriter<'_> {
    /// Reads and writes the rest of a record whose start has been read.
    #[inline]
    pub(crate) fn copy_record<S: Source>(
        &mut self,
        source: &mut S,
        start: RecordStart,
        timestamp: i64,
        offset_delta: i32,
    ) -> Result<RecordLayout, S::Error> {
        // A record that ends before its contents begin is refused when they are read.
        let contents_bytes = start.end.saturating_sub(source.position());
        self.begin_record(timestamp, offset_delta, contents_bytes);
        if let Some(contents) = source.window()?.get(..contents_bytes) {
            self.write(contents);
            return read_contents(source, start);
        }
        let mut copied = CopiedSource {
            source,
            rewriter: self,
        };
        read_contents(&mut copied, start)
    }
}

/// A source whose bytes are written as they are passed over.
struct CopiedSource<'s, 'r, 'a, S> {
    source: &'s mut S,
    rewriter: &'r mut BatchRewriter<'a>,
}

impl<S: Source> Source for CopiedSource<'_, '_, '_, S> {
    type Error = S::Error;

    fn window(&mut self) -> Result<&[u8], S::Error> {
        self.source.window()
    }

    fn pass(&mut self, count: usize, mut show: impl FnMut(&[u8])) -> Result<(), S::Error> {
        self.source.pass(count, |piece| {
            self.rewriter.write(piece);
            show(piece);
        })
    }

    fn skip(&mut self, count: usize) -> Result<(), S::Error> {
        self.pass(count, |_| ())
    }

    fn position(&self) -> usize {
        self.source.position()
    }
}
