//! A value to bytes, as KIP-482 and the protocol guide lay them out.

use crate::value::{Struct, Value, default_value};
use codegen::{Field, FieldType, Message, StructType};

/// The bytes of `value` as `message` in `version`.
///
/// # Panics
/// When the value does not have the message's shape.
pub fn encode(message: &Message, version: i16, value: &Struct) -> Vec<u8> {
    let encoder = Encoder {
        message,
        version,
        flexible: version >= message.flexible_from,
    };
    let mut out = Vec::new();
    encoder.fields(message.root(), value, &mut out);
    out
}

struct Encoder<'a> {
    message: &'a Message,
    version: i16,
    flexible: bool,
}

impl Encoder<'_> {
    fn fields(&self, one: &StructType, value: &Struct, out: &mut Vec<u8>) {
        let present = one
            .fields
            .iter()
            .filter(|field| field.versions.contains(self.version));
        assert_eq!(present.clone().count(), value.fields.len(), "{}", one.name);
        let mut tagged: Vec<(u32, Vec<u8>)> = Vec::new();
        for (field, (name, value)) in present.zip(&value.fields) {
            assert_eq!(&field.name, name, "{}", one.name);
            match field.tag {
                None => self.field(field, value, out),
                Some(_) if *value == default_value(self.message, field, self.version) => {}
                Some(tag) => {
                    let mut bytes = Vec::new();
                    self.field(field, value, &mut bytes);
                    tagged.push((tag, bytes));
                }
            }
        }
        if self.flexible {
            tagged.extend(value.unknown.iter().cloned());
            tagged.sort_by_key(|(tag, _)| *tag);
            unsigned_varint(tagged.len(), out);
            for (tag, bytes) in tagged {
                unsigned_varint(tag as usize, out);
                unsigned_varint(bytes.len(), out);
                out.extend(bytes);
            }
        }
    }

    fn field(&self, field: &Field, value: &Value, out: &mut Vec<u8>) {
        let nullable = field.nullable.contains(self.version);
        assert!(
            nullable || *value != Value::Null,
            "{}: null in version {}",
            field.name,
            self.version
        );
        match (field.array, value) {
            (true, Value::Null) => self.length(None, out),
            (true, Value::Array(elements)) => {
                self.length(Some(elements.len()), out);
                for element in elements {
                    self.one(&field.kind, element, out);
                }
            }
            (false, Value::Null) if matches!(field.kind, FieldType::Struct(_)) => {
                // Within a tagged field the mark is a varint.
                out.push(if field.tag.is_some() { 0 } else { 0xff });
            }
            (false, Value::Null) if field.kind == FieldType::String && !self.flexible => {
                out.extend([0xff, 0xff]);
            }
            (false, Value::Null) => self.length(None, out),
            (false, Value::Struct(_)) if nullable => {
                out.push(1);
                self.one(&field.kind, value, out);
            }
            (false, value) => self.one(&field.kind, value, out),
            (true, other) => panic!("{}: `{other}` is not an array", field.name),
        }
    }

    fn one(&self, kind: &FieldType, value: &Value, out: &mut Vec<u8>) {
        match (kind, value) {
            (FieldType::Bool, Value::Bool(value)) => out.push(u8::from(*value)),
            (FieldType::Integer(width), Value::Integer(value)) => {
                let bytes = value.to_be_bytes();
                out.extend(&bytes[8 - width_bytes(width)..]);
            }
            (FieldType::Float64, Value::Float(value)) => out.extend(value.to_be_bytes()),
            (FieldType::Uuid, Value::Uuid(bytes)) => out.extend(bytes),
            (FieldType::String, Value::String(text)) => {
                if self.flexible {
                    unsigned_varint(text.len() + 1, out);
                } else {
                    let length = u16::try_from(text.len()).expect("a string is short");
                    out.extend(length.to_be_bytes());
                }
                out.extend(text.as_bytes());
            }
            (FieldType::Bytes | FieldType::Records, Value::Bytes(bytes)) => {
                self.length(Some(bytes.len()), out);
                out.extend(bytes);
            }
            (FieldType::Struct(name), Value::Struct(value)) => {
                let one = self.message.struct_named(name);
                self.fields(one.expect("a field's struct is in its message"), value, out);
            }
            (kind, value) => panic!("`{value}` is not a {kind:?}"),
        }
    }

    fn length(&self, length: Option<usize>, out: &mut Vec<u8>) {
        if self.flexible {
            unsigned_varint(length.map_or(0, |n| n + 1), out);
        } else {
            let length = length.map_or(-1, |n| i32::try_from(n).expect("an array is short"));
            out.extend(length.to_be_bytes());
        }
    }
}

pub(crate) fn width_bytes(width: &str) -> usize {
    match width {
        "i8" => 1,
        "i16" | "u16" => 2,
        "i32" => 4,
        _ => 8,
    }
}

fn unsigned_varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value % 0x80) as u8 + 0x80);
        value /= 0x80;
    }
    out.push(value as u8);
}
