//! The loggers of this process: their levels are read by DescribeConfigs and changed by
//! IncrementalAlterConfigs, as resources of type BROKER_LOGGER (KIP-412).
//!
//! A logger stands for a target of `tracing`, that is, for a crate or one of its modules, and
//! `root` for everything else. Its name has dots, since Kafka's tools take no colons: `broker.net`
//! is the room `broker::net`, `broker.logs.future_replicas` a module in a room. A logger without a level has that of
//! the one it lies in: `broker.net` that of `broker`, and that one the level of `root`. What is changed holds until the
//! process ends.

use controller::ApiError;
use controller::alter_configs::ConfigOperation;
use model::ErrorCode;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tracing::level_filters::LevelFilter;

/// The logger of all that no other one stands for.
pub const ROOT: &str = "root";

/// The loggers that there are from the start, but for [`ROOT`].
pub const LOGGERS: &[&str] = &[
    "broker",
    "broker.api",
    "broker.api.envelope",
    "broker.api.foreign_nodes",
    "broker.api.join_group",
    "broker.api.leave_group",
    "broker.controller",
    "broker.controller.broker_log",
    "broker.controller.controller_thread",
    "broker.controller.snapshot_writer",
    "broker.coordinators",
    "broker.coordinators.coordinator_topics",
    "broker.coordinators.groups",
    "broker.coordinators.producer_ids",
    "broker.coordinators.runtime",
    "broker.coordinators.threads",
    "broker.coordinators.transactions",
    "broker.logs",
    "broker.logs.checkpoint_files",
    "broker.logs.cleaner",
    "broker.logs.closing_log_dirs",
    "broker.logs.cordoning",
    "broker.logs.directory_failures",
    "broker.logs.failed_logs",
    "broker.logs.file_shortage",
    "broker.logs.first_use",
    "broker.logs.found_logs",
    "broker.logs.future_replicas",
    "broker.logs.hosting",
    "broker.logs.idle_logs",
    "broker.logs.log_dir_queue",
    "broker.logs.log_directories",
    "broker.logs.log_updates",
    "broker.logs.maintenance",
    "broker.logs.metadata_changes",
    "broker.logs.missing_logs",
    "broker.logs.new_partitions",
    "broker.logs.opening",
    "broker.logs.owners",
    "broker.logs.removals",
    "broker.logs.scan",
    "broker.net",
    "broker.net.budget",
    "broker.net.connection",
    "broker.net.limits",
    "broker.net.refusals",
    "broker.net.sockets",
    "broker.peers",
    "broker.peers.controller_requests",
    "broker.peers.forwarding",
    "broker.peers.isr_changes",
    "broker.peers.lifecycle",
    "broker.peers.markers",
    "broker.peers.quorum_cluster",
    "broker.peers.quorum_follower",
    "broker.peers.quorum_requests",
    "broker.peers.replica_fetchers",
    "broker.peers.verification",
    "broker.scheduling",
    "broker.scheduling.disk_watch",
    "broker.server",
    "broker.server.handing_over",
    "broker.server.observing",
    "broker.server.own_controller",
    "broker.server.publishers",
    "broker.settings",
    "broker.settings.live_config",
    "broker.settings.loggers",
    "broker.settings.node",
    "broker.settings.told_changes",
    "connection",
    "model",
    "riverrun",
    "riverrun_client",
];

/// The levels by their names in Kafka. Nothing is logged as fatal: `FATAL` silences a logger.
const LEVELS: [(&str, LevelFilter); 6] = [
    ("DEBUG", LevelFilter::DEBUG),
    ("ERROR", LevelFilter::ERROR),
    ("FATAL", LevelFilter::OFF),
    ("INFO", LevelFilter::INFO),
    ("TRACE", LevelFilter::TRACE),
    ("WARN", LevelFilter::WARN),
];

/// Levels of loggers, by name.
pub type Levels = BTreeMap<String, LevelFilter>;

/// Makes levels hold for what this process logs.
type Apply = Box<dyn Fn(&Levels) + Send + Sync>;

/// The loggers of a process.
pub struct Loggers {
    /// The loggers that have a level of their own.
    levels: Mutex<Levels>,
    /// Every name but the root's.
    names: BTreeSet<String>,
    apply: Apply,
}

impl fmt::Debug for Loggers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = self.levels.lock();
        formatter.debug_tuple("Loggers").field(&*levels).finish()
    }
}

impl Default for Loggers {
    /// Loggers of a process whose log nobody sees.
    fn default() -> Self {
        Self::new(Levels::new(), |_| {})
    }
}

