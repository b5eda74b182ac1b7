//! [`Schema`] to Rust source: a module for each message, and the table of APIs.

use crate::schema::{Api, Field, FieldType, Message, Schema, StructType, VersionRange};
use std::fmt::Write;

/// The codecs of all messages: a module for each, its message re-exported beside it.
pub fn generate_messages(schema: &Schema) -> String {
    let mut out = String::new();
    for message in &schema.messages {
        let module = snake_case(&message.name);
        let name = &message.name;
        line(&mut out, 0, &format!("/// The structs of [`{name}`]."));
        line(&mut out, 0, &format!("pub mod {module} {{"));
        line(
            &mut out,
            1,
            "use ::model::{Array, DecodeError, Element, Reader, Uuid, Version, Writer};",
        );
        line(
            &mut out,
            1,
            "use ::model::varint::{size_of_unsigned_varint, write_unsigned_varint};",
        );
        for one in &message.structs {
            Emitter { message, one }.emit(&mut out);
        }
        Emitter {
            message,
            one: message.root(),
        }
        .emit_message(&mut out);
        line(&mut out, 0, "}");
        line(&mut out, 0, &format!("pub use {module}::{name};"));
    }
    out
}

/// The macro `for_each_message`, which hands the names of all messages to another macro.
pub fn generate_message_list(schema: &Schema) -> String {
    let mut out = String::new();
    line(
        &mut out,
        0,
        "/// Hands the names of all messages to the macro `$callback`.",
    );
    line(&mut out, 0, "#[macro_export]");
    line(&mut out, 0, "macro_rules! for_each_message {");
    line(&mut out, 1, "($callback:ident) => { $callback! {");
    for message in &schema.messages {
        line(&mut out, 2, &message.name);
    }
    line(&mut out, 1, "} };");
    line(&mut out, 0, "}");
    out
}

/// The macro `for_each_api`, which hands each API's name and its two messages to another macro.
pub fn generate_api_list(schema: &Schema) -> String {
    let mut out = String::new();
    let about = "/// Hands `Api ApiRequest ApiResponse;` of every API to the macro `$callback`.";
    line(&mut out, 0, about);
    line(&mut out, 0, "#[macro_export]");
    line(&mut out, 0, "macro_rules! for_each_api {");
    line(&mut out, 1, "($callback:ident) => { $callback! {");
    for Api { name, .. } in &schema.apis {
        line(
            &mut out,
            2,
            &format!("{name} {name}Request {name}Response;"),
        );
    }
    line(&mut out, 1, "} };");
    line(&mut out, 0, "}");
    out
}

/// What ties each request to its API and its response: the implementations of `Request`.
pub fn generate_requests(schema: &Schema) -> String {
    let mut out = String::new();
    for Api { name, .. } in &schema.apis {
        let life_of = |suffix: &str| {
            let full = format!("{name}{suffix}");
            let message = schema.messages.iter().find(|m| m.name == full);
            let message = message.expect("each api has both messages");
            let one = message.root();
            Emitter { message, one }.lifetime(&full)
        };
        let (request, response) = (life_of("Request"), life_of("Response"));
        let head = format!("impl<'a> crate::Request<'a> for {name}Request{request} {{");
        line(&mut out, 0, &head);
        let api = format!("const API: crate::ApiKey = crate::ApiKey::{name};");
        line(&mut out, 1, &api);
        let answer = format!("type Response = {name}Response{response};");
        line(&mut out, 1, &answer);
        line(&mut out, 0, "}");
    }
    out
}

