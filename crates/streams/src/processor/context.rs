//! What the nodes and stores of a task share while a record passes through.

use super::{
    Collector, DefaultTimestampExtractor, ErrorContext, HandlerResponse, Handlers, Schedules,
    TaskId, UpgradeFrom,
};
use crate::error::{Advice, BoxError, Failure, FailureKind, Place, StreamsError};
use crate::headers::Headers;
use crate::record::RecordContext;
use crate::store_fault::StoreFault;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What a task counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskMetrics {
    /// Records taken from input topics.
    pub processed_records: u64,
    /// Records that no result came of: null keys, late ones, ones that a handler let pass.
    pub dropped_records: u64,
    /// Records that were processed while an input had none, which was not waited for any longer.
    pub enforced_processing_count: u64,
    /// Calls of punctuators.
    pub punctuated_count: u64,
    /// How far the timestamps of records were behind stream time, added up.
    pub lateness_sum_ms: u64,
    /// The most that one was.
    pub lateness_max_ms: u64,
}

/// How often by the clock operators look for results that time has made final: looking costs more than a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmitIntervals {
    /// Of left and outer stream-stream joins; Kafka Streams'
    /// `__emit.interval.ms.kstreams.outer.join.spurious.results.fix__`.
    pub outer_join_ms: i64,
    /// Of aggregations that emit when windows close; Kafka Streams'
    /// `__emit.interval.ms.kstreams.windowed.aggregation__`.
    pub windowed_aggregation_ms: i64,
}

impl EmitIntervals {
    /// At every record.
    pub const NONE: Self = Self {
        outer_join_ms: 0,
        windowed_aggregation_ms: 0,
    };
}

impl Default for EmitIntervals {
    fn default() -> Self {
        const SECOND_MS: i64 = 1000;
        Self {
            outer_join_ms: SECOND_MS,
            windowed_aggregation_ms: SECOND_MS,
        }
    }
}

/// What the nodes and stores of a task share while a record passes through.
pub struct TaskContext {
    /// Which task.
    pub task_id: TaskId,
    /// `application.id`, which starts the names of internal topics.
    pub application_id: Arc<str>,
    /// The record of the input topic that is being processed.
    pub record: RecordContext,
    /// Key and value of that record as they came, for error handlers.
    pub raw_record: (Option<Bytes>, Option<Bytes>),
    /// The largest timestamp of the records that the task has taken; -1 before the first.
    pub stream_time_ms: i64,
    /// The clock's time, which who drives the task sets.
    pub wall_clock_ms: i64,
    /// What the task writes.
    pub collector: Collector,
    /// What the task counts.
    pub metrics: TaskMetrics,
    /// How many partitions topics have that custom partitioners write to, as far as that is known while they do.
    pub partition_counts: BTreeMap<Arc<str>, i32>,
    /// How often operators look for results that time has made final.
    pub emit_intervals: EmitIntervals,
    /// What other instances have, while the application is upgraded.
    pub upgrade_from: Option<UpgradeFrom>,
    /// Which time records have whose source does not say.
    pub default_timestamp_extractor: DefaultTimestampExtractor,
    /// A node has asked for a commit.
    pub commit_requested: bool,
    /// By the name of a store of windows: those that close until then have given their final results. Committed with
    /// the offsets of inputs.
    pub(crate) emitted_close_times_ms: BTreeMap<Arc<str>, i64>,
    pub(crate) schedules: Schedules,
    pub(crate) handlers: Arc<Handlers>,
    node: Arc<str>,
    scratch: Vec<u8>,
}

impl fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskContext")
            .field("task_id", &self.task_id)
            .field("record", &self.record)
            .field("stream_time_ms", &self.stream_time_ms)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// What a link puts back when its child has returned.
pub(crate) struct Enclosing {
    node: Arc<str>,
    timestamp_ms: i64,
    headers: Option<Headers>,
}

impl TaskContext {
    /// The context of a task that has not begun.
    pub(crate) fn new(task_id: TaskId, application_id: Arc<str>, handlers: Arc<Handlers>) -> Self {
        Self {
            task_id,
            application_id,
            record: RecordContext::of_no_record(-1),
            raw_record: (None, None),
            stream_time_ms: -1,
            wall_clock_ms: 0,
            collector: Collector::default(),
            metrics: TaskMetrics::default(),
            partition_counts: BTreeMap::new(),
            emit_intervals: EmitIntervals::default(),
            upgrade_from: None,
            default_timestamp_extractor: DefaultTimestampExtractor::default(),
            commit_requested: false,
            emitted_close_times_ms: BTreeMap::new(),
            schedules: Schedules::default(),
            handlers,
            node: Arc::from(""),
            scratch: Vec::new(),
        }
    }

    /// The node that runs.
    pub fn node(&self) -> &Arc<str> {
        &self.node
    }

