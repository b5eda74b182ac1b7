//! Tests of brokers: scripts with their expected metadata.

mod elections;
mod registrations;
mod restarts;
mod script;
