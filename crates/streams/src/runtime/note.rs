//! What is noted beside a record that is written, a few bytes: if the broker refuses it, the production handler is
//! told where it comes from.
//!
//! ```text
//!   [flags][source varint][offset varlong][timestamp varlong, less the record's]   and as the flags say
//!   [length of the key's part varint | bytes that choose the partition][headers as rows have them]
//! ```

use crate::formats::FormatError;
use crate::formats::stored_headers::{StoredHeaders, write_headers};
use crate::headers::{Header, Headers};
use crate::processor::{Origin, Partitioning, ProducedRecord, TaskId};
use crate::record::RecordContext;
use crate::state::borrow;
use bytes::Bytes;
use model::varint::{read_unsigned_varint, read_varlong, write_unsigned_varint, write_varlong};
use riverrun_client::producer::ProducerRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The record has a timestamp of its own.
const HAS_TIMESTAMP: u8 = 1;
/// The headers of its cause are not its own.
const HAS_OTHER_HEADERS: u8 = 2;
/// How it gets its partition: neither for `ByKey`.
const PARTITIONING: u8 = 4 | 8 | 16;
const IS_EXACT: u8 = 4;
const IS_BY_BEGINNING_OF_KEY: u8 = 8;
const IS_BY_BYTES: u8 = 16;

/// What many records have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    task_id: TaskId,
    origin: Origin,
    topic: Arc<str>,
    partition: i32,
}

/// Sources by number. There are few: nodes and stores of tasks, and input partitions.
#[derive(Debug, Default)]
pub(super) struct Sources {
    sources: Vec<Source>,
    of_tasks: BTreeMap<TaskId, BTreeMap<Arc<str>, OfTopic>>,
}

/// Those of each partition of a topic, with their numbers: as many as the task's nodes and stores.
type OfTopic = BTreeMap<i32, Vec<(Origin, u32)>>;

impl Sources {
    fn number(&mut self, task_id: TaskId, record: &ProducedRecord) -> u32 {
        let cause = &record.cause;
        // A task may read thousands of topics that match a pattern.
        if let Some(number) = self.known(task_id, record) {
            return number;
        }
        let number = u32::try_from(self.sources.len()).expect("sources are fewer than 2^32");
        self.sources.push(Source {
            task_id,
            origin: record.origin.clone(),
            topic: Arc::clone(&cause.topic),
            partition: cause.partition,
        });
        let of_task = self.of_tasks.entry(task_id).or_default();
        let of_topic = of_task.entry(Arc::clone(&cause.topic)).or_default();
        let of_partition = of_topic.entry(cause.partition).or_default();
        of_partition.push((record.origin.clone(), number));
        number
    }

    fn known(&self, task_id: TaskId, record: &ProducedRecord) -> Option<u32> {
        let of_topic = self.of_tasks.get(&task_id)?.get(&record.cause.topic)?;
        let mut of_partition = of_topic.get(&record.cause.partition)?.iter();
        let known = of_partition.find(|(origin, _)| *origin == record.origin);
        known.map(|(_, number)| *number)
    }

    /// Writes what is to be noted beside a record of a task.
    pub(super) fn write(&mut self, task_id: TaskId, record: &ProducedRecord, note: &mut Vec<u8>) {
        let cause = &record.cause;
        note.clear();
        note.push(0);
        write_unsigned_varint(self.number(task_id, record), note);
        write_varlong(cause.offset, note);
        let base_ms = record.timestamp_ms.unwrap_or(0);
        write_varlong(cause.timestamp_ms.wrapping_sub(base_ms), note);
        let mut flags = match record.timestamp_ms {
            Some(_) => HAS_TIMESTAMP,
            None => 0,
        };
        match &record.partitioning {
            Partitioning::ByKey => {}
            Partitioning::Exact(_) => flags |= IS_EXACT,
            Partitioning::ByBytes(bytes) => {
                write_unsigned_varint(bytes.len() as u32, note);
                let is_of_key = record
                    .key
                    .as_ref()
                    .is_some_and(|key| key.starts_with(bytes));
                if is_of_key {
                    flags |= IS_BY_BEGINNING_OF_KEY;
                } else {
                    flags |= IS_BY_BYTES;
                    note.extend_from_slice(bytes);
                }
            }
        }
        if cause.headers != record.headers {
            flags |= HAS_OTHER_HEADERS;
            write_headers(cause.headers.iter().map(borrow), note);
        }
        note[0] = flags;
    }

