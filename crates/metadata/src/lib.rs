//! Cluster metadata: its records, and the immutable image that they add up to.

#![forbid(unsafe_code)]

pub mod messages;
