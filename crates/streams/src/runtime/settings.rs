//! A configuration by Kafka Streams' names, of pairs or of a properties file.
//!
//! A key without a prefix that is no setting of Kafka Streams goes to every client that has it. `consumer.` is for all
//! consumers; `main.consumer.`, `restore.consumer.` and `global.consumer.` for one of them, and count more; then there
//! are `producer.`, `admin.` and, for the configuration of internal topics, `topic.`.

use super::{GroupProtocol, ProcessingGuarantee, RecordingLevel, StreamsConfig};
use crate::processor::{DeadLetterTopic, Handlers, UpgradeFrom};
use riverrun_client::admin::AdminConfig;
use riverrun_client::config::Properties;
use riverrun_client::consumer::ConsumerConfig;
use riverrun_client::producer::ProducerConfig;
use riverrun_client::{ClientConfig, Error};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

/// What is wrong with a configuration, in the words of Kafka's `ConfigException`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A setting without a default is not there.
    #[error("Missing required configuration \"{0}\" which has no default value.")]
    Missing(&'static str),
    /// A value is not allowed.
    #[error("Invalid value {value} for configuration {key}: {reason}")]
    Invalid {
        /// The setting.
        key: String,
        /// Its value.
        value: String,
        /// What is allowed.
        reason: String,
    },
    /// There is no such setting.
    #[error("Unknown configuration '{0}'")]
    Unknown(String),
}

/// Settings of the clients of an instance, by Kafka's names without the prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientOverrides {
    /// `consumer.`: of all consumers.
    pub consumer: Pairs,
    /// `main.consumer.`: of those in the group.
    pub main_consumer: Pairs,
    /// `restore.consumer.`: of those that restore stores.
    pub restore_consumer: Pairs,
    /// `global.consumer.`: of that which reads global topics.
    pub global_consumer: Pairs,
    /// `producer.`
    pub producer: Pairs,
    /// `admin.`
    pub admin: Pairs,
    /// `topic.`: configuration of internal topics.
    pub topic: Pairs,
}

/// Keys and values.
pub type Pairs = BTreeMap<String, String>;

impl StreamsConfig {
    /// The defaults, changed by pairs of Kafka's names and values as text. Of two pairs with one key the later one
    /// counts.
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

