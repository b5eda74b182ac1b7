//! `TopologyTestDriver`: runs a topology without a broker, one record at a time, with time under the test's control.
//!
//! ```
//! use riverrun_streams::dsl::StreamsBuilder;
//! use riverrun_streams::test_driver::TopologyTestDriver;
//!
//! let builder = StreamsBuilder::new();
//! builder
//!     .stream::<String, i64>("in")
//!     .filter(|_, value| value % 2 == 0)
//!     .to("out");
//! let driver = TopologyTestDriver::new(&builder.build()?)?;
//! let input = driver.input_topic::<String, i64>("in");
//! let output = driver.output_topic::<String, i64>("out");
//! input.pipe("a".to_owned(), 1, 1000)?;
//! input.pipe("b".to_owned(), 2, 2000)?;
//! let read = output.read_record()?.expect("one even number");
//! assert_eq!((read.key.as_str(), read.value, read.timestamp_ms), ("b", 2, 2000));
//! assert!(output.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod outputs;
mod topics;

use crate::error::StreamsError;
use crate::headers::Headers;
use crate::processor::{
    DefaultTimestampExtractor, EmitIntervals, Handlers, ProducedRecord, PunctuationType,
    StoreHandle, TaskId,
};
use crate::serde::{DefaultSerde, SerdeRef};
use crate::state::{CacheBudget, TaskStorage};
use crate::task::{Input, Task};
use crate::topology::{RawRecord, SourceTopics, Subtopology, TaskStores, Topology, whole_names};
use bytes::Bytes;
use outputs::Outputs;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// `statestore.cache.max.bytes`.
const CACHE_BYTES: usize = 10 << 20;
pub use topics::{TestInputTopic, TestOutputTopic};

/// What a test says of the application.
#[derive(Debug, Clone)]
pub struct TestDriverConfig {
    /// `application.id`.
    pub application_id: String,
    /// The clock at the start.
    pub wall_clock_ms: i64,
    /// How often by the clock operators look for results that time has made final: at every record, as a rule.
    pub emit_intervals: EmitIntervals,
    /// The error handlers.
    pub handlers: Handlers,
    /// `default.timestamp.extractor`.
    pub default_timestamp_extractor: DefaultTimestampExtractor,
}

impl Default for TestDriverConfig {
    fn default() -> Self {
        Self {
            application_id: "test".to_owned(),
            wall_clock_ms: 0,
            emit_intervals: EmitIntervals::NONE,
            handlers: Handlers::default(),
            default_timestamp_extractor: DefaultTimestampExtractor::default(),
        }
    }
}

/// Runs a topology: one partition of each topic, a commit after each record.
pub struct TopologyTestDriver {
    driven: Rc<RefCell<Driven>>,
}

impl fmt::Debug for TopologyTestDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopologyTestDriver").finish_non_exhaustive()
    }
}

/// What the driver and its topics share.
struct Driven {
    task: Task,
    global: Option<Task>,
    wall_clock_ms: i64,
    /// Offset of the next record of each topic.
    next_offsets: BTreeMap<Arc<str>, i64>,
    produced: BTreeMap<Arc<str>, VecDeque<ProducedRecord>>,
    task_topics: Vec<SourceTopics>,
    global_topics: Vec<SourceTopics>,
    outputs: Outputs,
}

impl TopologyTestDriver {
    /// Runs `topology` as the application `test`.
    ///
    /// # Errors
    /// A store cannot be opened, or a processor fails to begin.
    pub fn new(topology: &Topology) -> Result<Self, StreamsError> {
        Self::with(topology, TestDriverConfig::default())
    }

