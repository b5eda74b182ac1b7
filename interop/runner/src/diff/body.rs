//! Request bodies written with the fields of all versions at once; [`fit`] keeps those that the
//! version has and gives the others their defaults.

use codegen::{Field, FieldType, Message, StructType};
use interpreter::{Struct, Value, default_value};

/// A [`Value`] in the form `body!({ Name: "a", Partitions: [0, 1], Nothing: null })`; a value that
/// is more than one token stands in parentheses.
macro_rules! body {
    ({ $($name:ident : $value:tt),* $(,)? }) => {
        interpreter::Value::Struct(interpreter::Struct {
            fields: vec![$((stringify!($name).to_owned(), body!($value))),*],
            unknown: Vec::new(),
        })
    };
    ([ $($element:tt),* $(,)? ]) => {
        interpreter::Value::Array(vec![$(body!($element)),*])
    };
    (null) => { interpreter::Value::Null };
    ($value:expr) => { interpreter::Value::from($value) };
}

pub(super) use body;

/// The value as `message` in `version`.
///
/// # Panics
/// When the value names a field that the message has in no version.
pub(super) fn fit(message: &Message, version: i16, body: &Value) -> Struct {
    fit_struct(message, message.root(), version, body)
}

fn fit_struct(message: &Message, one: &StructType, version: i16, body: &Value) -> Struct {
    let given = body.as_struct().cloned().unwrap_or_default();
    for (name, _) in &given.fields {
        let mut fields = message.structs.iter().flat_map(|one| &one.fields);
        let is_known = fields.any(|field| field.name == *name);
        assert!(is_known, "{} has no field `{name}`", message.name);
    }
    let present = one.fields.iter().filter(|f| f.versions.contains(version));
    let fields = present.map(|field| {
        let value = match given.field(&field.name) {
            Some(value) => fit_field(message, field, version, value),
            None => default_value(message, field, version),
        };
        let allowed = value != Value::Null || field.nullable.contains(version);
        let value = if allowed {
            value
        } else {
            empty(message, field, version)
        };
        (field.name.clone(), value)
    });
    Struct {
        fields: fields.collect(),
        unknown: Vec::new(),
    }
}

fn fit_field(message: &Message, field: &Field, version: i16, value: &Value) -> Value {
    let fit_one = |value: &Value| match (&field.kind, value) {
        (FieldType::Struct(name), Value::Struct(_)) => {
            let one = message.struct_named(name);
            let one = one.expect("a field's struct is in its message");
            Value::Struct(fit_struct(message, one, version, value))
        }
        (FieldType::Integer(width), Value::Integer(number)) => {
            Value::Integer(clamp(width, *number))
        }
        _ => value.clone(),
    };
    match value {
        Value::Array(elements) => Value::Array(elements.iter().map(fit_one).collect()),
        value => fit_one(value),
    }
}

/// The value to send instead of null.
fn empty(message: &Message, field: &Field, version: i16) -> Value {
    let plain = Field {
        default: None,
        ..field.clone()
    };
    match default_value(message, &plain, version) {
        Value::Null => Value::Bytes(Vec::new()),
        value => value,
    }
}

fn clamp(width: &str, number: i64) -> i64 {
    match width {
        "i8" => number.clamp(i8::MIN.into(), i8::MAX.into()),
        "i16" => number.clamp(i16::MIN.into(), i16::MAX.into()),
        "u16" => number.clamp(0, u16::MAX.into()),
        "i32" => number.clamp(i32::MIN.into(), i32::MAX.into()),
        _ => number,
    }
}
