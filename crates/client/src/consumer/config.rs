//! The settings of a consumer, with Kafka's names and defaults.

use super::Assignor;
use super::fetcher::OffsetReset;
use crate::Error;
use crate::config::{ClientConfig, MS_MAX, Setting, choices, not_allowed, settings};

choices! {
    /// Which records of transactions are read.
    pub enum IsolationLevel {
        /// All, also of transactions that are open or were aborted.
        ReadUncommitted = "read_uncommitted",
        /// Those of committed transactions, and those outside of any.
        ReadCommitted = "read_committed",
    }
}

impl IsolationLevel {
    /// Its number in requests.
    pub(super) const fn code(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

choices! {
    /// How a consumer is a member of its group.
    pub enum GroupProtocol {
        /// By JoinGroup, SyncGroup and Heartbeat; a member assigns partitions.
        Classic = "classic",
        /// By ConsumerGroupHeartbeat; the coordinator assigns partitions (KIP-848).
        Consumer = "consumer",
    }
}

settings! {
    /// The settings of a [`Consumer`](super::Consumer).
    pub struct ConsumerConfig {
        embeds
            /// The settings that every client has.
            client: ClientConfig;
        /// The group that shares the partitions and their committed offsets.
        "group.id" group_id: Option<String> = None;
        /// Makes a static member of this name: its partitions wait for it while it restarts.
        "group.instance.id" group_instance_id: Option<String> = None;
        /// How members are coordinated.
        "group.protocol" group_protocol: GroupProtocol = GroupProtocol::Classic;
        /// How the coordinator assigns in the consumer protocol, such as `uniform` or `range`; its own
        /// choice when there is none.
        "group.remote.assignor" remote_assignor: Option<String> = None;
        /// How long the coordinator waits for a sign of life.
        "session.timeout.ms" session_timeout_ms: u64 = 45_000, in 1..=MS_MAX;
        /// How often the member gives one.
        "heartbeat.interval.ms" heartbeat_interval_ms: u64 = 3_000, in 1..=MS_MAX;
        /// How long the application may go without polling until others get its partitions.
        "max.poll.interval.ms" max_poll_interval_ms: u64 = 300_000, in 1..=MS_MAX;
        /// The most records that one poll returns.
        "max.poll.records" max_poll_records: usize = 500, in 1..=i32::MAX as i128;
        /// How the leader spreads partitions, best first.
        "partition.assignment.strategy" assignors: Vec<Assignor> =
            vec![Assignor::Range, Assignor::CooperativeSticky];
        /// Whether positions are committed by themselves: at an interval while polling, before
        /// partitions are given up, and at the end.
        "enable.auto.commit" enable_auto_commit: bool = true;
        /// How often.
        "auto.commit.interval.ms" auto_commit_interval_ms: u64 = 5_000, in 0..=MS_MAX;
        /// Where to start without a committed offset.
        "auto.offset.reset" auto_offset_reset: OffsetReset = OffsetReset::Latest;
        /// Which records of transactions are read.
        "isolation.level" isolation_level: IsolationLevel = IsolationLevel::ReadUncommitted;
        /// How many bytes a broker gathers before it answers.
        "fetch.min.bytes" fetch_min_bytes: i32 = 1, in 0..=i32::MAX as i128;
        /// How long it gathers at most.
        "fetch.max.wait.ms" fetch_max_wait_ms: u64 = 500, in 0..=MS_MAX;
        /// The most bytes of all partitions that are buffered or asked for at a time. A single
        /// batch that is larger is read all the same.
        "fetch.max.bytes" fetch_max_bytes: usize = 52_428_800, in 1..=i32::MAX as i128;
        /// The most bytes of one partition that are asked for at a time, and read ahead.
        "max.partition.fetch.bytes" max_partition_fetch_bytes: usize = 1_048_576, in 1..=i32::MAX as i128;
        /// Whether each batch is compared with its checksum.
        "check.crcs" check_crcs: bool = true;
        /// Whether a subscription to a topic that does not exist may create it.
        "allow.auto.create.topics" allow_auto_create_topics: bool = true;
        /// Whether patterns pass over the topics that Kafka itself uses.
        "exclude.internal.topics" exclude_internal_topics: bool = true;
        /// How long calls without a timeout of their own may take.
        "default.api.timeout.ms" default_api_timeout_ms: u64 = 60_000, in 0..=MS_MAX;
    }
}

impl Setting for Assignor {
    fn parse(text: &str) -> Result<Self, String> {
        Self::from_name(text.trim()).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|assignor| assignor.name()).collect();
            format!("must be of {}", names.join(", "))
        })
    }

    fn text(&self) -> String {
        self.name().to_owned()
    }
}

impl ConsumerConfig {
    /// A configuration with defaults that starts from these brokers, for members of `group_id`.
    ///
    /// # Errors
    /// [`Error::Configuration`] when one of the brokers is not `host:port`.
    pub fn new(bootstrap_servers: &str, group_id: &str) -> Result<Self, Error> {
        let mut config = Self::default();
        config.set("bootstrap.servers", bootstrap_servers)?;
        config.set("group.id", group_id)?;
        Ok(config)
    }

