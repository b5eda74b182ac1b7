//! Rules over several values, as Kafka judges them at start.

use super::ServerConfigError;
use super::controller::voters;
use super::log::log_dirs;
use super::replication::check_selector;
use crate::layers::ConfigMap;
use crate::listeners::{Listeners, Roles};
use crate::typed::TypedValues;
use crate::value::Value;
use model::BrokerId;

const STANDARD_AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// Collects what breaks a rule.
struct Rules<'a> {
    values: &'a TypedValues,
    errors: &'a mut Vec<ServerConfigError>,
}

/// Checks every rule but those about listeners.
///
/// Without right listeners nobody can tell what else the quorum lacks.
pub(super) fn check(
    values: &TypedValues,
    roles: Roles,
    are_listeners_right: bool,
    errors: &mut Vec<ServerConfigError>,
) {
    let mut rules = Rules { values, errors };
    rules.check_node();
    if are_listeners_right {
        rules.check_quorum(roles);
    }
    rules.check_log();
    rules.check_replication();
    rules.check_network();
    rules.check_groups();
    rules.check_share_groups();
    rules.check_codecs();
    rules.check_authorizer();
}

/// A mechanism that brokers use among each other must be offered.
pub(super) fn check_sasl(
    values: &TypedValues,
    roles: Roles,
    listeners: &Listeners,
    errors: &mut Vec<ServerConfigError>,
) {
    let mechanism = values
        .text("sasl.mechanism.inter.broker.protocol")
        .unwrap_or_default();
    let enabled = values.list("sasl.enabled.mechanisms");
    let is_offered = enabled.iter().any(|offered| offered == mechanism);
    if roles.broker && listeners.inter_broker_protocol.uses_sasl() && !is_offered {
        errors.push(ServerConfigError::Rule(format!(
            "`sasl.mechanism.inter.broker.protocol` is `{mechanism}`, but brokers talk over SASL \
             and sasl.enabled.mechanisms offers only: {}",
            enabled.join(", ")
        )));
    }
}

/// What is allowed but hardly meant.
pub(super) fn warnings(values: &TypedValues, given: &ConfigMap, roles: Roles) -> Vec<String> {
    let mut warnings = Vec::new();
    if given.contains_key("log.dirs") && given.contains_key("log.dir") {
        warnings.push("`log.dir` has no effect: `log.dirs` is set".to_owned());
    }
    let heartbeat_ms = values.int("broker.heartbeat.interval.ms");
    let session_ms = values.int("broker.session.timeout.ms");
    if roles.broker && heartbeat_ms > session_ms / 2 {
        warnings.push(format!(
            "`broker.heartbeat.interval.ms` is {heartbeat_ms}, more than half of \
             broker.session.timeout.ms ({session_ms}): one late heartbeat fences the broker"
        ));
    }
    if roles.broker && roles.controller {
        warn_of_missing_brokers(values, &mut warnings);
    }
    let voters = values.list("controller.quorum.voters");
    if !voters.is_empty()
        && !values
            .list("controller.quorum.bootstrap.servers")
            .is_empty()
    {
        warnings.push(
            "both controller.quorum.voters and controller.quorum.bootstrap.servers are set: the \
             voters win"
                .to_owned(),
        );
    }
    warnings
}

/// A node by itself can hold one replica: what asks for more is refused when it is used. As many
/// in-sync replicas are never asked for: a partition needs no more of them than it has replicas.
fn warn_of_missing_brokers(values: &TypedValues, warnings: &mut Vec<String>) {
    let counts = [
        (
            "default.replication.factor",
            "topics without a replication factor of their own are refused",
        ),
        (
            "offsets.topic.replication.factor",
            "consumer groups will not work",
        ),
        (
            "transaction.state.log.replication.factor",
            "transactions will not work",
        ),
    ];
    for (key, consequence) in counts {
        let count = match values.value(key) {
            Some(Value::Int(count)) => i64::from(*count),
            Some(Value::Short(count)) => i64::from(*count),
            _ => continue,
        };
        if count > 1 {
            warnings.push(format!(
                "`{key}` is {count} and there is one broker: {consequence}; set it to 1"
            ));
        }
    }
}

