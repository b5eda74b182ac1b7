//! Null: `None` of an `Option`.

use super::{BoxError, DefaultSerde, Serde, SerdeRef};
use crate::headers::Headers;
use std::sync::Arc;

/// A serde of `Option<T>` whose `None` is null, and whose other values are as `inner` writes them.
pub fn nullable<T: 'static>(inner: SerdeRef<T>) -> SerdeRef<Option<T>> {
    Arc::new(Nullable { inner })
}

struct Nullable<T> {
    inner: SerdeRef<T>,
}

impl<T> Serde<Option<T>> for Nullable<T> {
    fn serialize(
        &self,
        topic: &str,
        headers: &mut Headers,
        value: &Option<T>,
        out: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        match value {
            Some(value) => self.inner.serialize(topic, headers, value, out),
            None => Ok(false),
        }
    }

    fn deserialize(
        &self,
        topic: &str,
        headers: &Headers,
        bytes: Option<&[u8]>,
    ) -> Result<Option<T>, BoxError> {
        match bytes {
            Some(_) => self.inner.deserialize(topic, headers, bytes).map(Some),
            None => Ok(None),
        }
    }

    fn is_null(&self, value: &Option<T>) -> bool {
        value.as_ref().is_none_or(|value| self.inner.is_null(value))
    }

    fn partitioned_bytes<'a>(&self, serialized: &'a [u8]) -> &'a [u8] {
        self.inner.partitioned_bytes(serialized)
    }
}

impl<T: DefaultSerde + 'static> DefaultSerde for Option<T> {
    fn serde() -> SerdeRef<Self> {
        nullable(T::serde())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_null_within_is_null() {
        let serde = <Option<Option<String>>>::serde();
        assert!(serde.is_null(&None));
        assert!(serde.is_null(&Some(None)));
        assert!(!serde.is_null(&Some(Some(String::new()))));
    }
}
