//! The settings of a producer, and which of them contradict each other.

use std::time::Duration;

use record::{Codec, Compression};

use super::accumulator::AccumulatorSettings;
use super::sender::SenderSettings;
use crate::Error;
use crate::cluster::Backoff;
use crate::config::{ClientConfig, MS_MAX, Setting, choices, not_allowed, settings};

/// The default of `delivery.timeout.ms`.
const DELIVERY_TIMEOUT_MS: u64 = 120_000;
/// The most requests to a broker at a time with which an idempotent producer keeps order: brokers
/// remember so many batches.
const IDEMPOTENT_IN_FLIGHT_MAX: usize = 5;

/// Which replicas must have a record before the broker acknowledges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// Nobody: the broker answers nothing, and a record may be lost without a trace.
    None,
    /// The leader.
    Leader,
    /// Every replica that is in sync.
    All,
}

impl Acks {
    const fn number(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

impl Setting for Acks {
    fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "0" => Ok(Self::None),
            "1" => Ok(Self::Leader),
            "all" | "-1" => Ok(Self::All),
            _ => Err("must be one of `all`, `-1`, `0`, `1`".to_owned()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::None => "0",
            Self::Leader => "1",
            Self::All => "all",
        }
        .to_owned()
    }
}

choices! {
    /// How batches are compressed.
    pub enum CompressionType {
        /// Not at all.
        None = "none",
        /// gzip.
        Gzip = "gzip",
        /// Snappy.
        Snappy = "snappy",
        /// LZ4.
        Lz4 = "lz4",
        /// Zstandard.
        Zstd = "zstd",
    }
}

settings! {
    /// What a producer goes by: Kafka's names and defaults.
    ///
    /// ```
    /// use riverrun_client::producer::{Acks, ProducerConfig};
    ///
    /// let config = ProducerConfig::from_pairs([
    ///     ("bootstrap.servers", "localhost:9092"),
    ///     ("linger.ms", "20"),
    ///     ("compression.type", "zstd"),
    /// ])?;
    /// assert_eq!(config.acks, Acks::All);
    /// # Ok::<(), riverrun_client::Error>(())
    /// ```
    pub struct ProducerConfig {
        embeds
            /// The settings that every client has.
            client: ClientConfig;
        /// Which replicas must have a record before it is acknowledged.
        "acks" acks: Acks = Acks::All;
        /// Whether the broker recognizes what is sent again, so that nothing is written twice or out
        /// of order. When not given: yes, unless `acks`, `retries` or
        /// `max.in.flight.requests.per.connection` rule it out.
        "enable.idempotence" enable_idempotence: Option<bool> = None;
        /// Names the producer across restarts, and makes it one of transactions.
        "transactional.id" transactional_id: Option<String> = None;
        /// How long the coordinator lets a transaction be open before it aborts it.
        "transaction.timeout.ms" transaction_timeout_ms: u64 = 60_000, in 1..=i32::MAX as i128;
        /// How often a batch is sent again; `delivery.timeout.ms` ends it in any case.
        "retries" retries: u32 = i32::MAX as u32, in 0..=i32::MAX as i128;
        /// How many requests may wait for an answer from one broker.
        "max.in.flight.requests.per.connection" in_flight_max: usize = 5, in 1..=1_000;
        /// How many bytes of records of one partition are sent together at most, before compression.
        "batch.size" batch_size_bytes: usize = 16_384, in 0..=i32::MAX as i128;
        /// How long a batch that is not full waits for more records.
        "linger.ms" linger_ms: u64 = 5, in 0..=MS_MAX;
        /// How much memory the records that are not sent may take.
        "buffer.memory" buffer_memory_bytes: usize = 33_554_432, in 0..=i64::MAX as i128;
        /// How large a request, and so a record, may be.
        "max.request.size" request_size_max_bytes: usize = 1_048_576, in 0..=i32::MAX as i128;
        /// How long a call may wait for metadata and for memory.
        "max.block.ms" max_block_ms: u64 = 60_000, in 0..=i64::MAX as i128;
        /// When to give a record up that has not been acknowledged, from the call on.
        "delivery.timeout.ms" delivery_timeout_ms: u64 = DELIVERY_TIMEOUT_MS, in 0..=MS_MAX;
        /// How batches are compressed.
        "compression.type" compression: CompressionType = CompressionType::None;
        /// The level of gzip: 1 to 9, or -1 for its default.
        "compression.gzip.level" gzip_level: i32 = -1, in -1..=9;
        /// The level of LZ4, which has one speed here: it is accepted and changes nothing.
        "compression.lz4.level" lz4_level: i32 = 9, in 1..=17;
        /// The level of Zstandard.
        "compression.zstd.level" zstd_level: i32 = 3, in -131_072..=22;
        /// Whether keys have no say in the partition.
        "partitioner.ignore.keys" ignores_keys: bool = false;
        /// Whether records without a key avoid partitions whose batches pile up (KIP-794).
        "partitioner.adaptive.partitioning.enable" is_adaptive: bool = true;
        /// After how long without progress records without a key avoid a broker; 0 for never.
        "partitioner.availability.timeout.ms" availability_timeout_ms: u64 = 0, in 0..=i64::MAX as i128;
        /// How long a topic's metadata is kept up to date after its last record.
        "metadata.max.idle.ms" metadata_max_idle_ms: u64 = 300_000, in 5_000..=i64::MAX as i128;
    }
}

impl ProducerConfig {
    /// A configuration with defaults that starts from these brokers, such as
    /// `one.example:9092,two.example:9092`.
    ///
    /// # Errors
    /// [`Error::Configuration`] when one of them is not `host:port`.
    pub fn with_bootstrap_servers(servers: &str) -> Result<Self, Error> {
        Self::from_pairs([("bootstrap.servers", servers)])
    }

