//! The settings of consumer groups: the broker's, and what groups set for themselves.

use super::assignor::Assignor;
use super::migration_policy::MigrationPolicy;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a group may set for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerGroupTimes {
    /// `consumer.session.timeout.ms`.
    pub session_timeout_ms: i32,
    /// `consumer.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// `consumer.assignment.interval.ms`: between two computations of the target assignment.
    pub assignment_interval_ms: i32,
}

/// Settings of consumer groups, named as in `server.properties` (`group.consumer.*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroupConfig {
    /// Of groups that set nothing for themselves.
    pub times: ConsumerGroupTimes,
    /// Of groups that do, by group id.
    pub times_of_groups: Arc<BTreeMap<String, ConsumerGroupTimes>>,
    /// `group.consumer.max.size`: members of a group.
    pub size_max: usize,
    /// `group.consumer.assignors`: those on offer, the default first.
    pub assignors: Vec<Assignor>,
    /// `group.consumer.migration.policy`.
    pub migration_policy: MigrationPolicy,
    /// `group.consumer.regex.refresh.interval.ms`.
    pub regex_refresh_interval_ms: i32,
}

impl ConsumerGroupConfig {
    /// The times of a group.
    pub(in crate::group) fn of_group(&self, group_id: &str) -> ConsumerGroupTimes {
        self.times_of_groups
            .get(group_id)
            .copied()
            .unwrap_or(self.times)
    }

    pub(super) fn default_assignor(&self) -> Assignor {
        self.assignors.first().copied().unwrap_or(Assignor::Uniform)
    }
}

impl Default for ConsumerGroupConfig {
    fn default() -> Self {
        Self {
            times: ConsumerGroupTimes {
                session_timeout_ms: 45_000,
                heartbeat_interval_ms: 5_000,
                assignment_interval_ms: 1_000,
            },
            times_of_groups: Arc::default(),
            size_max: i32::MAX as usize,
            assignors: Assignor::ALL.to_vec(),
            migration_policy: MigrationPolicy::default(),
            regex_refresh_interval_ms: 600_000,
        }
    }
}