/// The enum `ApiKey` and the facts of each API.
pub fn generate_api_keys(schema: &Schema) -> String {
    let mut out = String::new();
    line(
        &mut out,
        0,
        "/// An API of the protocol; its number is the one in a request's header.",
    );
    line(
        &mut out,
        0,
        "#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]",
    );
    line(&mut out, 0, "#[repr(i16)]");
    line(&mut out, 0, "pub enum ApiKey {");
    for api in &schema.apis {
        line(&mut out, 1, &format!("/// {}", api.purpose));
        line(&mut out, 1, &format!("{} = {},", api.name, api.key));
    }
    line(&mut out, 0, "}");
    line(&mut out, 0, "static APIS: &[ApiFacts] = &[");
    for api in &schema.apis {
        let find = |suffix: &str| {
            let name = format!("{}{suffix}", api.name);
            schema
                .messages
                .iter()
                .find(|m| m.name == name)
                .expect("each api has both messages")
        };
        let (request, response) = (find("Request"), find("Response"));
        let facts = format!(
            "ApiFacts {{ key: ApiKey::{}, name: \"{}\", purpose: \"{}\", min_version: {}, \
             max_version: {}, \
             max_stable_version: {}, request_flexible_from: {}, response_flexible_from: {}, broker: {}, \
             controller: {} }},",
            api.name,
            api.name,
            api.purpose.replace('"', "\\\""),
            request.versions.first,
            request.versions.last,
            api.unstable_from
                .map_or(request.versions.last, |first| first - 1),
            request.flexible_from,
            response.flexible_from,
            api.broker,
            api.controller,
        );
        line(&mut out, 1, &facts);
    }
    line(&mut out, 0, "];");
    out
}

struct Emitter<'a> {
    message: &'a Message,
    one: &'a StructType,
}

