//! Applications of the streams library, against a broker in the process of the test.

mod durability;
mod emission;
mod global_tables;
mod harness;
mod patterns;
mod purge;
mod queries;
mod standby;
mod unsent;
mod word_count;
