//! A value to bytes, as KIP-482 and the protocol guide lay them out.

use crate::value::{Struct, Value, default_value};
use codegen::{Field, FieldType, Message, StructType};
use std::cell::RefCell;
use std::ops::Range;

/// The bytes of `value` as `message` in `version`.
///
/// # Panics
/// When the value does not have the message's shape.
pub fn encode(message: &Message, version: i16, value: &Struct) -> Vec<u8> {
    encode_marked(message, version, value).0
}

/// What a [`Mark`] is the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// A string.
    String,
    /// An array.
    Array,
    /// Bytes or records.
    Bytes,
    /// The tagged fields at the end of a struct; their count is the length.
    Tags,
}

/// Where in the bytes a value of variable length is, so that it can be damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What is there.
    pub kind: MarkKind,
    /// Where its length is.
    pub length: Range<usize>,
    /// What follows the length.
    pub content: Range<usize>,
    /// How many there are: elements, tagged fields, or bytes.
    pub count: usize,
    /// Whether null is allowed.
    pub is_nullable: bool,
    /// Whether it is within a tagged field, which has its size before it.
    pub is_tagged: bool,
    /// Whether the length is a varint.
    pub is_flexible: bool,
}

impl Mark {
    /// The same mark when `count` bytes come before.
    #[must_use]
    pub fn shifted(mut self, count: usize) -> Self {
        for range in [&mut self.length, &mut self.content] {
            *range = range.start + count..range.end + count;
        }
        self
    }
}

/// [`encode`], and where the values of variable length are.
///
/// # Panics
/// When the value does not have the message's shape.
pub fn encode_marked(message: &Message, version: i16, value: &Struct) -> (Vec<u8>, Vec<Mark>) {
    let encoder = Encoder {
        message,
        version,
        flexible: version >= message.flexible_from,
        marks: RefCell::default(),
    };
    let mut out = Vec::new();
    encoder.fields(message.root(), value, &mut out);
    (out, encoder.marks.into_inner())
}

struct Encoder<'a> {
    message: &'a Message,
    version: i16,
    flexible: bool,
    /// Those within a tagged field count from the field's start until it has its place.
    marks: RefCell<Vec<Mark>>,
}

impl Encoder<'_> {
    fn fields(&self, one: &StructType, value: &Struct, out: &mut Vec<u8>) {
        let present = one
            .fields
            .iter()
            .filter(|field| field.versions.contains(self.version));
        assert_eq!(present.clone().count(), value.fields.len(), "{}", one.name);
        let mut tagged: Vec<(u32, Vec<u8>, Vec<Mark>)> = Vec::new();
        for (field, (name, value)) in present.zip(&value.fields) {
            assert_eq!(&field.name, name, "{}", one.name);
            match field.tag {
                None => self.field(field, value, out),
                Some(_) if *value == default_value(self.message, field, self.version) => {}
                Some(tag) => {
                    let mut bytes = Vec::new();
                    let outside = self.marks.take();
                    self.field(field, value, &mut bytes);
                    tagged.push((tag, bytes, self.marks.replace(outside)));
                }
            }
        }
        if self.flexible {
            let unknown = value.unknown.iter().cloned();
            tagged.extend(unknown.map(|(tag, bytes)| (tag, bytes, Vec::new())));
            tagged.sort_by_key(|(tag, ..)| *tag);
            let start = out.len();
            let count = tagged.len();
            unsigned_varint(count, out);
            let length = start..out.len();
            for (tag, bytes, marks) in tagged {
                unsigned_varint(tag as usize, out);
                unsigned_varint(bytes.len(), out);
                let marks = marks.into_iter().map(|mark| Mark {
                    is_tagged: true,
                    ..mark.shifted(out.len())
                });
                self.marks.borrow_mut().extend(marks);
                out.extend(bytes);
            }
            self.mark(MarkKind::Tags, length, out.len(), count, false);
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
        let start = out.len();
        match (field.array, value) {
            (true, Value::Null) => self.length(None, out),
            (true, Value::Array(elements)) => {
                self.length(Some(elements.len()), out);
                let length = start..out.len();
                for element in elements {
                    self.one(&field.kind, element, false, out);
                }
                self.mark(MarkKind::Array, length, out.len(), elements.len(), nullable);
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
                self.one(&field.kind, value, nullable, out);
            }
            (false, value) => self.one(&field.kind, value, nullable, out),
            (true, other) => panic!("{}: `{other}` is not an array", field.name),
        }
    }

    fn mark(
        &self,
        kind: MarkKind,
        length: Range<usize>,
        end: usize,
        count: usize,
        is_nullable: bool,
    ) {
        self.marks.borrow_mut().push(Mark {
            kind,
            content: length.end..end,
            count,
            length,
            is_nullable,
            is_tagged: false,
            is_flexible: self.flexible,
        });
    }

    fn one(&self, kind: &FieldType, value: &Value, nullable: bool, out: &mut Vec<u8>) {
        let start = out.len();
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
                let length = start..out.len();
                out.extend(text.as_bytes());
                self.mark(MarkKind::String, length, out.len(), text.len(), nullable);
            }
            (FieldType::Bytes | FieldType::Records, Value::Bytes(bytes)) => {
                self.length(Some(bytes.len()), out);
                let length = start..out.len();
                out.extend(bytes);
                self.mark(MarkKind::Bytes, length, out.len(), bytes.len(), nullable);
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
