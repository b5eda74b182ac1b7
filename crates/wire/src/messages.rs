//! Every request and response, generated from `schema/`: a module for each with its structs.

#![allow(
    missing_docs,
    reason = "modules and fields are documented by the generator"
)]
#![allow(clippy::all, reason = "generated code")]
#![allow(unused_imports, reason = "not every message needs every primitive")]

include!(concat!(env!("OUT_DIR"), "/messages.rs"));
include!(concat!(env!("OUT_DIR"), "/message_list.rs"));
include!(concat!(env!("OUT_DIR"), "/api_list.rs"));
include!(concat!(env!("OUT_DIR"), "/requests.rs"));