    /// As `from_properties`, but keys that do not exist, such as those of Java's serdes, are left aside, and returned
    /// for a warning.
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
        config.handlers = handlers(&pairs)?;
        let mut unknown = Vec::new();
        for (key, value) in pairs {
            let is_known = READ_BEFORE.contains(&key)
                || config.set_time(key, value)?
                || config.set_named(key, value)?
                || config.set_runtime(key, value)?
                || config.set_prefixed(key, value)?
                || config.set_client(key, value)?;
            if !is_known {
                unknown.push(key.to_owned());
            }
        }
        Ok((config, unknown))
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

/// Settings that are read before all others.
const READ_BEFORE: [&str; 6] = [
    "application.id",
    "bootstrap.servers",
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

/// The handlers that the names of Java's classes stand for.
fn handlers(pairs: &BTreeMap<&str, &str>) -> Result<Handlers, ConfigError> {
    let topic = pairs.get("errors.dead.letter.queue.topic.name");
    let topic = topic.filter(|topic| !topic.is_empty());
    let dead_letters = DeadLetterTopic(topic.map(|topic| Arc::from(*topic)));
    let go_on = Handlers::log_and_continue(dead_letters.clone());
    let mut handlers = Handlers::log_and_fail(dead_letters);
    let goes_on = |key: &str| {
        let Some(class) = pairs.get(key) else {
            return Ok(false);
        };
        match class.rsplit('.').next().unwrap_or_default() {
            "LogAndContinueExceptionHandler" | "LogAndContinueProcessingExceptionHandler" => {
                Ok(true)
            }
            "LogAndFailExceptionHandler"
            | "LogAndFailProcessingExceptionHandler"
            | "DefaultProductionExceptionHandler" => Ok(false),
            _ => Err(invalid(
                key,
                class,
                &format!("Class {class} could not be found."),
            )),
        }
    };
    if goes_on("deserialization.exception.handler")? {
        handlers.deserialization = go_on.deserialization;
    }
    if goes_on("processing.exception.handler")? {
        handlers.processing = go_on.processing;
    }
    if goes_on("production.exception.handler")? {
        handlers.production = go_on.production;
    }
    Ok(handlers)
}

fn invalid(key: &str, value: &str, reason: &str) -> ConfigError {
    ConfigError::Invalid {
        key: key.to_owned(),
        value: value.to_owned(),
        reason: reason.to_owned(),
    }
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
mod tests {
    use super::*;

    const REQUIRED: [(&str, &str); 2] =
        [("application.id", "app"), ("bootstrap.servers", "one:9092")];

    fn read(pairs: &[(&str, &str)]) -> Result<StreamsConfig, ConfigError> {
        StreamsConfig::from_pairs(REQUIRED.iter().chain(pairs).copied())
    }

    #[test]
    fn settings_have_kafka_streams_names() -> Result<(), ConfigError> {
        let config = read(&[
            ("num.stream.threads", "3"),
            ("processing.guarantee", "exactly_once_v2"),
            ("group.protocol", "streams"),
            ("commit.interval.ms", "50"),
            ("statestore.cache.max.bytes", "0"),
            ("max.task.idle.ms", "-1"),
            ("replication.factor", "-1"),
            ("state.dir", "/var/lib/app"),
            ("client.id", "anna"),
            ("consumer.fetch.max.wait.ms", "100"),
            ("main.consumer.max.poll.records", "7"),
            ("producer.linger.ms", "5"),
            ("topic.segment.bytes", "1000000"),
            ("application.server", "one.example:7070"),
            ("metrics.recording.level", "DEBUG"),
            ("upgrade.from", "3.4"),
        ])?;
        let server = config.application_server.as_ref().map(ToString::to_string);
        assert_eq!(server.as_deref(), Some("one.example:7070"));
        assert_eq!(config.metrics_recording_level, RecordingLevel::Debug);
        assert_eq!(config.upgrade_from, UpgradeFrom::of_text("3.4"));
        assert_eq!(config.num_stream_threads, 3);
        assert_eq!(
            config.processing_guarantee,
            ProcessingGuarantee::ExactlyOnceV2
        );
        assert_eq!(config.commit_interval_ms, Some(50));
        assert_eq!(config.group_protocol, GroupProtocol::Streams);
        assert_eq!(config.statestore_cache_max_bytes, 0);
        assert_eq!(config.max_task_idle_ms, -1);
        assert_eq!(config.replication_factor, None);
        assert_eq!(config.state_dir.to_str(), Some("/var/lib/app"));
        let of = |pairs: &Pairs, key: &str| pairs.get(key).cloned();
        let overrides = &config.overrides;
        assert_eq!(
            of(&overrides.consumer, "fetch.max.wait.ms").as_deref(),
            Some("100")
        );
        assert_eq!(
            of(&overrides.main_consumer, "max.poll.records").as_deref(),
            Some("7")
        );
        assert_eq!(of(&overrides.producer, "linger.ms").as_deref(), Some("5"));
        assert_eq!(
            of(&overrides.topic, "segment.bytes").as_deref(),
            Some("1000000")
        );
        Ok(())
    }

    #[test]
    fn what_is_wrong_is_told_in_kafkas_words() {
        let told = |pairs: &[(&str, &str)]| match read(pairs) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(
            StreamsConfig::from_pairs([("bootstrap.servers", "one:9092")]).err(),
            Some(ConfigError::Missing("application.id"))
        );
        assert_eq!(
            ConfigError::Missing("application.id").to_string(),
            "Missing required configuration \"application.id\" which has no default value."
        );
        assert_eq!(
            told(&[("upgrade.from", "2.3")]),
            "Invalid value 2.3 for configuration upgrade.from: String must be one of: null, 2.4, 2.5, 2.6, 2.7, 2.8, 3.0, \
             3.1, 3.2, 3.3, 3.4, 3.5, 3.6, 3.7, 3.8, 3.9, 4.0, 4.1, 4.2"
        );
        assert_eq!(
            told(&[("num.stream.threads", "many")]),
            "Invalid value many for configuration num.stream.threads: Not a number of type INT"
        );
        assert_eq!(
            told(&[("commit.interval.ms", "-1")]),
            "Invalid value -1 for configuration commit.interval.ms: Value must be at least 0"
        );
        assert_eq!(
            told(&[("processing.guarantee", "exactly_once")]),
            "Invalid value exactly_once for configuration processing.guarantee: String must be one of: \
             at_least_once, exactly_once_v2"
        );
        assert_eq!(
            told(&[("group.protocol", "consumer")]),
            "Invalid value consumer for configuration group.protocol: String must be one of (case insensitive): \
             STREAMS, CLASSIC"
        );
        assert_eq!(
            told(&[("processing.exception.handler", "org.example.Mine")]),
            "Invalid value org.example.Mine for configuration processing.exception.handler: Class org.example.Mine \
             could not be found."
        );
        assert_eq!(
            told(&[("num.threads", "1")]),
            "Unknown configuration 'num.threads'"
        );
        assert_eq!(
            told(&[("producer.num.threads", "1")]),
            "Unknown configuration 'producer.num.threads'"
        );
        let bad = told(&[("consumer.max.poll.records", "none")]);
        let start = "Invalid value none for configuration consumer.max.poll.records: ";
        assert!(bad.starts_with(start), "{bad}");
    }
}
