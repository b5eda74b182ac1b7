//! How the bytes of keys and values are written, and read back.
//!
//! ```text
//!   raw (as they are)  utf8  hex  base64  json (a JSON string)
//!   i8 i16 i32 i64 u8 u16 u32 u64 f32 f64     big-endian, as Kafka's serializers write them
//! ```
//!
//! Schemas (Avro, Protobuf, JSON Schema with a registry) are not known here: such bytes are `raw`,
//! `hex` or `base64`.

use crate::output::Cell;
use data_encoding::{BASE64, HEXLOWER, HEXLOWER_PERMISSIVE};
use std::borrow::Cow;
use std::io::{self, Write};
use std::str::FromStr;

/// How bytes are written and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As they are.
    Raw,
    Utf8,
    Hex,
    Base64,
    /// A JSON string.
    Json,
    Number(Number),
}

/// A number of a fixed width, big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl FromStr for Encoding {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(match name {
            "raw" => Self::Raw,
            "utf8" => Self::Utf8,
            "hex" => Self::Hex,
            "base64" => Self::Base64,
            "json" => Self::Json,
            "i8" => Self::Number(Number::I8),
            "i16" => Self::Number(Number::I16),
            "i32" => Self::Number(Number::I32),
            "i64" => Self::Number(Number::I64),
            "u8" => Self::Number(Number::U8),
            "u16" => Self::Number(Number::U16),
            "u32" => Self::Number(Number::U32),
            "u64" => Self::Number(Number::U64),
            "f32" => Self::Number(Number::F32),
            "f64" => Self::Number(Number::F64),
            name => {
                return Err(format!(
                    "`{name}` is none of raw, utf8, hex, base64, json, i8, i16, i32, i64, u8, u16, \
                     u32, u64, f32, f64"
                ));
            }
        })
    }
}

impl Encoding {
    /// Writes bytes; null is nothing, in JSON `null`. Bytes that are no such number, or no UTF-8, are
    /// an error.
    pub(crate) fn write(self, bytes: Option<&[u8]>, out: &mut impl Write) -> io::Result<()> {
        let Some(bytes) = bytes else {
            return match self {
                Self::Json => out.write_all(b"null"),
                _ => Ok(()),
            };
        };
        match self {
            Self::Raw => out.write_all(bytes),
            Self::Utf8 | Self::Number(_) => {
                let text = self.text(bytes).map_err(invalid)?;
                out.write_all(text.as_bytes())
            }
            Self::Hex => write!(out, "{}", HEXLOWER.encode_display(bytes)),
            Self::Base64 => write!(out, "{}", BASE64.encode_display(bytes)),
            Self::Json => {
                let text = String::from_utf8_lossy(bytes).into_owned();
                write!(out, "{}", serde_json::Value::from(text))
            }
        }
    }

    /// The bytes as a JSON value, for a field of its own.
    pub(crate) fn cell(self, bytes: &[u8]) -> io::Result<Cell> {
        let text = self.text(bytes).map_err(invalid)?;
        Ok(match (self, text.parse::<i64>()) {
            (Self::Number(Number::F32 | Number::F64), _) => text
                .parse()
                .map_or(Cell::Text(text.into_owned()), Cell::Decimal),
            (Self::Number(_), Ok(number)) => Cell::Number(number),
            _ => Cell::Text(text.into_owned()),
        })
    }

    fn text(self, bytes: &[u8]) -> Result<Cow<'_, str>, String> {
        Ok(match self {
            Self::Raw | Self::Json => String::from_utf8_lossy(bytes),
            Self::Utf8 => {
                let text = std::str::from_utf8(bytes);
                text.map_err(|error| format!("the bytes are not valid UTF-8: {error}"))?
                    .into()
            }
            Self::Hex => HEXLOWER.encode(bytes).into(),
            Self::Base64 => BASE64.encode(bytes).into(),
            Self::Number(number) => number.text(bytes)?.into(),
        })
    }

    /// The bytes that were written as this text.
    pub(crate) fn read(self, text: &[u8]) -> Result<Vec<u8>, String> {
        let as_text = || std::str::from_utf8(text).map_err(|_| "is not valid UTF-8".to_owned());
        match self {
            Self::Raw => Ok(text.to_vec()),
            Self::Utf8 => Ok(as_text()?.as_bytes().to_vec()),
            Self::Hex => HEXLOWER_PERMISSIVE.decode(text).map_err(|error| {
                format!(
                    "`{}` is not valid hex: {error}",
                    String::from_utf8_lossy(text)
                )
            }),
            Self::Base64 => BASE64.decode(text).map_err(|error| {
                format!(
                    "`{}` is not valid base64: {error}",
                    String::from_utf8_lossy(text)
                )
            }),
            Self::Json => match serde_json::from_slice(text) {
                Ok(serde_json::Value::String(text)) => Ok(text.into_bytes()),
                _ => Err(format!(
                    "`{}` is not a JSON string",
                    String::from_utf8_lossy(text)
                )),
            },
            Self::Number(number) => number.bytes(as_text()?.trim()),
        }
    }
}

