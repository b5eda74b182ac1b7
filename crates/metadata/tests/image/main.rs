//! Records and the image that is made of them.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod codec;
mod image_rules;
mod kafka_fixtures;
mod replay_and_snapshot;
