//! Types that may be null: `T`, which never is, and `Option<T>`.

use crate::headers::Headers;
use crate::serde::{BoxError, Serde, SerdeRef, mapped};
use std::sync::Arc;

/// A key or a value of a stream where a table or a join wants a `T`: a `T`, or an `Option<T>` whose `None` is null.
///
/// ```
/// use riverrun_streams::dsl::Nullable;
///
/// fn length<V: Nullable<String>>(value: &V) -> usize {
///     value.as_option().map_or(0, String::len)
/// }
/// assert_eq!(length(&"four".to_owned()), 4);
/// assert_eq!(length(&Some("four".to_owned())), 4);
/// assert_eq!(length::<Option<String>>(&None), 0);
/// ```
pub trait Nullable<T>: Sized {
    /// The value, unless it is null.
    fn into_option(self) -> Option<T>;

    /// The value, unless it is null.
    fn as_option(&self) -> Option<&T>;

    /// A value that is not null.
    fn of(value: T) -> Self;

    /// The value; none if it is null and cannot be.
    fn from_option(value: Option<T>) -> Option<Self>;
}

impl<T> Nullable<T> for T {
    fn into_option(self) -> Option<T> {
        Some(self)
    }

    fn as_option(&self) -> Option<&T> {
        Some(self)
    }

    fn of(value: T) -> Self {
        value
    }

    fn from_option(value: Option<T>) -> Option<Self> {
        value
    }
}

impl<T> Nullable<T> for Option<T> {
    fn into_option(self) -> Self {
        self
    }

    fn as_option(&self) -> Option<&T> {
        self.as_ref()
    }

    fn of(value: T) -> Self {
        Some(value)
    }

    fn from_option(value: Self) -> Option<Self> {
        Some(value)
    }
}

/// The serde of what is not null, where `serde` may write null.
pub(crate) fn present<N, T>(serde: SerdeRef<N>) -> SerdeRef<T>
where
    N: Nullable<T> + 'static,
    T: Clone + 'static,
{
    mapped(
        serde,
        |value: &T| N::of(value.clone()),
        |value: N| value.into_option().ok_or_else(|| "it is null".into()),
    )
}

/// The serde of what may be null, where `serde` writes what is not.
pub(crate) fn or_null<N, T>(serde: SerdeRef<T>) -> SerdeRef<N>
where
    N: Nullable<T> + 'static,
    T: 'static,
{
    Arc::new(OrNull(serde))
}

struct OrNull<T>(SerdeRef<T>);

impl<T, N: Nullable<T>> Serde<N> for OrNull<T> {
    fn serialize(
        &self,
        topic: &str,
        headers: &mut Headers,
        value: &N,
        out: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        match value.as_option() {
            Some(value) => self.0.serialize(topic, headers, value, out),
            None => Ok(false),
        }
    }

    fn deserialize(
        &self,
        topic: &str,
        headers: &Headers,
        bytes: Option<&[u8]>,
    ) -> Result<N, BoxError> {
        let value = bytes
            .map(|bytes| self.0.deserialize(topic, headers, Some(bytes)))
            .transpose()?;
        N::from_option(value).ok_or_else(|| "it is null".into())
    }

    fn is_null(&self, value: &N) -> bool {
        value.as_option().is_none_or(|value| self.0.is_null(value))
    }

    fn partitioned_bytes<'a>(&self, serialized: &'a [u8]) -> &'a [u8] {
        self.0.partitioned_bytes(serialized)
    }
}