    /// The record beside which `note` was written, and its task.
    ///
    /// # Errors
    /// Nothing like this was written here.
    pub(super) fn read(
        &self,
        written: &ProducerRecord<'_>,
        mut note: &[u8],
    ) -> Result<(TaskId, ProducedRecord), FormatError> {
        let (flags, rest) = note.split_first().ok_or(FormatError::Truncated)?;
        note = rest;
        let (number, length) = read_unsigned_varint(note)?;
        note = &note[length..];
        let source = self.sources.get(number as usize);
        let source = source.ok_or(FormatError::LengthBeyondEnd)?;
        let (offset, length) = read_varlong(note)?;
        note = &note[length..];
        let (timestamp_ms, length) = read_varlong(note)?;
        note = &note[length..];
        let has_timestamp = flags & HAS_TIMESTAMP != 0;
        let own_ms = written.timestamp.filter(|_| has_timestamp);
        let key = written.key.map(Bytes::copy_from_slice);
        let partitioning = match flags & PARTITIONING {
            IS_EXACT => Partitioning::Exact(written.partition.unwrap_or_default()),
            0 => Partitioning::ByKey,
            kind => {
                let (length, length_bytes) = read_unsigned_varint(note)?;
                note = &note[length_bytes..];
                let length = length as usize;
                if kind == IS_BY_BEGINNING_OF_KEY {
                    let key = key.as_ref().filter(|key| key.len() >= length);
                    Partitioning::ByBytes(key.ok_or(FormatError::LengthBeyondEnd)?.slice(..length))
                } else {
                    let split = note.split_at_checked(length);
                    let (bytes, rest) = split.ok_or(FormatError::LengthBeyondEnd)?;
                    note = rest;
                    Partitioning::ByBytes(Bytes::copy_from_slice(bytes))
                }
            }
        };
        let headers = headers(written.headers.iter().copied());
        let cause_headers = match flags & HAS_OTHER_HEADERS {
            0 => headers.clone(),
            _ => self::headers(StoredHeaders::split(note)?.0.iter()),
        };
        let record = ProducedRecord {
            topic: Arc::from(written.topic),
            partitioning,
            key,
            value: written.value.map(Bytes::copy_from_slice),
            timestamp_ms: own_ms,
            headers,
            origin: source.origin.clone(),
            cause: RecordContext {
                topic: Arc::clone(&source.topic),
                partition: source.partition,
                offset,
                timestamp_ms: timestamp_ms.wrapping_add(own_ms.unwrap_or(0)),
                headers: cause_headers,
            },
        };
        Ok((source.task_id, record))
    }
}

