//! Two answers, compared field by field, and the differences that are meant.
//!
//! A line of `interop/differential-exceptions.txt` is `API  PATH  REASON`. The API is a name, with
//! versions and conditions on the request's fields where it needs some (`Fetch`, `Fetch:4-6`,
//! `FindCoordinator{KeyType=1}`, `InitProducerId{TransactionalId!=null}`); the path has no indices
//! (`Responses[].Partitions[].ErrorCode`), or names the element that one answer lacks
//! (`Topics[some-topic](missing)`), and a `*` in either stands for anything. `Groups(repeated)` says
//! that one answer has elements of `Groups` more often than the other, which are the same otherwise.

use std::collections::BTreeMap;
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
    fn whole(path: &str, kafka: &Value, other: &Value) -> Self {
        Self {
            path: path.to_owned(),
            kafka: kafka.to_string(),
            other: other.to_string(),
        }
    }

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

/// Fields by which the elements of an array are told apart.
const IDENTITIES: &[&str] = &[
    "Name",
    "Topic",
    "TopicName",
    "ResourceName",
    "ApiKey",
    "GroupId",
    "TransactionalId",
    "Key",
];

/// The elements by what identifies them; `None` when not each has a name of its own.
fn by_identity(elements: &[Value]) -> Option<BTreeMap<String, &Value>> {
    let identity = |element: &Value| {
        let one = element.as_struct()?;
        let value = IDENTITIES.iter().find_map(|name| one.field(name))?;
        Some(plain(value))
    };
    let mut named = BTreeMap::new();
    for element in elements {
        if named.insert(identity(element)?, element).is_some() {
            return None;
        }
    }
    Some(named)
}

/// The elements of an array, those that say the same of the same thing once. Elements of one identity
/// become one that has the elements of all their arrays, unless they differ in something else.
fn collapsed(elements: &[Value]) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    for element in elements {
        let element = match element {
            Value::Struct(one) => Value::Struct(collapsed_fields(one)),
            other => other.clone(),
        };
        let merged = found
            .iter_mut()
            .find_map(|earlier| merged(earlier, &element).map(|both| *earlier = both));
        if merged.is_none() {
            found.push(element);
        }
    }
    found.sort_by_cached_key(ToString::to_string);
    found
}

fn collapsed_fields(one: &Struct) -> Struct {
    let fields = one.fields.iter().map(|(name, value)| {
        let value = match value {
            Value::Array(elements) => Value::Array(collapsed(elements)),
            other => other.clone(),
        };
        (name.clone(), value)
    });
    Struct {
        fields: fields.collect(),
        unknown: one.unknown.clone(),
    }
}

/// Two elements as one, if they say nothing different of the same thing.
fn merged(one: &Value, other: &Value) -> Option<Value> {
    if one == other {
        return Some(one.clone());
    }
    let (one, other) = (one.as_struct()?, other.as_struct()?);
    let is_same = |name: &str| one.field(name) == other.field(name);
    let identity = IDENTITIES.iter().find(|name| one.field(name).is_some())?;
    if !is_same(identity) || one.unknown != other.unknown {
        return None;
    }
    let fields = one.fields.iter().map(|(name, value)| {
        let value = match (value, other.field(name)?) {
            (Value::Array(one), Value::Array(other)) => {
                Value::Array(collapsed(&[&one[..], &other[..]].concat()))
            }
            (value, other) => (value == other).then(|| value.clone())?,
        };
        Some((name.clone(), value))
    });
    Some(Value::Struct(Struct {
        fields: fields.collect::<Option<_>>()?,
        unknown: one.unknown.clone(),
    }))
}

/// What differs between arrays in which one side may repeat itself.
fn compare_repeated(path: &str, kafka: &[Value], other: &[Value], out: &mut Vec<Difference>) {
    let once = (collapsed(kafka), collapsed(other));
    if once.0.len() == kafka.len() && once.1.len() == other.len() {
        let (kafka, other) = (Value::Array(kafka.to_vec()), Value::Array(other.to_vec()));
        return out.push(Difference::whole(path, &kafka, &other));
    }
    out.push(Difference {
        path: format!("{path}(repeated)"),
        kafka: format!("{} elements", kafka.len()),
        other: format!("{} elements", other.len()),
    });
    compare_values(path, &Value::Array(once.0), &Value::Array(once.1), out);
}

