//! What whoever exports metrics takes: names, tags and values.

use super::sensor::Sensor;
use super::{Phase, Registry, StoreFigures, TaskFigures, ThreadFigures, ThreadMetrics, code};
use crate::processor::TaskId;
use crate::runtime::RecordingLevel;
use crate::runtime::clock::now_ms;
use crate::state::Operation;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The name of a metric.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricName {
    /// Such as `process-rate`.
    pub name: &'static str,
    /// Such as `stream-thread-metrics`.
    pub group: &'static str,
    /// Such as `thread-id` and its value.
    pub tags: BTreeMap<&'static str, String>,
}

/// What a metric has now.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValue {
    /// A number; NaN is that of no value.
    Number(f64),
    /// A text.
    Text(String),
}

/// A metric and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// What is measured.
    pub name: MetricName,
    /// What it has now.
    pub value: MetricValue,
}

/// The metrics of an instance: a handle for whoever exports them, which may outlive the instance.
///
/// ```no_run
/// # fn export(streams: &riverrun_streams::runtime::KafkaStreams) {
/// let metrics = streams.metrics();
/// std::thread::spawn(move || {
///     for metric in metrics.snapshot() {
///         println!("{} {:?} {:?}", metric.name.name, metric.name.tags, metric.value);
///     }
/// });
/// # }
/// ```
#[derive(Clone, Default)]
pub struct StreamsMetrics(pub(in crate::runtime) Option<Arc<Registry>>);

impl fmt::Debug for StreamsMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamsMetrics").finish_non_exhaustive()
    }
}

impl StreamsMetrics {
    /// What is measured now; nothing before the instance is started.
    pub fn snapshot(&self) -> Vec<Metric> {
        let Some(registry) = &self.0 else {
            return Vec::new();
        };
        let mut list = List {
            metrics: Vec::new(),
            now_ms: now_ms(),
        };
        list.add_client(registry);
        for thread in registry.threads() {
            list.add_thread(&thread);
        }
        list.metrics
    }

    /// The number that a metric has now, if there is one with this name and, among its tags, these.
    pub fn number(&self, group: &str, name: &str, tags: &[(&str, &str)]) -> Option<f64> {
        let has_tags = |of: &MetricName| {
            tags.iter()
                .all(|(key, value)| of.tags.get(key).is_some_and(|known| known == value))
        };
        let found = self.snapshot().into_iter().find(|metric| {
            metric.name.group == group && metric.name.name == name && has_tags(&metric.name)
        });
        match found?.value {
            MetricValue::Number(number) => Some(number),
            MetricValue::Text(_) => None,
        }
    }
}

type Tags = BTreeMap<&'static str, String>;

/// The metrics so far.
struct List {
    metrics: Vec<Metric>,
    now_ms: i64,
}

const CLIENT: &str = "stream-metrics";
const THREAD: &str = "stream-thread-metrics";
const TASK: &str = "stream-task-metrics";
const NODE: &str = "stream-processor-node-metrics";
const STORE: &str = "stream-state-metrics";
const CACHE: &str = "stream-record-cache-metrics";
const NS_IN_MS: f64 = 1e6;

impl List {
    fn add(&mut self, group: &'static str, name: &'static str, tags: &Tags, value: MetricValue) {
        self.metrics.push(Metric {
            name: MetricName {
                name,
                group,
                tags: tags.clone(),
            },
            value,
        });
    }

    fn add_number(&mut self, group: &'static str, name: &'static str, tags: &Tags, value: f64) {
        self.add(group, name, tags, MetricValue::Number(value));
    }