fn headers<'a>(headers: impl Iterator<Item = record::Header<'a>>) -> Headers {
    headers
        .map(|header| Header {
            key: header.key_text().into_owned().into_boxed_str(),
            value: header.value.map(Bytes::copy_from_slice),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_headers() -> impl Strategy<Value = Headers> {
        let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..5));
        let header = ("[a-z]{0,3}", value).prop_map(|(key, value)| Header {
            key: key.into_boxed_str(),
            value: value.map(Bytes::from),
        });
        proptest::collection::vec(header, 0..3).prop_map(Headers::from_iter)
    }

    fn any_bytes() -> impl Strategy<Value = Option<Bytes>> {
        proptest::option::of(proptest::collection::vec(0..3_u8, 0..5).prop_map(Bytes::from))
    }

    fn any_partitioning() -> impl Strategy<Value = Partitioning> {
        prop_oneof![
            Just(Partitioning::ByKey),
            any::<i32>().prop_map(Partitioning::Exact),
            proptest::collection::vec(0..3_u8, 0..5)
                .prop_map(|bytes| Partitioning::ByBytes(bytes.into())),
        ]
    }

    prop_compose! {
        fn any_record()(
            origin in 0..3,
            name in "[ab]",
            topic in "[ab]?",
            partitioning in any_partitioning(),
            (key, value) in (any_bytes(), any_bytes()),
            timestamp_ms in proptest::option::of(any::<i64>()),
            (headers, others) in (any_headers(), proptest::option::of(any_headers())),
            (partition, offset, caused_ms) in (-1..3, any::<i64>(), any::<i64>()),
        ) -> ProducedRecord {
            ProducedRecord {
                topic: Arc::from("out"),
                partitioning,
                key,
                value,
                timestamp_ms,
                origin: match origin {
                    0 => Origin::Node(Arc::from(name)),
                    1 => Origin::Changelog(Arc::from(name)),
                    _ => Origin::DeadLetter,
                },
                cause: RecordContext {
                    topic: Arc::from(topic),
                    partition,
                    offset,
                    timestamp_ms: caused_ms,
                    headers: others.unwrap_or_else(|| headers.clone()),
                },
                headers,
            }
        }
    }

    /// A number by a nested look, however many topics a task reads.
    #[test]
    fn each_source_has_a_number() {
        let mut sources = Sources::default();
        let record = |topic: i32, partition, origin: &Origin| ProducedRecord {
            topic: Arc::from("out"),
            partitioning: Partitioning::ByKey,
            key: None,
            value: None,
            timestamp_ms: None,
            origin: origin.clone(),
            cause: RecordContext {
                topic: Arc::from(topic.to_string()),
                partition,
                offset: 0,
                timestamp_ms: 0,
                headers: Headers::new(),
            },
            headers: Headers::new(),
        };
        let task_id = |partition| TaskId {
            subtopology: 0,
            partition,
        };
        let origins = [Origin::DeadLetter, Origin::Node(Arc::from("node"))];
        for _ in 0..2 {
            let mut expected = 0;
            for topic in 0..20 {
                for (partition, origin) in [0, 1].into_iter().zip(&origins) {
                    let record = record(topic, partition, origin);
                    assert_eq!(sources.number(task_id(partition), &record), expected);
                    expected += 1;
                }
            }
            assert_eq!(sources.sources.len(), 40);
        }
        let of_task = &sources.of_tasks[&task_id(0)];
        let longest = of_task.values().flat_map(BTreeMap::values).map(Vec::len);
        assert_eq!(longest.max(), Some(1));
    }

    proptest! {
        #![proptest_config(trials::property(128))]

        #[test]
        fn a_record_that_is_refused_is_the_one_that_was_sent(
            records in proptest::collection::vec((0..3_i32, any_record()), 1..20),
        ) {
            let mut sources = Sources::default();
            let mut note = Vec::new();
            let notes: Vec<Vec<u8>> = records.iter().map(|(partition, record)| {
                sources.write(TaskId { subtopology: 0, partition: *partition }, record, &mut note);
                note.clone()
            }).collect();
            for ((partition, record), note) in records.iter().zip(&notes) {
                let headers: Vec<_> = record.headers.iter().map(borrow).collect();
                let written = ProducerRecord {
                    topic: &record.topic,
                    partition: Some(match record.partitioning {
                        Partitioning::Exact(partition) => partition,
                        _ => 7,
                    }),
                    timestamp: Some(record.timestamp_ms.unwrap_or(99)),
                    key: record.key.as_deref(),
                    value: record.value.as_deref(),
                    headers: &headers,
                };
                let (task_id, read) = sources.read(&written, note).expect("it was written");
                prop_assert_eq!(task_id.partition, *partition);
                prop_assert_eq!(&read, record);
                for end in 0..note.len() {
                    let _ = sources.read(&written, &note[..end]);
                }
            }
        }
    }
}
