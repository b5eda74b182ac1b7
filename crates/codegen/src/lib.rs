//! Kafka's message schemas as text, and the generator that turns them into codecs at build time.
//!
//! ```text
//!   schema/*.txt ──parse──> Schema { messages: [Message { fields … }] } ──generate──> Rust source
//! ```
//!
//! A schema file is one API (`api`, `listeners`, `unstable` for versions that are not settled,
//! `request`, `response`) or a set of `message`s. A line inside is a field; indentation nests the fields of a struct
//! under the field that introduces it, and `struct Name` introduces one that several fields share:
//!
//! ```text
//! api 10 FindCoordinator
//! listeners broker
//!
//! request 0-6 flexible 3+
//!     Key: string, versions 0-3
//!     KeyType: int8, versions 1+
//!     CoordinatorKeys: []string, versions 4+
//! ```
//!
//! Invariants:
//! - Generated code names nothing but `::model` and `::std`, and is the same for the same text.
//! - A wrong schema fails the build with the file and the line; it never yields a wrong codec.

#![forbid(unsafe_code)]

mod emit;
mod folder;
mod parse;
mod schema;

pub use emit::{
    generate_api_keys, generate_api_list, generate_message_list, generate_messages,
    generate_requests,
};
pub use folder::parse_folder;
pub use parse::{ParseError, parse};
pub use schema::{Api, Field, FieldType, Message, Schema, StructType, VersionRange};
