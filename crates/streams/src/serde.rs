//! Keys and values as bytes, and back.
//!
//! A [`Serde`] maps a type to the bytes of records and stores. [`DefaultSerde`] names the one that is used when an
//! operator is given none. The formats are Kafka's: what its `StringSerializer`, `LongSerializer` and so on write.
//!
//! Null is part of the type: `Option<T>` is null when it is `None`; `T` alone cannot be null, and its serde refuses a
//! null key or value with a message that says so.

mod nullable;
mod usual;
mod windowed;

pub use crate::error::BoxError;
pub use nullable::nullable;
#[cfg(feature = "json")]
pub use usual::json;
pub use usual::{of_format, text};
pub use windowed::{Window, WindowKind, Windowed, session_windowed, time_windowed};

use crate::headers::Headers;
use std::sync::Arc;

/// Writes values of `T` as bytes, and reads them back.
pub trait Serde<T>: Send + Sync {
    /// Appends the bytes of `value`, a key or a value of `topic`, to `out`. False says that the value is null: then
    /// nothing was appended. A serde may add headers to the record.
    ///
    /// # Errors
    /// Why the value cannot be written.
    fn serialize(
        &self,
        topic: &str,
        headers: &mut Headers,
        value: &T,
        out: &mut Vec<u8>,
    ) -> Result<bool, BoxError>;

    /// The value of `bytes`, a key or a value of `topic`; no bytes are null. The bytes are untrusted.
    ///
    /// # Errors
    /// Why the bytes are no value of `T`.
    fn deserialize(
        &self,
        topic: &str,
        headers: &Headers,
        bytes: Option<&[u8]>,
    ) -> Result<T, BoxError>;

    /// Whether `value` is null: what `serialize` would write no bytes of. This decides where Kafka Streams drops null
    /// keys and values.
    fn is_null(&self, value: &T) -> bool {
        let _ = value;
        false
    }

    /// The part of a serialized key that chooses its partition. A windowed key is partitioned as its key is, whatever
    /// its window.
    fn partitioned_bytes<'a>(&self, serialized: &'a [u8]) -> &'a [u8] {
        serialized
    }
}

/// A serde that nodes and stores share.
pub type SerdeRef<T> = Arc<dyn Serde<T>>;

/// A type with a serde of its own, which operators use when they are given none.
///
/// ```
/// use riverrun_streams::serde::{BoxError, DefaultSerde, SerdeRef, mapped, text};
///
/// #[derive(Clone)]
/// struct Country(String);
///
/// impl DefaultSerde for Country {
///     fn serde() -> SerdeRef<Self> {
///         mapped(text(), |country: &Country| country.0.clone(), |name| Ok::<_, BoxError>(Country(name)))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no serde of its own",
    label = "no `DefaultSerde`",
    note = "Kafka has no unsigned numbers: `i64` has a serde, `u64` has none",
    note = "a function that gives a reference on, `&String` for one, has to clone: a record owns its key and value",
    note = "a type of yours gets one by `impl DefaultSerde`, or give the operator one: `stream_with`, `to_with`, \
            `group_by_key_with` and so on take serdes"
)]
pub trait DefaultSerde: Sized {
    /// The serde.
    fn serde() -> SerdeRef<Self>;
}

/// A serde of `T` that writes and reads values of `U` by `inner`.
pub fn mapped<T, U>(
    inner: SerdeRef<U>,
    to: impl Fn(&T) -> U + Send + Sync + 'static,
    from: impl Fn(U) -> Result<T, BoxError> + Send + Sync + 'static,
) -> SerdeRef<T>
where
    T: 'static,
    U: 'static,
{
    Arc::new(Mapped { inner, to, from })
}

struct Mapped<U, To, From> {
    inner: SerdeRef<U>,
    to: To,
    from: From,
}

impl<T, U, To, From> Serde<T> for Mapped<U, To, From>
where
    To: Fn(&T) -> U + Send + Sync,
    From: Fn(U) -> Result<T, BoxError> + Send + Sync,
{
    fn serialize(
        &self,
        topic: &str,
        headers: &mut Headers,
        value: &T,
        out: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        self.inner.serialize(topic, headers, &(self.to)(value), out)
    }

    fn deserialize(
        &self,
        topic: &str,
        headers: &Headers,
        bytes: Option<&[u8]>,
    ) -> Result<T, BoxError> {
        (self.from)(self.inner.deserialize(topic, headers, bytes)?)
    }

    fn is_null(&self, value: &T) -> bool {
        self.inner.is_null(&(self.to)(value))
    }

    fn partitioned_bytes<'a>(&self, serialized: &'a [u8]) -> &'a [u8] {
        self.inner.partitioned_bytes(serialized)
    }
}
