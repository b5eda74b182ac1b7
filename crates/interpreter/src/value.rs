//! The value of a message as a tree, with the names that the schema gives.
//!
//! A struct holds the fields of one version, in the schema's order, and the tagged fields that the
//! schema does not know.

use codegen::{Field, FieldType, Message, StructType};
use std::fmt;

/// The value of a field, or of an array's element.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// What a nullable field holds instead of a value.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer of any width.
    Integer(i64),
    /// An IEEE number of 64 bits.
    Float(f64),
    /// A uuid's bytes.
    Uuid([u8; 16]),
    /// A string.
    String(String),
    /// Bytes, also those of record batches.
    Bytes(Vec<u8>),
    /// An array.
    Array(Vec<Self>),
    /// A struct.
    Struct(Struct),
}

/// The fields of a struct.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Struct {
    /// The fields of the version, in the schema's order.
    pub fields: Vec<(String, Value)>,
    /// Tagged fields that the schema does not know, by tag.
    pub unknown: Vec<(u32, Vec<u8>)>,
}

impl Struct {
    /// The field named `name`, if the version has it.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    /// The field named `name` to change, if the version has it.
    pub fn field_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.fields
            .iter_mut()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    /// Sets the field named `name` where the version has it, and tells whether it has.
    pub fn set(&mut self, name: &str, value: Value) -> bool {
        match self.field_mut(name) {
            Some(field) => {
                *field = value;
                true
            }
            None => false,
        }
    }

    /// The same without the tagged fields that the schema does not know, at any depth.
    pub fn without_unknown(&self) -> Self {
        let known = |(name, value): &(String, Value)| (name.clone(), value.without_unknown());
        Self {
            fields: self.fields.iter().map(known).collect(),
            unknown: Vec::new(),
        }
    }

    /// Every leaf with its path, such as `Topics[0].Partitions[2].ErrorCode`. Null, an empty array
    /// and an empty struct are leaves.
    pub fn leaves(&self) -> Vec<(String, &Value)> {
        let mut out = Vec::new();
        for (name, value) in &self.fields {
            value.add_leaves(name.clone(), &mut out);
        }
        out
    }
}

impl Value {
    /// A string.
    pub fn string(text: &str) -> Self {
        Self::String(text.to_owned())
    }

    /// The integer, if it is one.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(value) => Some(value),
            _ => None,
        }
    }

    /// The struct, if it is one.
    pub fn as_struct(&self) -> Option<&Struct> {
        match self {
            Self::Struct(value) => Some(value),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    pub fn elements(&self) -> &[Self] {
        match self {
            Self::Array(elements) => elements,
            _ => &[],
        }
    }

    fn without_unknown(&self) -> Self {
        match self {
            Self::Array(elements) => {
                Self::Array(elements.iter().map(Self::without_unknown).collect())
            }
            Self::Struct(one) => Self::Struct(one.without_unknown()),
            other => other.clone(),
        }
    }

    fn add_leaves<'a>(&'a self, path: String, out: &mut Vec<(String, &'a Self)>) {
        match self {
            Self::Array(elements) if !elements.is_empty() => {
                for (index, element) in elements.iter().enumerate() {
                    element.add_leaves(format!("{path}[{index}]"), out);
                }
            }
            Self::Struct(one) if !one.fields.is_empty() => {
                for (name, value) in &one.fields {
                    value.add_leaves(format!("{path}.{name}"), out);
                }
            }
            _ => out.push((path, self)),
        }
    }
}

macro_rules! from {
    ($($variant:ident($type:ty);)*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from! {
    Bool(bool);
    Integer(i16);
    Integer(i32);
    Integer(i64);
    Float(f64);
    Uuid([u8; 16]);
    String(&str);
    String(String);
    Bytes(Vec<u8>);
    Bytes(&[u8]);
    Array(Vec<Self>);
    Struct(Struct);
}

impl From<&Self> for Value {
    fn from(value: &Self) -> Self {
        value.clone()
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::String(value.clone())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Uuid(bytes) => {
                f.write_str("uuid ")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::String(text) => write!(f, "{text:?}"),
            Self::Bytes(bytes) => {
                write!(f, "{} bytes ", bytes.len())?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Array(elements) => {
                f.write_str("[")?;
                for (index, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Struct(one) => write!(f, "{one}"),
        }
    }
}

impl fmt::Display for Struct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (name, value)) in self.fields.iter().enumerate() {
            write!(f, "{}{name}: {value}", if index == 0 { "" } else { ", " })?;
        }
        f.write_str("}")
    }
}

/// The struct `one` of `message` with every field of `version` at its default.
pub fn default_struct(message: &Message, one: &StructType, version: i16) -> Struct {
    let fields = one
        .fields
        .iter()
        .filter(|field| field.versions.contains(version))
        .map(|field| (field.name.clone(), default_value(message, field, version)));
    Struct {
        fields: fields.collect(),
        unknown: Vec::new(),
    }
}

/// What `field` of `message` holds when nothing else is said.
///
/// # Panics
/// When the schema's default is not a value of the field's type.
pub fn default_value(message: &Message, field: &Field, version: i16) -> Value {
    let text = field.default.as_deref();
    if text == Some("null") {
        return Value::Null;
    }
    if field.array {
        return Value::Array(Vec::new());
    }
    match &field.kind {
        FieldType::Bool => Value::Bool(text == Some("true")),
        FieldType::Integer(_) => {
            let number = text.unwrap_or("0").parse();
            Value::Integer(number.expect("the default of an integer is one"))
        }
        FieldType::Float64 => {
            let number = text.unwrap_or("0").parse();
            Value::Float(number.expect("the default of a number is one"))
        }
        FieldType::Uuid => Value::Uuid([0; 16]),
        FieldType::String => Value::string(text.unwrap_or_default()),
        FieldType::Bytes => Value::Bytes(Vec::new()),
        FieldType::Records => Value::Null,
        FieldType::Struct(name) => {
            let one = message
                .struct_named(name)
                .expect("a field's struct is in its message");
            Value::Struct(default_struct(message, one, version))
        }
    }
}
