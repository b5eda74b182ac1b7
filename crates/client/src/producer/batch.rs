//! A batch on its way from the first record to the answer of the broker.
//!
//! Open, it takes records; sealed, it is the bytes of one record batch, which the connection sends
//! from where they are. Sealing writes the header, and compresses. The bytes stay with the batch
//! until its outcome is known, so that it can be sent again.

use model::{ProducerEpoch, ProducerId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use record::{
    BatchBuilder, BatchHeader, Codec, Compression, Compressor, Decompressor, Header, Record,
    RecordBatch, RecordBatchMut,
    batch_layout::{HEADER_SIZE_BYTES, increment_sequence},
};

use super::callbacks::{Callbacks, PendingCallback};
use super::delivery::{BatchResult, Delivery, Outcome};
use super::observer::{DeliveryObserver, Notes, Observed};
use super::record::{Listener, ProducerRecord};
use crate::Error;

/// What stands around key and value of most records.
const RECORD_OVERHEAD_BYTES: usize = 12;

/// The number of a partition within its producer.
pub(crate) type PartitionKey = usize;

/// The place of a batch in the sequence of an idempotent producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// The producer's id.
    pub(crate) producer_id: ProducerId,
    /// The producer's epoch.
    pub(crate) producer_epoch: ProducerEpoch,
    /// The number of the first record.
    pub(crate) first: i32,
    /// Whether the batch is part of a transaction.
    pub(crate) is_transactional: bool,
}

/// The order in which the batches of a partition are first sent, and its parts within one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    /// Counts the batches as they were filled.
    pub(crate) batch: u64,
    /// The index that the first record had there.
    pub(crate) first_record: u32,
}

/// Records of one partition that travel together.
pub(crate) struct Batch {
    pub(crate) partition: PartitionKey,
    pub(crate) created: Instant,
    /// What its buffer holds of `buffer.memory`.
    pub(crate) reserved_bytes: usize,
    /// What else it holds of `buffer.memory`: callbacks and notes.
    pub(crate) beside_bytes: usize,
    /// Which flush waits for it; see the accumulator.
    pub(crate) generation: u64,
    /// Where it stands among the batches of its partition.
    pub(crate) order: Order,
    /// Set when it is first sent by an idempotent producer.
    pub(crate) sequence: Option<Sequence>,
    /// How often it has been sent.
    pub(crate) attempts: u32,
    /// Whether an attempt may have been written without an answer having told so.
    pub(crate) is_uncertain: bool,
    record_count: u32,
    content: Content,
    outcome: Arc<Outcome>,
    callbacks: VecDeque<PendingCallback>,
    notes: Notes,
    observer: Option<Arc<dyn DeliveryObserver>>,
    /// Whether the outcome has been set.
    is_done: bool,
}

#[derive(Debug)]
enum Content {
    Open(BatchBuilder),
    Sealed(Bytes),
}

impl Batch {
    /// An open batch without records.
    pub(crate) fn open(
        partition: PartitionKey,
        outcome: Arc<Outcome>,
        buffer: Vec<u8>,
        created: Instant,
        generation: u64,
    ) -> Self {
        Self {
            partition,
            created,
            reserved_bytes: 0,
            beside_bytes: 0,
            generation,
            order: Order::default(),
            sequence: None,
            attempts: 0,
            is_uncertain: false,
            record_count: 0,
            content: Content::Open(BatchBuilder::in_buffer(BatchHeader::default(), buffer)),
            outcome,
            callbacks: VecDeque::new(),
            notes: Notes::default(),
            observer: None,
            is_done: false,
        }
    }

    /// With one who is told of the records that have notes.
    pub(crate) fn with_observer(mut self, observer: Option<Arc<dyn DeliveryObserver>>) -> Self {
        self.observer = observer;
        self
    }

    /// What its records wait for.
    pub(crate) const fn outcome(&self) -> &Arc<Outcome> {
        &self.outcome
    }

    pub(crate) const fn record_count(&self) -> u32 {
        self.record_count
    }

    /// The size of the batch: uncompressed while it is open.
    pub(crate) const fn size_bytes(&self) -> usize {
        match &self.content {
            Content::Open(builder) => builder.size_in_bytes(),
            Content::Sealed(bytes) => bytes.len(),
        }
    }