    /// Checks what only all settings together can tell.
    pub(super) fn check(&self) -> Result<(), Error> {
        let refuse = |key, value: String, reason: &str| Err(not_allowed(key, value, reason));
        self.check_protocol()?;
        if self.heartbeat_interval_ms >= self.session_timeout_ms {
            let value = self.heartbeat_interval_ms.to_string();
            return refuse(
                "heartbeat.interval.ms",
                value,
                "must be below `session.timeout.ms`, best a third of it",
            );
        }
        if self.client.request_timeout_ms <= self.fetch_max_wait_ms {
            let value = self.fetch_max_wait_ms.to_string();
            return refuse(
                "fetch.max.wait.ms",
                value,
                "must be below `request.timeout.ms`: the broker answers no sooner",
            );
        }
        if self.assignors.is_empty() {
            let reason = "name at least one assignor";
            return refuse("partition.assignment.strategy", String::new(), reason);
        }
        for (place, assignor) in self.assignors.iter().enumerate() {
            if self.assignors[..place].contains(assignor) {
                let value = assignor.name().to_owned();
                return refuse("partition.assignment.strategy", value, "is named twice");
            }
        }
        if let (None, Some(name)) = (&self.group_id, &self.group_instance_id) {
            return refuse("group.instance.id", name.clone(), "needs `group.id`");
        }
        Ok(())
    }

    /// What one protocol leaves to the coordinator is no setting of the other's.
    fn check_protocol(&self) -> Result<(), Error> {
        let defaults = Self::default();
        let is_classic = self.group_protocol == GroupProtocol::Classic;
        if let (true, Some(assignor)) = (is_classic, &self.remote_assignor) {
            let reason = "needs `group.protocol` = `consumer`";
            return Err(not_allowed("group.remote.assignor", assignor, reason));
        }
        let assignors = |config: &Self| {
            let names = config.assignors.iter().map(|assignor| assignor.name());
            names.collect::<Vec<_>>().join(",")
        };
        let left_to_coordinator = [
            (
                "session.timeout.ms",
                self.session_timeout_ms.to_string(),
                defaults.session_timeout_ms.to_string(),
            ),
            (
                "heartbeat.interval.ms",
                self.heartbeat_interval_ms.to_string(),
                defaults.heartbeat_interval_ms.to_string(),
            ),
            (
                "partition.assignment.strategy",
                assignors(self),
                assignors(&defaults),
            ),
        ];
        for (key, value, default) in left_to_coordinator {
            if !is_classic && value != default {
                let reason = "is the coordinator's to say unless `group.protocol` = `classic`";
                return Err(not_allowed(key, value, reason));
            }
        }
        Ok(())
    }

    /// Whether positions are committed by themselves; without a group there is nowhere to.
    pub(super) fn commits_automatically(&self) -> bool {
        self.enable_auto_commit && self.group_id.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(pairs: &[(&str, &str)]) -> String {
        let config = ConsumerConfig::from_pairs(pairs.iter().copied());
        let checked = config.and_then(|config| config.check());
        checked
            .err()
            .map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn contradictions_are_refused() {
        assert_eq!(refusal(&[]), "");
        for (pairs, expected) in [
            (
                &[("heartbeat.interval.ms", "45000")][..],
                "`heartbeat.interval.ms` = `45000`: must be below `session.timeout.ms`",
            ),
            (
                &[("fetch.max.wait.ms", "30000")],
                "`fetch.max.wait.ms` = `30000`: must be below `request.timeout.ms`",
            ),
            (
                &[
                    ("group.protocol", "consumer"),
                    ("session.timeout.ms", "9000"),
                ],
                "`session.timeout.ms` = `9000`: is the coordinator's to say",
            ),
            (
                &[("group.remote.assignor", "range")],
                "`group.remote.assignor` = `range`: needs `group.protocol` = `consumer`",
            ),
            (
                &[("group.instance.id", "one")],
                "`group.instance.id` = `one`: needs `group.id`",
            ),
            (
                &[("partition.assignment.strategy", "range,range")],
                "`partition.assignment.strategy` = `range`: is named twice",
            ),
            (
                &[("partition.assignment.strategy", "stick")],
                "`partition.assignment.strategy` = `stick`: must be of range",
            ),
            (
                &[("auto.offset.reset", "first")],
                "`auto.offset.reset` = `first`: must be `latest`",
            ),
            (
                &[("max.poll.records", "0")],
                "`max.poll.records` = `0`: must be from 1",
            ),
        ] {
            let said = refusal(pairs);
            assert!(said.starts_with(expected), "{said}");
        }
        let java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
        assert_eq!(refusal(&[("partition.assignment.strategy", java)]), "");
    }
}