/// What follows a `%` in a format: its letter, and the encoding that may stand in braces behind it.
pub(crate) fn letter_and_encoding(rest: &mut &str) -> Result<(char, Option<Encoding>), String> {
    let Some(letter) = rest.chars().next() else {
        return Err("the format ends after `%`; write `%%` for a percent sign".to_owned());
    };
    *rest = &rest[letter.len_utf8()..];
    let Some(options) = rest.strip_prefix('{') else {
        return Ok((letter, None));
    };
    let (name, after) = options
        .split_once('}')
        .ok_or_else(|| format!("`%{letter}{{` has no closing `}}`"))?;
    *rest = after;
    Ok((letter, Some(name.parse()?)))
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Reads and writes each kind of number with the type of its name.
macro_rules! each_number {
    ($($kind:ident $type:ty),*) => {
        impl Number {
            fn text(self, bytes: &[u8]) -> Result<String, String> {
                match self {$(
                    Self::$kind => bytes
                        .try_into()
                        .map(|bytes| <$type>::from_be_bytes(bytes).to_string())
                        .map_err(|_| not_so_long(bytes.len(), size_of::<$type>(), stringify!($type))),
                )*}
            }

            fn bytes(self, text: &str) -> Result<Vec<u8>, String> {
                match self {$(
                    Self::$kind => text
                        .parse::<$type>()
                        .map(|number| number.to_be_bytes().to_vec())
                        .map_err(|_| format!("`{text}` is not a valid {}", stringify!($type))),
                )*}
            }
        }
    };
}

each_number!(
    I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64
);

fn not_so_long(bytes: usize, wanted: usize, name: &str) -> String {
    format!("{bytes} bytes are not a valid {name}, which has {wanted}; use another encoding")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for (encoding, bytes, text) in [
            ("raw", &b"a\xff"[..], &b"a\xff"[..]),
            ("utf8", "\u{e9}".as_bytes(), "\u{e9}".as_bytes()),
            ("hex", b"\x00\xff", b"00ff"),
            ("base64", b"\x00\xff", b"AP8="),
            ("json", b"a\"b", b"\"a\\\"b\""),
            ("i8", b"\xff", b"-1"),
            ("i16", b"\x01\x00", b"256"),
            ("i32", b"\xff\xff\xff\xfe", b"-2"),
            ("i64", b"\0\0\0\0\0\0\0\x07", b"7"),
            (
                "u64",
                b"\xff\xff\xff\xff\xff\xff\xff\xff",
                b"18446744073709551615",
            ),
            ("f64", b"\x3f\xf8\0\0\0\0\0\0", b"1.5"),
        ] {
            let encoding: Encoding = encoding.parse().unwrap();
            let mut written = Vec::new();
            encoding.write(Some(bytes), &mut written).unwrap();
            assert_eq!(written, text, "{encoding:?}");
            assert_eq!(encoding.read(text), Ok(bytes.to_vec()), "{encoding:?}");
        }
    }

    #[test]
    fn what_does_not_fit_says_why() {
        let number: Encoding = "i32".parse().unwrap();
        let error = number.write(Some(b"abc"), &mut Vec::new()).unwrap_err();
        let expected = "3 bytes are not a valid i32, which has 4; use another encoding";
        assert_eq!(error.to_string(), expected);
        for (encoding, text, part) in [
            ("i8", "128", "is not a valid i8"),
            ("hex", "0", "is not valid hex"),
            ("base64", "?", "is not valid base64"),
            ("json", "{", "is not a JSON string"),
        ] {
            let error = encoding.parse::<Encoding>().unwrap().read(text.as_bytes());
            assert!(error.unwrap_err().contains(part), "{encoding}");
        }
        assert!(
            "avro"
                .parse::<Encoding>()
                .unwrap_err()
                .starts_with("`avro` is none of raw")
        );
    }
}