impl Emitter<'_> {
    fn emit(&self, out: &mut String) {
        let name = &self.one.name;
        let life = self.lifetime(&self.one.name);
        line(
            out,
            1,
            &format!("/// `{name}` of [`{}`].", self.message.name),
        );
        line(out, 1, "#[derive(Debug, Clone, PartialEq)]");
        line(out, 1, &format!("pub struct {name}{life} {{"));
        for field in &self.one.fields {
            line(
                out,
                2,
                &format!("/// `{}`{}.", field.name, described(field, self.message)),
            );
            line(
                out,
                2,
                &format!("pub {}: {},", field_name(field), self.rust_type(field)),
            );
        }
        line(out, 1, "}");
        let elided = if life.is_empty() { "" } else { "<'_>" };
        line(out, 1, &format!("impl Default for {name}{elided} {{"));
        line(out, 2, "fn default() -> Self {");
        let fields: Vec<String> = self.one.fields.iter().map(field_default).collect();
        line(out, 3, &format!("Self {{ {} }}", fields.join(", ")));
        line(out, 2, "}");
        line(out, 1, "}");
        line(out, 1, &format!("impl<'a> Element<'a> for {name}{life} {{"));
        self.emit_decode(out);
        self.emit_size(out);
        self.emit_encode(out);
        line(out, 1, "}");
    }

    fn emit_message(&self, out: &mut String) {
        let Message {
            name,
            versions,
            flexible_from,
            id,
            ..
        } = self.message;
        let life = self.lifetime(name);
        line(
            out,
            1,
            &format!("impl<'a> ::model::Message<'a> for {name}{life} {{"),
        );
        line(out, 2, &format!("const NAME: &'static str = \"{name}\";"));
        line(
            out,
            2,
            &format!("const MIN_VERSION: i16 = {};", versions.first),
        );
        line(
            out,
            2,
            &format!("const MAX_VERSION: i16 = {};", versions.last),
        );
        line(
            out,
            2,
            &format!("const FLEXIBLE_FROM: i16 = {flexible_from};"),
        );
        line(out, 1, "}");
        if let Some(id) = id {
            let elided = if life.is_empty() { "" } else { "<'_>" };
            line(out, 1, &format!("impl {name}{elided} {{"));
            line(
                out,
                2,
                "/// The number that stands for this message on disk.",
            );
            line(out, 2, &format!("pub const ID: i16 = {id};"));
            line(out, 1, "}");
        }
    }

    fn emit_decode(&self, out: &mut String) {
        line(out, 2, "#[inline]");
        line(
            out,
            2,
            "#[allow(unused_variables, unused_mut, reason = \"some structs need neither\")]",
        );
        line(
            out,
            2,
            "fn decode(r: &mut Reader<'a>, v: Version) -> Result<Self, DecodeError> {",
        );
        for field in self.plain() {
            let name = field_name(field);
            let read = self.read(field);
            let code = match self.condition(field.versions) {
                Some(condition) => {
                    format!(
                        "let {name} = if {condition} {{ {read} }} else {{ {} }};",
                        default_value(field)
                    )
                }
                None => format!("let {name} = {read};"),
            };
            line(out, 3, &code);
        }
        for field in self.tagged() {
            let code = format!("let mut {} = {};", field_name(field), default_value(field));
            line(out, 3, &code);
        }
        if self.flexible() {
            line(out, 3, "if v.flexible {");
            if self.tagged().next().is_none() {
                line(out, 4, "r.skip_tagged_fields()?;");
            } else {
                line(out, 4, "r.tagged_fields(|tag, r| {");
                line(out, 5, "match tag {");
                for field in self.tagged() {
                    let guard = self.condition(field.versions);
                    let guard = guard.map(|g| format!(" if {g}")).unwrap_or_default();
                    let tag = field.tag.expect("a tagged field");
                    let (name, read) = (field_name(field), self.read(field));
                    line(out, 6, &format!("{tag}{guard} => {name} = {read},"));
                }
                line(out, 6, "_ => {}");
                line(out, 5, "}");
                line(out, 5, "Ok(())");
                line(out, 4, "})?;");
            }
            line(out, 3, "}");
        }
        let names: Vec<String> = self.one.fields.iter().map(field_name).collect();
        line(out, 3, &format!("Ok(Self {{ {} }})", names.join(", ")));
        line(out, 2, "}");
    }

    fn emit_size(&self, out: &mut String) {
        line(out, 2, "#[inline]");
        line(
            out,
            2,
            "#[allow(unused_variables, unused_mut, reason = \"some structs need neither\")]",
        );
        line(out, 2, "fn encoded_size(&self, v: Version) -> usize {");
        line(out, 3, "let mut size = 0;");
        for field in self.plain() {
            let code = format!("size += {};", self.size(field));
            self.conditional(out, field.versions, &code);
        }
        if self.flexible() {
            line(out, 3, "if v.flexible {");
            line(out, 4, "let mut tags = 0u32;");
            for field in self.tagged() {
                let tag = field.tag.expect("a tagged field");
                let condition = self.present(field);
                let size = self.size(field);
                line(
                    out,
                    4,
                    &format!(
                        "if {condition} {{ tags += 1; size += Writer::tagged_size({tag}, {size}); }}"
                    ),
                );
            }
            line(out, 4, "size += size_of_unsigned_varint(tags);");
            line(out, 3, "}");
        }
        line(out, 3, "size");
        line(out, 2, "}");
    }

    fn emit_encode(&self, out: &mut String) {
        line(out, 2, "#[inline]");
        line(
            out,
            2,
            "#[allow(unused_variables, reason = \"some structs need neither\")]",
        );
        line(out, 2, "fn encode(&self, v: Version, out: &mut Vec<u8>) {");
        for field in self.plain() {
            self.conditional(out, field.versions, &self.write(field));
        }
        if self.flexible() {
            line(out, 3, "if v.flexible {");
            let mut tagged: Vec<&Field> = self.tagged().collect();
            tagged.sort_by_key(|field| field.tag);
            let mut count = "0u32".to_owned();
            for field in &tagged {
                write!(count, " + u32::from({})", self.present(field)).expect("a string grows");
            }
            line(out, 4, &format!("write_unsigned_varint({count}, out);"));
            for field in tagged {
                let tag = field.tag.expect("a tagged field");
                let (condition, size, write) =
                    (self.present(field), self.size(field), self.write(field));
                line(
                    out,
                    4,
                    &format!("if {condition} {{ Writer::tagged({tag}, {size}, out); {write} }}"),
                );
            }
            line(out, 3, "}");
        }
        line(out, 2, "}");
    }

    fn conditional(&self, out: &mut String, versions: VersionRange, code: &str) {
        match self.condition(versions) {
            Some(condition) => line(out, 3, &format!("if {condition} {{ {code} }}")),
            None => line(out, 3, code),
        }
    }

    fn plain(&self) -> impl Iterator<Item = &Field> {
        self.one.fields.iter().filter(|field| field.tag.is_none())
    }

    fn tagged(&self) -> impl Iterator<Item = &Field> {
        self.one.fields.iter().filter(|field| field.tag.is_some())
    }

    fn flexible(&self) -> bool {
        self.message.flexible_from <= self.message.versions.last
    }

    /// The condition under which the version is in `versions`; `None` when it always is.
    fn condition(&self, versions: VersionRange) -> Option<String> {
        let all = self.message.versions;
        match (versions.first > all.first, versions.last < all.last) {
            (false, false) => None,
            (true, false) => Some(format!("v.number >= {}", versions.first)),
            (false, true) => Some(format!("v.number <= {}", versions.last)),
            (true, true) if versions.first == versions.last => {
                Some(format!("v.number == {}", versions.first))
            }
            (true, true) => Some(format!(
                "({}..={}).contains(&v.number)",
                versions.first, versions.last
            )),
        }
    }

    /// The condition under which a tagged field is written.
    fn present(&self, field: &Field) -> String {
        let name = field_name(field);
        let differs = match (&field.kind, optional(field), field.array) {
            (_, true, _) if null_by_default(field) => format!("self.{name}.is_some()"),
            (_, false, true) | (FieldType::Bytes, false, _) => format!("!self.{name}.is_empty()"),
            (FieldType::Struct(kind), false, _) => format!("self.{name} != {kind}::default()"),
            _ => format!("self.{name} != {}", default_value(field)),
        };
        match self.condition(field.versions) {
            Some(condition) => format!("{condition} && {differs}"),
            None => differs,
        }
    }

    /// Whether null is allowed, as an expression of the version; `None` for always.
    fn null_condition(&self, field: &Field) -> Option<String> {
        if field.nullable.is_empty() {
            return Some("false".into());
        }
        let covers = field.nullable.first <= field.versions.first
            && field.nullable.last >= field.versions.last;
        if covers {
            None
        } else {
            self.condition(field.nullable)
        }
    }

    fn read(&self, field: &Field) -> String {
        if field.array {
            return self.read_either(
                field,
                "Array::decode_nullable(r, v)?",
                "Array::decode(r, v)?",
            );
        }
        match &field.kind {
            FieldType::Bool => "r.bool()?".into(),
            FieldType::Integer(kind) => match strong_type(field) {
                Some(strong) => format!("{strong}(r.{kind}()?)"),
                None => format!("r.{kind}()?"),
            },
            FieldType::Float64 => "r.f64()?".into(),
            FieldType::Uuid => "r.uuid()?".into(),
            FieldType::String => self.read_either(
                field,
                "r.nullable_string(v.flexible)?",
                "r.string(v.flexible)?",
            ),
            FieldType::Bytes | FieldType::Records => self.read_either(
                field,
                "r.nullable_bytes(v.flexible)?",
                "r.bytes(v.flexible)?",
            ),
            FieldType::Struct(name) => {
                let plain = format!("{name}::decode(r, v)?");
                let nullable = match field.tag {
                    Some(_) => "r.nullable_tagged_struct(v)?",
                    None => "r.nullable_struct(v)?",
                };
                self.read_either(field, nullable, &plain)
            }
        }
    }

    fn read_either(&self, field: &Field, nullable: &str, plain: &str) -> String {
        if !optional(field) {
            return plain.to_owned();
        }
        match self.null_condition(field) {
            None => nullable.to_owned(),
            Some(never) if never == "false" => format!("Some({plain})"),
            Some(condition) => format!("if {condition} {{ {nullable} }} else {{ Some({plain}) }}"),
        }
    }

    fn size(&self, field: &Field) -> String {
        let name = field_name(field);
        if field.array {
            return format!("Array::size_of({}, v)", self.as_option(field));
        }
        match &field.kind {
            FieldType::Bool | FieldType::Integer("i8") => "1".into(),
            FieldType::Integer("i16" | "u16") => "2".into(),
            FieldType::Integer("i32") => "4".into(),
            FieldType::Integer(_) | FieldType::Float64 => "8".into(),
            FieldType::Uuid => "16".into(),
            FieldType::String => {
                format!("Writer::string_size({}, v.flexible)", self.as_option(field))
            }
            FieldType::Bytes | FieldType::Records => {
                format!("Writer::bytes_size({}, v.flexible)", self.as_option(field))
            }
            FieldType::Struct(_) if optional(field) => {
                format!("1 + self.{name}.as_ref().map_or(0, |s| s.encoded_size(v))")
            }
            FieldType::Struct(_) => format!("self.{name}.encoded_size(v)"),
        }
    }

    fn write(&self, field: &Field) -> String {
        let name = field_name(field);
        if field.array {
            return format!("Array::encode({}, v, out);", self.as_option(field));
        }
        match &field.kind {
            FieldType::Bool => format!("out.push(u8::from(self.{name}));"),
            FieldType::Integer(_) | FieldType::Float64 => {
                let number = strong_type(field).map_or("", |_| ".0");
                format!("out.extend_from_slice(&self.{name}{number}.to_be_bytes());")
            }
            FieldType::Uuid => format!("out.extend_from_slice(&self.{name}.to_bytes());"),
            FieldType::String => {
                format!(
                    "Writer::string({}, v.flexible, out);",
                    self.as_option(field)
                )
            }
            FieldType::Bytes | FieldType::Records => {
                format!("Writer::bytes({}, v.flexible, out);", self.as_option(field))
            }
            FieldType::Struct(_) if optional(field) => {
                let null = if field.tag.is_some() { "0" } else { "0xff" };
                format!(
                    "match &self.{name} {{ Some(s) => {{ out.push(1); s.encode(v, out); }} \
                     None => out.push({null}) }}"
                )
            }
            FieldType::Struct(_) => format!("self.{name}.encode(v, out);"),
        }
    }

    /// The field as an option to write; never `None` in a version that does not allow null.
    fn as_option(&self, field: &Field) -> String {
        let name = field_name(field);
        let reference = if field.array { "&" } else { "" };
        if !optional(field) {
            return format!("Some({reference}self.{name})");
        }
        let (value, instead) = if field.array {
            (format!("self.{name}.as_ref()"), "Array::EMPTY")
        } else if field.kind == FieldType::String {
            (format!("self.{name}"), "\"\"")
        } else {
            (format!("self.{name}"), "&[]")
        };
        match self.null_condition(field) {
            None => value,
            Some(never) if never == "false" => format!("Some({value}.unwrap_or({instead}))"),
            Some(condition) => {
                format!(
                    "if {condition} {{ {value} }} else {{ Some({value}.unwrap_or({instead})) }}"
                )
            }
        }
    }

    fn rust_type(&self, field: &Field) -> String {
        let element = match &field.kind {
            FieldType::Bool => "bool".into(),
            FieldType::Integer(kind) => strong_type(field).unwrap_or(kind).into(),
            FieldType::Float64 => "f64".into(),
            FieldType::Uuid => "Uuid".into(),
            FieldType::String => "&'a str".into(),
            FieldType::Bytes | FieldType::Records => "&'a [u8]".into(),
            FieldType::Struct(name) => format!("{name}{}", self.lifetime(name)),
        };
        let plain: String = if field.array {
            format!("Array<'a, {element}>")
        } else {
            element
        };
        if optional(field) {
            format!("Option<{plain}>")
        } else {
            plain
        }
    }

    /// `<'a>` for a struct that borrows from the frame.
    fn lifetime(&self, name: &str) -> &'static str {
        let one = self
            .message
            .struct_named(name)
            .expect("checked by the parser");
        let borrows = one.fields.iter().any(|field| {
            field.array
                || match &field.kind {
                    FieldType::String | FieldType::Bytes | FieldType::Records => true,
                    FieldType::Struct(inner) => !self.lifetime(inner).is_empty(),
                    _ => false,
                }
        });
        if borrows { "<'a>" } else { "" }
    }
}