    /// Checks what only all settings together can tell.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.client.check()?;
        if self.enable_idempotence == Some(true) {
            self.check_idempotence("`enable.idempotence` = `true`")?;
        }
        self.check_transactions()?;
        let least_ms = self.linger_ms + self.client.request_timeout_ms;
        // The default gives way to the other two, as in Java's client.
        if self.delivery_timeout_ms < least_ms && self.delivery_timeout_ms != DELIVERY_TIMEOUT_MS {
            let (linger_ms, request_ms) = (self.linger_ms, self.client.request_timeout_ms);
            let reason = format!(
                "must be at least {least_ms}: `linger.ms` = {linger_ms} and `request.timeout.ms` = \
                 {request_ms}; raise it, or lower one of them"
            );
            let value = self.delivery_timeout_ms.to_string();
            return Err(not_allowed("delivery.timeout.ms", value, reason));
        }
        if self.batch_size_bytes > self.buffer_memory_bytes {
            let reason = format!(
                "must not exceed `buffer.memory`, which is {}",
                self.buffer_memory_bytes
            );
            return Err(not_allowed(
                "batch.size",
                self.batch_size_bytes.to_string(),
                reason,
            ));
        }
        if self.compression == CompressionType::Gzip && self.gzip_level == 0 {
            let reason = "must be from 1 to 9, or -1 for the default";
            return Err(not_allowed("compression.gzip.level", "0", reason));
        }
        Ok(())
    }

    fn check_transactions(&self) -> Result<(), Error> {
        let Some(id) = &self.transactional_id else {
            return Ok(());
        };
        if id.is_empty() {
            return Err(not_allowed("transactional.id", "", "must not be empty"));
        }
        if self.enable_idempotence == Some(false) {
            let reason = "must be `true` with `transactional.id`";
            return Err(not_allowed("enable.idempotence", "false", reason));
        }
        self.check_idempotence("`transactional.id`")
    }

    fn check_idempotence(&self, what: &str) -> Result<(), Error> {
        let because = |rule: &str| format!("must be {rule} with {what}");
        if self.acks != Acks::All {
            return Err(not_allowed("acks", self.acks.text(), because("`all`")));
        }
        if self.retries == 0 {
            return Err(not_allowed("retries", "0", because("at least 1")));
        }
        if self.in_flight_max > IDEMPOTENT_IN_FLIGHT_MAX {
            let value = self.in_flight_max.to_string();
            let key = "max.in.flight.requests.per.connection";
            return Err(not_allowed(key, value, because("at most 5")));
        }
        Ok(())
    }

    /// Whether the producer is idempotent.
    pub(crate) fn is_idempotent(&self) -> bool {
        self.enable_idempotence
            .unwrap_or_else(|| self.check_idempotence("").is_ok())
    }

    pub(crate) const fn acks_number(&self) -> i16 {
        self.acks.number()
    }