impl Loggers {
    /// Loggers at `levels`, which hold already; the root's is INFO unless it is among them. Each
    /// change calls `apply` with every level that is set, the root's included.
    pub fn new(mut levels: Levels, apply: impl Fn(&Levels) + Send + Sync + 'static) -> Self {
        levels.entry(ROOT.to_owned()).or_insert(LevelFilter::INFO);
        let given = levels.keys().map(String::as_str);
        let names = given.chain(LOGGERS.iter().copied());
        Self {
            names: names
                .filter(|name| *name != ROOT)
                .map(str::to_owned)
                .collect(),
            levels: Mutex::new(levels),
            apply: Box::new(apply),
        }
    }

    /// Every logger with its level, the root first.
    pub(crate) fn describe(&self) -> Vec<(&str, &'static str)> {
        let levels = self.levels.lock();
        let names = std::iter::once(ROOT).chain(self.names.iter().map(String::as_str));
        names
            .map(|name| (name, level_name(level_of(&levels, name))))
            .collect()
    }

    /// Changes levels: all of `operations`, or none. With `validate_only`, none at all.
    ///
    /// # Errors
    /// Kafka's, for a logger or level that does not exist, and for what cannot be done to one.
    pub(crate) fn alter(
        &self,
        operations: &[ConfigOperation],
        validate_only: bool,
    ) -> Result<(), ApiError> {
        check_form(operations)?;
        let changes = operations
            .iter()
            .map(|operation| self.change(operation))
            .collect::<Result<Vec<_>, _>>()?;
        if validate_only || changes.is_empty() {
            return Ok(());
        }
        let mut levels = self.levels.lock();
        for (name, level) in changes {
            match level {
                Some(level) => levels.insert(name.to_owned(), level),
                None => levels.remove(name),
            };
        }
        (self.apply)(&levels);
        for operation in operations {
            let (logger, level) = (
                &operation.name,
                level_name(level_of(&levels, &operation.name)),
            );
            tracing::info!(logger, level, "log level changed");
        }
        Ok(())
    }

    /// The logger that an operation changes, and the level that it has then.
    fn change<'o>(
        &self,
        operation: &'o ConfigOperation,
    ) -> Result<(&'o str, Option<LevelFilter>), ApiError> {
        let name = operation.name.as_str();
        let exists = name == ROOT || self.names.contains(name);
        let invalid_request = |words: String| Err(ApiError::new(ErrorCode::InvalidRequest, words));
        match operation.operation {
            0 | 1 if !exists => Err(ApiError::new(
                ErrorCode::InvalidConfig,
                format!("Logger {name} does not exist!"),
            )),
            0 => {
                let text = operation.value.as_deref().unwrap_or_default();
                Ok((name, Some(level(name, text)?)))
            }
            1 if name == ROOT => invalid_request(format!(
                "Removing the log level of the {ROOT} logger is not allowed"
            )),
            1 => Ok((name, None)),
            2 | 3 => {
                let verb = ["APPEND", "SUBTRACT"][usize::from(operation.operation == 3)];
                invalid_request(format!(
                    "{verb} operation is not allowed for the BROKER_LOGGER resource"
                ))
            }
            // Kafka's answer to an operation that does not exist.
            _ => Err(ApiError {
                code: ErrorCode::UnknownServerError,
                message: None,
            }),
        }
    }
}

/// Each logger once, and a level where one is needed.
fn check_form(operations: &[ConfigOperation]) -> Result<(), ApiError> {
    let names: BTreeSet<_> = operations.iter().map(|one| &one.name).collect();
    if names.len() < operations.len() {
        let words = "Error due to duplicate config keys";
        return Err(ApiError::new(ErrorCode::InvalidRequest, words));
    }
    let without = operations
        .iter()
        .filter(|one| one.operation != 1 && one.value.is_none());
    let without: Vec<_> = without.map(|one| one.name.as_str()).collect();
    if without.is_empty() {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorCode::InvalidRequest,
        format!("Null value not supported for : {}", without.join(", ")),
    ))
}

fn level(logger: &str, text: &str) -> Result<LevelFilter, ApiError> {
    let found = LEVELS.iter().find(|(name, _)| *name == text);
    found.map(|(_, level)| *level).ok_or_else(|| {
        let words = format!(
            "Cannot set the log level of {logger} to {text} as it is not a supported log level. \
             Valid log levels are {}",
            LEVELS.map(|(name, _)| name).join(", ")
        );
        ApiError::new(ErrorCode::InvalidConfig, words)
    })
}

fn level_name(level: LevelFilter) -> &'static str {
    let found = LEVELS.iter().find(|(_, one)| *one == level);
    found.expect("every level of `tracing` is in the table").0
}

/// The level in force for a logger: its own, or that of the nearest one it lies in.
fn level_of(levels: &Levels, name: &str) -> LevelFilter {
    let mut at = name;
    loop {
        if let Some(level) = levels.get(at) {
            return *level;
        }
        at = at.rsplit_once('.').map_or(ROOT, |(parent, _)| parent);
    }
}

#[cfg(test)]
mod tests;