    /// Appends a record, unless the batch would exceed `limit_bytes`; the first always fits. The listener
    /// is taken if the record is.
    #[inline]
    pub(crate) fn append(
        &mut self,
        limit_bytes: usize,
        record: &ProducerRecord<'_>,
        timestamp: i64,
        listener: &mut Listener<'_>,
    ) -> Option<Delivery> {
        let Content::Open(builder) = &mut self.content else {
            return None;
        };
        let limit_bytes = if self.record_count == 0 {
            usize::MAX
        } else {
            limit_bytes
        };
        let ProducerRecord {
            key,
            value,
            headers,
            ..
        } = *record;
        if !builder.append_within(limit_bytes, timestamp, key, value, headers) {
            return None;
        }
        let index = self.record_count;
        self.record_count += 1;
        match std::mem::take(listener) {
            Listener::Nobody => {}
            Listener::Callback(callback) => self.callbacks.push_back(PendingCallback {
                index,
                timestamp,
                callback,
            }),
            Listener::Observer(note) => self.notes.push(index, note),
        }
        Some(Delivery::new(Arc::clone(&self.outcome), index, timestamp))
    }

    /// Makes the bytes to send. `spare` is the buffer that the compressed records go to; it is
    /// exchanged for the one that held them uncompressed.
    pub(crate) fn seal(&mut self, codec: Codec, compressor: &mut Compressor, spare: &mut Vec<u8>) {
        if let Content::Open(builder) = &mut self.content {
            let mut builder = std::mem::replace(builder, BatchBuilder::new(BatchHeader::default()));
            if let Some(sequence) = self.sequence {
                let header = builder.header_mut();
                header.producer_id = sequence.producer_id;
                header.producer_epoch = sequence.producer_epoch;
                header.base_sequence = sequence.first;
                header.is_transactional = sequence.is_transactional;
            }
            let bytes = if codec.compression == Compression::None {
                builder.into_uncompressed()
            } else {
                let mut output = std::mem::take(spare);
                output.clear();
                builder.build(codec, compressor, &mut output);
                *spare = builder.into_buffer();
                output
            };
            self.content = Content::Sealed(Bytes::from(bytes));
        }
    }

    /// The bytes of a sealed batch.
    pub(crate) fn bytes(&self) -> &Bytes {
        match &self.content {
            Content::Sealed(bytes) => bytes,
            Content::Open(_) => unreachable!("a batch is sealed before it is sent"),
        }
    }

    /// Gives the batch another place in the sequence, in its header too once that is written.
    pub(crate) fn set_sequence(&mut self, sequence: Sequence) {
        self.sequence = Some(sequence);
        let Content::Sealed(bytes) = &mut self.content else {
            return;
        };
        // The connection that sent it may still hold the bytes, unless it has written them.
        let mut owned = match std::mem::take(bytes).try_into_mut() {
            Ok(owned) => owned,
            Err(shared) => shared[..].into(),
        };
        let (mut header, _) =
            RecordBatchMut::parse(&mut owned).expect("a sealed batch is a whole batch");
        header.set_producer_state(
            sequence.producer_id,
            sequence.producer_epoch,
            sequence.first,
        );
        *bytes = owned.freeze();
    }

    /// Sets the outcome of every record, and returns whom to call about it. Does nothing when that
    /// has been done.
    pub(crate) fn complete(&mut self, result: &BatchResult) -> Option<Callbacks> {
        if std::mem::replace(&mut self.is_done, true) {
            return None;
        }
        self.outcome.complete(result.clone());
        let observed = self.observed(result);
        (!self.callbacks.is_empty() || observed.is_some()).then(|| Callbacks {
            outcome: Arc::clone(&self.outcome),
            result: result.clone(),
            pending: std::mem::take(&mut self.callbacks),
            observed,
        })
    }

    /// What its observer is to be told.
    fn observed(&mut self, result: &BatchResult) -> Option<Observed> {
        let observer = self.observer.take()?;
        self.notes.last_index()?;
        let has_failed = matches!(result, BatchResult::Failed { .. });
        let failed = has_failed.then(|| match &self.content {
            Content::Open(builder) => Bytes::from(builder.clone().into_uncompressed()),
            Content::Sealed(bytes) => bytes.clone(),
        });
        Some(Observed {
            observer,
            notes: std::mem::take(&mut self.notes),
            failed,
        })
    }

    /// Whether its outcome has been set.
    pub(crate) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// The buffer of a batch that is done, unless the connection still holds it.
    pub(crate) fn into_buffer(mut self) -> Option<Vec<u8>> {
        match std::mem::replace(&mut self.content, Content::Sealed(Bytes::new())) {
            Content::Open(builder) => Some(builder.into_buffer()),
            Content::Sealed(bytes) if bytes.is_unique() => Some(Vec::from(bytes)),
            Content::Sealed(_) => None,
        }
    }

