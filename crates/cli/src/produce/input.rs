//! What `riverrun produce` reads: a record a line, as text or as the JSON that `consume` prints.
//!
//! ```text
//!   value                      key:value with --key-separator :
//!   {"key": "k", "value": "v", "headers": [{"key": "a", "value": "1"}], "partition": 0,
//!    "timestamp": 1700000000000}      keyBase64, valueBase64 for bytes that are no text
//! ```
//!
//! A line with an `offset` is one that `consume` printed: its topic, partition, offset and leader
//! epoch say where the record was, and it gets new ones.

use super::input_record::{InputRecord, find};
use super::template::Template;
use crate::encoding::Encoding;
use clap::ValueEnum;
use data_encoding::BASE64;
use serde_json::{Map, Value};
use std::io::{self, BufRead};

/// How lines are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// A value, or a key and a value, a line
    Text,
    /// A JSON object a line
    Json,
}

/// How text becomes records.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) format: InputFormat,
    /// Where the parts of a record stand on a line, instead.
    pub(crate) template: Option<Template>,
    /// How keys are written.
    pub(crate) key_encoding: Encoding,
    /// How values are written.
    pub(crate) value_encoding: Encoding,
    /// What stands between key and value; without one, a line is a value.
    pub(crate) key_separator: Option<String>,
    /// Whether an empty value is null, a tombstone.
    pub(crate) is_empty_null: bool,
    /// Whether records keep the partitions that they were read from.
    pub(crate) keeps_partitions: bool,
}

/// Reads records from lines.
#[derive(Debug)]
pub(crate) struct Input<R> {
    reader: R,
    rules: Rules,
    line: Vec<u8>,
    line_number: u64,
}

impl<R: BufRead> Input<R> {
    pub(crate) const fn new(reader: R, rules: Rules) -> Self {
        Self {
            reader,
            rules,
            line: Vec::new(),
            line_number: 0,
        }
    }

    /// The next record, `None` at the end. What is wrong with a line names the line.
    pub(crate) fn next(&mut self) -> io::Result<Option<InputRecord>> {
        self.line.clear();
        if self.reader.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.line_number += 1;
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let record = match (&self.rules.template, self.rules.format) {
            (Some(template), _) => self.rules.template(template, line),
            (None, InputFormat::Text) => self.rules.text(line),
            (None, InputFormat::Json) => self.rules.json(line),
        };
        record.map(Some).map_err(|reason| {
            let text = format!("line {} {reason}", self.line_number);
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }
}

impl Rules {
    fn text(&self, line: &[u8]) -> Result<InputRecord, String> {
        let (key, value) = match &self.key_separator {
            None => (None, line),
            Some(separator) => {
                let at = find(line, separator.as_bytes())
                    .ok_or_else(|| format!("has no key separator `{separator}`"))?;
                (Some(&line[..at]), &line[at + separator.len()..])
            }
        };
        let present = |bytes: &[u8], encoding: Encoding| {
            let is_null = self.is_empty_null && bytes.is_empty();
            (!is_null).then(|| encoding.read(bytes)).transpose()
        };
        let key = key.map(|key| present(key, self.key_encoding)).transpose()?;
        Ok(InputRecord {
            key: key.flatten(),
            value: present(value, self.value_encoding)?,
            ..InputRecord::default()
        })
    }

    fn template(&self, template: &Template, line: &[u8]) -> Result<InputRecord, String> {
        let mut record = template.record(line, self.key_encoding, self.value_encoding)?;
        if self.is_empty_null {
            record.value = record.value.filter(|value| !value.is_empty());
        }
        Ok(record)
    }

    fn json(&self, line: &[u8]) -> Result<InputRecord, String> {
        let mut record = json(line, self.keeps_partitions)?;
        let decoded = |text: Option<Vec<u8>>, encoding: Encoding| match encoding {
            // The string that JSON holds is the text itself.
            Encoding::Raw | Encoding::Json | Encoding::Utf8 => Ok(text),
            encoding => text.map(|text| encoding.read(&text)).transpose(),
        };
        record.key = decoded(record.key, self.key_encoding)?;
        record.value = decoded(record.value, self.value_encoding)?;
        Ok(record)
    }
}

fn json(line: &[u8], keeps_partitions: bool) -> Result<InputRecord, String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        // It counts lines of its own, and there is one.
        let text = error.to_string();
        let reason = text.split(" at line ").next().unwrap_or_default();
        format!(
            "is not a JSON object: {reason} at column {}",
            error.column()
        )
    })?;
    let Value::Object(fields) = value else {
        return Err("is not a JSON object".to_owned());
    };
    let known = [
        "key",
        "keyBase64",
        "value",
        "valueBase64",
        "headers",
        "partition",
        "timestamp",
        // What `consume` prints besides; a record gets these anew.
        "topic",
        "offset",
        "leaderEpoch",
    ];
    if let Some(unknown) = fields.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!(
            "has the field `{unknown}`, which is none of {}",
            known.join(", ")
        ));
    }
    let mut headers = Vec::new();
    for header in list(&fields, "headers")? {
        let Value::Object(header) = header else {
            return Err("has a header that is not an object with `key` and `value`".to_owned());
        };
        let key = header.get("key").and_then(Value::as_str);
        let key = key.ok_or("has a header whose `key` is not a string")?;
        headers.push((key.to_owned(), bytes(header, "value", "valueBase64")?));
    }
    let partition = number(&fields, "partition")?;
    let was_read = number(&fields, "offset")?.is_some();
    let partition = partition.filter(|_| keeps_partitions || !was_read);
    Ok(InputRecord {
        key: bytes(&fields, "key", "keyBase64")?,
        value: bytes(&fields, "value", "valueBase64")?,
        headers,
        partition: partition
            .map(|index| {
                i32::try_from(index).map_err(|_| format!("has partition {index}, which cannot be"))
            })
            .transpose()?,
        timestamp_ms: number(&fields, "timestamp")?,
    })
}

