//! What an application configures, under Kafka Streams' names.

use super::process_id::ProcessId;
use super::{ClientOverrides, HostInfo, RecordingLevel};
use crate::dsl::TopologyConfig;
use crate::error::StreamsError;
use crate::processor::{DefaultTimestampExtractor, Handlers, UpgradeFrom};
use crate::topology::Topology;
use riverrun_client::ClientConfig;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// `processing.guarantee`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProcessingGuarantee {
    /// Records may be processed again after a failure.
    #[default]
    AtLeastOnce,
    /// What is read, written and kept is one transaction (KIP-447).
    ExactlyOnceV2,
}

/// `group.protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupProtocol {
    /// A member assigns tasks, and the application makes its internal topics.
    #[default]
    Classic,
    /// The coordinator does both (KIP-1071): needs a broker that has streams groups.
    Streams,
}

/// What an application configures.
#[derive(Debug, Clone)]
pub struct StreamsConfig {
    /// `application.id`: the group, and how internal topics and the state directory begin.
    pub application_id: String,
    /// Settings of every client, such as `bootstrap.servers`.
    pub client: ClientConfig,
    /// `num.stream.threads`.
    pub num_stream_threads: usize,
    /// `processing.guarantee`.
    pub processing_guarantee: ProcessingGuarantee,
    /// `group.protocol`. In streams groups the broker has the say over sessions, heartbeats, standbys and warm-ups:
    /// what is set here of them counts in classic groups only.
    pub group_protocol: GroupProtocol,
    /// `commit.interval.ms`; 30 s when there is none, 100 ms under exactly-once.
    pub commit_interval_ms: Option<u64>,
    /// `poll.ms`: how long to wait for records when there is nothing to do.
    pub poll_ms: u64,
    /// `state.dir`.
    pub state_dir: PathBuf,
    /// `state.cleanup.delay.ms`: what tasks have kept that are others' is removed when nobody has had it open for so
    /// long.
    pub state_cleanup_delay_ms: u64,
    /// `state.cleanup.dir.max.age.ms`: what is older is removed at the start; none keeps everything. Deletions are
    /// forgotten by changelogs after `delete.retention.ms`, a day by default: stores that are older may have rows that
    /// were deleted.
    pub state_cleanup_dir_max_age_ms: Option<u64>,
    /// `statestore.cache.max.bytes`, which all threads share.
    pub statestore_cache_max_bytes: usize,
    /// `replication.factor` of internal topics; the broker's default when there is none.
    pub replication_factor: Option<i16>,
    /// `buffered.records.per.partition`: above it a partition is paused.
    pub buffered_records_per_partition: usize,
    /// `max.task.idle.ms`: how long a task waits for an input partition that has no records, neither here nor at its
    /// broker. While the broker has some it waits without limit. Negative: not at all.
    pub max_task_idle_ms: i64,
    /// `max.poll.records`.
    pub max_poll_records: usize,
    /// `repartition.purge.interval.ms`: how often records of repartition topics are deleted that are processed.
    pub repartition_purge_interval_ms: u64,
    /// `session.timeout.ms`.
    pub session_timeout_ms: u64,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval_ms: u64,
    /// `transaction.timeout.ms` under exactly-once.
    pub transaction_timeout_ms: u64,
    /// `task.timeout.ms`: how long brokers may not answer before a thread gives up.
    pub task_timeout_ms: u64,
    /// `producer.linger.ms`.
    pub linger_ms: u64,
    /// `windowstore.changelog.additional.retention.ms`.
    pub windowstore_changelog_additional_retention_ms: i64,
    /// `processing.exception.handler.global.enabled`: the processing handler hears of the processors of global stores.
    pub processing_exception_handler_global_enabled: bool,
    /// `num.standby.replicas`: how many other instances follow each store.
    pub num_standby_replicas: usize,
    /// `max.warmup.replicas`: how many instances at a time follow stores of tasks that they are to run later.
    pub max_warmup_replicas: usize,
    /// `acceptable.recovery.lag`: an instance that is no more records behind may run a task at once.
    pub acceptable_recovery_lag: i64,
    /// `probing.rebalance.interval.ms`: how often the group looks whether instances have caught up.
    pub probing_rebalance_interval_ms: i64,
    /// `upgrade.from`: what other instances have while the application is upgraded, which may not read what this
    /// version writes: up to 3.4 changes of tables go to repartition topics in two records, and up to 3.3 foreign-key
    /// joins do not tell the partition of the left record.
    pub upgrade_from: Option<UpgradeFrom>,
    /// `metrics.recording.level`.
    pub metrics_recording_level: RecordingLevel,
    /// `application.server`: where this instance answers what others ask it of its stores, as the application does
    /// that.
    pub application_server: Option<HostInfo>,
    /// `client.tag.`: where this instance is, such as its zone, by names that the application chooses.
    pub client_tags: BTreeMap<String, String>,
    /// `rack.aware.assignment.tags`: standbys of a task go to instances whose tags of these names have other values
    /// than those of the instance that runs it, and than one another, as far as there are any (KIP-708). In classic
    /// groups.
    pub rack_aware_assignment_tags: BTreeSet<String>,
    /// `default.timestamp.extractor`: of sources that have none of their own.
    pub default_timestamp_extractor: DefaultTimestampExtractor,
    /// What the topology is to be built with, by `StreamsBuilder::build_with`. An instance does not start with a
    /// topology that was built otherwise than what is set here.
    pub topology: TopologyConfig,
    /// Settings of single kinds of clients, and of internal topics: those with prefixes.
    pub overrides: ClientOverrides,
    /// The three exception handlers.
    pub handlers: Handlers,
}

