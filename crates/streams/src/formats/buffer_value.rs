//! What the buffers of suppress and of stream-table joins with grace keep, and what their
//! changelogs say.
//!
//! ```text
//!   buffer       context │ prior │ old, length -2 for the same as prior │ new
//!   changelog    the same │ i64 time in the buffer            header v = 3
//! ```
//!
//! Prior, old and new are an i32 length or -1 and as many bytes. Changelogs may still hold what
//! older releases wrote, which the header `v` tells ([`BufferVersion`]).

use super::FormatError;
use super::field_reader::{FieldReader, write_sized};
use super::record_context::ProcessorRecordContext;

/// The header of a changelog record that says its version, but for version 0.
pub const VERSION_HEADER: &str = "v";
/// The value of that header as this release writes it.
pub const VERSION_HEADER_VALUE: [u8; 1] = [3];

const SAME_AS_PRIOR: i32 = -2;

/// A change of a key that is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferValue<'a> {
    /// Of the record that made the change.
    pub context: ProcessorRecordContext<'a>,
    /// The value that was last emitted, or that the table had before the first change held back.
    pub prior: Option<&'a [u8]>,
    /// The value before the change.
    pub old: Option<&'a [u8]>,
    /// The value after the change.
    pub new: Option<&'a [u8]>,
}

impl<'a> BufferValue<'a> {
    /// Reads what a buffer keeps.
    ///
    /// # Errors
    /// When the bytes end early or late, or a length is wrong.
    pub fn read(stored: &'a [u8]) -> Result<Self, FormatError> {
        let mut reader = FieldReader::new(stored);
        let value = Self::read_at(&mut reader)?;
        reader.end()?;
        Ok(value)
    }

    fn read_at(reader: &mut FieldReader<'a>) -> Result<Self, FormatError> {
        let context = ProcessorRecordContext::read(reader)?;
        let prior = reader.nullable_sized()?;
        let old = match reader.i32()? {
            SAME_AS_PRIOR => prior,
            -1 => None,
            length => Some(reader.take(length)?),
        };
        Ok(Self {
            context,
            prior,
            old,
            new: reader.nullable_sized()?,
        })
    }

    /// Appends what a buffer keeps.
    ///
    /// # Panics
    /// When a value takes 2 GiB or more.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.context.write(out);
        write_sized(self.prior, out);
        match self.old {
            Some(_) if self.old == self.prior => {
                out.extend_from_slice(&SAME_AS_PRIOR.to_be_bytes());
            }
            old => write_sized(old, out),
        }
        write_sized(self.new, out);
    }

    /// The value of the changelog record, whose header says [`VERSION_HEADER_VALUE`].
    ///
    /// # Panics
    /// When a value takes 2 GiB or more.
    pub fn to_changelog(&self, buffer_time_ms: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes.extend_from_slice(&buffer_time_ms.to_be_bytes());
        bytes
    }
}

/// The version of a changelog record of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferVersion {
    /// Without the header: time, change.
    Zero,
    /// Time, context, change.
    One,
    /// Context, change, prior, time. Some releases wrote version 3 under this number.
    Two,
    /// What is written today.
    Three,
}

impl BufferVersion {
    /// The version that the value of the header says; `None` is a record without the header.
    ///
    /// # Errors
    /// When there is no such version.
    pub fn of_header(value: Option<&[u8]>) -> Result<Self, FormatError> {
        match value {
            None => Ok(Self::Zero),
            Some([1]) => Ok(Self::One),
            Some([2]) => Ok(Self::Two),
            Some([3]) => Ok(Self::Three),
            Some([]) => Err(FormatError::Truncated),
            Some([first, ..]) => Err(FormatError::UnknownVersion(i32::from(*first))),
        }
    }
}

/// What a changelog record of a buffer says of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferChange<'a> {
    /// Of the record that made the change; version 0 leaves it to the changelog record itself.
    pub context: Option<ProcessorRecordContext<'a>>,
    /// The prior value; versions 0 and 1 do not say it ([`prior_or`](Self::prior_or)).
    pub prior: Option<Option<&'a [u8]>>,
    /// The value before the change.
    pub old: Option<&'a [u8]>,
    /// The value after the change.
    pub new: Option<&'a [u8]>,
    /// The time by which the change is in the buffer.
    pub buffer_time_ms: i64,
}

