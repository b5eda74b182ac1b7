//! Samples of lists, buffers, positions, checkpoints and commits.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use interpreter::Random;
use model::TopicPartition;
use riverrun_streams::formats::buffer_value::{BufferChange, BufferValue, BufferVersion};
use riverrun_streams::formats::checkpoint_file;
use riverrun_streams::formats::commit_metadata::CommitMetadata;
use riverrun_streams::formats::list as lists;
use riverrun_streams::formats::position::Position;
use riverrun_streams::formats::record_context::ProcessorRecordContext;

use super::super::sample::{
    self, OwnedHeaders, Sample, nullable, sorted, string, text, text_of, text_of_headers, time,
    topic,
};

pub(super) fn list(random: &mut Random) -> Sample {
    let count = random.below(5);
    // Kafka Streams cannot read a list that ends with an element of no bytes.
    let element =
        |index| nullable(random).filter(|element| index + 1 < count || !element.is_empty());
    let elements: Vec<Option<Vec<u8>>> = (0..count).map(element).collect();
    let elements = elements.iter().map(Option::as_deref);
    let fields = sample::list(elements.clone().map(text));
    Sample::new(fields, lists::write_list(elements))
}

pub(super) fn read_list(bytes: &[u8]) -> Result<String> {
    Ok(sample::list(
        lists::read_list(bytes, None)?.into_iter().map(text),
    ))
}

pub(super) fn integers(random: &mut Random) -> Sample {
    let numbers: Vec<Option<[u8; 4]>> = (0..random.below(5))
        .map(|_| {
            random
                .chance(2, 3)
                .then(|| (random.bits() as i32).to_be_bytes())
        })
        .collect();
    let elements = numbers
        .iter()
        .map(|number| number.as_ref().map(|number| &number[..]));
    let fields = sample::list(elements.clone().map(text_of_integer));
    Sample::new(fields, lists::write_list_of_one_size(elements))
}

pub(super) fn read_integers(bytes: &[u8]) -> Result<String> {
    let elements = lists::read_list(bytes, Some(4))?;
    Ok(sample::list(elements.into_iter().map(text_of_integer)))
}

fn text_of_integer(bytes: Option<&[u8]>) -> String {
    match bytes.and_then(<[u8]>::first_chunk) {
        Some(bytes) => i32::from_be_bytes(*bytes).to_string(),
        None => "-".to_owned(),
    }
}

/// A change in a buffer, and the parts that it borrows from.
struct OwnedBuffer {
    numbers: (i64, i64, i32),
    topic: String,
    headers: OwnedHeaders,
    prior: Option<Vec<u8>>,
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    buffer_time_ms: i64,
}

impl OwnedBuffer {
    fn random(random: &mut Random) -> Self {
        let prior = nullable(random);
        let old = match random.chance(1, 2) {
            true => prior.clone(),
            false => nullable(random),
        };
        Self {
            numbers: (time(random), time(random), random.below(9) as i32),
            topic: topic(random),
            headers: OwnedHeaders::random(random),
            prior,
            old,
            new: nullable(random),
            buffer_time_ms: time(random),
        }
    }

    fn value(&self) -> BufferValue<'_> {
        BufferValue {
            context: ProcessorRecordContext {
                timestamp_ms: self.numbers.0,
                offset: self.numbers.1,
                topic: &self.topic,
                partition: self.numbers.2,
                headers: self.headers.iter().collect(),
            },
            prior: self.prior.as_deref(),
            old: self.old.as_deref(),
            new: self.new.as_deref(),
        }
    }

    /// The change as releases before the current format wrote it.
    fn old_change(&self) -> Vec<u8> {
        [sized(self.old.as_deref()), sized(self.new.as_deref())].concat()
    }

    /// The context as every release wrote it.
    fn context(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let value = BufferValue {
            prior: None,
            old: None,
            new: None,
            ..self.value()
        };
        value.write(&mut bytes);
        bytes.truncate(bytes.len() - 12);
        bytes
    }

    fn sample(&self, shown: &BufferValue<'_>, parts: &[&[u8]]) -> Sample {
        Sample {
            fields: String::new(),
            shown: format!("{} {}", self.buffer_time_ms, text_of_buffer(shown)),
            bytes: parts.concat(),
        }
    }
}

fn sized(bytes: Option<&[u8]>) -> Vec<u8> {
    match bytes {
        Some(bytes) => [&(bytes.len() as i32).to_be_bytes(), bytes].concat(),
        None => (-1i32).to_be_bytes().to_vec(),
    }
}

pub(super) fn buffer_value(random: &mut Random) -> Sample {
    let buffer = OwnedBuffer::random(random);
    let mut bytes = Vec::new();
    buffer.value().write(&mut bytes);
    Sample::new(text_of_buffer(&buffer.value()), bytes)
}

pub(super) fn read_buffer_value(bytes: &[u8]) -> Result<String> {
    Ok(text_of_buffer(&BufferValue::read(bytes)?))
}

fn text_of_buffer(value: &BufferValue<'_>) -> String {
    let context = &value.context;
    [
        context.timestamp_ms.to_string(),
        context.offset.to_string(),
        text_of(context.topic),
        context.partition.to_string(),
        text_of_headers(context.headers.iter().copied()),
        text(value.prior),
        text(value.old),
        text(value.new),
    ]
    .join(" ")
}

/// What `FormatOracle` says of the record of a changelog.
fn changelog_context<'a>() -> ProcessorRecordContext<'a> {
    ProcessorRecordContext {
        timestamp_ms: -1,
        offset: 7,
        topic: "changelog",
        partition: 3,
        headers: Vec::new(),
    }
}

