//! Values as the bytes of records, and back.
//!
//! A format such as [`Text`] or `Json` is a value that implements [`Serializer`] and [`Deserializer`]
//! for the types it can write and read; an application adds its own. [`TypedProducer`] sends values;
//! a record that was read gives them by `key_as` and `value_as`.
//!
//! ```
//! use riverrun_client::serialization::{Deserializer, Serializer, Text};
//!
//! let mut bytes = Vec::new();
//! Text.serialize("orders", "apples", &mut bytes)?;
//! let value: String = Text.deserialize("orders", &bytes)?;
//! assert_eq!(value, "apples");
//! # Ok::<(), riverrun_client::serialization::SerializationError>(())
//! ```

use crate::Error;
use crate::consumer::{ConsumerRecord, OwnedRecord};
use crate::producer::{Delivery, Header, Producer, ProducerRecord};
use bytes::Bytes;

/// Why a value cannot be written or read, in the format's own words.
pub type SerializationError = Box<dyn std::error::Error + Send + Sync>;

/// Writes values of `T` as bytes.
pub trait Serializer<T: ?Sized> {
    /// Appends the bytes of `value`, a key or a value of `topic`, to `out`.
    ///
    /// # Errors
    /// Why there are none.
    fn serialize(
        &self,
        topic: &str,
        value: &T,
        out: &mut Vec<u8>,
    ) -> Result<(), SerializationError>;
}

/// Reads values of `T` from bytes, which are untrusted.
pub trait Deserializer<T> {
    /// The value of `bytes`, a key or a value of `topic`.
    ///
    /// # Errors
    /// Why they are none.
    fn deserialize(&self, topic: &str, bytes: &[u8]) -> Result<T, SerializationError>;
}

/// Bytes as they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Raw;

impl<T: AsRef<[u8]> + ?Sized> Serializer<T> for Raw {
    fn serialize(&self, _: &str, value: &T, out: &mut Vec<u8>) -> Result<(), SerializationError> {
        out.extend_from_slice(value.as_ref());
        Ok(())
    }
}

impl Deserializer<Vec<u8>> for Raw {
    fn deserialize(&self, _: &str, bytes: &[u8]) -> Result<Vec<u8>, SerializationError> {
        Ok(bytes.to_vec())
    }
}

impl Deserializer<Bytes> for Raw {
    fn deserialize(&self, _: &str, bytes: &[u8]) -> Result<Bytes, SerializationError> {
        Ok(Bytes::copy_from_slice(bytes))
    }
}

/// Text in UTF-8, as Kafka's `StringSerializer` writes it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Text;

impl<T: AsRef<str> + ?Sized> Serializer<T> for Text {
    fn serialize(&self, _: &str, value: &T, out: &mut Vec<u8>) -> Result<(), SerializationError> {
        out.extend_from_slice(value.as_ref().as_bytes());
        Ok(())
    }
}

impl Deserializer<String> for Text {
    fn deserialize(&self, _: &str, bytes: &[u8]) -> Result<String, SerializationError> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }
}

/// Numbers of fixed size, the highest byte first, as Kafka's `IntegerSerializer`, `LongSerializer`
/// and `DoubleSerializer` write them.
#[derive(Debug, Clone, Copy, Default)]
pub struct BigEndian;

macro_rules! big_endian {
    ($($number:ty)*) => {$(
        impl Serializer<$number> for BigEndian {
            fn serialize(
                &self,
                _: &str,
                value: &$number,
                out: &mut Vec<u8>,
            ) -> Result<(), SerializationError> {
                out.extend_from_slice(&value.to_be_bytes());
                Ok(())
            }
        }

        impl Deserializer<$number> for BigEndian {
            fn deserialize(&self, _: &str, bytes: &[u8]) -> Result<$number, SerializationError> {
                let fixed = bytes.try_into().map_err(|_| {
                    format!("{} bytes instead of {}", bytes.len(), size_of::<$number>())
                })?;
                Ok(<$number>::from_be_bytes(fixed))
            }
        }
    )*};
}

