//! Stores of every kind, in memory and on disk, under all layers, against scripts and simple models.

mod key_value;
mod world;
