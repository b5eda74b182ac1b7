//! Where a buffered record came from, as suppress and grace buffers keep it:
//!
//! ```text
//!   i64 timestamp │ i64 offset │ i32 length, topic │ i32 partition
//!                 │ i32 count of headers or -1 │ (i32 length, key, i32 length or -1, value)*
//! ```

use super::FormatError;
use super::field_reader::{FieldReader, write_count, write_sized};
use record::Header;

/// Kafka Streams' `ProcessorRecordContext`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessorRecordContext<'a> {
    /// Of the record, in ms.
    pub timestamp_ms: i64,
    /// Of the record in its partition.
    pub offset: i64,
    /// The topic that the record came from.
    pub topic: &'a str,
    /// The partition that the record came from.
    pub partition: i32,
    /// The record's headers.
    pub headers: Vec<Header<'a>>,
}

impl<'a> ProcessorRecordContext<'a> {
    /// Reads the context that the reader is at.
    pub(super) fn read(reader: &mut FieldReader<'a>) -> Result<Self, FormatError> {
        Ok(Self {
            timestamp_ms: reader.i64()?,
            offset: reader.i64()?,
            topic: reader.text()?,
            partition: reader.i32()?,
            headers: read_headers(reader)?,
        })
    }

    /// Appends the context.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp_ms.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        write_sized(Some(self.topic.as_bytes()), out);
        out.extend_from_slice(&self.partition.to_be_bytes());
        write_count(self.headers.len(), out);
        for header in &self.headers {
            write_sized(Some(header.key), out);
            write_sized(header.value, out);
        }
    }
}

fn read_headers<'a>(reader: &mut FieldReader<'a>) -> Result<Vec<Header<'a>>, FormatError> {
    if let Some([0xff, 0xff, 0xff, 0xff]) = reader.rest().first_chunk() {
        reader.i32()?;
        return Ok(Vec::new());
    }
    reader.list(8, |reader| {
        Ok(Header {
            key: reader.sized()?,
            value: reader.nullable_sized()?,
        })
    })
}
