//! The binary as whoever runs it sees it: what it says about its configuration, how it ends, and
//! what it does without memory or disk to spare. These need a process of their own.

#![allow(
    clippy::unwrap_used,
    reason = "what goes wrong in a test fails the test"
)]

mod bench;
mod cluster;
mod configs;
mod configuration;
mod controller;
mod descriptors;
mod disk;
mod dump_log;
mod encodings;
mod groups;
mod lab;
mod log_lines;
mod loggers;
mod memory;
mod newcomer;
mod operators;
mod process;
mod profiles;
mod quotas;
mod readme;
mod reassign;
mod records;
mod shortage;
mod signals;
#[cfg(target_os = "linux")]
mod standstill;
mod startup;
mod topics;
mod words;
