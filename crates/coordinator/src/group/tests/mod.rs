//! Tests of the group coordinator: scripts of requests with what they lead to, and properties of
//! random scripts.

mod classic;
mod clock;
mod consumer_properties;
mod consumer_script;
mod consumers;
mod consumers_and_classic;
mod conversions;
mod invariants;
mod offsets;
mod properties;
mod records;
mod script;
mod shard;
mod static_members;
mod text;
mod words;
