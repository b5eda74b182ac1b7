//! Applications of the streams library, against a broker in the process of the test.

mod changelogs;
mod durability;
mod emission;
mod global_tables;
mod harness;
mod lifecycle;
mod locations;
mod metrics;
mod partitioners;
mod patterns;
mod purge;
mod queries;
mod restores;
mod revocation;
mod robustness;
mod standby;
mod unsent;
mod upgrade;
mod word_count;
mod world;
