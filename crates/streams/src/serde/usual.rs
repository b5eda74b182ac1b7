//! The serdes of usual types, in the formats of Kafka's own.

use super::{BoxError, DefaultSerde, Serde, SerdeRef};
use crate::error::without_modules;
use crate::headers::Headers;
use bytes::Bytes;
#[cfg(feature = "json")]
use riverrun_client::serialization::Json;
use riverrun_client::serialization::{BigEndian, Deserializer, Raw, Serializer, Text};
use std::sync::Arc;

/// The serde of a format of the client, such as `Text` or `BigEndian`, or of an application's own.
pub fn of_format<T, F>(format: F) -> SerdeRef<T>
where
    F: Serializer<T> + Deserializer<T> + Send + Sync + 'static,
{
    Arc::new(Formatted(format))
}

/// Text in UTF-8, as Kafka's `StringSerializer` writes it.
pub fn text() -> SerdeRef<String> {
    of_format(Text)
}

/// JSON, of whatever `serde` can write and read.
#[cfg(feature = "json")]
pub fn json<T>() -> SerdeRef<T>
where
    T: serde::Serialize + serde::de::DeserializeOwned + 'static,
{
    of_format(Json)
}

struct Formatted<F>(F);

impl<T, F> Serde<T> for Formatted<F>
where
    F: Serializer<T> + Deserializer<T> + Send + Sync,
{
    fn serialize(
        &self,
        topic: &str,
        _: &mut Headers,
        value: &T,
        out: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        self.0.serialize(topic, value, out).map(|()| true)
    }

    fn deserialize(&self, topic: &str, _: &Headers, bytes: Option<&[u8]>) -> Result<T, BoxError> {
        let bytes = bytes.ok_or_else(refuse_null::<T>)?;
        let read = self.0.deserialize(topic, bytes);
        read.map_err(|error| format!("it is no `{}`: {error}", name::<T>()).into())
    }
}

fn name<T>() -> String {
    without_modules(std::any::type_name::<T>())
}

fn refuse_null<T>() -> BoxError {
    let name = name::<T>();
    format!("it is null, and `{name}` cannot be; read it as `Option<{name}>`").into()
}

macro_rules! default_format {
    ($($format:expr => $($of:ty)+;)*) => {$($(
        impl DefaultSerde for $of {
            fn serde() -> SerdeRef<Self> {
                of_format($format)
            }
        }
    )+)*};
}

default_format! {
    Text => String;
    BigEndian => i16 i32 i64 f32 f64;
    Raw => Vec<u8> Bytes;
    Flag => bool;
}

/// One byte, 1 or 0, as Kafka's `BooleanSerializer` writes it.
#[derive(Debug, Clone, Copy)]
struct Flag;

impl Serializer<bool> for Flag {
    fn serialize(&self, _: &str, value: &bool, out: &mut Vec<u8>) -> Result<(), BoxError> {
        out.push(u8::from(*value));
        Ok(())
    }
}

impl Deserializer<bool> for Flag {
    fn deserialize(&self, _: &str, bytes: &[u8]) -> Result<bool, BoxError> {
        match bytes {
            [0] => Ok(false),
            [1] => Ok(true),
            [_] => Err("it is neither 0 nor 1".into()),
            _ => Err(format!("{} bytes instead of 1", bytes.len()).into()),
        }
    }
}

impl DefaultSerde for () {
    fn serde() -> SerdeRef<Self> {
        Arc::new(Nothing)
    }
}

/// Always null, as Kafka's `VoidSerializer` writes it.
struct Nothing;

impl Serde<()> for Nothing {
    fn serialize(
        &self,
        _: &str,
        _: &mut Headers,
        (): &(),
        _: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        Ok(false)
    }

    fn deserialize(&self, _: &str, _: &Headers, bytes: Option<&[u8]>) -> Result<(), BoxError> {
        match bytes {
            None => Ok(()),
            Some(_) => Err("it is not null, and `()` always is".into()),
        }
    }

    fn is_null(&self, (): &()) -> bool {
        true
    }
}
