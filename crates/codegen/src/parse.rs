//! Schema text to [`Schema`].

use crate::schema::{Api, Field, FieldType, Message, Schema, StructType, VersionRange};
use std::fmt;

/// What is wrong with a schema text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from one.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

impl std::error::Error for ParseError {}

/// Parses the text of one schema file.
///
/// # Errors
/// A [`ParseError`] for the first line that is not a schema's.
pub fn parse(text: &str) -> Result<Schema, ParseError> {
    let mut parser = Parser {
        schema: Schema::default(),
        comment: String::new(),
        open: Vec::new(),
    };
    for (index, line) in text.lines().enumerate() {
        parser.line(line).map_err(|what| ParseError {
            line: index + 1,
            what,
        })?;
    }
    parser.check().map_err(|what| ParseError {
        line: text.lines().count(),
        what,
    })?;
    Ok(parser.schema)
}

struct Parser {
    schema: Schema,
    comment: String,
    /// For each indentation level, the struct that its fields belong to and the field's versions.
    open: Vec<(String, VersionRange)>,
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return Ok(());
        }
        if let Some(comment) = trimmed.strip_prefix('#') {
            comment.trim().clone_into(&mut self.comment);
            return Ok(());
        }
        let indent = line.len() - line.trim_start().len();
        if !indent.is_multiple_of(4) || line.contains('\t') {
            return Err("indentation is four spaces a level".into());
        }
        match indent / 4 {
            0 => self.heading(trimmed),
            level => match trimmed.strip_prefix("struct ") {
                Some(name) if level == 1 => {
                    let versions = self.message()?.versions;
                    self.open.truncate(1);
                    self.new_struct(name)?;
                    self.open.push((name.to_owned(), versions));
                    Ok(())
                }
                Some(_) => Err("a shared struct stands directly under its message".into()),
                None => self.field(level, trimmed),
            },
        }
    }

    fn heading(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["api", key, name] => {
                let key = key
                    .parse()
                    .map_err(|_| format!("`{key}` is not an API key"))?;
                let purpose = std::mem::take(&mut self.comment);
                let name = (*name).to_owned();
                let api = Api {
                    key,
                    name,
                    purpose,
                    broker: false,
                    controller: false,
                    unstable_from: None,
                };
                self.schema.apis.push(api);
                Ok(())
            }
            ["listeners", names @ ..] => {
                let api = self
                    .schema
                    .apis
                    .last_mut()
                    .ok_or("`listeners` without `api`")?;
                api.broker = names.contains(&"broker");
                api.controller = names.contains(&"controller");
                Ok(())
            }
            ["unstable", first] => {
                let first = first.strip_suffix('+').unwrap_or(first);
                let first = first
                    .parse()
                    .map_err(|_| format!("`{first}` is not a version"))?;
                let api = self.schema.apis.last_mut();
                api.ok_or("`unstable` without `api`")?.unstable_from = Some(first);
                Ok(())
            }
            [
                kind @ ("request" | "response"),
                versions,
                "flexible",
                flexible,
            ] => {
                let api = self
                    .schema
                    .apis
                    .last()
                    .ok_or("a request or response without `api`")?;
                let suffix = if *kind == "request" {
                    "Request"
                } else {
                    "Response"
                };
                let name = format!("{}{suffix}", api.name);
                self.new_message(name, versions, flexible, None)
            }
            ["message", name, versions, "flexible", flexible] => {
                self.new_message((*name).to_owned(), versions, flexible, None)
            }
            ["message", name, versions, "flexible", flexible, "id", id] => {
                let id = id.parse().map_err(|_| format!("`{id}` is not an id"))?;
                self.new_message((*name).to_owned(), versions, flexible, Some(id))
            }
            _ => Err(format!("`{line}` is not a heading")),
        }
    }

    fn new_message(
        &mut self,
        name: String,
        versions: &str,
        flexible: &str,
        id: Option<i16>,
    ) -> Result<(), String> {
        let any = VersionRange {
            first: 0,
            last: i16::MAX,
        };
        let versions = parse_versions(versions, any)?;
        if versions.last == i16::MAX {
            return Err("a message needs a last version".into());
        }
        let flexible_from = match flexible {
            "none" => versions.last + 1,
            range => parse_versions(range, any)?.first,
        };
        let root = StructType {
            name: name.clone(),
            fields: Vec::new(),
        };
        self.open = vec![(name.clone(), versions)];
        self.schema.messages.push(Message {
            name,
            versions,
            flexible_from,
            id,
            structs: vec![root],
        });
        Ok(())
    }

    fn message(&mut self) -> Result<&mut Message, String> {
        self.schema
            .messages
            .last_mut()
            .ok_or_else(|| "a field without a message".to_owned())
    }

    fn new_struct(&mut self, name: &str) -> Result<(), String> {
        let message = self.message()?;
        if message.struct_named(name).is_some() {
            return Err(format!("struct `{name}` is defined twice"));
        }
        message.structs.push(StructType {
            name: name.to_owned(),
            fields: Vec::new(),
        });
        Ok(())
    }

    fn field(&mut self, level: usize, line: &str) -> Result<(), String> {
        let (owner, parent) = self
            .open
            .get(level - 1)
            .cloned()
            .ok_or("indented deeper than its parent")?;
        let field = parse_field(line, parent)?;
        self.open.truncate(level);
        if let FieldType::Struct(name) = &field.kind {
            self.open.push((name.clone(), field.versions));
        }
        let message = self.message()?;
        if message.struct_named(&owner).is_none() {
            message.structs.push(StructType {
                name: owner.clone(),
                fields: Vec::new(),
            });
        }
        let owner = message.structs.iter_mut().find(|s| s.name == owner);
        owner.expect("made just above").fields.push(field);
        Ok(())
    }

    /// Every struct that a field names must exist.
    fn check(&self) -> Result<(), String> {
        for message in &self.schema.messages {
            for field in message.structs.iter().flat_map(|s| &s.fields) {
                match &field.kind {
                    FieldType::Struct(name) if message.struct_named(name).is_none() => {
                        return Err(format!("{}: struct `{name}` is not defined", message.name));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn parse_field(line: &str, parent: VersionRange) -> Result<Field, String> {
    let (name, rest) = line.split_once(": ").ok_or("a field is `Name: type, …`")?;
    let mut attributes = rest.split(", ");
    let kind = attributes.next().unwrap_or_default();
    let (array, kind) = match kind.strip_prefix("[]") {
        Some(element) => (true, element),
        None => (false, kind),
    };
    let mut field = Field {
        name: name.to_owned(),
        kind: parse_type(kind)?,
        array,
        versions: parent,
        nullable: VersionRange::NONE,
        tag: None,
        default: None,
    };
    for attribute in attributes {
        match attribute.split_once(' ') {
            Some(("versions", versions)) => field.versions = parse_versions(versions, parent)?,
            Some(("nullable", versions)) => {
                field.nullable = parse_versions(versions, field.versions)?;
            }
            None if attribute == "nullable" => field.nullable = field.versions,
            Some(("tag", tag)) => {
                field.tag = Some(tag.parse().map_err(|_| format!("`{tag}` is not a tag"))?);
            }
            Some(("default", value)) => field.default = Some(value.to_owned()),
            _ => return Err(format!("`{attribute}` is not an attribute of a field")),
        }
    }
    Ok(field)
}

fn parse_type(text: &str) -> Result<FieldType, String> {
    Ok(match text {
        "bool" => FieldType::Bool,
        "int8" => FieldType::Integer("i8"),
        "int16" => FieldType::Integer("i16"),
        "uint16" => FieldType::Integer("u16"),
        "int32" => FieldType::Integer("i32"),
        "int64" => FieldType::Integer("i64"),
        "float64" => FieldType::Float64,
        "uuid" => FieldType::Uuid,
        "string" => FieldType::String,
        "bytes" => FieldType::Bytes,
        "records" => FieldType::Records,
        name if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
            FieldType::Struct(name.to_owned())
        }
        _ => return Err(format!("`{text}` is not a type")),
    })
}

/// `3`, `3-5` or `3+`, within `parent`.
fn parse_versions(text: &str, parent: VersionRange) -> Result<VersionRange, String> {
    let number = |part: &str| {
        part.parse::<i16>()
            .map_err(|_| format!("`{text}` is not versions"))
    };
    let range = if let Some(first) = text.strip_suffix('+') {
        VersionRange {
            first: number(first)?,
            last: parent.last,
        }
    } else if let Some((first, last)) = text.split_once('-') {
        VersionRange {
            first: number(first)?,
            last: number(last)?,
        }
    } else {
        VersionRange {
            first: number(text)?,
            last: number(text)?,
        }
    };
    let range = range.intersection(parent);
    if range.is_empty() {
        Err(format!("`{text}` is outside the parent's versions"))
    } else {
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_error(text: &str, expect: &str) {
        assert_eq!(parse(text).expect_err("not a schema").to_string(), expect);
    }

    #[test]
    fn a_message_with_a_nested_and_a_shared_struct() {
        let text = "api 7 Thing\nlisteners broker\n\nrequest 1-3 flexible 2+\n    \
                    Topics: []Topic, versions 2+, nullable 3+\n        Name: string\n    \
                    Other: Shared\n    struct Shared\n        Id: uuid, tag 1, versions 2+\n";
        let schema = parse(text).expect("a schema");
        let message = &schema.messages[0];
        assert_eq!(message.name, "ThingRequest");
        assert_eq!(message.structs.len(), 3);
        let topics = &message.root().fields[0];
        assert_eq!(topics.versions, VersionRange { first: 2, last: 3 });
        assert_eq!(topics.nullable, VersionRange { first: 3, last: 3 });
        assert_eq!(
            message
                .struct_named("Topic")
                .map(|s| s.fields[0].versions.first),
            Some(2)
        );
        assert_eq!(
            message.struct_named("Shared").map(|s| s.fields[0].tag),
            Some(Some(1))
        );
    }

    #[test]
    fn errors_name_the_line() {
        check_error(
            "request 0 flexible 0+\n",
            "1: a request or response without `api`",
        );
        check_error(
            "message X 0 flexible none\n    A: int31\n",
            "2: `int31` is not a type",
        );
        check_error(
            "message X 0 flexible none\n  A: int8\n",
            "2: indentation is four spaces a level",
        );
        check_error(
            "message X 0 flexible none\n    A: Y\n",
            "2: X: struct `Y` is not defined",
        );
        check_error(
            "message X 0-1 flexible none\n    A: int8, versions 2+\n",
            "2: `2+` is outside the parent's versions",
        );
    }
}