    /// Runs `topology` as `config` says.
    ///
    /// # Errors
    /// A store cannot be opened, or a processor fails to begin.
    pub fn with(topology: &Topology, config: TestDriverConfig) -> Result<Self, StreamsError> {
        let application_id: Arc<str> = Arc::from(config.application_id);
        let handlers = Arc::new(config.handlers);
        let (global_nodes, nodes) = topology
            .subtopologies()
            .into_iter()
            .partition::<Vec<_>, _>(|subtopology| subtopology.is_global);
        // One record is processed between two commits, so a cache has nothing to join.
        let storage = TaskStorage::in_memory(CacheBudget::new(CACHE_BYTES));
        let build = |parts: Vec<Subtopology>, number: i32, globals: &TaskStores| {
            let task_id = TaskId {
                subtopology: number,
                partition: 0,
            };
            let whole = Subtopology::joined(number, parts);
            let built =
                topology.instantiate(&application_id, &whole, task_id, &storage, globals)?;
            let topics: Vec<SourceTopics> = built
                .sources
                .iter()
                .map(|(topics, _)| topics.clone())
                .collect();
            let inputs = built
                .sources
                .iter()
                .flat_map(|(topics, source)| match topics {
                    SourceTopics::Named(names) => names
                        .iter()
                        .map(|name| Input::new(Arc::clone(name), 0, source()))
                        .collect(),
                    SourceTopics::Pattern(_) => Vec::new(),
                })
                .collect();
            let mut task = Task::new(
                task_id,
                Arc::clone(&application_id),
                Arc::clone(&handlers),
                built,
                inputs,
            );
            task.context().emit_intervals = config.emit_intervals;
            task.context().default_timestamp_extractor = config.default_timestamp_extractor;
            task.init(config.wall_clock_ms)?;
            Ok::<_, StreamsError>((task, topics))
        };
        let global = match global_nodes.is_empty() {
            true => None,
            false => Some(build(global_nodes, -1, &TaskStores::default())?),
        };
        let global_stores = global
            .as_ref()
            .map(|(task, _)| task.typed_stores().clone())
            .unwrap_or_default();
        let (task, task_topics) = build(nodes, 0, &global_stores)?;
        let (global, global_topics) =
            global.map_or((None, Vec::new()), |(task, topics)| (Some(task), topics));
        Ok(Self {
            driven: Rc::new(RefCell::new(Driven {
                outputs: Outputs::of(topology, &application_id),
                task,
                global,
                wall_clock_ms: config.wall_clock_ms,
                next_offsets: BTreeMap::new(),
                produced: BTreeMap::new(),
                task_topics,
                global_topics,
            })),
        })
    }

    /// A topic to write to.
    pub fn input_topic<K: DefaultSerde, V: DefaultSerde>(
        &self,
        topic: &str,
    ) -> TestInputTopic<K, V> {
        self.input_topic_with(topic, K::serde(), V::serde())
    }

    /// A topic to write to, by these serdes.
    pub fn input_topic_with<K, V>(
        &self,
        topic: &str,
        key_serde: SerdeRef<K>,
        value_serde: SerdeRef<V>,
    ) -> TestInputTopic<K, V> {
        TestInputTopic::new(&self.driven, topic, key_serde, value_serde)
    }

    /// A topic to read from.
    pub fn output_topic<K: DefaultSerde, V: DefaultSerde>(
        &self,
        topic: &str,
    ) -> TestOutputTopic<K, V> {
        self.output_topic_with(topic, K::serde(), V::serde())
    }

    /// A topic to read from, by these serdes.
    pub fn output_topic_with<K, V>(
        &self,
        topic: &str,
        key_serde: SerdeRef<K>,
        value_serde: SerdeRef<V>,
    ) -> TestOutputTopic<K, V> {
        TestOutputTopic::new(&self.driven, topic, key_serde, value_serde)
    }

    /// Lets the clock go on, once: punctuation by the clock is called at most once, then there is a commit.
    ///
    /// # Errors
    /// A processor failed.
    pub fn advance_wall_clock_time(&self, by_ms: i64) -> Result<(), StreamsError> {
        let mut driven = self.driven.borrow_mut();
        driven.wall_clock_ms += by_ms;
        let now_ms = driven.wall_clock_ms;
        driven
            .task
            .punctuate(PunctuationType::WallClockTime, now_ms)?;
        driven.commit()?;
        driven.process_waiting()
    }

    /// The topics that were written to, in the order of their names: outputs, changelogs and repartition topics.
    pub fn produced_topic_names(&self) -> Vec<Arc<str>> {
        self.driven.borrow().produced.keys().cloned().collect()
    }

