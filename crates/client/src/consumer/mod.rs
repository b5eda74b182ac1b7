//! The consumer.

pub mod assignors;
mod membership;
