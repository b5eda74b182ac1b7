//! `produce --format`: where the parts of a record stand on a line, in the letters of
//! `consume --format`.
//!
//! ```text
//!   %k key   %v value   %p partition   %d timestamp in ms   %% %     \n at the end may be left out
//!   %k{hex} %v{i64} ...  how bytes are written (see `encoding`)
//! ```

use super::input_record::{InputRecord, find};
use crate::encoding::{Encoding, letter_and_encoding};
use std::str::FromStr;

/// A format, parsed once and applied to each line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Literal(Vec<u8>),
    Key(Option<Encoding>),
    Value(Option<Encoding>),
    Partition,
    Timestamp,
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts: Vec<Part> = Vec::new();
        let mut rest = text.strip_suffix("\\n").unwrap_or(text);
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            let part = match letter {
                '%' => field(&mut rest)?,
                '\\' => Part::Literal(vec![escape(&mut rest)?]),
                letter => Part::Literal(letter.encode_utf8(&mut [0; 4]).as_bytes().to_vec()),
            };
            match (parts.last_mut(), part) {
                (Some(Part::Literal(before)), Part::Literal(more)) => before.extend(more),
                (Some(Part::Literal(_)) | None, part) | (Some(_), part @ Part::Literal(_)) => {
                    parts.push(part);
                }
                (Some(_), _) => {
                    return Err(format!(
                        "`{text}`: two fields need something between them, such as a colon or \\t"
                    ));
                }
            }
        }
        if parts.iter().all(|part| matches!(part, Part::Literal(_))) {
            return Err(format!(
                "`{text}` has no field, such as %v; to read a file, use `--file {text}`"
            ));
        }
        Ok(Self(parts))
    }
}

/// What follows a `%`.
fn field(rest: &mut &str) -> Result<Part, String> {
    let (letter, encoding) = letter_and_encoding(rest)?;
    match (letter, encoding) {
        ('k', encoding) => Ok(Part::Key(encoding)),
        ('v' | 's', encoding) => Ok(Part::Value(encoding)),
        (letter, Some(_)) => Err(format!("`%{letter}` takes no encoding; %k and %v do")),
        ('%', None) => Ok(Part::Literal(b"%".to_vec())),
        ('p', None) => Ok(Part::Partition),
        ('d' | 'T', None) => Ok(Part::Timestamp),
        (letter, None) => Err(format!("`%{letter}` is none of %k %v %p %d %%")),
    }
}

/// What follows a backslash. A record is a line, so no line end stands within it.
fn escape(rest: &mut &str) -> Result<u8, String> {
    let letter = rest.chars().next();
    *rest = rest.get(1..).unwrap_or_default();
    match letter {
        Some('t') => Ok(b'\t'),
        Some('\\') => Ok(b'\\'),
        Some('n') => Err("a record is one line: \\n stands only at the end".to_owned()),
        _ => Err("a backslash is followed by t, \\, or n at the end".to_owned()),
    }
}

impl Template {
    /// The record of a line. A field reaches to the first place where what follows it stands.
    pub(crate) fn record(
        &self,
        line: &[u8],
        key: Encoding,
        value: Encoding,
    ) -> Result<InputRecord, String> {
        let mut record = InputRecord::default();
        let mut rest = line;
        let mut parts = self.0.iter().peekable();
        while let Some(part) = parts.next() {
            if let Part::Literal(literal) = part {
                rest = rest
                    .strip_prefix(&literal[..])
                    .ok_or_else(|| format!("has no `{}`", String::from_utf8_lossy(literal)))?;
                continue;
            }
            let length = match parts.peek() {
                Some(Part::Literal(end)) => find(rest, end)
                    .ok_or_else(|| format!("has no `{}`", String::from_utf8_lossy(end)))?,
                _ => rest.len(),
            };
            let (field, after) = rest.split_at(length);
            rest = after;
            match part {
                Part::Key(encoding) => record.key = Some(encoding.unwrap_or(key).read(field)?),
                Part::Value(encoding) => {
                    record.value = Some(encoding.unwrap_or(value).read(field)?);
                }
                Part::Partition => record.partition = Some(number(field, "partition")?),
                Part::Timestamp => record.timestamp_ms = Some(number(field, "timestamp")?),
                Part::Literal(_) => unreachable!("literals are matched above"),
            }
        }
        match rest.is_empty() {
            true => Ok(record),
            false => Err(format!(
                "goes on with `{}` where the format ends",
                String::from_utf8_lossy(rest)
            )),
        }
    }
}

fn number<T: FromStr>(field: &[u8], what: &str) -> Result<T, String> {
    let text = String::from_utf8_lossy(field);
    text.parse().map_err(|_| format!("`{text}` is no {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: &str, line: &str) -> Result<InputRecord, String> {
        let template: Template = format.parse()?;
        template.record(line.as_bytes(), Encoding::Raw, Encoding::Raw)
    }

    #[test]
    fn lines_are_taken_apart_as_the_format_says() {
        let expected = InputRecord {
            key: Some(vec![0, 0, 0, 7]),
            value: Some(b"a:b".to_vec()),
            partition: Some(2),
            timestamp_ms: Some(9),
            ..InputRecord::default()
        };
        assert_eq!(
            read("%p/%d %k{i32}:%v\\n", "2/9 7:a:b"),
            Ok(expected.clone())
        );
        assert_eq!(
            read("%d\\t%p\\t%v\\t%k{hex}", "9\t2\ta:b\t00000007"),
            Ok(expected)
        );
        assert_eq!(read("100%%%v", "100%x").unwrap().value, Some(b"x".to_vec()));
        assert_eq!(read("<%v>", "<>").unwrap().value, Some(Vec::new()));
    }

    #[test]
    fn a_mistake_says_what_to_do() {
        for (format, line, expected) in [
            (
                "records.txt",
                "",
                "to read a file, use `--file records.txt`",
            ),
            ("%k%v", "", "two fields need something between them"),
            ("%q", "", "`%q` is none of %k %v %p %d %%"),
            ("%v{avro}", "", "`avro` is none of raw"),
            ("%v\\n%k", "", "a record is one line"),
            ("%k=%v", "a", "has no `=`"),
            ("<%v>", "<a>b", "goes on with `b`"),
            ("%p %v", "x y", "`x` is no partition"),
        ] {
            let error = read(format, line).unwrap_err();
            assert!(error.contains(expected), "{format}: {error}");
        }
    }
}
