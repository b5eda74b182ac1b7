//! Applications of the streams library, against a broker in the process of the test.

mod emission;
mod global_tables;
mod harness;
mod patterns;
mod purge;
mod queries;
mod unsent;
mod word_count;
