//! `--format`: how a record is printed, in the letters that rpk and kcat have made known.
//!
//! ```text
//!   %t topic      %p partition       %o offset     %e leader epoch
//!   %k key        %K length of key   %v value      %V length of value (also %s, %S)
//!   %d timestamp in ms (also %T)     %D timestamp as a date
//!   %h headers    %H how many        %% %          \n \t \r \\ \xHH
//!   %k{hex} %v{base64} %v{i64} ...  how bytes are written (see `encoding`); by default as they are
//! ```

use crate::encoding::{Encoding, letter_and_encoding};
use std::io::{self, Write};
use std::str::FromStr;

/// A record as it is printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: Option<i32>,
    pub(crate) timestamp_ms: i64,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: &'a [(&'a [u8], Option<&'a [u8]>)],
}

/// A format, parsed once and applied to each record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Format(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Literal(Vec<u8>),
    Topic,
    Partition,
    Offset,
    LeaderEpoch,
    Timestamp,
    Date,
    Key(Option<Encoding>),
    KeyLength,
    Value(Option<Encoding>),
    ValueLength,
    Headers(Encoding),
    HeaderCount,
}

impl Format {
    /// Writes keys and values for which the format says nothing else in these encodings.
    pub(crate) fn with_encodings(mut self, key: Encoding, value: Encoding) -> Self {
        for part in &mut self.0 {
            match part {
                Part::Key(encoding) => *encoding = encoding.or(Some(key)),
                Part::Value(encoding) => *encoding = encoding.or(Some(value)),
                _ => {}
            }
        }
        self
    }

    /// Writes a record.
    pub(crate) fn write(&self, record: &Shown<'_>, out: &mut impl Write) -> io::Result<()> {
        self.0.iter().try_for_each(|part| part.write(record, out))
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            match letter {
                '%' => match directive(&mut rest)? {
                    None => literal.push(b'%'),
                    Some(part) => {
                        if !literal.is_empty() {
                            parts.push(Part::Literal(std::mem::take(&mut literal)));
                        }
                        parts.push(part);
                    }
                },
                '\\' => literal.push(escape(&mut rest)?),
                letter => literal.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self(parts))
    }
}

/// What follows a `%`; `None` for `%%`.
fn directive(rest: &mut &str) -> Result<Option<Part>, String> {
    let (letter, encoding) = letter_and_encoding(rest)?;
    let part = match letter {
        'k' => Part::Key(encoding),
        'v' | 's' => Part::Value(encoding),
        'h' => Part::Headers(encoding.unwrap_or(Encoding::Raw)),
        letter if encoding.is_some() => {
            return Err(format!("`%{letter}` takes no encoding; %k, %v and %h do"));
        }
        '%' => return Ok(None),
        't' => Part::Topic,
        'p' => Part::Partition,
        'o' => Part::Offset,
        'e' => Part::LeaderEpoch,
        'd' | 'T' => Part::Timestamp,
        'D' => Part::Date,
        'K' => Part::KeyLength,
        'V' | 'S' => Part::ValueLength,
        'H' => Part::HeaderCount,
        letter => {
            return Err(format!(
                "`%{letter}` is none of %t %p %o %e %k %K %v %V %d %D %h %H %%"
            ));
        }
    };
    Ok(Some(part))
}

/// What follows a backslash.
fn escape(rest: &mut &str) -> Result<u8, String> {
    let wrong = || "a backslash is followed by n, t, r, 0, \\ or xHH".to_owned();
    let letter = rest.chars().next().ok_or_else(wrong)?;
    *rest = &rest[letter.len_utf8()..];
    match letter {
        'n' => Ok(b'\n'),
        't' => Ok(b'\t'),
        'r' => Ok(b'\r'),
        '0' => Ok(0),
        '\\' => Ok(b'\\'),
        'x' => {
            let digits = rest.get(..2).ok_or_else(wrong)?;
            let byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
            *rest = &rest[2..];
            Ok(byte)
        }
        _ => Err(wrong()),
    }
}

impl Part {
    fn write(&self, record: &Shown<'_>, out: &mut impl Write) -> io::Result<()> {
        let length = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i64);
        match self {
            Self::Literal(bytes) => out.write_all(bytes),
            Self::Topic => out.write_all(record.topic.as_bytes()),
            Self::Partition => write!(out, "{}", record.partition),
            Self::Offset => write!(out, "{}", record.offset),
            Self::LeaderEpoch => write!(out, "{}", record.leader_epoch.unwrap_or(-1)),
            Self::Timestamp => write!(out, "{}", record.timestamp_ms),
            Self::Date => out.write_all(crate::time::date(record.timestamp_ms).as_bytes()),
            Self::Key(encoding) => encoding.unwrap_or(Encoding::Raw).write(record.key, out),
            Self::KeyLength => write!(out, "{}", length(record.key)),
            Self::Value(encoding) => encoding.unwrap_or(Encoding::Raw).write(record.value, out),
            Self::ValueLength => write!(out, "{}", length(record.value)),
            Self::HeaderCount => write!(out, "{}", record.headers.len()),
            Self::Headers(encoding) => {
                for (at, (key, value)) in record.headers.iter().enumerate() {
                    if at > 0 {
                        out.write_all(b",")?;
                    }
                    out.write_all(key)?;
                    out.write_all(b"=")?;
                    encoding.write(*value, out)?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, expected: Result<&str, &str>) {
        let record = Shown {
            topic: "topic",
            partition: 3,
            offset: 42,
            leader_epoch: None,
            timestamp_ms: 1_700_000_000_123,
            key: Some(b"k"),
            value: Some(b"v\"\xff"),
            headers: &[(b"a", Some(b"1")), (b"b", None)],
        };
        let printed = format.parse::<Format>().map(|format| {
            let mut out = Vec::new();
            format.write(&record, &mut out).unwrap();
            String::from_utf8_lossy(&out).into_owned()
        });
        assert_eq!(
            printed.as_deref().map_err(String::as_str),
            expected,
            "{format}"
        );
    }

    #[test]
    fn records_are_printed_as_the_format_says() {
        check("%t/%p@%o\\n", Ok("topic/3@42\n"));
        check("%k=%v", Ok("k=v\"\u{fffd}"));
        check("%K %V %S %H", Ok("1 3 3 2"));
        check(
            "%v{hex} %v{base64} %v{json}",
            Ok("7622ff diL/ \"v\\\"\u{fffd}\""),
        );
        check("%h", Ok("a=1,b="));
        check("%h{json}", Ok("a=\"1\",b=null"));
        check("%d %D %e", Ok("1700000000123 2023-11-14T22:13:20.123Z -1"));
        check("100%% \\x41\\\\", Ok("100% A\\"));
        check("é%p", Ok("é3"));
    }

    #[test]
    fn a_mistake_says_what_is_allowed() {
        check(
            "%",
            Err("the format ends after `%`; write `%%` for a percent sign"),
        );
        check(
            "%q",
            Err("`%q` is none of %t %p %o %e %k %K %v %V %d %D %h %H %%"),
        );
        check(
            "%v{xml}",
            Err(
                "`xml` is none of raw, utf8, hex, base64, json, i8, i16, i32, i64, u8, u16, u32, u64, \
                 f32, f64",
            ),
        );
        check("%v{hex", Err("`%v{` has no closing `}`"));
        check("%o{hex}", Err("`%o` takes no encoding; %k, %v and %h do"));
        check(
            "\\q",
            Err("a backslash is followed by n, t, r, 0, \\ or xHH"),
        );
        check(
            "\\xé1",
            Err("a backslash is followed by n, t, r, 0, \\ or xHH"),
        );
    }
}
