//! Stores of every kind, in memory and on disk, under all layers, against scripts and simple models.

mod buffers;
mod disk;
mod key_value;
mod session;
mod versioned;
mod window;
pub(super) mod world;
