//! The floor's partitions: a file each, and in memory where each batch begins.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use record::RecordBatch;
use tokio::sync::Notify;

/// A part of a partition's file.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) file: Arc<File>,
    pub(super) position: u64,
    pub(super) length: usize,
    pub(super) end_offset: i64,
}

/// Every topic by name.
#[derive(Debug)]
pub(super) struct Topics {
    dir: PathBuf,
    topics: Mutex<BTreeMap<String, Arc<Topic>>>,
    /// Wakes fetches that wait for records.
    pub(super) appended: Notify,
}

/// The partitions of a topic by index.
#[derive(Debug)]
pub(super) struct Topic(Vec<Mutex<Partition>>);

#[derive(Debug)]
struct Partition {
    file: Arc<File>,
    path: PathBuf,
    end_offset: i64,
    end_position: u64,
    /// Base offset and position of each batch, ascending.
    batches: Vec<(i64, u64)>,
}

impl Topics {
    /// No topics; files go to `dir`.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            topics: Mutex::default(),
            appended: Notify::new(),
        }
    }

    /// Makes a topic; `false` when there is one of this name.
    pub(super) fn create(&self, name: &str, partitions: i32) -> Result<bool> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if topics.contains_key(name) {
            return Ok(false);
        }
        let partitions = (0..partitions).map(|index| -> Result<_> {
            let path = self.dir.join(format!("{name}-{index}"));
            let mut options = File::options();
            options.create(true).truncate(true).read(true).write(true);
            let file = Arc::new(options.open(&path)?);
            Ok(Mutex::new(Partition {
                file,
                path,
                end_offset: 0,
                end_position: 0,
                batches: Vec::new(),
            }))
        });
        let topic = Topic(partitions.collect::<Result<_>>()?);
        topics.insert(name.to_owned(), Arc::new(topic));
        Ok(true)
    }

    /// Deletes a topic and its files.
    pub(super) fn delete(&self, name: &str) -> Result<()> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let topic = topics.remove(name).context("no such topic")?;
        for partition in &topic.0 {
            let partition = partition.lock().unwrap_or_else(PoisonError::into_inner);
            fs::remove_file(&partition.path)?;
        }
        Ok(())
    }

    /// The topic of this name.
    pub(super) fn find(&self, name: &str) -> Result<Arc<Topic>> {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        topics.get(name).cloned().context("no such topic")
    }
}

impl Topic {
    /// Checks one batch, gives it its offset and appends it; returns its base offset.
    pub(super) fn append(&self, index: i32, bytes: &mut [u8]) -> Result<i64> {
        let (batch, rest) = RecordBatch::parse(bytes)?;
        ensure!(rest.is_empty(), "one batch for each partition");
        ensure!(batch.is_crc_valid(), "a batch with a wrong CRC");
        let count = i64::from(batch.last_offset_delta()) + 1;
        let mut partition = self.partition(index)?;
        let base_offset = partition.end_offset;
        bytes[..8].copy_from_slice(&base_offset.to_be_bytes());
        let position = partition.end_position;
        partition.file.write_all_at(bytes, position)?;
        partition.batches.push((base_offset, position));
        partition.end_offset += count;
        partition.end_position += bytes.len() as u64;
        Ok(base_offset)
    }

    /// What there is from the batch with `offset` on, at most `max_bytes`, but one batch in any
    /// case.
    pub(super) fn range(&self, index: i32, offset: i64, max_bytes: usize) -> Result<Range> {
        let partition = self.partition(index)?;
        let end = partition.end_position;
        let after = partition
            .batches
            .partition_point(|&(base, _)| base <= offset);
        let position = match partition.batches.get(after.wrapping_sub(1)) {
            Some(&(_, position)) if offset < partition.end_offset => position,
            _ => end,
        };
        let next = partition.batches.get(after).map_or(end, |&(_, next)| next);
        let limit = (position + max_bytes as u64).max(next).min(end);
        Ok(Range {
            file: partition.file.clone(),
            position,
            length: usize::try_from(limit - position)?,
            end_offset: partition.end_offset,
        })
    }

    fn partition(&self, index: i32) -> Result<std::sync::MutexGuard<'_, Partition>> {
        let partition = usize::try_from(index).ok().and_then(|i| self.0.get(i));
        let partition = partition.context("no such partition")?;
        Ok(partition.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{BatchBuilder, BatchHeader};

    fn batch(records: i64) -> Vec<u8> {
        let mut builder = BatchBuilder::new(BatchHeader::default());
        for timestamp in 0..records {
            builder.append(timestamp, None, Some(b"value"), &[]);
        }
        builder.into_uncompressed()
    }

    #[test]
    fn a_range_begins_with_the_batch_that_holds_the_offset() {
        let dir = trials::directory();
        let topics = Topics::new(dir.path().to_owned());
        assert!(topics.create("t", 1).unwrap());
        assert!(!topics.create("t", 1).unwrap());
        let topic = topics.find("t").unwrap();
        let mut sizes = Vec::new();
        for (records, base_offset) in [(2, 0), (3, 2), (1, 5)] {
            let mut bytes = batch(records);
            sizes.push(bytes.len());
            assert_eq!(topic.append(0, &mut bytes).unwrap(), base_offset);
        }
        let [first, second, third] = sizes[..] else {
            panic!("three batches");
        };
        for (offset, max_bytes, position, length) in [
            (0, 1 << 20, 0, first + second + third),
            (1, 0, 0, first),
            (2, 0, first, second),
            (4, second + 1, first, second + 1),
            (5, 1 << 20, first + second, third),
            (6, 1 << 20, first + second + third, 0),
        ] {
            let range = topic.range(0, offset, max_bytes).unwrap();
            assert_eq!(range.position, position as u64, "offset {offset}");
            assert_eq!(range.length, length, "offset {offset}");
            assert_eq!(range.end_offset, 6);
        }
        topics.delete("t").unwrap();
        assert!(topics.find("t").is_err());
    }

    #[test]
    fn a_damaged_batch_is_refused() {
        let dir = trials::directory();
        let topics = Topics::new(dir.path().to_owned());
        topics.create("t", 1).unwrap();
        let mut bytes = batch(1);
        *bytes.last_mut().unwrap() ^= 1;
        assert!(topics.find("t").unwrap().append(0, &mut bytes).is_err());
    }
}
