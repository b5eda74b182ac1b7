//! The one place that knows the bytes of a record, over bytes in memory or out of a codec.
//!
//! ```text
//! varint length | i8 attributes | varlong timestamp delta | varint offset delta
//! | varint key length, key | varint value length, value
//! | varint header count | per header: varint key length, key, varint value length, value
//! ```
//!
//! A negative length is null, where null is allowed. The fields must fill `length` exactly.

use std::ops::Range;

use model::varint::{VarintError, read_varint, read_varlong};

use crate::read_error::InvalidRecord;

/// Bytes read from front to back.
pub(crate) trait Source {
    /// Adds the source's own faults to those of the records.
    type Error: From<InvalidRecord>;

    /// The bytes that come next: at least as many as the longest varint takes, unless the input
    /// ends before.
    fn window(&mut self) -> Result<&[u8], Self::Error>;

    /// Passes over bytes, of which there may be more than the window holds, and shows them piece by
    /// piece.
    fn pass(&mut self, count: usize, show: impl FnMut(&[u8])) -> Result<(), Self::Error>;

    /// Passes over bytes that nobody wants to see.
    fn skip(&mut self, count: usize) -> Result<(), Self::Error>;

    /// How many bytes have been passed over.
    fn position(&self) -> usize;
}

/// Where the parts of a record are, as positions of its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordLayout {
    pub(crate) attributes: i8,
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    pub(crate) key: Option<Range<usize>>,
    pub(crate) value: Option<Range<usize>>,
    pub(crate) headers: Range<usize>,
    pub(crate) header_count: usize,
}

/// What stands before the key of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordStart {
    pub(crate) attributes: i8,
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    /// The position at which the record claims to end.
    pub(crate) end: usize,
}

/// Where key and value of a header are.
pub(crate) type HeaderLayout = (Range<usize>, Option<Range<usize>>);

impl From<VarintError> for InvalidRecord {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            VarintError::TooLong => Self::BadVarint,
        }
    }
}

/// Reads one record.
#[inline]
pub(crate) fn read_record<S: Source>(source: &mut S) -> Result<RecordLayout, S::Error> {
    let start = read_start(source)?;
    read_contents(source, start)
}

/// Reads what stands before the key of a record.
#[inline]
pub(crate) fn read_start<S: Source>(source: &mut S) -> Result<RecordStart, S::Error> {
    let length = read_i32(source)?;
    let Ok(length) = usize::try_from(length) else {
        return Err(InvalidRecord::LengthMismatch.into());
    };
    let end = source.position() + length;
    let &[attributes, ..] = source.window()? else {
        return Err(InvalidRecord::Truncated.into());
    };
    source.skip(1)?;
    let (timestamp_delta, size) = read_varlong(source.window()?).map_err(InvalidRecord::from)?;
    source.skip(size)?;
    Ok(RecordStart {
        attributes: attributes as i8,
        timestamp_delta,
        offset_delta: read_i32(source)?,
        end,
    })
}

/// Reads the key, the value and the headers of a record, which must end where it claims.
#[inline]
pub(crate) fn read_contents<S: Source>(
    source: &mut S,
    start: RecordStart,
) -> Result<RecordLayout, S::Error> {
    let key = skip_nullable(source, start.end)?;
    read_after_key(source, start, key)
}

/// The same, and shows the key piece by piece.
pub(crate) fn read_contents_and_show_key<S: Source>(
    source: &mut S,
    start: RecordStart,
    show: impl FnMut(&[u8]),
) -> Result<RecordLayout, S::Error> {
    let key = read_length(source, start.end)?;
    if let Some(key) = &key {
        source.pass(key.len(), show)?;
    }
    read_after_key(source, start, key)
}

#[inline]
fn read_after_key<S: Source>(
    source: &mut S,
    start: RecordStart,
    key: Option<Range<usize>>,
) -> Result<RecordLayout, S::Error> {
    let end = start.end;
    let value = skip_nullable(source, end)?;
    let header_count = read_i32(source)?;
    let Ok(header_count) = usize::try_from(header_count) else {
        return Err(InvalidRecord::NegativeHeaderCount.into());
    };
    let headers_at = source.position();
    for _ in 0..header_count {
        skip_header(source, end)?;
    }
    if source.position() != end {
        return Err(InvalidRecord::LengthMismatch.into());
    }
    Ok(RecordLayout {
        attributes: start.attributes,
        timestamp_delta: start.timestamp_delta,
        offset_delta: start.offset_delta,
        key,
        value,
        headers: headers_at..end,
        header_count,
    })
}

/// Reads one header: its key and its value.
pub(crate) fn skip_header<S: Source>(source: &mut S, end: usize) -> Result<HeaderLayout, S::Error> {
    let Some(key) = skip_nullable(source, end)? else {
        return Err(InvalidRecord::NullHeaderKey.into());
    };
    Ok((key, skip_nullable(source, end)?))
}

#[inline]
fn read_i32<S: Source>(source: &mut S) -> Result<i32, S::Error> {
    let (value, size) = read_varint(source.window()?).map_err(InvalidRecord::from)?;
    source.skip(size)?;
    Ok(value)
}

#[inline]
fn skip_nullable<S: Source>(source: &mut S, end: usize) -> Result<Option<Range<usize>>, S::Error> {
    let Some(range) = read_length(source, end)? else {
        return Ok(None);
    };
    source.skip(range.len())?;
    Ok(Some(range))
}

/// Where the bytes are that come next, unless they are null.
#[inline]
fn read_length<S: Source>(source: &mut S, end: usize) -> Result<Option<Range<usize>>, S::Error> {
    let Ok(length) = usize::try_from(read_i32(source)?) else {
        return Ok(None);
    };
    let start = source.position();
    if end.checked_sub(start).is_none_or(|left| left < length) {
        return Err(InvalidRecord::LengthMismatch.into());
    }
    Ok(Some(start..start + length))
}

/// Bytes in memory.
#[derive(Clone, Debug)]
pub(crate) struct SliceSource<'a> {
    bytes: &'a [u8],
    /// The end of `bytes` that has not been passed over.
    rest: &'a [u8],
}

impl<'a> SliceSource<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, rest: bytes }
    }

    /// A source that has passed over the first `position` bytes, or over all if there are fewer.
    pub(crate) fn starting_at(bytes: &'a [u8], position: usize) -> Self {
        let rest = bytes.get(position..).unwrap_or_default();
        Self { bytes, rest }
    }

    /// The bytes of a range that has been passed over.
    pub(crate) fn slice(&self, range: Range<usize>) -> &'a [u8] {
        &self.bytes[range]
    }

    pub(crate) const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }
}

impl Source for SliceSource<'_> {
    type Error = InvalidRecord;

    #[inline]
    fn window(&mut self) -> Result<&[u8], InvalidRecord> {
        Ok(self.rest)
    }

    #[inline]
    fn pass(&mut self, count: usize, mut show: impl FnMut(&[u8])) -> Result<(), InvalidRecord> {
        let parts = self.rest.split_at_checked(count);
        let (passed, rest) = parts.ok_or(InvalidRecord::Truncated)?;
        show(passed);
        self.rest = rest;
        Ok(())
    }

    #[inline]
    fn skip(&mut self, count: usize) -> Result<(), InvalidRecord> {
        self.rest = self.rest.get(count..).ok_or(InvalidRecord::Truncated)?;
        Ok(())
    }

    #[inline]
    fn position(&self) -> usize {
        self.bytes.len() - self.rest.len()
    }
}
