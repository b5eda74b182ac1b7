//! Messages by interpreting their schema at run time: a second implementation of the encoding,
//! apart from the generated codecs, for tests, and for tools that compare or show messages field by
//! field.
//!
//! ```text
//!   Schema ──┬── random  ──> Value ── encode ──> bytes     generated codecs must agree with these
//!   bytes ───┴── decode  ──> Value ── flatten ─> (path, leaf) …    a report names the fields
//! ```
//!
//! Invariants:
//! - The same seed yields the same values.
//! - `decode` of what `encode` made is the same value, whatever the version.
//! - No server depends on this crate.

#![forbid(unsafe_code)]

mod codec;
mod decode;
mod encode;
mod random;
mod value;
pub mod verify;

#[doc(hidden)]
pub use model;

pub use codec::{Codec, Recoded};
pub use decode::{Malformed, decode, decode_front};
pub use encode::{Mark, MarkKind, encode, encode_marked};
pub use random::{Random, random_message};
pub use value::{Struct, Value, default_struct, default_value};