/// The type of `model` for what a field's name says that its number, or each number of an array, is.
fn strong_type(field: &Field) -> Option<&'static str> {
    match (field.name.as_str(), &field.kind) {
        (
            "AddingReplicas"
            | "BrokerId"
            | "BrokerIds"
            | "CandidateId"
            | "ControllerId"
            | "EligibleLeaderReplicas"
            | "Id"
            | "Isr"
            | "IsrNodes"
            | "LastKnownElr"
            | "Leader"
            | "LeaderId"
            | "NewIsr"
            | "NodeId"
            | "OfflineReplicas"
            | "PreferredReadReplica"
            | "PreferredSuccessors"
            | "RemovingReplicas"
            | "ReplicaId"
            | "ReplicaNodes"
            | "Replicas"
            | "VoterId",
            FieldType::Integer("i32"),
        ) => Some("::model::BrokerId"),
        ("BrokerEpoch" | "PreviousBrokerEpoch" | "ReplicaEpoch", FieldType::Integer("i64")) => {
            Some("::model::BrokerEpoch")
        }
        _ => None,
    }
}

fn optional(field: &Field) -> bool {
    !field.nullable.is_empty() || field.kind == FieldType::Records
}

fn null_by_default(field: &Field) -> bool {
    optional(field)
        && (field.default.as_deref() == Some("null") || field.kind == FieldType::Records)
}