impl<'a> BufferChange<'a> {
    /// The prior value. Where the version does not say it, it is that of the change of the key which
    /// is in the buffer already, and without one the old value.
    pub fn prior_or(&self, buffered: Option<&'a [u8]>) -> Option<&'a [u8]> {
        self.prior.unwrap_or(buffered.or(self.old))
    }

    /// Reads the value of a changelog record.
    ///
    /// # Errors
    /// When the bytes are not of the version.
    pub fn read(version: BufferVersion, value: &'a [u8]) -> Result<Self, FormatError> {
        let mut reader = FieldReader::new(value);
        let change = match version {
            BufferVersion::Zero => {
                let buffer_time_ms = reader.i64()?;
                let (old, new) = read_old_change(&mut reader)?;
                Self {
                    context: None,
                    prior: None,
                    old,
                    new,
                    buffer_time_ms,
                }
            }
            BufferVersion::One => {
                let buffer_time_ms = reader.i64()?;
                let context = ProcessorRecordContext::read(&mut reader)?;
                let (old, new) = read_sized_old_change(&mut reader)?;
                Self {
                    context: Some(context),
                    prior: None,
                    old,
                    new,
                    buffer_time_ms,
                }
            }
            BufferVersion::Two => match read_second_version(value) {
                Ok(change) => return Ok(change),
                Err(error) => {
                    return Self::read(BufferVersion::Three, value).map_err(|_| error);
                }
            },
            BufferVersion::Three => {
                let value = BufferValue::read_at(&mut reader)?;
                Self {
                    context: Some(value.context),
                    prior: Some(value.prior),
                    old: value.old,
                    new: value.new,
                    buffer_time_ms: reader.i64()?,
                }
            }
        };
        reader.end()?;
        Ok(change)
    }
}

fn read_second_version(value: &[u8]) -> Result<BufferChange<'_>, FormatError> {
    let mut reader = FieldReader::new(value);
    let context = ProcessorRecordContext::read(&mut reader)?;
    let (old, new) = read_sized_old_change(&mut reader)?;
    let change = BufferChange {
        context: Some(context),
        prior: Some(reader.nullable_sized()?),
        old,
        new,
        buffer_time_ms: reader.i64()?,
    };
    reader.end()?;
    Ok(change)
}

type OldAndNew<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// The change format of older releases in as many bytes as a length before it says.
fn read_sized_old_change<'a>(reader: &mut FieldReader<'a>) -> Result<OldAndNew<'a>, FormatError> {
    let mut change = FieldReader::new(reader.sized()?);
    let values = read_old_change(&mut change)?;
    change.end()?;
    Ok(values)
}

/// The change format of older releases: the old value, and the new one.
fn read_old_change<'a>(reader: &mut FieldReader<'a>) -> Result<OldAndNew<'a>, FormatError> {
    Ok((reader.nullable_sized()?, reader.nullable_sized()?))
}

/// Takes any bytes for what a buffer keeps and logs.
pub fn fuzz_buffer(bytes: &[u8]) {
    if let Ok(value) = BufferValue::read(bytes) {
        let mut written = Vec::new();
        value.write(&mut written);
        assert_eq!(BufferValue::read(&written).as_ref(), Ok(&value));
    }
    for version in [BufferVersion::Zero, BufferVersion::One, BufferVersion::Two] {
        let _ = BufferChange::read(version, bytes);
    }
    let Ok(change) = BufferChange::read(BufferVersion::Three, bytes) else {
        return;
    };
    let value = BufferValue {
        context: change.context.clone().expect("version 3 has it"),
        prior: change.prior.expect("version 3 has it"),
        old: change.old,
        new: change.new,
    };
    let written = value.to_changelog(change.buffer_time_ms);
    let again = BufferChange::read(BufferVersion::Three, &written);
    assert_eq!(again, Ok(change));
}

#[cfg(test)]
mod tests;
