//! Records that a poll returned: they borrow from the answers of the brokers, batch by batch.

use super::fetcher::{BATCH_BYTES_MAX, Delivery, decoded_records};
use crate::Error;
use bytes::Bytes;
use model::{Offset, TopicPartition};
use parking_lot::Mutex;
use record::{
    Compression, Decompressor, Header, Headers, Record, RecordBatch, ResumePoint, TimestampType,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// A record, borrowed from the [`Records`] that hold it.
#[derive(Debug, Clone, Copy)]
pub struct ConsumerRecord<'a> {
    /// Where it comes from.
    pub topic: &'a str,
    /// The partition of the topic.
    pub partition: i32,
    /// Its offset in the partition.
    pub offset: i64,
    /// Time of creation or of append, in ms; -1 for none.
    pub timestamp_ms: i64,
    /// Who decided the time.
    pub timestamp_type: TimestampType,
    /// The epoch of the leader that appended it.
    pub leader_epoch: i32,
    /// The key, if any.
    pub key: Option<&'a [u8]>,
    /// The value; a record without one is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, in the producer's order.
    pub headers: Headers<'a>,
}

/// A record that shares the memory of the answer or of the decompressed batch it came in.
#[derive(Debug, Clone)]
pub struct OwnedRecord {
    /// Where it comes from.
    pub partition: Arc<TopicPartition>,
    /// Its offset in the partition.
    pub offset: i64,
    /// Time of creation or of append, in ms; -1 for none.
    pub timestamp_ms: i64,
    /// Who decided the time.
    pub timestamp_type: TimestampType,
    /// The epoch of the leader that appended it.
    pub leader_epoch: i32,
    /// The key, if any.
    pub key: Option<Bytes>,
    /// The value; a record without one is a tombstone.
    pub value: Option<Bytes>,
    /// The headers, in the producer's order.
    pub headers: Vec<(String, Option<Bytes>)>,
}

/// What decompressing needs, kept from poll to poll.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    decompressor: Decompressor,
    scratch: Vec<u8>,
}

/// A place for one workspace between polls.
pub(super) type SpareWorkspace = Arc<Mutex<Option<Box<Workspace>>>>;

/// The most that is kept of a buffer between polls.
const SCRATCH_KEPT_BYTES: usize = 4 << 20;

/// The records of a poll. Iterate by [`Records::next`], or fastest by [`Records::for_each`].
///
/// A compressed batch is decompressed when its first record is asked for, into a buffer that the
/// next one reuses.
#[derive(Debug)]
pub struct Records {
    deliveries: VecDeque<Delivery>,
    open: Option<Open>,
    workspace: Box<Workspace>,
    spare: SpareWorkspace,
}

/// The batch that is being read.
#[derive(Debug)]
struct Open {
    delivery: Delivery,
    /// Whether the workspace holds its records.
    is_in_scratch: bool,
    start: Option<ResumePoint>,
}

impl Records {
    pub(super) fn new(deliveries: Vec<Delivery>, spare: &SpareWorkspace) -> Self {
        Self {
            deliveries: deliveries.into(),
            open: None,
            workspace: spare.lock().take().unwrap_or_default(),
            spare: spare.clone(),
        }
    }