fn field_default(field: &Field) -> String {
    format!("{}: {}", field_name(field), default_value(field))
}

fn default_value(field: &Field) -> String {
    if null_by_default(field) {
        return "None".into();
    }
    let plain: String = match (&field.kind, field.default.as_deref(), field.array) {
        (_, _, true) => "Array::default()".into(),
        (FieldType::Bool, value, _) => value.unwrap_or("false").into(),
        (FieldType::Integer(_), value, _) => {
            let value = value.unwrap_or("0");
            strong_type(field).map_or(value.into(), |strong| format!("{strong}({value})"))
        }
        (FieldType::Float64, value, _) => value.unwrap_or("0.0").into(),
        (FieldType::Uuid, ..) => "Uuid::ZERO".into(),
        (FieldType::String, value, _) => format!("\"{}\"", value.unwrap_or("")),
        (FieldType::Bytes | FieldType::Records, ..) => "&[]".into(),
        (FieldType::Struct(name), ..) => format!("{name}::default()"),
    };
    if optional(field) {
        format!("Some({plain})")
    } else {
        plain
    }
}

fn described(field: &Field, message: &Message) -> String {
    let mut text = String::new();
    let mut add = |what: &str| {
        text.push_str(if text.is_empty() { ": " } else { ", " });
        text.push_str(what);
    };
    if field.kind == FieldType::Records {
        add("record batches");
    }
    if field.versions != message.versions {
        add(&format!(
            "versions {} to {}",
            field.versions.first, field.versions.last
        ));
    }
    if let Some(tag) = field.tag {
        add(&format!("tag {tag}"));
    }
    text
}

fn field_name(field: &Field) -> String {
    let name = snake_case(&field.name);
    match name.as_str() {
        "match" | "type" | "ref" | "move" | "where" | "use" => format!("r#{name}"),
        _ => name,
    }
}

/// `TopicId` to `topic_id`; runs of capitals are one word, as is `KRaft`.
fn snake_case(name: &str) -> String {
    let name = name.replace("KRaft", "Kraft");
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (index, &c) in chars.iter().enumerate() {
        let after_lower = index > 0 && !chars[index - 1].is_ascii_uppercase();
        let before_lower = chars.get(index + 1).is_some_and(char::is_ascii_lowercase);
        if c.is_ascii_uppercase() && index > 0 && (after_lower || before_lower) {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn line(out: &mut String, indent: usize, text: &str) {
    for _ in 0..indent {
        out.push_str("    ");
    }
    out.push_str(text);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_snake_case() {
        let check = |name, expect| assert_eq!(snake_case(name), expect);
        check("TopicId", "topic_id");
        check("KRaftVersionFeature", "kraft_version_feature");
        check("V3AndBelowTopics", "v3_and_below_topics");
        check("timeoutMs", "timeout_ms");
    }
}