    pub(crate) const fn accumulator_settings(&self) -> AccumulatorSettings {
        AccumulatorSettings {
            batch_bytes: if self.batch_size_bytes == 0 {
                1
            } else {
                self.batch_size_bytes
            },
            linger: Duration::from_millis(self.linger_ms),
            memory_bytes: self.buffer_memory_bytes,
            request_bytes_max: self.request_size_max_bytes,
            ignores_keys: self.ignores_keys,
            is_adaptive: self.is_adaptive,
        }
    }

    pub(crate) fn sender_settings(&self) -> SenderSettings {
        let least_ms = self.linger_ms + self.client.request_timeout_ms;
        let availability_timeout = Duration::from_millis(self.availability_timeout_ms);
        SenderSettings {
            is_idempotent: self.is_idempotent(),
            is_transactional: self.transactional_id.is_some(),
            in_flight_max: self.in_flight_max,
            request_bytes_max: self.request_size_max_bytes,
            delivery_timeout: Duration::from_millis(self.delivery_timeout_ms.max(least_ms)),
            retries: self.retries,
            retry_backoff: Backoff {
                base_ms: self.client.retry_backoff_ms,
                max_ms: self.client.retry_backoff_max_ms,
            },
            availability_timeout: (!availability_timeout.is_zero()).then_some(availability_timeout),
            codec: self.codec(),
        }
    }

    pub(crate) fn codec(&self) -> Codec {
        let (compression, level) = match self.compression {
            CompressionType::None => return Compression::None.into(),
            CompressionType::Snappy => return Compression::Snappy.into(),
            CompressionType::Gzip => (Compression::Gzip, self.gzip_level),
            CompressionType::Lz4 => (Compression::Lz4, self.lz4_level),
            CompressionType::Zstd => (Compression::Zstd, self.zstd_level),
        };
        Codec { compression, level }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)], expect: Result<bool, &str>) {
        let servers = [("bootstrap.servers", "one:9092")];
        let config = ProducerConfig::from_pairs(servers.iter().chain(pairs).copied());
        let checked = config.and_then(|config| config.check().map(|()| config.is_idempotent()));
        let checked = checked.map_err(|error| error.to_string());
        assert_eq!(checked, expect.map_err(str::to_owned), "{pairs:?}");
    }

    #[test]
    fn contradictions_are_refused_by_name() {
        check(&[], Ok(true));
        check(&[("acks", "1")], Ok(false));
        check(&[("acks", "-1")], Ok(true));
        check(&[("retries", "0")], Ok(false));
        check(&[("max.in.flight.requests.per.connection", "6")], Ok(false));
        check(&[("enable.idempotence", "false")], Ok(false));
        check(
            &[("acks", "1"), ("transactional.id", "me")],
            Err("`acks` = `1`: must be `all` with `transactional.id`"),
        );
        check(
            &[("enable.idempotence", "false"), ("transactional.id", "me")],
            Err("`enable.idempotence` = `false`: must be `true` with `transactional.id`"),
        );
        check(
            &[("acks", "1"), ("enable.idempotence", "true")],
            Err("`acks` = `1`: must be `all` with `enable.idempotence` = `true`"),
        );
        check(
            &[("retries", "0"), ("enable.idempotence", "true")],
            Err("`retries` = `0`: must be at least 1 with `enable.idempotence` = `true`"),
        );
        check(
            &[
                ("max.in.flight.requests.per.connection", "6"),
                ("enable.idempotence", "true"),
            ],
            Err(
                "`max.in.flight.requests.per.connection` = `6`: must be at most 5 with \
                 `enable.idempotence` = `true`",
            ),
        );
        check(
            &[("delivery.timeout.ms", "30004")],
            Err(
                "`delivery.timeout.ms` = `30004`: must be at least 30005: `linger.ms` = 5 and \
                 `request.timeout.ms` = 30000; raise it, or lower one of them",
            ),
        );
        check(&[("linger.ms", "200000")], Ok(true));
        check(
            &[("batch.size", "2000"), ("buffer.memory", "1000")],
            Err("`batch.size` = `2000`: must not exceed `buffer.memory`, which is 1000"),
        );
        check(
            &[("compression.type", "brotli")],
            Err(
                "`compression.type` = `brotli`: must be one of `none`, `gzip`, `snappy`, `lz4`, \
                 `zstd`",
            ),
        );
    }
}