big_endian! { i16 i32 i64 f32 f64 }

/// JSON, of whatever `serde` can write and read. With the feature `json`.
#[cfg(feature = "json")]
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

#[cfg(feature = "json")]
impl<T: serde::Serialize + ?Sized> Serializer<T> for Json {
    fn serialize(&self, _: &str, value: &T, out: &mut Vec<u8>) -> Result<(), SerializationError> {
        Ok(serde_json::to_writer(out, value)?)
    }
}

#[cfg(feature = "json")]
impl<T: serde::de::DeserializeOwned> Deserializer<T> for Json {
    fn deserialize(&self, _: &str, bytes: &[u8]) -> Result<T, SerializationError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

/// A [`Producer`] of values: `K` writes its keys and `V` its values.
///
/// ```no_run
/// use riverrun_client::producer::{Producer, ProducerConfig};
/// use riverrun_client::serialization::{BigEndian, Text, TypedProducer, TypedRecord};
///
/// # async fn example() -> Result<(), riverrun_client::Error> {
/// let producer = Producer::new(ProducerConfig::with_bootstrap_servers("localhost:9092")?)?;
/// let stock = TypedProducer::new(producer, Text, BigEndian);
/// let record = TypedRecord::new("stock", Some("apples"), Some(&42_i64));
/// stock.send(record).await?.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TypedProducer<K, V> {
    producer: Producer,
    keys: K,
    values: V,
}

/// A record of values to send.
#[derive(Debug)]
pub struct TypedRecord<'a, K: ?Sized, V: ?Sized> {
    /// The topic.
    pub topic: &'a str,
    /// The partition; chosen by the bytes of the key, or else by load, when there is none.
    pub partition: Option<i32>,
    /// Milliseconds since 1970; the time of the call when there is none.
    pub timestamp: Option<i64>,
    /// The key.
    pub key: Option<&'a K>,
    /// The value; a record without one is a tombstone of a compacted topic.
    pub value: Option<&'a V>,
    /// The headers, in order; keys may repeat.
    pub headers: &'a [Header<'a>],
}

impl<'a, K: ?Sized, V: ?Sized> TypedRecord<'a, K, V> {
    /// A record of now, without headers, to the partition that its key chooses.
    pub const fn new(topic: &'a str, key: Option<&'a K>, value: Option<&'a V>) -> Self {
        Self {
            topic,
            partition: None,
            timestamp: None,
            key,
            value,
            headers: &[],
        }
    }
}

impl<K, V> TypedProducer<K, V> {
    /// Writes with `keys` and `values` what `producer` sends.
    pub const fn new(producer: Producer, keys: K, values: V) -> Self {
        Self {
            producer,
            keys,
            values,
        }
    }

    /// The producer of bytes: for flushing, closing and transactions.
    pub const fn producer(&self) -> &Producer {
        &self.producer
    }

    /// As [`Producer::send`].
    ///
    /// # Errors
    /// [`Error::Serialization`] for what has no bytes, and those of [`Producer::send`].
    pub async fn send<A: ?Sized, B: ?Sized>(
        &self,
        record: TypedRecord<'_, A, B>,
    ) -> Result<Delivery, Error>
    where
        K: Serializer<A>,
        V: Serializer<B>,
    {
        let TypedRecord { topic, .. } = record;
        let key = written(&self.keys, topic, "key", record.key)?;
        let value = written(&self.values, topic, "value", record.value)?;
        let record = ProducerRecord {
            topic,
            partition: record.partition,
            timestamp: record.timestamp,
            key: key.as_deref(),
            value: value.as_deref(),
            headers: record.headers,
        };
        self.producer.send(record).await
    }
}

fn written<T: ?Sized>(
    format: &impl Serializer<T>,
    topic: &str,
    part: &str,
    value: Option<&T>,
) -> Result<Option<Vec<u8>>, Error> {
    let Some(value) = value else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    let written = format.serialize(topic, value, &mut bytes);
    written.map_err(|error| failed(format!("a {part} for `{topic}`"), &error))?;
    Ok(Some(bytes))
}