    /// Whether no batch is left.
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty() && self.open.is_none()
    }

    /// The partitions with records that are left, one for each batch.
    pub fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        let open = self.open.iter().map(|open| &open.delivery);
        open.chain(&self.deliveries).map(|delivery| &*delivery.name)
    }

    /// The partitions with records that are left, and the offset of the first of them or one
    /// before it.
    pub(super) fn starts(&self) -> impl Iterator<Item = (Arc<TopicPartition>, i64)> {
        let open = self.open.iter().map(|open| &open.delivery);
        let deliveries = open.chain(&self.deliveries);
        deliveries.map(|delivery| (delivery.name.clone(), delivery.from_offset))
    }

    /// Drops what is left of the partitions that are meant, and returns where each of it began.
    pub(super) fn forget(
        &mut self,
        is_meant: impl Fn(&TopicPartition) -> bool,
    ) -> Vec<(Arc<TopicPartition>, i64)> {
        let starts = self.starts().filter(|(name, _)| is_meant(name)).collect();
        if self
            .open
            .as_ref()
            .is_some_and(|open| is_meant(&open.delivery.name))
        {
            self.open = None;
        }
        self.deliveries.retain(|delivery| !is_meant(&delivery.name));
        starts
    }

    /// Bytes of the batches that are left, as they were fetched.
    pub fn size_bytes(&self) -> usize {
        let batches = self.deliveries.iter().map(|delivery| delivery.batch.len());
        batches.sum()
    }

    /// The next record.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the records of a batch are not what its header says. The rest of
    /// that batch is passed over; the consumer's position is after it.
    #[expect(
        clippy::should_implement_trait,
        reason = "the record borrows from the records"
    )]
    pub fn next(&mut self) -> Result<Option<ConsumerRecord<'_>>, Error> {
        // Found first and read after, as a record that is returned borrows all of `self`.
        let found = loop {
            if self.open.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let open = self.open.as_mut().expect("it was just opened");
            let (batch, _) = parse(&open.delivery)?;
            let scratch = open.is_in_scratch.then_some(&*self.workspace.scratch);
            let bytes = open.delivery.decoded.as_deref().or(scratch);
            let mut records = decoded_records(&batch, bytes, open.start);
            let at = open.start.unwrap_or_else(|| records.resume_point());
            let next = records.next();
            open.start = Some(records.resume_point());
            match next {
                Some(Ok(record)) if record.offset < Offset(open.delivery.from_offset) => {}
                Some(Ok(record)) if record.offset < Offset(open.delivery.end_offset) => break at,
                Some(Err(error)) => {
                    let error = invalid(&open.delivery, &error);
                    self.open = None;
                    return Err(error);
                }
                Some(Ok(_)) | None => self.open = None,
            }
        };
        let Some(open) = &self.open else {
            return Ok(None);
        };
        let (batch, _) = parse(&open.delivery)?;
        let scratch = open.is_in_scratch.then_some(&*self.workspace.scratch);
        let bytes = open.delivery.decoded.as_deref().or(scratch);
        let record = decoded_records(&batch, bytes, Some(found)).next();
        let record = record.and_then(Result::ok).expect("it was just read");
        Ok(Some(view(&open.delivery, &batch, record)))
    }

    /// Calls `visit` for each record that is left.
    ///
    /// # Errors
    /// As [`Records::next`]; the records after the batch can still be read.
    pub fn for_each(&mut self, mut visit: impl FnMut(ConsumerRecord<'_>)) -> Result<(), Error> {
        while self.open.is_some() || self.open_next()? {
            let open = self.open.take().expect("it was just opened");
            let (batch, _) = parse(&open.delivery)?;
            let scratch = open.is_in_scratch.then_some(&*self.workspace.scratch);
            let bytes = open.delivery.decoded.as_deref().or(scratch);
            for record in decoded_records(&batch, bytes, open.start) {
                let record = record.map_err(|error| invalid(&open.delivery, &error))?;
                if record.offset >= Offset(open.delivery.end_offset) {
                    break;
                }
                if record.offset >= Offset(open.delivery.from_offset) {
                    visit(view(&open.delivery, &batch, record));
                }
            }
        }
        Ok(())
    }

    /// The records that are left, each sharing the memory of its batch.
    ///
    /// # Errors
    /// As [`Records::next`].
    pub fn into_owned(mut self) -> Result<Vec<OwnedRecord>, Error> {
        let mut owned = Vec::new();
        while let Some(batch) = self.next_owned_batch()? {
            owned.extend(batch);
        }
        Ok(owned)
    }

    /// The records that are left of the next batch.
    pub(super) fn next_owned_batch(&mut self) -> Result<Option<Vec<OwnedRecord>>, Error> {
        if self.open.is_none() && !self.open_next()? {
            return Ok(None);
        }
        let Some(open) = self.open.take() else {
            return Ok(None);
        };
        let delivery = &open.delivery;
        let (batch, _) = parse(delivery)?;
        let memory = match &delivery.decoded {
            Some(decoded) => decoded.clone(),
            None if open.is_in_scratch => std::mem::take(&mut self.workspace.scratch).into(),
            None => delivery.batch.clone(),
        };
        let is_decoded = delivery.decoded.is_some() || open.is_in_scratch;
        let mut owned = Vec::new();
        let bytes = is_decoded.then_some(&*memory);
        for record in decoded_records(&batch, bytes, open.start) {
            let record = record.map_err(|error| invalid(delivery, &error))?;
            if (delivery.from_offset..delivery.end_offset).contains(&record.offset.0) {
                // What is not decoded is a slice of the batch's own bytes.
                owned.push(share(delivery, &batch, &record, &memory));
            }
        }
        Ok(Some(owned))
    }

    fn open_next(&mut self) -> Result<bool, Error> {
        let Some(delivery) = self.deliveries.pop_front() else {
            return Ok(false);
        };
        let (batch, _) = parse(&delivery)?;
        let is_compressed = batch.compression() != Some(Compression::None);
        let is_in_scratch = is_compressed && delivery.decoded.is_none();
        if is_in_scratch {
            let Workspace {
                decompressor,
                scratch,
            } = &mut *self.workspace;
            let records = batch.records(decompressor, scratch, BATCH_BYTES_MAX);
            records.map_err(|error| invalid(&delivery, &error))?;
        }
        self.open = Some(Open {
            start: delivery.start,
            is_in_scratch,
            delivery,
        });
        Ok(true)
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        let mut workspace = std::mem::take(&mut self.workspace);
        workspace.scratch.clear();
        workspace.scratch.shrink_to(SCRATCH_KEPT_BYTES);
        *self.spare.lock() = Some(workspace);
    }
}