/// The value as conditions and identities write it: text without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), Into::into)
}

/// Elements that only one side has, and differences of those that both have.
fn compare_named(
    path: &str,
    kafka: &BTreeMap<String, &Value>,
    other: &BTreeMap<String, &Value>,
    out: &mut Vec<Difference>,
) {
    let only = |suffix: &str, name: &str, kafka: String, other: String| Difference {
        path: format!("{path}[{name}]{suffix}"),
        kafka,
        other,
    };
    let absent = || "(absent)".to_owned();
    for (name, value) in kafka {
        match other.get(name) {
            Some(other) => compare_values(&format!("{path}[{name}]"), value, other, out),
            None => out.push(only("(missing)", name, value.to_string(), absent())),
        }
    }
    for (name, value) in other {
        if !kafka.contains_key(name) {
            out.push(only("(added)", name, absent(), value.to_string()));
        }
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
        (Value::Array(kafka_elements), Value::Array(other_elements)) => {
            match (by_identity(kafka_elements), by_identity(other_elements)) {
                (Some(kafka), Some(other)) => compare_named(path, &kafka, &other, out),
                _ => compare_repeated(path, kafka_elements, other_elements, out),
            }
        }
        _ => out.push(Difference::whole(path, kafka, other)),
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
    conditions: Vec<Condition>,
    path: String,
}

/// What a field of the request must be, somewhere in it.
#[derive(Debug, PartialEq, Eq)]
struct Condition {
    field: String,
    is_equal: bool,
    value: String,
}

impl Condition {
    fn parse(text: &str) -> Result<Self> {
        let (is_equal, (field, value)) = match text.split_once("!=") {
            Some(parts) => (false, parts),
            None => (true, text.split_once('=').context("no = in a condition")?),
        };
        Ok(Self {
            field: field.to_owned(),
            is_equal,
            value: value.to_owned(),
        })
    }

    fn holds(&self, request: &[(String, String)]) -> bool {
        let mut values = request.iter().filter(|(field, _)| *field == self.field);
        values.any(|(_, value)| matches(&self.value, value) == self.is_equal)
    }
}

/// The fields of a request by their own names, as conditions see them.
pub(super) fn condition_fields(request: &Struct) -> Vec<(String, String)> {
    let leaves = request.leaves().into_iter();
    let fields = leaves.map(|(path, value)| {
        let name = path.rsplit('.').next().unwrap_or(&path);
        let name = name.split('[').next().unwrap_or(name);
        (name.to_owned(), plain(value))
    });
    fields.collect()
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
        let (api, conditions) = match api.split_once('{') {
            None => (api, Vec::new()),
            Some((api, conditions)) => {
                let conditions = conditions.strip_suffix('}').context("no } at the end")?;
                let conditions = conditions.split(',').map(Condition::parse);
                (api, conditions.collect::<Result<_>>()?)
            }
        };
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
            conditions,
            path: path.to_owned(),
        })
    }

    /// Whether a difference in the answer to a request with these fields is meant.
    pub(super) fn cover(
        &self,
        api: &str,
        version: i16,
        request: &[(String, String)],
        difference: &Difference,
    ) -> bool {
        self.lines.iter().any(|line| {
            matches(&line.api, api)
                && (line.versions.0..=line.versions.1).contains(&version)
                && line.conditions.iter().all(|one| one.holds(request))
                && (matches(&line.path, &difference.field())
                    || matches(&line.path, &difference.path))
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
    fn a_line_may_ask_for_fields_of_the_request() {
        let request = |key_type: i64, id: Value| Struct {
            fields: vec![
                ("KeyType".into(), key_type.into()),
                ("Id".into(), id),
                ("Keys".into(), Value::Array(vec!["a".into(), "b".into()])),
            ],
            unknown: Vec::new(),
        };
        let check = |line: &str, request: &Struct, expected: bool| {
            let exceptions = Exceptions {
                lines: vec![Exceptions::parse(line).unwrap()],
            };
            let difference = Difference {
                path: "Topics[some](missing)".into(),
                kafka: String::new(),
                other: String::new(),
            };
            let fields = condition_fields(request);
            let covers = exceptions.cover("Find", 3, &fields, &difference);
            assert_eq!(covers, expected, "{line}");
        };
        let with = request(1, "x".into());
        let without = request(10, Value::Null);
        for (line, first, second) in [
            ("Find{KeyType=1}  *  why", true, false),
            ("Find:0-3{KeyType=1,Keys=b}  *  why", true, false),
            ("Find:4{KeyType=1}  *  why", false, false),
            ("Find{Id!=null}  *  why", true, false),
            ("*{Keys=c}  *  why", false, false),
            ("Find  Topics[*](missing)  why", true, true),
            ("Find  Topics[some](missing)  why", true, true),
            ("Find  Topics[other](missing)  why", false, false),
        ] {
            check(line, &with, first);
            check(line, &without, second);
        }
    }

    #[test]
    fn elements_are_compared_by_their_names() {
        let element = |name: &str, count: i64| {
            let fields = vec![("Name".into(), name.into()), ("Count".into(), count.into())];
            Value::Struct(Struct {
                fields,
                unknown: Vec::new(),
            })
        };
        let answer = |elements: Vec<Value>| Struct {
            fields: vec![("Topics".into(), Value::Array(elements))],
            unknown: Vec::new(),
        };
        let kafka = answer(vec![element("a", 1), element("b", 2), element("c", 3)]);
        let other = answer(vec![element("b", 5), element("c", 3)]);
        let paths = |kafka, other| {
            let differences = compare(kafka, other).into_iter();
            differences.map(|one| one.path).collect::<Vec<_>>()
        };
        let expected = ["Topics[a](missing)", "Topics[b].Count"];
        assert_eq!(paths(&kafka, &other), expected);
        let expected = ["Topics[b].Count", "Topics[a](added)"];
        assert_eq!(paths(&other, &kafka), expected);
    }

    #[test]
    fn elements_that_one_answer_repeats_are_compared_once() {
        let structure = |fields: Vec<(&str, Value)>| {
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value));
            Value::Struct(Struct {
                fields: fields.collect(),
                unknown: Vec::new(),
            })
        };
        let topic = |name: &str, indexes: &[i64]| {
            let indexes = indexes.iter().map(|index| (*index).into()).collect();
            structure(vec![
                ("Key", name.into()),
                ("Partitions", Value::Array(indexes)),
            ])
        };
        let check = |kafka: Vec<Value>, other: Vec<Value>, expected: &[&str]| {
            let answer = |elements| Struct {
                fields: vec![("Topics".into(), Value::Array(elements))],
                unknown: Vec::new(),
            };
            let differences = compare(&answer(kafka), &answer(other)).into_iter();
            let paths: Vec<_> = differences.map(|one| one.path).collect();
            assert_eq!(paths, expected);
        };
        let repeated = || vec![topic("a", &[0]), topic("b", &[1]), topic("a", &[0])];
        let once = vec![topic("a", &[0]), topic("b", &[1])];
        check(repeated(), once.clone(), &["Topics(repeated)"]);
        let parts = vec![topic("a", &[0, 0]), topic("a", &[1]), topic("b", &[1])];
        let whole = vec![topic("a", &[0, 1]), topic("b", &[1])];
        check(parts, whole, &["Topics(repeated)"]);
        // What is repeated excuses nothing else.
        let others = vec![topic("a", &[7]), topic("b", &[1])];
        let expected = ["Topics(repeated)", "Topics[0].Partitions[0]"];
        check(repeated(), others, &expected);
        let expected = ["Topics(repeated)", "Topics[b](missing)"];
        check(repeated(), vec![topic("a", &[0])], &expected);
        check(once, vec![topic("a", &[0])], &["Topics[b](missing)"]);
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
