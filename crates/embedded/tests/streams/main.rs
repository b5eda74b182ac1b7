//! Applications of the streams library, against a broker in the process of the test.

mod global_tables;
mod harness;
mod word_count;
