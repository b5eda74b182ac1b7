//! The records of the coordinators' topics, generated from `schema/`: a module for each with its structs.

#![allow(
    missing_docs,
    reason = "modules and fields are documented by the generator"
)]
#![allow(clippy::all, reason = "generated code")]
#![allow(unused_imports, reason = "not every message needs every primitive")]

/// The schemas of `__consumer_offsets` and of `__transaction_state`, as text.
pub const SCHEMAS: [&str; 2] = [
    include_str!("../schema/group_records.txt"),
    include_str!("../schema/transaction_records.txt"),
];

include!(concat!(env!("OUT_DIR"), "/messages.rs"));
include!(concat!(env!("OUT_DIR"), "/message_list.rs"));
