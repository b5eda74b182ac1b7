//! What an operator asks of a cluster, and changes in it.
//!
//! Each call goes to the brokers that can answer it: leaders for partitions, coordinators for groups,
//! named brokers for what only they know, any broker for the rest, which hands it to the controller.
//! A call about several things has an answer for each; what may pass is tried again until
//! `default.api.timeout.ms`.

mod cluster;
mod configs;
mod fan_out;
mod group_offsets;
mod groups;
mod partitions;
mod producers;
mod quorum;
mod quotas;
mod reassignments;
mod scram;
mod topics;
mod transactions;

pub use cluster::{
    BrokerDescription, ClusterDescription, FeatureLevels, FeatureUpdate, FeaturesDescription,
    LogDirDescription, ReplicaSize, UpgradeKind,
};
pub use configs::{
    AlterOperation, ConfigEntry, ConfigResource, ConfigSource, ConfigSynonym, ConfigType,
    DescribeConfigsOptions, ResourceKind,
};
pub use group_offsets::CommittedOffset;
pub use groups::{
    GroupDescription, GroupFilter, GroupKind, GroupListing, GroupMember, MembersToRemove,
};
pub use partitions::{ElectionKind, IsolationLevel, ListedOffset, OffsetSpec};
pub use producers::ActiveProducer;
pub use quorum::{QuorumDescription, QuorumReplica};
pub use quotas::{QuotaChanges, QuotaEntity, QuotaFilter, QuotaMatch, Quotas};
pub use reassignments::Reassignment;
pub use scram::{ScramChange, ScramChanges, ScramMechanism};
pub use topics::{
    CreatedTopic, NewPartitions, NewTopic, PartitionDescription, TopicDescription, TopicListing,
};
pub use transactions::{
    OpenTransaction, TransactionDescription, TransactionFilter, TransactionListing,
};

use crate::Error;
use crate::cluster::{Brokers, BrokersOptions, Deadline};
use crate::config::{ClientConfig, settings};
use model::ErrorCode;
use std::collections::BTreeMap;

/// How long a topic is asked for after an admin call about it.
const METADATA_MAX_IDLE_MS: u64 = 300_000;

/// An answer for each of the things that a call was about.
pub type PerKey<K, T> = BTreeMap<K, Result<T, Error>>;

settings! {
    /// Settings of an [`Admin`].
    pub struct AdminConfig {
        embeds
            /// The settings that every client has.
            client: ClientConfig;
        /// How long a call may take, with everything that is tried again.
        "default.api.timeout.ms" default_api_timeout_ms: u64 = 60_000, in 1..=crate::config::MS_MAX;
    }
}

impl AdminConfig {
    /// A configuration with defaults that starts from these brokers, such as
    /// `one.example:9092,two.example:9092`.
    ///
    /// # Errors
    /// [`Error::Configuration`] when one of them is not `host:port`.
    pub fn with_bootstrap_servers(servers: &str) -> Result<Self, Error> {
        Self::from_pairs([("bootstrap.servers", servers)])
    }
}

/// A client for operators. Clones share its connections, which close with the last clone.
///
/// ```no_run
/// # async fn example() -> Result<(), riverrun_client::Error> {
/// use riverrun_client::admin::{Admin, AdminConfig, NewTopic};
///
/// let admin = Admin::new(AdminConfig::with_bootstrap_servers("localhost:9092")?)?;
/// let topic = NewTopic::new("orders").partitions(12).config("retention.ms", "3600000");
/// for (name, created) in admin.create_topics(&[topic]).await {
///     println!("{name}: {:?}", created?.id);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Admin {
    brokers: Brokers,
    default_api_timeout_ms: u64,
}

impl Admin {
    /// An admin client; connects when it is first asked for something. Must be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// [`Error::Configuration`] when no broker is named.
    pub fn new(config: AdminConfig) -> Result<Self, Error> {
        let options = BrokersOptions {
            allow_auto_topic_creation: false,
            metadata_max_idle_ms: Some(METADATA_MAX_IDLE_MS),
        };
        Ok(Self {
            brokers: Brokers::new(&config.client, options)?,
            default_api_timeout_ms: config.default_api_timeout_ms,
        })
    }

    /// The end of a call that begins now.
    fn deadline(&self) -> Deadline {
        Deadline::after_ms(self.default_api_timeout_ms, "default.api.timeout.ms")
    }
}

/// `Ok` for no error; otherwise the error of `subject` with the broker's words.
fn checked(code: i16, subject: impl Into<String>, message: Option<&str>) -> Result<(), Error> {
    match ErrorCode::from_code(code) {
        ErrorCode::None => Ok(()),
        code => Err(Error::Refused {
            subject: subject.into(),
            code,
            // Kafka repeats the code's own message where it has nothing to add.
            message: message
                .filter(|text| !text.is_empty() && *text != code.message())
                .map(str::to_owned),
        }),
    }
}

/// What is left until `deadline` as the `TimeoutMs` of a request.
fn timeout_ms(deadline: Deadline) -> i32 {
    i32::try_from(deadline.remaining_ms()).unwrap_or(i32::MAX)
}