fn failed(subject: String, error: &SerializationError) -> Error {
    Error::Serialization {
        subject,
        reason: error.to_string(),
    }
}

impl ConsumerRecord<'_> {
    /// The key as `format` reads it; none for none.
    ///
    /// # Errors
    /// [`Error::Serialization`] when its bytes are no `T`.
    pub fn key_as<T>(&self, format: impl Deserializer<T>) -> Result<Option<T>, Error> {
        let (topic, place) = (self.topic, (self.partition, self.offset));
        read(&format, topic, place, "key", self.key)
    }

    /// The value as `format` reads it; none for a tombstone.
    ///
    /// # Errors
    /// [`Error::Serialization`] when its bytes are no `T`.
    pub fn value_as<T>(&self, format: impl Deserializer<T>) -> Result<Option<T>, Error> {
        let (topic, place) = (self.topic, (self.partition, self.offset));
        read(&format, topic, place, "value", self.value)
    }
}

impl OwnedRecord {
    /// The key as `format` reads it; none for none.
    ///
    /// # Errors
    /// [`Error::Serialization`] when its bytes are no `T`.
    pub fn key_as<T>(&self, format: impl Deserializer<T>) -> Result<Option<T>, Error> {
        let place = (self.partition.partition, self.offset);
        let topic = &self.partition.topic;
        read(&format, topic, place, "key", self.key.as_deref())
    }

    /// The value as `format` reads it; none for a tombstone.
    ///
    /// # Errors
    /// [`Error::Serialization`] when its bytes are no `T`.
    pub fn value_as<T>(&self, format: impl Deserializer<T>) -> Result<Option<T>, Error> {
        let place = (self.partition.partition, self.offset);
        let topic = &self.partition.topic;
        read(&format, topic, place, "value", self.value.as_deref())
    }
}

fn read<T>(
    format: &impl Deserializer<T>,
    topic: &str,
    (partition, offset): (i32, i64),
    part: &str,
    bytes: Option<&[u8]>,
) -> Result<Option<T>, Error> {
    let value = bytes.map(|bytes| format.deserialize(topic, bytes));
    let subject = || format!("the {part} of `{topic}-{partition}` at offset {offset}");
    value.transpose().map_err(|error| failed(subject(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: PartialEq + std::fmt::Debug>(
        format: impl Serializer<T> + Deserializer<T>,
        value: T,
        expect: &[u8],
    ) {
        let bytes = written(&format, "t", "value", Some(&value)).expect("it has bytes");
        assert_eq!(bytes.as_deref(), Some(expect));
        let again = read(&format, "t", (0, 0), "value", bytes.as_deref()).expect("it is read");
        assert_eq!(again, Some(value));
    }

    #[test]
    fn what_is_written_is_read_again_in_kafkas_form() {
        check(Raw, vec![1, 2], &[1, 2]);
        check(Text, "é".to_owned(), "é".as_bytes());
        check(BigEndian, 258_i32, &[0, 0, 1, 2]);
        check(BigEndian, -1_i64, &[255; 8]);
        check(BigEndian, 1.0_f64, &[0x3f, 0xf0, 0, 0, 0, 0, 0, 0]);
        #[cfg(feature = "json")]
        check(Json, vec![1, 2], b"[1,2]");
    }

    #[test]
    fn nothing_is_no_bytes_and_what_cannot_be_read_is_named() {
        assert_eq!(written(&Text, "t", "key", None::<&str>), Ok(None));
        let none = read::<String>(&Text, "t", (0, 0), "key", None);
        assert_eq!(none, Ok(None));
        let wrong = read::<i64>(&BigEndian, "t", (3, 7), "value", Some(b"1"));
        let text = wrong.expect_err("it is too short").to_string();
        assert_eq!(text, "the value of `t-3` at offset 7: 1 bytes instead of 8");
        let wrong = read::<String>(&Text, "t", (0, 0), "key", Some(&[255]));
        assert!(matches!(wrong, Err(Error::Serialization { .. })));
    }
}
