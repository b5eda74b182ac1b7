//! The group and transaction coordinators: pure replicated state machines over records.

#![forbid(unsafe_code)]

pub mod messages;