    /// An empty buffer to serialize into; `give_back` keeps its room for the next one.
    pub fn take_scratch(&mut self) -> Vec<u8> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch
    }

    /// See `take_scratch`.
    pub fn give_back(&mut self, scratch: Vec<u8>) {
        self.scratch = scratch;
    }

    /// Where the record is.
    pub fn place(&self) -> Place {
        Place {
            node: Arc::clone(&self.node),
            topic: Arc::clone(&self.record.topic),
            partition: self.record.partition,
            offset: self.record.offset,
        }
    }

    /// A record of the input gave no result.
    pub fn drop_record(&mut self) {
        self.metrics.dropped_records += 1;
    }

    /// `node` runs with a record of this time and these headers, until `leave`.
    pub(crate) fn enter(
        &mut self,
        node: &Arc<str>,
        timestamp_ms: i64,
        headers: &Headers,
    ) -> Enclosing {
        let same_headers =
            headers.is_empty() && self.record.headers.is_empty() || *headers == self.record.headers;
        Enclosing {
            node: std::mem::replace(&mut self.node, Arc::clone(node)),
            timestamp_ms: std::mem::replace(&mut self.record.timestamp_ms, timestamp_ms),
            headers: (!same_headers)
                .then(|| std::mem::replace(&mut self.record.headers, headers.clone())),
        }
    }

    pub(crate) fn leave(&mut self, enclosing: Enclosing) {
        self.node = enclosing.node;
        self.record.timestamp_ms = enclosing.timestamp_ms;
        if let Some(headers) = enclosing.headers {
            self.record.headers = headers;
        }
    }

    /// Asks the processing handler about what the node that runs could not do. A store that fails is told with the
    /// place.
    pub(crate) fn handled(&mut self, called: Result<(), Failure>) -> Result<(), Failure> {
        match called {
            Err(Failure(FailureKind::Processing(error))) => self.handle_processing_error(error),
            Err(Failure(FailureKind::Fatal(error @ StreamsError::Store { .. }))) => {
                Err(Failure::fatal(StreamsError::Processing {
                    place: self.place(),
                    source: Box::new(error),
                    advice: Advice::None,
                }))
            }
            other => other,
        }
    }

    /// Asks the processing handler about `error` of the node that runs.
    fn handle_processing_error(&mut self, error: BoxError) -> Result<(), Failure> {
        // No other record would fare better, and all of them would be skipped.
        let fault = error
            .downcast_ref::<StreamsError>()
            .and_then(StreamsError::store_fault);
        if fault.is_some_and(StoreFault::is_of_disk) {
            return Err(Failure::fatal(StreamsError::Processing {
                place: self.place(),
                source: error,
                advice: Advice::None,
            }));
        }
        let handlers = Arc::clone(&self.handlers);
        let response = handlers
            .processing
            .handle(&self.error_context(), error.as_ref());
        match self.respond(response) {
            true => Ok(()),
            false => Err(Failure::fatal(StreamsError::Processing {
                place: self.place(),
                source: error,
                advice: Advice::Handler,
            })),
        }
    }

    /// Asks the deserialization handler about a record that `source` could not read.
    pub(crate) fn handle_deserialization_error(
        &mut self,
        source: &Arc<str>,
        error: BoxError,
    ) -> Result<(), StreamsError> {
        let enclosing = std::mem::replace(&mut self.node, Arc::clone(source));
        let handlers = Arc::clone(&self.handlers);
        let response = handlers
            .deserialization
            .handle(&self.error_context(), error.as_ref());
        let handled = match self.respond(response) {
            true => Ok(()),
            false => Err(StreamsError::Deserialization {
                place: self.place(),
                source: error,
            }),
        };
        self.node = enclosing;
        handled
    }

    /// Asks the production handler about a record that the node that runs could not serialize for `topic`.
    pub(crate) fn handle_serialization_error(
        &mut self,
        topic: &Arc<str>,
        error: BoxError,
    ) -> Result<(), Failure> {
        let handlers = Arc::clone(&self.handlers);
        let response =
            handlers
                .production
                .handle_serialization(&self.error_context(), topic, error.as_ref());
        match self.respond(response) {
            true => Ok(()),
            false => Err(Failure::fatal(StreamsError::Production {
                topic: Arc::clone(topic),
                place: self.place(),
                source: error,
                advice: Advice::Handler,
            })),
        }
    }

    /// What error handlers see.
    pub(crate) fn error_context(&self) -> ErrorContext<'_> {
        ErrorContext {
            task_id: self.task_id,
            node: &self.node,
            record: &self.record,
            raw_key: self.raw_record.0.as_ref(),
            raw_value: self.raw_record.1.as_ref(),
        }
    }

    /// Does what a handler answered; whether the task goes on.
    pub(crate) fn respond(&mut self, response: HandlerResponse) -> bool {
        for record in response.dead_letters {
            self.collector.push(record);
        }
        if response.resume {
            self.drop_record();
        }
        response.resume
    }
}
