//! A configuration by Kafka Streams' names, of pairs or of a properties file.
//!
//! A key without a prefix that is no setting of Kafka Streams goes to every client that has it. `consumer.` is for all
//! consumers; `main.consumer.`, `restore.consumer.` and `global.consumer.` for one of them, and count more; then there
//! are `producer.`, `admin.` and, for the configuration of internal topics, `topic.`. `client.tag.` says where an
//! instance is.

use super::config_error::invalid;
use super::keys::{self, Verdict};
use super::{
    ConfigError, GroupProtocol, Pairs, ProcessingGuarantee, RecordingLevel, StreamsConfig,
    java_classes,
};
use crate::dsl::UnknownOptimization;
use crate::processor::UpgradeFrom;
use crate::state::{DslStoreFormat, StoreType};
use riverrun_client::admin::AdminConfig;
use riverrun_client::config::Properties;
use riverrun_client::consumer::ConsumerConfig;
use riverrun_client::producer::ProducerConfig;
use riverrun_client::{ClientConfig, Error};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

impl StreamsConfig {
    /// The defaults, changed by pairs of Kafka's names and values as text. Of two pairs with one key the later one
    /// counts. A setting that has no effect here is told by a warning in the log; `topology` is for
    /// `StreamsBuilder::build_with`.
    ///
    /// # Errors
    /// `application.id` or `bootstrap.servers` is missing, a key does not exist, or a value is not allowed.
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        let (config, unknown) = Self::read(pairs.into_iter().collect())?;
        match unknown.into_iter().next() {
            Some(key) => Err(ConfigError::Unknown(key)),
            None => Ok(config),
        }
    }

    /// As `from_pairs`, of a properties file.
    ///
    /// # Errors
    /// As `from_pairs`.
    pub fn from_properties(properties: &Properties) -> Result<Self, ConfigError> {
        Self::from_pairs(properties.pairs())
    }

    /// As `from_properties`, but keys that do not exist, such as those of an application's own, are left aside, and
    /// returned for a warning.
    ///
    /// # Errors
    /// As `from_pairs`, but for keys that do not exist.
    pub fn from_properties_lenient(
        properties: &Properties,
    ) -> Result<(Self, Vec<String>), ConfigError> {
        Self::read(properties.pairs().collect())
    }

    fn read(pairs: BTreeMap<&str, &str>) -> Result<(Self, Vec<String>), ConfigError> {
        let required = |key: &'static str| {
            let value = pairs.get(key).filter(|value| !value.is_empty());
            value.copied().ok_or(ConfigError::Missing(key))
        };
        let (application_id, servers) =
            (required("application.id")?, required("bootstrap.servers")?);
        ClientConfig::default()
            .set("bootstrap.servers", servers)
            .map_err(|error| refused("bootstrap.servers", servers, &error))?;
        let mut config = Self::new(application_id, servers)
            .map_err(|error| invalid("application.id", application_id, &error.to_string()))?;
        config.handlers = java_classes::handlers(&pairs)?;
        config.set_with_another_name(&pairs)?;
        let mut unknown = Vec::new();
        for (key, value) in pairs {
            match keys::judge(key, value)? {
                Verdict::Read => {}
                Verdict::Same => continue,
                Verdict::WithoutEffect(why) => {
                    tracing::warn!(key, value, "this setting has no effect: {why}");
                    continue;
                }
            }
            let is_known = READ_BEFORE.contains(&key)
                || config.set_time(key, value)?
                || config.set_named(key, value)?
                || config.set_runtime(key, value)?
                || config.set_topology(key, value)?
                || config.set_tag(key, value)?
                || config.set_prefixed(key, value)?
                || config.set_client(key, value)?;
            if !is_known {
                unknown.push(key.to_owned());
            }
        }
        config.check_tags()?;
        Ok((config, unknown))
    }

    /// Standbys are assigned by tags that the instance has.
    fn check_tags(&self) -> Result<(), ConfigError> {
        let tags = &self.rack_aware_assignment_tags;
        let all: Vec<&str> = tags.iter().map(String::as_str).collect();
        let all = format!("[{}]", all.join(", "));
        let problem = match tags.iter().find(|tag| !self.client_tags.contains_key(*tag)) {
            _ if tags.len() > TAGS_MAX => format!("exceeds maximum list size of [{TAGS_MAX}]."),
            Some(tag) => format!(
                "Contains invalid value [{tag}] which doesn't have corresponding tag set via [client.tag.] prefix."
            ),
            None => return Ok(()),
        };
        Err(invalid("rack.aware.assignment.tags", &all, &problem))
    }

    /// Settings that have a newer name, which counts more.
    fn set_with_another_name(&mut self, pairs: &BTreeMap<&str, &str>) -> Result<(), ConfigError> {
        if let Some(value) = pairs.get("cache.max.bytes.buffering") {
            let key = "cache.max.bytes.buffering";
            self.statestore_cache_max_bytes = number(key, value, 0..=usize::MAX)?;
        }
        if let Some(value) = pairs.get("default.dsl.store") {
            self.topology.stores.store_type = match *value {
                "rocksDB" => StoreType::Persistent,
                "in_memory" => StoreType::InMemory,
                _ => {
                    let reason = "String must be one of: rocksDB, in_memory";
                    return Err(invalid("default.dsl.store", value, reason));
                }
            };
        }
        Ok(())
    }

    /// What `StreamsBuilder::build_with` is to know.
    fn set_topology(&mut self, key: &str, value: &str) -> Result<bool, ConfigError> {
        match key {
            "topology.optimization" => {
                let optimization = value.parse();
                self.topology.optimization =
                    optimization.map_err(|error: UnknownOptimization| {
                        invalid(key, value, &error.to_string())
                    })?;
            }
            "dsl.store.format" => {
                self.topology.stores.format = match value.to_ascii_uppercase().as_str() {
                    "DEFAULT" => DslStoreFormat::Timestamped,
                    "HEADERS" => DslStoreFormat::Headers,
                    _ => {
                        let reason = "String must be one of (case insensitive): HEADERS, DEFAULT";
                        return Err(invalid(key, value, reason));
                    }
                }
            }
            "dsl.store.suppliers.class" => {
                self.topology.stores.store_type = java_classes::store_suppliers(key, value)?;
            }
            "ensure.explicit.internal.resource.naming" => {
                self.topology.ensure_explicit_internal_resource_naming = boolean(key, value)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `client.tag.`, in Kafka Streams' bounds.
    fn set_tag(&mut self, key: &str, value: &str) -> Result<bool, ConfigError> {
        let tag = key.strip_prefix("client.tag.");
        let Some(tag) = tag.filter(|tag| !tag.is_empty()) else {
            return Ok(false);
        };
        let problem = if tag.chars().count() > TAG_KEY_LENGTH_MAX {
            format!("Tag key exceeds maximum length of {TAG_KEY_LENGTH_MAX}.")
        } else if value.is_empty() {
            "Tag value cannot be empty.".to_owned()
        } else if value.chars().count() > TAG_VALUE_LENGTH_MAX {
            format!("Tag value exceeds maximum length of {TAG_VALUE_LENGTH_MAX}.")
        } else if self.client_tags.len() == TAGS_MAX {
            format!("At most {TAGS_MAX} client tags can be specified using client.tag. prefix.")
        } else {
            self.client_tags.insert(tag.to_owned(), value.to_owned());
            return Ok(true);
        };
        Err(invalid(key, value, &problem))
    }

    fn set_time(&mut self, key: &str, value: &str) -> Result<bool, ConfigError> {
        let ms = || number(key, value, 0..=i64::MAX.unsigned_abs());
        let place = match key {
            "commit.interval.ms" => {
                self.commit_interval_ms = Some(ms()?);
                return Ok(true);
            }
            "state.cleanup.dir.max.age.ms" => {
                let age_ms: i64 = number(key, value, -1..=i64::MAX)?;
                self.state_cleanup_dir_max_age_ms = u64::try_from(age_ms).ok();
                return Ok(true);
            }
            "max.task.idle.ms" => {
                self.max_task_idle_ms = number(key, value, i64::MIN..=i64::MAX)?;
                return Ok(true);
            }
            "windowstore.changelog.additional.retention.ms" => {
                self.windowstore_changelog_additional_retention_ms =
                    number(key, value, i64::MIN..=i64::MAX)?;
                return Ok(true);
            }
            "state.cleanup.delay.ms" => &mut self.state_cleanup_delay_ms,
            "poll.ms" => &mut self.poll_ms,
            "task.timeout.ms" => &mut self.task_timeout_ms,
            "repartition.purge.interval.ms" => &mut self.repartition_purge_interval_ms,
            "session.timeout.ms" => &mut self.session_timeout_ms,
            "heartbeat.interval.ms" => &mut self.heartbeat_interval_ms,
            _ => return Ok(false),
        };
        *place = ms()?;
        Ok(true)
    }

    /// Values that are one of several names, or have a form of their own.
    fn set_named(&mut self, key: &str, value: &str) -> Result<bool, ConfigError> {
        match key {
            "processing.guarantee" => {
                self.processing_guarantee = match value {
                    "at_least_once" => ProcessingGuarantee::AtLeastOnce,
                    "exactly_once_v2" => ProcessingGuarantee::ExactlyOnceV2,
                    _ => {
                        let reason = "String must be one of: at_least_once, exactly_once_v2";
                        return Err(invalid(key, value, reason));
                    }
                }
            }
            "group.protocol" => {
                self.group_protocol = match value.to_ascii_lowercase().as_str() {
                    "classic" => GroupProtocol::Classic,
                    "streams" => GroupProtocol::Streams,
                    _ => {
                        let reason = "String must be one of (case insensitive): STREAMS, CLASSIC";
                        return Err(invalid(key, value, reason));
                    }
                }
            }
            "metrics.recording.level" => {
                self.metrics_recording_level = match value {
                    "INFO" => RecordingLevel::Info,
                    "DEBUG" | "TRACE" => RecordingLevel::Debug,
                    _ => {
                        let reason = "String must be one of: INFO, DEBUG, TRACE";
                        return Err(invalid(key, value, reason));
                    }
                }
            }
            "upgrade.from" => {
                let from = UpgradeFrom::of_text(value).ok_or_else(|| {
                    let versions = UpgradeFrom::ALL.join(", ");
                    invalid(
                        key,
                        value,
                        &format!("String must be one of: null, {versions}"),
                    )
                })?;
                self.upgrade_from = Some(from);
            }
            "rack.aware.assignment.tags" => {
                let tags = value.split(',').map(str::trim);
                let tags = tags.filter(|tag| !tag.is_empty()).map(str::to_owned);
                self.rack_aware_assignment_tags = tags.collect();
            }
            "default.timestamp.extractor" => {
                self.default_timestamp_extractor = java_classes::timestamp_extractor(key, value)?;
            }
            "application.server" => {
                let server = Some(value).filter(|server| !server.is_empty());
                self.application_server = server.map(str::parse).transpose()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_runtime(&mut self, key: &str, value: &str) -> Result<bool, ConfigError> {
        match key {
            "num.stream.threads" => self.num_stream_threads = number(key, value, 1..=MAX_INT)?,
            "state.dir" => self.state_dir = value.into(),
            "statestore.cache.max.bytes" => {
                self.statestore_cache_max_bytes = number(key, value, 0..=usize::MAX)?;
            }
            "replication.factor" => {
                let factor: i16 = number(key, value, -1..=i16::MAX)?;
                self.replication_factor = (factor >= 0).then_some(factor);
            }
            "buffered.records.per.partition" => {
                self.buffered_records_per_partition = number(key, value, 0..=MAX_INT)?;
            }
            "max.poll.records" => self.max_poll_records = number(key, value, 1..=MAX_INT)?,
            "num.standby.replicas" => self.num_standby_replicas = number(key, value, 0..=MAX_INT)?,
            "max.warmup.replicas" => self.max_warmup_replicas = number(key, value, 1..=MAX_INT)?,
            "acceptable.recovery.lag" => {
                self.acceptable_recovery_lag = number(key, value, 0..=i64::MAX)?;
            }
            "probing.rebalance.interval.ms" => {
                self.probing_rebalance_interval_ms = number(key, value, 60_000..=i64::MAX)?;
            }
            "processing.exception.handler.global.enabled" => {
                self.processing_exception_handler_global_enabled = boolean(key, value)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_prefixed(&mut self, key: &str, value: &str) -> Result<bool, ConfigError> {
        let overrides = &mut self.overrides;
        let (check, prefixes): (Check, [(&str, &mut Pairs); 4]) = (
            consumer_has,
            [
                ("main.consumer.", &mut overrides.main_consumer),
                ("restore.consumer.", &mut overrides.restore_consumer),
                ("global.consumer.", &mut overrides.global_consumer),
                ("consumer.", &mut overrides.consumer),
            ],
        );
        let others: [(&str, &mut Pairs, Check); 3] = [
            ("producer.", &mut overrides.producer, producer_has),
            ("admin.", &mut overrides.admin, admin_has),
            ("topic.", &mut overrides.topic, |_, _| Some(Ok(()))),
        ];
        let consumers = prefixes
            .into_iter()
            .map(|(prefix, pairs)| (prefix, pairs, check));
        for (prefix, pairs, check) in consumers.chain(others) {
            let Some(name) = key.strip_prefix(prefix) else {
                continue;
            };
            let Some(checked) = check(name, value) else {
                return Ok(false);
            };
            checked.map_err(|error| refused(key, value, &error))?;
            pairs.insert(name.to_owned(), value.to_owned());
            return Ok(true);
        }
        Ok(false)
    }

    /// Settings of the clients, without a prefix: those of all of them, or of consumers, or of producers.
    fn set_client(&mut self, key: &str, value: &str) -> Result<bool, ConfigError> {
        if ClientConfig::is_key(key) {
            let set = self.client.set(key, value);
            return set
                .map(|()| true)
                .map_err(|error| refused(key, value, &error));
        }
        let overrides = &mut self.overrides;
        let mut is_known = false;
        let clients: [(&mut Pairs, Check); 2] = [
            (&mut overrides.consumer, consumer_has),
            (&mut overrides.producer, producer_has),
        ];
        for (pairs, check) in clients {
            let Some(checked) = check(key, value) else {
                continue;
            };
            checked.map_err(|error| refused(key, value, &error))?;
            // What has a prefix counts more, whichever comes first.
            let pair = pairs.entry(key.to_owned());
            pair.or_insert_with(|| value.to_owned());
            is_known = true;
        }
        Ok(is_known)
    }
}

const MAX_INT: usize = i32::MAX as usize;

/// Kafka Streams' bounds of client tags.
const TAGS_MAX: usize = 5;
const TAG_KEY_LENGTH_MAX: usize = 20;
const TAG_VALUE_LENGTH_MAX: usize = 30;

/// Settings that are read before all others.
const READ_BEFORE: [&str; 10] = [
    "application.id",
    "bootstrap.servers",
    "cache.max.bytes.buffering",
    "default.deserialization.exception.handler",
    "default.dsl.store",
    "default.production.exception.handler",
    "deserialization.exception.handler",
    "processing.exception.handler",
    "production.exception.handler",
    "errors.dead.letter.queue.topic.name",
];

/// Whether a client takes the value of a key; none when it has no such key.
type Check = fn(&str, &str) -> Option<Result<(), Error>>;

fn consumer_has(key: &str, value: &str) -> Option<Result<(), Error>> {
    ConsumerConfig::is_key(key).then(|| ConsumerConfig::default().set(key, value))
}

fn producer_has(key: &str, value: &str) -> Option<Result<(), Error>> {
    ProducerConfig::is_key(key).then(|| ProducerConfig::default().set(key, value))
}

fn admin_has(key: &str, value: &str) -> Option<Result<(), Error>> {
    AdminConfig::is_key(key).then(|| AdminConfig::default().set(key, value))
}

/// What a client says of a value.
fn refused(key: &str, value: &str, error: &Error) -> ConfigError {
    match error {
        Error::Configuration { reason, .. } => invalid(key, value, reason),
        error => invalid(key, value, &error.to_string()),
    }
}

fn number<T>(key: &str, value: &str, allowed: RangeInclusive<T>) -> Result<T, ConfigError>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    let Ok(whole) = value.trim().parse::<i128>() else {
        let kind = match size_of::<T>() {
            2 => "SHORT",
            _ if key.ends_with(".ms") || key.ends_with(".bytes") => "LONG",
            _ => "INT",
        };
        let reason = format!("Not a number of type {kind}");
        return Err(invalid(key, value, &reason));
    };
    match whole.to_string().parse::<T>() {
        Ok(number) if allowed.contains(&number) => Ok(number),
        _ => {
            let reason = format!("Value must be at least {}", allowed.start());
            Err(invalid(key, value, &reason))
        }
    }
}

fn boolean(key: &str, value: &str) -> Result<bool, ConfigError> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid(
            key,
            value,
            "Expected value to be either true or false",
        )),
    }
}

#[cfg(test)]
mod tests;