impl StreamsConfig {
    /// A configuration with Kafka Streams' defaults, for brokers such as `one.example:9092,two.example:9092`.
    ///
    /// # Errors
    /// One of the brokers is not `host:port`.
    pub fn new(
        application_id: impl Into<String>,
        bootstrap_servers: &str,
    ) -> Result<Self, StreamsError> {
        let mut client = ClientConfig::default();
        client
            .set("bootstrap.servers", bootstrap_servers)
            .map_err(|error| StreamsError::Other(error.to_string()))?;
        Ok(Self {
            application_id: application_id.into(),
            client,
            num_stream_threads: 1,
            processing_guarantee: ProcessingGuarantee::AtLeastOnce,
            group_protocol: GroupProtocol::Classic,
            commit_interval_ms: None,
            poll_ms: 100,
            state_dir: std::env::temp_dir().join("kafka-streams"),
            state_cleanup_delay_ms: 600_000,
            state_cleanup_dir_max_age_ms: None,
            statestore_cache_max_bytes: 10 << 20,
            replication_factor: None,
            buffered_records_per_partition: 1000,
            max_task_idle_ms: 0,
            max_poll_records: 1000,
            repartition_purge_interval_ms: 30_000,
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 3_000,
            transaction_timeout_ms: 10_000,
            task_timeout_ms: 300_000,
            linger_ms: 100,
            windowstore_changelog_additional_retention_ms: 86_400_000,
            processing_exception_handler_global_enabled: false,
            num_standby_replicas: 0,
            max_warmup_replicas: 2,
            acceptable_recovery_lag: 10_000,
            probing_rebalance_interval_ms: 600_000,
            upgrade_from: None,
            metrics_recording_level: RecordingLevel::Info,
            application_server: None,
            client_tags: BTreeMap::new(),
            rack_aware_assignment_tags: BTreeSet::new(),
            default_timestamp_extractor: DefaultTimestampExtractor::default(),
            topology: TopologyConfig::default(),
            overrides: ClientOverrides::default(),
            handlers: Handlers::default(),
        })
    }

