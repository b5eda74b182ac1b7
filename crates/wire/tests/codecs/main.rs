//! The codecs of messages, generated and written by hand.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod codec;
mod fetch_request;
mod fetch_response;
mod fetch_response_reader;
mod fuzz;
mod kafka_protocol;
mod produce_request;
mod produce_response;