impl Rules<'_> {
    fn require(&mut self, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.errors.push(ServerConfigError::Rule(message()));
        }
    }

    /// `smaller` must not exceed `larger`.
    fn require_at_most(&mut self, smaller: &str, larger: &str) {
        let (small, large) = (self.values.int(smaller), self.values.int(larger));
        self.require(small <= large, || {
            format!("{smaller} ({small}) must be less than or equal to {larger} ({large})")
        });
    }

    fn require_below(&mut self, smaller: &str, larger: &str) {
        let (small, large) = (self.values.int(smaller), self.values.int(larger));
        self.require(small < large, || {
            format!("{smaller} ({small}) must be less than {larger} ({large})")
        });
    }

    /// The bounds of `<prefix><key>` must be in order and the value within them.
    fn require_bounded(&mut self, prefix: &str, key: &str) {
        let (min, max) = (format!("{prefix}min.{key}"), format!("{prefix}max.{key}"));
        let value = format!("{prefix}{key}");
        self.require_at_most(&min, &max);
        self.require_at_most(&min, &value);
        self.require_at_most(&value, &max);
    }

    fn check_node(&mut self) {
        let (node_id, broker_id) = (self.values.int("node.id"), self.values.int("broker.id"));
        self.require(node_id == broker_id, || {
            format!("`node.id` is {node_id} and `broker.id` is {broker_id}: they must agree")
        });
    }

    fn check_quorum(&mut self, roles: Roles) {
        let values = self.values;
        let node_id = BrokerId(values.int("node.id"));
        let voters = voters(values);
        let has_bootstrap = !values
            .list("controller.quorum.bootstrap.servers")
            .is_empty();
        self.require(!voters.is_empty() || has_bootstrap, || {
            "one of controller.quorum.voters (id@host:port entries) and \
             controller.quorum.bootstrap.servers (host:port entries) must be set"
                .to_owned()
        });
        if voters.is_empty() {
            return;
        }
        let is_voter = voters.iter().any(|voter| voter.id == node_id);
        let list = values.list("controller.quorum.voters").join(",");
        self.require(is_voter || !roles.controller, || {
            format!(
                "`node.id` is {node_id}, which a node with the role controller must have among \
                 controller.quorum.voters (`{list}`)"
            )
        });
        self.require(!is_voter || roles.controller, || {
            format!(
                "`node.id` is {node_id}, which a node without the role controller must not have \
                 among controller.quorum.voters (`{list}`)"
            )
        });
    }

    fn check_log(&mut self) {
        let values = self.values;
        let roll_ms = values.long_or_null("log.roll.ms");
        self.require(roll_ms.is_none_or(|ms| ms >= 1), || {
            format!(
                "log.roll.ms ({}) must be at least 1",
                roll_ms.unwrap_or_default()
            )
        });
        let jitter_ms = values.long_or_null("log.roll.jitter.ms");
        self.require(jitter_ms.is_none_or(|ms| ms >= 0), || {
            format!(
                "log.roll.jitter.ms ({}) must be at least 0",
                jitter_ms.unwrap_or_default()
            )
        });
        let (key, age) = match (
            values.long_or_null("log.retention.ms"),
            values.int_or_null("log.retention.minutes"),
        ) {
            (Some(ms), _) => ("log.retention.ms", ms),
            (None, Some(minutes)) => ("log.retention.minutes", i64::from(minutes)),
            (None, None) => (
                "log.retention.hours",
                i64::from(values.int("log.retention.hours")),
            ),
        };
        self.require(age != 0, || {
            format!("{key} (0) must be at least 1, or -1 for no limit")
        });
        let (buffer, threads) = (
            values.long("log.cleaner.dedupe.buffer.size"),
            values.int("log.cleaner.threads"),
        );
        self.require(threads > 0, || {
            format!("log.cleaner.threads ({threads}) must be at least 1")
        });
        let is_enough = buffer / i64::from(threads.max(1)) > 1 << 20;
        self.require(is_enough, || {
            format!(
                "log.cleaner.dedupe.buffer.size ({buffer}) must be more than 1048576 for each of \
                 log.cleaner.threads ({threads})"
            )
        });
        self.check_cordoned();
    }

    fn check_cordoned(&mut self) {
        let cordoned = self.values.list("cordoned.log.dirs");
        let dirs = log_dirs(self.values);
        let all = cordoned.iter().any(|dir| dir == "*");
        self.require(!all || cordoned.len() == 1, || {
            "cordoned.log.dirs must not have other values beside *".to_owned()
        });
        let strangers: Vec<_> = cordoned
            .iter()
            .filter(|dir| !dirs.contains(dir))
            .map(String::as_str)
            .collect();
        self.require(all || strangers.is_empty(), || {
            format!(
                "cordoned.log.dirs has `{}`, which is not among the log directories: {}",
                strangers.join(","),
                dirs.join(",")
            )
        });
    }

    fn check_replication(&mut self) {
        if let Err(error) = check_selector(self.values) {
            self.errors.push(error);
        }
        self.require_at_most("replica.fetch.wait.max.ms", "replica.socket.timeout.ms");
        let wait_ms = self.values.int("replica.fetch.wait.max.ms");
        let lag_ms = self.values.long("replica.lag.time.max.ms");
        self.require(i64::from(wait_ms) <= lag_ms, || {
            format!(
                "replica.fetch.wait.max.ms ({wait_ms}) must be less than or equal to \
                 replica.lag.time.max.ms ({lag_ms}), or followers leave the in-sync replicas for \
                 no reason"
            )
        });
    }

    fn check_network(&mut self) {
        let values = self.values;
        let queued = values.long("queued.max.request.bytes");
        let largest = values.int("socket.request.max.bytes");
        self.require(queued <= 0 || queued >= i64::from(largest), || {
            format!(
                "queued.max.request.bytes ({queued}) must be greater than or equal to \
                 socket.request.max.bytes ({largest}), or not positive for no limit"
            )
        });
        let has_overrides = values
            .text("max.connections.per.ip.overrides")
            .is_some_and(|text| !text.is_empty());
        self.require(
            values.int("max.connections.per.ip") > 0 || has_overrides,
            || {
                "max.connections.per.ip may be 0 only if max.connections.per.ip.overrides is set"
                    .to_owned()
            },
        );
        let delay_ms = values.int("connection.failed.authentication.delay.ms");
        let idle_ms = values.long("connections.max.idle.ms");
        self.require(idle_ms < 0 || i64::from(delay_ms) < idle_ms, || {
            format!(
                "connection.failed.authentication.delay.ms ({delay_ms}) must be less than \
                 connections.max.idle.ms ({idle_ms}), or the answer to a failed authentication is \
                 lost"
            )
        });
    }

    fn check_groups(&mut self) {
        let protocols = self.values.list("group.coordinator.rebalance.protocols");
        let has_classic = protocols.iter().any(|protocol| protocol == "classic");
        self.require(has_classic, || {
            format!(
                "group.coordinator.rebalance.protocols (`{}`) must have classic",
                protocols.join(",")
            )
        });
        for kind in ["consumer", "share", "streams"] {
            let prefix = format!("group.{kind}.");
            self.require_bounded(&prefix, "session.timeout.ms");
            self.require_bounded(&prefix, "heartbeat.interval.ms");
            self.require_bounded(&prefix, "assignment.interval.ms");
            self.require_below(
                &format!("{prefix}heartbeat.interval.ms"),
                &format!("{prefix}session.timeout.ms"),
            );
        }
        self.require_at_most(
            "group.streams.num.standby.replicas",
            "group.streams.max.standby.replicas",
        );
    }

    fn check_share_groups(&mut self) {
        for key in [
            "record.lock.duration.ms",
            "delivery.count.limit",
            "partition.max.record.locks",
        ] {
            self.require_bounded("group.share.", key);
        }
        self.require_at_most("group.share.max.size", "group.share.max.share.sessions");
    }

    /// A server that is told to authorize must not run without doing so.
    fn check_authorizer(&mut self) {
        let class = self
            .values
            .text("authorizer.class.name")
            .unwrap_or_default();
        self.require(class.is_empty() || class == STANDARD_AUTHORIZER, || {
            format!(
                "authorizer.class.name (`{class}`) is not supported yet; without it every client \
                 may do everything"
            )
        });
    }

    fn check_codecs(&mut self) {
        for key in [
            "offsets.topic.compression.codec",
            "share.coordinator.state.topic.compression.codec",
        ] {
            let codec = self.values.int(key);
            self.require((0..=4).contains(&codec), || {
                format!("{key} ({codec}) must be 0 none, 1 gzip, 2 snappy, 3 lz4 or 4 zstd")
            });
        }
    }
}
