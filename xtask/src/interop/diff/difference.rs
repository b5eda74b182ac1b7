//! Two answers, compared field by field, and the differences that are meant.
//!
//! A line of `interop/differential-exceptions.txt` is `API  PATH  REASON`. The API is a name, with
//! versions where it needs some (`Fetch`, `Fetch:4-6`); the path has no indices
//! (`Responses[].Partitions[].ErrorCode`), and a `*` in it stands for anything.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use interpreter::{Struct, Value};

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The field with indices, such as `Topics[0].ErrorCode`.
    pub(super) path: String,
    pub(super) kafka: String,
    pub(super) other: String,
}

impl Difference {
    /// Whether the servers may differ in their state from here on.
    pub(super) fn tells_of_state(&self) -> bool {
        self.path == "(outcome)" || self.path.ends_with("ErrorCode")
    }

    /// The path without the indices.
    pub(super) fn field(&self) -> String {
        let mut field = String::new();
        let mut in_index = false;
        for c in self.path.chars() {
            in_index = c == '[' || in_index && c != ']';
            if !in_index || c == '[' {
                field.push(c);
            }
        }
        field
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n    kafka {}\n    other {}",
            self.path, self.kafka, self.other
        )
    }
}

/// The fields in which two answers of the same message and version differ.
pub(super) fn compare(kafka: &Struct, other: &Struct) -> Vec<Difference> {
    let mut differences = Vec::new();
    compare_structs("", kafka, other, &mut differences);
    differences
}

fn compare_structs(path: &str, kafka: &Struct, other: &Struct, out: &mut Vec<Difference>) {
    for (name, kafka) in &kafka.fields {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        match other.field(name) {
            Some(other) => compare_values(&path, kafka, other, out),
            None => out.push(Difference {
                path,
                kafka: kafka.to_string(),
                other: "(absent)".into(),
            }),
        }
    }
    for (name, value) in &other.fields {
        if kafka.field(name).is_none() {
            out.push(Difference {
                path: format!("{path}.{name}"),
                kafka: "(absent)".into(),
                other: value.to_string(),
            });
        }
    }
    if kafka.unknown != other.unknown {
        out.push(Difference {
            path: format!("{path}.(unknown tags)"),
            kafka: format!("{:?}", kafka.unknown),
            other: format!("{:?}", other.unknown),
        });
    }
}

fn compare_values(path: &str, kafka: &Value, other: &Value, out: &mut Vec<Difference>) {
    match (kafka, other) {
        (Value::Struct(kafka), Value::Struct(other)) => compare_structs(path, kafka, other, out),
        (Value::Array(kafka), Value::Array(other)) if kafka.len() == other.len() => {
            for (index, (kafka, other)) in kafka.iter().zip(other).enumerate() {
                compare_values(&format!("{path}[{index}]"), kafka, other, out);
            }
        }
        _ if kafka == other => {}
        _ => out.push(Difference {
            path: path.to_owned(),
            kafka: kafka.to_string(),
            other: other.to_string(),
        }),
    }
}

/// The lines of the exceptions file.
#[derive(Debug, Default)]
pub(super) struct Exceptions {
    lines: Vec<Exception>,
}

#[derive(Debug)]
struct Exception {
    api: String,
    versions: (i16, i16),
    path: String,
}

impl Exceptions {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("no {}", path.display()))?;
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let lines = lines.map(|line| {
            Self::parse(line).with_context(|| format!("`{line}` is not `API  PATH  REASON`"))
        });
        Ok(Self {
            lines: lines.collect::<Result<_>>()?,
        })
    }

    fn parse(line: &str) -> Result<Exception> {
        let (api, rest) = line.split_once(char::is_whitespace).context("no path")?;
        let rest = rest.trim_start();
        let (path, _reason) = rest.split_once(char::is_whitespace).context("no reason")?;
        let (api, versions) = match api.split_once(':') {
            None => (api, (0, i16::MAX)),
            Some((api, versions)) => {
                let (first, last) = versions.split_once('-').unwrap_or((versions, versions));
                (api, (first.parse()?, last.parse()?))
            }
        };
        Ok(Exception {
            api: api.to_owned(),
            versions,
            path: path.to_owned(),
        })
    }

    /// Whether a difference in `field` of an answer is meant.
    pub(super) fn cover(&self, api: &str, version: i16, field: &str) -> bool {
        self.lines.iter().any(|line| {
            line.api == api
                && (line.versions.0..=line.versions.1).contains(&version)
                && matches(&line.path, field)
        })
    }
}

/// Whether `text` is as `pattern` says, in which `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            starts.any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        let check = |pattern, text, expected| assert_eq!(matches(pattern, text), expected);
        check("A[].B", "A[].B", true);
        check("A[].B", "A[].C", false);
        check("A[].*", "A[].B.C", true);
        check("*.C", "A[].B.C", true);
        check("*.C", "A[].B.D", false);
        check("*", "", true);
    }

    #[test]
    fn fields_have_no_indices() {
        let difference = Difference {
            path: "Topics[12].Partitions[0].ErrorCode".into(),
            kafka: String::new(),
            other: String::new(),
        };
        assert_eq!(difference.field(), "Topics[].Partitions[].ErrorCode");
    }
}