    fn add_client(&mut self, registry: &Registry) {
        let tags = Tags::from([("client-id", registry.client_id.to_string())]);
        let state = registry.shared.state();
        let level = match registry.config.metrics_recording_level {
            RecordingLevel::Info => "INFO",
            RecordingLevel::Debug => "DEBUG",
        };
        for (name, text) in [
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("application-id", registry.config.application_id.clone()),
            (
                "topology-description",
                registry.topology.describe().to_string(),
            ),
            ("state", state_name(state).to_owned()),
            ("recording-level", level.to_owned()),
        ] {
            self.add(CLIENT, name, &tags, MetricValue::Text(text));
        }
        let mut of_process = tags.clone();
        of_process.insert("process-id", registry.process_id.clone());
        of_process.insert("application-id", registry.config.application_id.clone());
        let code = f64::from(code(state));
        self.add_number(CLIENT, "client-state", &of_process, code);
        let (alive, failed) = registry.shared.count_threads();
        self.add_number(CLIENT, "alive-stream-threads", &tags, alive as f64);
        self.add_number(CLIENT, "failed-stream-threads", &tags, failed as f64);
    }

    fn add_thread(&mut self, thread: &ThreadMetrics) {
        let tags = Tags::from([("thread-id", thread.name.to_string())]);
        // Names are made without the lock: the thread takes it in each round.
        let figures = thread.figures.lock().clone();
        let ThreadFigures {
            rounds,
            poll,
            process,
            punctuate,
            commit,
            ..
        } = &figures;
        self.add_phase(POLL, &tags, poll, rounds);
        self.add_phase(PROCESS, &tags, process, rounds);
        self.add_phase(PUNCTUATE, &tags, punctuate, rounds);
        self.add_phase(COMMIT, &tags, commit, rounds);
        let now_ms = self.now_ms;
        for (name, value) in [
            ("poll-records-avg", poll.count.average(now_ms)),
            ("poll-records-max", poll.count.max(now_ms)),
            ("process-records-avg", process.count.average(now_ms)),
            ("process-records-max", process.count.max(now_ms)),
            ("task-created-rate", figures.created.rate(now_ms)),
            ("task-created-total", figures.created.total),
            ("task-closed-rate", figures.closed.rate(now_ms)),
            ("task-closed-total", figures.closed.total),
            ("blocked-time-ns-total", figures.blocked_ns as f64),
            ("thread-start-time", figures.start_ms as f64),
        ] {
            self.add_number(THREAD, name, &tags, value);
        }
        for (task_id, task) in thread.each_task() {
            self.add_task(&tags, (task_id, &task), thread.level);
        }
    }

    fn add_phase(&mut self, names: PhaseNames, tags: &Tags, phase: &Phase, rounds: &Sensor) {
        let [average, max, rate, total, ratio] = names;
        let now_ms = self.now_ms;
        // A poll is one, whatever comes of it; of the others, what was done counts.
        let (per_second, altogether) = match rate {
            "poll-rate" => (phase.time.count_rate(now_ms), phase.time.count),
            "commit-rate" => (phase.latency.count_rate(now_ms), phase.latency.count),
            _ => (phase.count.rate(now_ms), phase.count.total),
        };
        for (name, value) in [
            (average, phase.latency.average(now_ms) / NS_IN_MS),
            (max, phase.latency.max(now_ms) / NS_IN_MS),
            (rate, per_second),
            (total, altogether),
            (ratio, phase.time.sum(now_ms) / rounds.sum(now_ms)),
        ] {
            self.add_number(THREAD, name, tags, value);
        }
    }

    fn add_task(
        &mut self,
        of_thread: &Tags,
        (task_id, task): (TaskId, &TaskFigures),
        level: RecordingLevel,
    ) {
        let mut tags = of_thread.clone();
        tags.insert("task-id", task_id.to_string());
        let now_ms = self.now_ms;
        self.add_number(
            TASK,
            "dropped-records-rate",
            &tags,
            task.dropped.rate(now_ms),
        );
        self.add_number(TASK, "dropped-records-total", &tags, task.dropped.total);
        if level != RecordingLevel::Debug {
            return;
        }
        for (name, value) in [
            ("process-rate", task.processed.rate(now_ms)),
            ("process-total", task.processed.total),
            ("punctuate-rate", task.punctuated.rate(now_ms)),
            ("punctuate-total", task.punctuated.total),
            ("enforced-processing-rate", task.enforced.rate(now_ms)),
            ("enforced-processing-total", task.enforced.total),
            ("record-lateness-avg", task.lateness.average(now_ms)),
            ("record-lateness-max", task.lateness.max(now_ms)),
            ("active-buffer-count", task.buffered_count as f64),
        ] {
            self.add_number(TASK, name, &tags, value);
        }
        for (store, figures) in &task.stores {
            self.add_store(&tags, store, figures);
        }
        for (node, (_, processed)) in &task.nodes {
            tags.insert("processor-node-id", node.to_string());
            self.add_number(NODE, "process-rate", &tags, processed.rate(now_ms));
            self.add_number(NODE, "process-total", &tags, processed.total);
        }
    }
}