    /// The state store of this name, if it is an `S`, such as `KeyValueStore<String, i64>`: `borrow` it to read. Drop
    /// what that gives before the next record is piped.
    pub fn state_store<S: 'static>(&self, name: &str) -> Option<StoreHandle<S>> {
        let driven = self.driven.borrow();
        let global = driven
            .global
            .as_ref()
            .and_then(|task| task.typed_stores().typed::<S>(name));
        driven
            .task
            .typed_stores()
            .typed::<S>(name)
            .or(global)
            .map(StoreHandle::new)
    }

    /// What the task has counted.
    pub fn metrics(&self) -> crate::processor::TaskMetrics {
        self.driven.borrow().task.metrics()
    }

    /// Closes processors and stores.
    ///
    /// # Errors
    /// A store failed.
    pub fn close(self) -> Result<(), StreamsError> {
        let mut driven = self.driven.borrow_mut();
        let closed = driven.task.close();
        let global = driven.global.as_mut().map_or(Ok(()), Task::close);
        closed.and(global)
    }
}

impl Driven {
    /// Writes a record to a topic that the topology reads, and processes everything that comes of it.
    fn pipe(
        &mut self,
        topic: &Arc<str>,
        (key, value): (Option<Bytes>, Option<Bytes>),
        timestamp_ms: i64,
        headers: Headers,
    ) -> Result<(), StreamsError> {
        if !self.is_read(topic) {
            return Err(StreamsError::Other(format!(
                "the topology reads no topic `{topic}`; it reads {}",
                shown(&self.task_topics, &self.global_topics)
            )));
        }
        self.enqueue(topic, (key, value), timestamp_ms, headers)?;
        self.process_waiting()
    }

    fn is_read(&self, topic: &str) -> bool {
        self.task_topics
            .iter()
            .chain(&self.global_topics)
            .any(|topics| match topics {
                SourceTopics::Named(names) => names.iter().any(|name| **name == *topic),
                SourceTopics::Pattern(pattern) => {
                    whole_names(pattern).is_ok_and(|pattern| pattern.is_match(topic))
                }
            })
    }

    fn enqueue(
        &mut self,
        topic: &Arc<str>,
        (key, value): (Option<Bytes>, Option<Bytes>),
        timestamp_ms: i64,
        headers: Headers,
    ) -> Result<(), StreamsError> {
        let next = self.next_offsets.entry(Arc::clone(topic)).or_insert(0);
        let raw = RawRecord {
            topic: Arc::clone(topic),
            partition: 0,
            offset: *next,
            timestamp_ms,
            key,
            value,
            headers,
        };
        *next += 1;
        if let Some(global) = &mut self.global {
            global.add_records(topic, 0, [raw.clone()])?;
            while global.process(self.wall_clock_ms)? {}
            global.prepare_commit()?;
        }
        self.task.add_records(topic, 0, [raw])
    }

    fn process_waiting(&mut self) -> Result<(), StreamsError> {
        // A record that cannot be read is never processed, but it may be a dead letter.
        self.take_produced()?;
        while self.task.process(self.wall_clock_ms)? {
            self.task
                .punctuate(PunctuationType::StreamTime, self.wall_clock_ms)?;
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), StreamsError> {
        self.task.prepare_commit()?;
        self.take_produced()
    }

    /// Takes what was written: what the topology itself reads waits to be processed.
    fn take_produced(&mut self) -> Result<(), StreamsError> {
        self.task.decide_partitions(|_| 1);
        let produced: Vec<ProducedRecord> = self.task.drain_produced().collect();
        for record in produced {
            let read = self.is_read(&record.topic);
            let again = read.then(|| record.clone());
            self.produced
                .entry(Arc::clone(&record.topic))
                .or_default()
                .push_back(record);
            if let Some(record) = again {
                let timestamp_ms = record.timestamp_ms.unwrap_or(self.wall_clock_ms);
                self.enqueue(
                    &record.topic,
                    (record.key, record.value),
                    timestamp_ms,
                    record.headers,
                )?;
            }
        }
        Ok(())
    }
}

fn shown(task: &[SourceTopics], global: &[SourceTopics]) -> String {
    let names: Vec<String> = task
        .iter()
        .chain(global)
        .map(|topics| match topics {
            SourceTopics::Named(names) => names
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", "),
            SourceTopics::Pattern(pattern) => format!("those that match `{pattern}`"),
        })
        .collect();
    names.join(", ")
}
