//! The consumer.

pub mod assignors;

pub use assignors::Assignor;