impl List {
    fn add_store(&mut self, of_task: &Tags, store: &Arc<str>, figures: &StoreFigures) {
        let now_ms = self.now_ms;
        let mut tags = of_task.clone();
        tags.insert(figures.scope, store.to_string());
        let is_key_value = matches!(figures.scope, "rocksdb-state-id" | "in-memory-state-id");
        for operation in Operation::ALL {
            let (_, sensor) = &figures.operations[operation as usize];
            let [rate, average, max] = match (operation, is_key_value) {
                (Operation::Put, _) => ["put-rate", "put-latency-avg", "put-latency-max"],
                (Operation::Delete, true) => {
                    ["delete-rate", "delete-latency-avg", "delete-latency-max"]
                }
                (Operation::Delete, false) => {
                    ["remove-rate", "remove-latency-avg", "remove-latency-max"]
                }
                (Operation::Get, true) => ["get-rate", "get-latency-avg", "get-latency-max"],
                (Operation::Scan, true) => ["range-rate", "range-latency-avg", "range-latency-max"],
                (Operation::Get, false) => continue,
                (Operation::Scan, false) => {
                    ["fetch-rate", "fetch-latency-avg", "fetch-latency-max"]
                }
                (Operation::Flush, _) => ["flush-rate", "flush-latency-avg", "flush-latency-max"],
                (Operation::Commit, _) => {
                    ["commit-rate", "commit-latency-avg", "commit-latency-max"]
                }
                (Operation::Restore, _) => {
                    ["restore-rate", "restore-latency-avg", "restore-latency-max"]
                }
            };
            self.add_number(STORE, rate, &tags, sensor.count_rate(now_ms));
            self.add_number(STORE, average, &tags, sensor.average(now_ms));
            self.add_number(STORE, max, &tags, sensor.max(now_ms));
        }
        if let Some((_, ratio)) = &figures.cache {
            let mut tags = of_task.clone();
            tags.insert("record-cache-id", store.to_string());
            self.add_number(CACHE, "hit-ratio-avg", &tags, ratio.average(now_ms));
            self.add_number(CACHE, "hit-ratio-min", &tags, ratio.min(now_ms));
            self.add_number(CACHE, "hit-ratio-max", &tags, ratio.max(now_ms));
        }
    }
}

/// Of latency, its average and maximum; rate, total and ratio.
type PhaseNames = [&'static str; 5];

const POLL: PhaseNames = [
    "poll-latency-avg",
    "poll-latency-max",
    "poll-rate",
    "poll-total",
    "poll-ratio",
];
const PROCESS: PhaseNames = [
    "process-latency-avg",
    "process-latency-max",
    "process-rate",
    "process-total",
    "process-ratio",
];
const PUNCTUATE: PhaseNames = [
    "punctuate-latency-avg",
    "punctuate-latency-max",
    "punctuate-rate",
    "punctuate-total",
    "punctuate-ratio",
];
const COMMIT: PhaseNames = [
    "commit-latency-avg",
    "commit-latency-max",
    "commit-rate",
    "commit-total",
    "commit-ratio",
];

/// Kafka Streams' name of a state.
const fn state_name(state: crate::runtime::State) -> &'static str {
    use crate::runtime::State;
    match state {
        State::Created => "CREATED",
        State::Rebalancing => "REBALANCING",
        State::Running => "RUNNING",
        State::PendingShutdown => "PENDING_SHUTDOWN",
        State::NotRunning => "NOT_RUNNING",
        State::PendingError => "PENDING_ERROR",
        State::Error => "ERROR",
    }
}
