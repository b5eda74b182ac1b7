//! Processors that keep the keys of their records: their results need no repartition.

use super::{Processor, ProcessorContext, PunctuationType, Schedule, StoreHandle, TaskContext};
use crate::error::Failure;
use crate::headers::Headers;
use crate::record::{Data, Record};

/// A record whose key stays what it is: only a record that was taken can be forwarded, with another value, time or
/// headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedKeyRecord<K, V>(Record<K, V>);

impl<K, V> FixedKeyRecord<K, V> {
    /// The key.
    pub const fn key(&self) -> &K {
        &self.0.key
    }

    /// The value.
    pub const fn value(&self) -> &V {
        &self.0.value
    }

    /// Milliseconds since 1970.
    pub const fn timestamp_ms(&self) -> i64 {
        self.0.timestamp_ms
    }

    /// The headers.
    pub const fn headers(&self) -> &Headers {
        &self.0.headers
    }

    /// The record with another value.
    #[must_use]
    pub fn with_value<V2>(self, value: V2) -> FixedKeyRecord<K, V2> {
        FixedKeyRecord(self.0.with_value(value))
    }

    /// The record at another time.
    #[must_use]
    pub fn with_timestamp(self, timestamp_ms: i64) -> Self {
        Self(self.0.with_timestamp(timestamp_ms))
    }

    /// The record with other headers.
    #[must_use]
    pub fn with_headers(mut self, headers: Headers) -> Self {
        self.0.headers = headers;
        self
    }
}

/// A node of an application that keeps the keys of its records. Each task has one of its own.
///
/// ```
/// use riverrun_streams::Failure;
/// use riverrun_streams::processor::{FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord};
///
/// /// Numbers the records.
/// #[derive(Default)]
/// struct Number {
///     seen: i64,
/// }
///
/// impl FixedKeyProcessor<String, String, i64> for Number {
///     fn process(
///         &mut self,
///         context: &mut FixedKeyProcessorContext<'_, '_, String, i64>,
///         record: FixedKeyRecord<String, String>,
///     ) -> Result<(), Failure> {
///         self.seen += 1;
///         context.forward(record.with_value(self.seen))
///     }
/// }
/// ```
pub trait FixedKeyProcessor<K, VIn, VOut> {
    /// Called once, before the first record: the place to take stores and to ask for punctuation.
    ///
    /// # Errors
    /// The task fails.
    fn init(
        &mut self,
        context: &mut FixedKeyProcessorContext<'_, '_, K, VOut>,
    ) -> Result<(), Failure> {
        let _ = context;
        Ok(())
    }

    /// Takes a record.
    ///
    /// # Errors
    /// The processing handler decides whether the task goes on.
    fn process(
        &mut self,
        context: &mut FixedKeyProcessorContext<'_, '_, K, VOut>,
        record: FixedKeyRecord<K, VIn>,
    ) -> Result<(), Failure>;

    /// The time has come that `schedule` asked for; `timestamp_ms` is the time now.
    ///
    /// # Errors
    /// The processing handler decides whether the task goes on.
    fn punctuate(
        &mut self,
        context: &mut FixedKeyProcessorContext<'_, '_, K, VOut>,
        schedule: Schedule,
        timestamp_ms: i64,
    ) -> Result<(), Failure> {
        let _ = (context, schedule, timestamp_ms);
        Ok(())
    }

    /// Called once, after the last record.
    fn close(&mut self) {}
}

/// What a processor that keeps keys can do while it is called.
#[derive(Debug)]
pub struct FixedKeyProcessorContext<'a, 'b, K, V>(&'a mut ProcessorContext<'b, K, V>);

impl<K: Data, V: Data> FixedKeyProcessorContext<'_, '_, K, V> {
    /// Gives `record` to each child.
    ///
    /// # Errors
    /// A failure of a child that the processing handler has not let pass; return it.
    pub fn forward(&mut self, record: FixedKeyRecord<K, V>) -> Result<(), Failure> {
        self.0.forward(record.0)
    }

    /// Gives `record` to the child of this name.
    ///
    /// # Errors
    /// As `forward`, or there is no such child.
    pub fn forward_to(&mut self, child: &str, record: FixedKeyRecord<K, V>) -> Result<(), Failure> {
        self.0.forward_to(child, record.0)
    }

    /// The state store of this name, which the node is connected to.
    ///
    /// # Errors
    /// The node is not connected to it, or it is of another type.
    pub fn store<S: 'static>(&self, name: &str) -> Result<StoreHandle<S>, Failure> {
        self.0.store(name)
    }

    /// Calls `punctuate` every `interval_ms`; see [`ProcessorContext::schedule`].
    pub fn schedule(&mut self, interval_ms: i64, kind: PunctuationType) -> Schedule {
        self.0.schedule(interval_ms, kind)
    }

    /// Calls `punctuate` at `start_ms` and every `interval_ms` after it; see [`ProcessorContext::schedule_from`].
    pub fn schedule_from(
        &mut self,
        start_ms: i64,
        interval_ms: i64,
        kind: PunctuationType,
    ) -> Schedule {
        self.0.schedule_from(start_ms, interval_ms, kind)
    }

    /// Ends the calls of `schedule`.
    pub fn cancel(&mut self, schedule: Schedule) {
        self.0.cancel(schedule);
    }

    /// Asks for a commit soon.
    pub fn commit(&mut self) {
        self.0.commit();
    }

    /// What stores need for writing, and what is known of task, times and the record of the input.
    pub fn task(&mut self) -> &mut TaskContext {
        self.0.task()
    }
}

/// A processor that keeps keys among other ones.
pub(crate) struct FixedKey<P>(pub(crate) P);

impl<P, K: Data, VIn: Data, VOut: Data> Processor<K, VIn, K, VOut> for FixedKey<P>
where
    P: FixedKeyProcessor<K, VIn, VOut>,
{
    fn init(&mut self, context: &mut ProcessorContext<'_, K, VOut>) -> Result<(), Failure> {
        self.0.init(&mut FixedKeyProcessorContext(context))
    }

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, K, VOut>,
        record: Record<K, VIn>,
    ) -> Result<(), Failure> {
        self.0.process(
            &mut FixedKeyProcessorContext(context),
            FixedKeyRecord(record),
        )
    }

    fn punctuate(
        &mut self,
        context: &mut ProcessorContext<'_, K, VOut>,
        schedule: Schedule,
        timestamp_ms: i64,
    ) -> Result<(), Failure> {
        let context = &mut FixedKeyProcessorContext(context);
        self.0.punctuate(context, schedule, timestamp_ms)
    }

    fn close(&mut self) {
        self.0.close();
    }
}
