//! Bytes to a value.

use crate::encode::width_bytes;
use crate::value::{Struct, Value, default_value};
use codegen::{Field, FieldType, Message, StructType};
use std::fmt;

/// The bytes are not the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The field that could not be read.
    pub field: String,
    /// Where in the bytes.
    pub position: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "field `{}` cannot be read at byte {}",
            self.field, self.position
        )
    }
}

impl std::error::Error for Malformed {}

/// Reads `bytes` as `message` in `version`; nothing may be left.
///
/// # Errors
/// [`Malformed`] names the field that is not as the schema says.
pub fn decode(message: &Message, version: i16, bytes: &[u8]) -> Result<Struct, Malformed> {
    let (value, length) = decode_front(message, version, bytes)?;
    if length == bytes.len() {
        Ok(value)
    } else {
        Err(Malformed {
            field: "(end)".into(),
            position: length,
        })
    }
}

/// Reads `message` in `version` at the front of `bytes`, and tells how many it took.
///
/// # Errors
/// As [`decode`].
pub fn decode_front(
    message: &Message,
    version: i16,
    bytes: &[u8],
) -> Result<(Struct, usize), Malformed> {
    let mut decoder = Decoder {
        message,
        version,
        flexible: version >= message.flexible_from,
        bytes,
        position: 0,
    };
    let mut field = String::new();
    match decoder.fields(message.root(), &mut field) {
        Some(value) => Ok((value, decoder.position)),
        None => Err(Malformed {
            field,
            position: decoder.position,
        }),
    }
}

struct Decoder<'a> {
    message: &'a Message,
    version: i16,
    flexible: bool,
    bytes: &'a [u8],
    position: usize,
}

/// What is read is `None` where the bytes are not as the schema says.
impl Decoder<'_> {
    /// `last` is set to the name of the field that is being read.
    fn fields(&mut self, one: &StructType, last: &mut String) -> Option<Struct> {
        let mut value = Struct::default();
        let version = self.version;
        let present = one.fields.iter().filter(|f| f.versions.contains(version));
        for field in present.clone() {
            last.clone_from(&field.name);
            let read = match field.tag {
                Some(_) => default_value(self.message, field, version),
                None => self.field(field, last)?,
            };
            value.fields.push((field.name.clone(), read));
        }
        if self.flexible {
            "(tagged fields)".clone_into(last);
            for _ in 0..self.unsigned_varint()? {
                let tag = self.unsigned_varint()?;
                let length = self.unsigned_varint()? as usize;
                let known = present.clone().find(|field| field.tag == Some(tag));
                let end = self.position.checked_add(length)?;
                match known {
                    Some(field) => {
                        let read = self.field(field, last)?;
                        value.set(&field.name, read);
                        if self.position != end {
                            return None;
                        }
                    }
                    None => value.unknown.push((tag, self.take(length)?.to_vec())),
                }
            }
        }
        Some(value)
    }

    fn field(&mut self, field: &Field, last: &mut String) -> Option<Value> {
        last.clone_from(&field.name);
        let nullable = field.nullable.contains(self.version);
        if field.array {
            let Some(count) = self.length()? else {
                return nullable.then_some(Value::Null);
            };
            let mut elements = Vec::new();
            for _ in 0..count {
                elements.push(self.one(&field.kind, last)?);
            }
            return Some(Value::Array(elements));
        }
        match &field.kind {
            FieldType::String => match self.string_length()? {
                Some(length) => self.text(length),
                None => nullable.then_some(Value::Null),
            },
            FieldType::Bytes | FieldType::Records => match self.length()? {
                Some(length) => Some(Value::Bytes(self.take(length)?.to_vec())),
                None => nullable.then_some(Value::Null),
            },
            FieldType::Struct(_) if nullable => {
                let mark = self.take(1)?[0];
                let null = if field.tag.is_some() {
                    mark == 0
                } else {
                    mark >= 0x80
                };
                if null {
                    Some(Value::Null)
                } else {
                    self.one(&field.kind, last)
                }
            }
            kind => self.one(kind, last),
        }
    }

    fn one(&mut self, kind: &FieldType, last: &mut String) -> Option<Value> {
        Some(match kind {
            FieldType::Bool => Value::Bool(self.take(1)?[0] != 0),
            FieldType::Integer(width) => {
                let bytes = self.take(width_bytes(width))?;
                let negative = *width != "u16" && bytes[0] >= 0x80;
                let start = if negative { -1 } else { 0 };
                Value::Integer(bytes.iter().fold(start, |n, b| n << 8 | i64::from(*b)))
            }
            FieldType::Float64 => Value::Float(f64::from_be_bytes(self.take(8)?.try_into().ok()?)),
            FieldType::Uuid => Value::Uuid(self.take(16)?.try_into().ok()?),
            FieldType::String => {
                let length = self.string_length()??;
                self.text(length)?
            }
            FieldType::Bytes | FieldType::Records => {
                let length = self.length()??;
                Value::Bytes(self.take(length)?.to_vec())
            }
            FieldType::Struct(name) => {
                let one = self.message.struct_named(name)?;
                Value::Struct(self.fields(one, last)?)
            }
        })
    }

    fn text(&mut self, length: usize) -> Option<Value> {
        let text = std::str::from_utf8(self.take(length)?).ok()?;
        Some(Value::string(text))
    }

    /// The inner `None` is null.
    fn length(&mut self) -> Option<Option<usize>> {
        if self.flexible {
            Some((self.unsigned_varint()? as usize).checked_sub(1))
        } else {
            match i32::from_be_bytes(self.take(4)?.try_into().ok()?) {
                -1 => Some(None),
                length => Some(Some(usize::try_from(length).ok()?)),
            }
        }
    }

    fn string_length(&mut self) -> Option<Option<usize>> {
        if self.flexible {
            self.length()
        } else {
            match i16::from_be_bytes(self.take(2)?.try_into().ok()?) {
                -1 => Some(None),
                length => Some(Some(usize::try_from(length).ok()?)),
            }
        }
    }

    fn unsigned_varint(&mut self) -> Option<u32> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).ok();
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let end = self.position.checked_add(length)?;
        let bytes = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(bytes)
    }
}
