//! What the active controller does by itself, and when.
//!
//! | task | when |
//! |--|--|
//! | fence a broker | its session has run out; the next one at once |
//! | elect preferred leaders | every `leader.imbalance.check.interval.seconds`, at once if there are more |
//! | elect unclean leaders | every `unclean.leader.election.interval.ms`, at once if more are left or allowed |
//! | write a no-op record | nothing was written for `metadata.max.idle.interval.ms` |
//!
//! A node that is its whole cluster has nobody to fence, no leadership to move, and no observer that would
//! miss a sign of life: it does none of it, and sleeps.

use crate::sessions::Sessions;
use config::server::ControllerTasksConfig;
use metadata::MetadataImage;
use model::BrokerId;
use model::MonotonicTime;

/// Partitions that one election by itself changes at most.
pub(crate) const ELECTIONS_MAX: usize = 1000;

/// How long a task waits whose records the log has not taken.
const REFUSED_MS: i64 = 1000;

/// Something that the controller does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    /// A broker is not heard of any more.
    Fence(BrokerId),
    /// Preferred leaders.
    BalanceLeaders,
    /// Leaders that may lack records, where topics allow it.
    ElectUncleanLeaders,
    /// A sign of life.
    NoOp,
}

/// When what is due.
#[derive(Debug)]
pub(crate) struct Tasks {
    config: ControllerTasksConfig,
    balance_at: MonotonicTime,
    unclean_at: MonotonicTime,
    written_at: MonotonicTime,
    /// Nothing is due before, since the log takes nothing.
    not_before: MonotonicTime,
}

impl Tasks {
    /// The tasks of a controller that begins at `now`.
    pub(crate) const fn new(config: ControllerTasksConfig, now: MonotonicTime) -> Self {
        let balance_ms = match config.leader_balance_interval_ms {
            Some(interval_ms) => interval_ms,
            None => i64::MAX,
        };
        Self {
            config,
            balance_at: now.plus_ms(balance_ms),
            unclean_at: now.plus_ms(config.unclean_election_interval_ms),
            written_at: now,
            not_before: MonotonicTime::MIN,
        }
    }

    /// The task that comes first, and when; `None` when there is none to come.
    pub(crate) fn next(
        &self,
        image: &MetadataImage,
        sessions: &Sessions,
    ) -> Option<(MonotonicTime, Task)> {
        if is_alone(image, sessions) {
            return None;
        }
        let stale = sessions.next_expiry(image);
        let idle_ms = self.config.max_idle_interval_ms;
        let tasks = [
            stale.map(|(at, broker)| (at, Task::Fence(broker))),
            Some((self.balance_at, Task::BalanceLeaders)),
            Some((self.unclean_at, Task::ElectUncleanLeaders)),
            idle_ms.map(|idle_ms| (self.written_at.plus_ms(idle_ms), Task::NoOp)),
        ];
        let (at, task) = tasks.into_iter().flatten().min()?;
        Some((at.max(self.not_before), task))
    }

    /// A task is done; `has_more` says that there is more of it.
    pub(crate) fn done(&mut self, task: Task, has_more: bool, now: MonotonicTime) {
        let next = |interval_ms| match has_more {
            true => now,
            false => now.plus_ms(interval_ms),
        };
        match (task, self.config.leader_balance_interval_ms) {
            (Task::BalanceLeaders, Some(interval_ms)) => self.balance_at = next(interval_ms),
            (Task::BalanceLeaders, None) => self.balance_at = MonotonicTime::MAX,
            (Task::ElectUncleanLeaders, _) => {
                self.unclean_at = next(self.config.unclean_election_interval_ms);
            }
            (Task::Fence(_) | Task::NoOp, _) => {}
        }
    }

    /// More partitions may get a leader that lacks records: they do not wait for the interval.
    pub(crate) fn hasten_unclean_election(&mut self, now: MonotonicTime) {
        self.unclean_at = self.unclean_at.min(now);
    }

    /// The log has taken records.
    pub(crate) const fn written(&mut self, now: MonotonicTime) {
        self.written_at = now;
    }

    /// The log has not taken the records of a task.
    pub(crate) const fn refused(&mut self, now: MonotonicTime) {
        self.not_before = now.plus_ms(REFUSED_MS);
    }
}

/// Whether the broker of this process is the only node of the cluster.
fn is_alone(image: &MetadataImage, sessions: &Sessions) -> bool {
    let cluster = &image.cluster;
    let (mut brokers, mut controllers) = (cluster.brokers().keys(), cluster.controllers().keys());
    brokers.all(|id| sessions.is_own(*id)) && controllers.all(|id| sessions.own_id() == Some(*id))
}