pub(super) fn version_0(random: &mut Random) -> Sample {
    let buffer = OwnedBuffer::random(random);
    let shown = BufferValue {
        context: changelog_context(),
        prior: buffer.old.as_deref(),
        ..buffer.value()
    };
    let time_ms = buffer.buffer_time_ms.to_be_bytes();
    buffer.sample(&shown, &[&time_ms, &buffer.old_change()])
}

pub(super) fn version_1(random: &mut Random) -> Sample {
    let buffer = OwnedBuffer::random(random);
    let shown = BufferValue {
        prior: buffer.old.as_deref(),
        ..buffer.value()
    };
    let time_ms = buffer.buffer_time_ms.to_be_bytes();
    let change = sized(Some(&buffer.old_change()));
    buffer.sample(&shown, &[&time_ms, &buffer.context(), &change])
}

pub(super) fn version_2(random: &mut Random) -> Sample {
    let buffer = OwnedBuffer::random(random);
    let time_ms = buffer.buffer_time_ms.to_be_bytes();
    let prior = sized(buffer.prior.as_deref());
    let change = sized(Some(&buffer.old_change()));
    // Some releases wrote version 3 under this number.
    match random.chance(1, 2) {
        true => buffer.sample(
            &buffer.value(),
            &[&buffer.context(), &change, &prior, &time_ms],
        ),
        false => buffer.sample(
            &buffer.value(),
            &[&buffer.value().to_changelog(buffer.buffer_time_ms)],
        ),
    }
}

pub(super) fn version_3(random: &mut Random) -> Sample {
    let buffer = OwnedBuffer::random(random);
    let bytes = buffer.value().to_changelog(buffer.buffer_time_ms);
    buffer.sample(&buffer.value(), &[&bytes])
}

fn read_changelog(version: BufferVersion, bytes: &[u8]) -> Result<String> {
    let change = BufferChange::read(version, bytes)?;
    let value = BufferValue {
        prior: change.prior_or(None),
        context: change.context.unwrap_or_else(changelog_context),
        old: change.old,
        new: change.new,
    };
    Ok(format!(
        "{} {}",
        change.buffer_time_ms,
        text_of_buffer(&value)
    ))
}

pub(super) fn read_version_0(bytes: &[u8]) -> Result<String> {
    read_changelog(BufferVersion::Zero, bytes)
}

pub(super) fn read_version_1(bytes: &[u8]) -> Result<String> {
    read_changelog(BufferVersion::One, bytes)
}

pub(super) fn read_version_2(bytes: &[u8]) -> Result<String> {
    read_changelog(BufferVersion::Two, bytes)
}

pub(super) fn read_version_3(bytes: &[u8]) -> Result<String> {
    read_changelog(BufferVersion::Three, bytes)
}

fn offsets(random: &mut Random) -> BTreeMap<TopicPartition, i64> {
    let count = random.below(6);
    let entry = |_| {
        let partition = TopicPartition::new(topic(random), random.below(4) as i32);
        (partition, time(random))
    };
    (0..count).map(entry).collect()
}

fn text_of_offsets(offsets: impl IntoIterator<Item = (TopicPartition, i64)>) -> String {
    sorted(
        offsets
            .into_iter()
            .map(|(TopicPartition { topic, partition }, offset)| {
                format!("{}:{partition}:{offset}", text_of(&topic))
            }),
    )
}

pub(super) fn position(random: &mut Random) -> Sample {
    let offsets = offsets(random);
    let mut position = Position::default();
    for (TopicPartition { topic, partition }, offset) in &offsets {
        let partitions = position.offsets.entry(topic.clone()).or_default();
        partitions.insert(*partition, *offset);
    }
    Sample::new(text_of_offsets(offsets), position.to_bytes())
}

pub(super) fn read_position(bytes: &[u8]) -> Result<String> {
    let offsets = Position::read(bytes)?.offsets.into_iter();
    Ok(text_of_offsets(offsets.flat_map(|(topic, partitions)| {
        let partitions = partitions.into_iter();
        partitions
            .map(move |(partition, offset)| (TopicPartition::new(topic.clone(), partition), offset))
    })))
}

pub(super) fn checkpoint(random: &mut Random) -> Sample {
    let mut offsets = offsets(random);
    // Kafka Streams deletes a file that would be empty.
    offsets.insert(
        TopicPartition::new("topic", 0),
        checkpoint_file::UNKNOWN_OFFSET,
    );
    let text = checkpoint_file::write_checkpoint(&offsets);
    Sample::new(text_of_offsets(offsets), text.into_bytes())
}

pub(super) fn read_checkpoint(bytes: &[u8]) -> Result<String> {
    Ok(text_of_offsets(checkpoint_file::read_checkpoint(bytes)?))
}

pub(super) fn commit_metadata(random: &mut Random) -> Sample {
    // In Kafka Streams a hash map decides the order of several.
    let times = random.chance(1, 2).then(|| (string(random), time(random)));
    let metadata = CommitMetadata {
        partition_time_ms: time(random),
        emitted_close_times_ms: times.into_iter().collect(),
    };
    Sample::new(text_of_metadata(&metadata), metadata.to_text().into_bytes())
}

pub(super) fn read_commit_metadata(bytes: &[u8]) -> Result<String> {
    let text = str::from_utf8(bytes).context("base64 is text")?;
    Ok(text_of_metadata(&CommitMetadata::read(text)?))
}

fn text_of_metadata(metadata: &CommitMetadata) -> String {
    let times = metadata.emitted_close_times_ms.iter();
    let times = sample::list(times.map(|(name, time_ms)| format!("{}:{time_ms}", text_of(name))));
    format!("{} {times}", metadata.partition_time_ms)
}