    /// With which the names of the threads and clients of a process begin.
    pub(super) fn client_id(&self, process_id: ProcessId) -> String {
        match self.client.client_id == ClientConfig::default().client_id {
            true => format!("{}-{process_id}", self.application_id),
            false => self.client.client_id.clone(),
        }
    }

    /// What is set goes together, and with the topology. What has no effect is told.
    ///
    /// # Errors
    /// It does not go together.
    pub(super) fn check(&self, topology: &Topology) -> Result<(), StreamsError> {
        if self.application_id.is_empty() {
            return Err(StreamsError::Other(
                "`application.id` is empty; give the application a name: that of its group, with which the names of its \
                 own topics begin"
                    .to_owned(),
            ));
        }
        self.check_transactions()?;
        self.check_group()?;
        self.check_topology(topology)?;
        for unused in self.unused_client_settings() {
            tracing::warn!("{unused}");
        }
        Ok(())
    }

    /// Streams groups have no static members, and brokers say how many standbys there are.
    fn check_group(&self) -> Result<(), StreamsError> {
        if self.group_protocol == GroupProtocol::Classic {
            return Ok(());
        }
        let overrides = &self.overrides;
        let mut ids = [&overrides.consumer, &overrides.main_consumer].into_iter();
        let is_set = |id: &String| !id.is_empty();
        if ids.any(|pairs| pairs.get("group.instance.id").is_some_and(is_set)) {
            return Err(StreamsError::Other(
                "streams groups have no static members; set `group.protocol` = `classic`, or remove `group.instance.id`"
                    .to_owned(),
            ));
        }
        if self.num_standby_replicas > 0 {
            tracing::warn!(
                "`num.standby.replicas` has no effect in streams groups: set `streams.num.standby.replicas` of the \
                 group, by `kafka-configs.sh --entity-type groups`"
            );
        }
        Ok(())
    }

    /// A topology that is built otherwise has other topics, and other bytes in them.
    fn check_topology(&self, topology: &Topology) -> Result<(), StreamsError> {
        let usual = TopologyConfig::default().pairs();
        for (key, wanted) in self.topology.pairs() {
            let built = topology.built_with.get(key);
            let Some(built) = built.filter(|built| **built != wanted) else {
                continue;
            };
            if usual.get(key) != Some(&wanted) {
                return Err(StreamsError::Other(format!(
                    "`{key}` is `{wanted}`, and the topology was built with `{built}`; build it by `build_with` and the \
                     `topology` of the configuration"
                )));
            }
        }
        Ok(())
    }

    /// Transactions live until they are committed.
    ///
    /// # Errors
    /// Under exactly-once `commit.interval.ms` is above `transaction.timeout.ms`.
    pub(super) fn check_transactions(&self) -> Result<(), StreamsError> {
        let wanted = self.overrides.producer.get("transaction.timeout.ms");
        let wanted_ms = wanted.and_then(|value| value.trim().parse().ok());
        let timeout_ms = wanted_ms.unwrap_or(self.transaction_timeout_ms);
        let interval_ms = self.commit_interval().as_millis();
        let is_exact = self.processing_guarantee == ProcessingGuarantee::ExactlyOnceV2;
        if !is_exact || interval_ms <= u128::from(timeout_ms) {
            return Ok(());
        }
        Err(StreamsError::Other(format!(
            "`commit.interval.ms` is {interval_ms}, above `transaction.timeout.ms`, which is {timeout_ms}: the broker \
             would abort each transaction; commit more often, or give transactions more time"
        )))
    }

    pub(super) fn commit_interval(&self) -> std::time::Duration {
        let default_ms = match self.processing_guarantee {
            ProcessingGuarantee::AtLeastOnce => 30_000,
            ProcessingGuarantee::ExactlyOnceV2 => 100,
        };
        std::time::Duration::from_millis(self.commit_interval_ms.unwrap_or(default_ms))
    }
}