fn parse(delivery: &Delivery) -> Result<(RecordBatch<'_>, &[u8]), Error> {
    RecordBatch::parse(&delivery.batch).map_err(|error| invalid(delivery, &error))
}

fn invalid(delivery: &Delivery, error: &dyn std::fmt::Display) -> Error {
    let (name, offset) = (&delivery.name, delivery.from_offset);
    Error::Invalid(format!(
        "records of `{name}` at or after offset {offset}: {error}"
    ))
}

fn view<'a>(
    delivery: &'a Delivery,
    batch: &RecordBatch<'_>,
    record: Record<'a>,
) -> ConsumerRecord<'a> {
    ConsumerRecord {
        topic: &delivery.name.topic,
        partition: delivery.name.partition,
        offset: record.offset.0,
        timestamp_ms: record.timestamp,
        timestamp_type: batch.timestamp_type(),
        leader_epoch: batch.partition_leader_epoch().0,
        key: record.key,
        value: record.value,
        headers: record.headers,
    }
}

fn share(
    delivery: &Delivery,
    batch: &RecordBatch<'_>,
    record: &Record<'_>,
    memory: &Bytes,
) -> OwnedRecord {
    let slice = |part: &[u8]| memory.slice_ref(part);
    let header = |header: Header<'_>| (header.key_text().into_owned(), header.value.map(slice));
    OwnedRecord {
        partition: delivery.name.clone(),
        offset: record.offset.0,
        timestamp_ms: record.timestamp,
        timestamp_type: batch.timestamp_type(),
        leader_epoch: batch.partition_leader_epoch().0,
        key: record.key.map(slice),
        value: record.value.map(slice),
        headers: record.headers.iter().map(header).collect(),
    }
}