    /// Divides a batch that is too large for the broker into two or three, each at most half as
    /// large, or of one record. The parts take over its place in the sequence, its memory and all
    /// who wait for it.
    pub(crate) fn split(mut self) -> Vec<Self> {
        assert!(self.record_count > 1, "one record cannot be divided");
        let bytes = self.bytes().clone();
        let (batch, _) = RecordBatch::parse(&bytes).expect("a sealed batch is a whole batch");
        let mut scratch = Vec::new();
        let records = batch
            .records(&mut Decompressor::new(), &mut scratch, usize::MAX)
            .expect("the producer has compressed the records itself")
            .map(|record| record.expect("the producer has written the records itself"));
        let sizes_bytes = records.clone().map(|record| size_in_part(&record));
        let limit_bytes = HEADER_SIZE_BYTES + sizes_bytes.sum::<usize>() / 2;
        let mut parts: Vec<(u32, Self)> = Vec::new();
        let notes = std::mem::take(&mut self.notes);
        let mut notes = notes.iter().peekable();
        for (index, record) in records.enumerate() {
            let note = notes.next_if(|(at, _)| *at as usize == index);
            let mut listener = match note {
                Some((_, note)) => Listener::Observer(note),
                None => self.take_callback(index as u32),
            };
            self.append_to_parts(
                index as u32,
                &record,
                limit_bytes,
                &mut listener,
                &mut parts,
            );
        }
        let outcomes = parts
            .iter()
            .map(|(first, part)| (*first, Arc::clone(&part.outcome)));
        if !std::mem::replace(&mut self.is_done, true) {
            self.outcome.split(outcomes.collect());
        }
        let mut parts: Vec<Self> = parts.into_iter().map(|(_, part)| part).collect();
        let last = parts.last_mut().expect("a batch has records");
        last.reserved_bytes = self.reserved_bytes;
        last.beside_bytes = self.beside_bytes;
        parts
    }

    /// Takes the callback of the record at `index`, which is the first of those left, if it has one.
    fn take_callback(&mut self, index: u32) -> Listener<'static> {
        let is_next = |pending: &mut PendingCallback| pending.index == index;
        match self.callbacks.pop_front_if(is_next) {
            Some(pending) => Listener::Callback(pending.callback),
            None => Listener::Nobody,
        }
    }

    /// Appends the record at `index` to the last part, or to another one after it.
    fn append_to_parts(
        &self,
        index: u32,
        record: &Record<'_>,
        limit_bytes: usize,
        listener: &mut Listener<'_>,
        parts: &mut Vec<(u32, Self)>,
    ) {
        let headers: Vec<Header<'_>> = record.headers.iter().collect();
        let to_send = ProducerRecord {
            topic: "",
            partition: None,
            timestamp: None,
            key: record.key,
            value: record.value,
            headers: &headers,
        };
        if let Some((_, part)) = parts.last_mut()
            && part
                .append(limit_bytes, &to_send, record.timestamp, listener)
                .is_some()
        {
            return;
        }
        let mut part = self.part(index);
        // Nobody waits for this delivery: those that there are find the part by its first index.
        drop(part.append(limit_bytes, &to_send, record.timestamp, listener));
        parts.push((index, part));
    }

    /// An empty part that begins with the record at `index`.
    fn part(&self, index: u32) -> Self {
        let outcome = Outcome::new(Arc::clone(self.outcome.topic()), self.outcome.partition());
        let mut part = Self::open(
            self.partition,
            outcome,
            Vec::new(),
            self.created,
            self.generation,
        )
        .with_observer(self.observer.clone());
        part.sequence = self.sequence.map(|sequence| Sequence {
            first: increment_sequence(sequence.first, index as i32),
            ..sequence
        });
        part.order.first_record = self.order.first_record + index;
        part.order.batch = self.order.batch;
        part.attempts = self.attempts;
        part.is_done = self.is_done;
        part
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("partition", &self.partition)
            .field("order", &self.order)
            .field("sequence", &self.sequence)
            .field("attempts", &self.attempts)
            .field("record_count", &self.record_count)
            .field("is_done", &self.is_done)
            .finish_non_exhaustive()
    }
}

impl Drop for Batch {
    /// Nobody waits for ever for a batch that its producer has dropped.
    fn drop(&mut self) {
        drop(self.complete(&BatchResult::failed(Error::Closed("producer"))));
    }
}

/// About what a record takes in a batch.
fn size_in_part(record: &Record<'_>) -> usize {
    let headers = record.headers.iter();
    let headers_bytes =
        headers.map(|header| header.key.len() + header.value.map_or(0, <[u8]>::len));
    record.key.map_or(0, <[u8]>::len)
        + record.value.map_or(0, <[u8]>::len)
        + headers_bytes.sum::<usize>()
        + RECORD_OVERHEAD_BYTES
}