fn list<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(values)) => Ok(values),
        Some(_) => Err(format!("has `{name}`, which is not a list")),
    }
}

fn number(fields: &Map<String, Value>, name: &str) -> Result<Option<i64>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_i64()
            .map(Some)
            .ok_or_else(|| format!("has `{name}`, which is not a whole number")),
    }
}

/// Bytes, written as text or in base64; a JSON value that is no string is itself the text.
fn bytes(
    fields: &Map<String, Value>,
    name: &str,
    base64_name: &str,
) -> Result<Option<Vec<u8>>, String> {
    match (fields.get(name), fields.get(base64_name)) {
        (Some(_), Some(_)) => Err(format!("has both `{name}` and `{base64_name}`")),
        (None | Some(Value::Null), None) => Ok(None),
        (Some(Value::String(text)), None) => Ok(Some(text.clone().into_bytes())),
        (Some(other), None) => Ok(Some(other.to_string().into_bytes())),
        (None, Some(base64)) => {
            let decoded = base64
                .as_str()
                .and_then(|text| BASE64.decode(text.as_bytes()).ok());
            decoded
                .map(Some)
                .ok_or_else(|| format!("has `{base64_name}`, which is not valid base64"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        format: InputFormat,
        separator: Option<&str>,
        text: &str,
    ) -> Result<Vec<InputRecord>, String> {
        let rules = Rules {
            format,
            key_separator: separator.map(str::to_owned),
            template: None,
            key_encoding: Encoding::Raw,
            value_encoding: Encoding::Raw,
            keeps_partitions: false,
            is_empty_null: true,
        };
        let mut input = Input::new(text.as_bytes(), rules);
        let mut records = Vec::new();
        while let Some(record) = input.next().map_err(|error| error.to_string())? {
            records.push(record);
        }
        Ok(records)
    }

    fn record(key: Option<&str>, value: Option<&str>) -> InputRecord {
        let bytes = |text: &str| text.as_bytes().to_vec();
        InputRecord {
            key: key.map(bytes),
            value: value.map(bytes),
            ..InputRecord::default()
        }
    }

    #[test]
    fn lines_are_values_or_keys_and_values() {
        assert_eq!(
            read(InputFormat::Text, None, "a:1\r\n\nb"),
            Ok(vec![
                record(None, Some("a:1")),
                record(None, None),
                record(None, Some("b"))
            ])
        );
        assert_eq!(
            read(InputFormat::Text, Some("::"), "a::1::2\nb::\n"),
            Ok(vec![
                record(Some("a"), Some("1::2")),
                record(Some("b"), None)
            ])
        );
        assert_eq!(
            read(InputFormat::Text, Some(":"), "a:1\nb\n"),
            Err("line 2 has no key separator `:`".to_owned())
        );
    }

    #[test]
    fn objects_say_all_of_a_record() {
        let line = r#"{"key":"k","valueBase64":"/w==","headers":[{"key":"h","value":null}],"partition":2,"timestamp":7}"#;
        let expected = InputRecord {
            key: Some(b"k".to_vec()),
            value: Some(vec![0xff]),
            headers: vec![("h".to_owned(), None)],
            partition: Some(2),
            timestamp_ms: Some(7),
        };
        assert_eq!(read(InputFormat::Json, None, line), Ok(vec![expected]));
        // `consume` printed where it was; it goes somewhere else.
        let printed = r#"{"value":"v","partition":2,"offset":1,"leaderEpoch":0}"#;
        let expected = record(None, Some("v"));
        assert_eq!(read(InputFormat::Json, None, printed), Ok(vec![expected]));
        let nested = r#"{"value":{"a":1}}"#;
        assert_eq!(
            read(InputFormat::Json, None, nested),
            Ok(vec![record(None, Some(r#"{"a":1}"#))])
        );
    }

    #[test]
    fn a_mistake_names_the_line_and_the_field() {
        for (line, expected) in [
            ("[]", "line 1 is not a JSON object"),
            (
                "{",
                "line 1 is not a JSON object: EOF while parsing an object at column 1",
            ),
            (
                r#"{"vlaue":1}"#,
                "line 1 has the field `vlaue`, which is none of",
            ),
            (r#"{"value":"a","valueBase64":""}"#, "both"),
            (r#"{"valueBase64":"?"}"#, "not valid base64"),
            (r#"{"partition":"x"}"#, "whole number"),
            (r#"{"headers":[1]}"#, "a header that is not an object"),
        ] {
            let error = read(InputFormat::Json, None, line).unwrap_err();
            assert!(
                error.starts_with("line 1 ") && error.contains(expected),
                "{line}: {error}"
            );
        }
    }
}
