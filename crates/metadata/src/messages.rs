//! The records of the metadata log and of its snapshots, generated from `schema/`: a module for each with its structs.

#![allow(
    missing_docs,
    reason = "modules and fields are documented by the generator"
)]
#![allow(clippy::all, reason = "generated code")]
#![allow(unused_imports, reason = "not every message needs every primitive")]

/// The schemas of metadata records and of the quorum's control records, as text.
pub const SCHEMAS: [&str; 2] = [
    include_str!("../schema/cluster_metadata.txt"),
    include_str!("../schema/control_records.txt"),
];

include!(concat!(env!("OUT_DIR"), "/messages.rs"));
include!(concat!(env!("OUT_DIR"), "/message_list.rs"));
