//! What a thread hears of its group while it polls.

use crate::formats::group::AssignmentError;
use crate::processor::TaskId;
use riverrun_client::TopicPartition;
use riverrun_client::consumer::Offsets;
use std::collections::BTreeSet;
use tokio::sync::oneshot;

/// What the consumer's listener has to tell while the thread polls.
pub(super) enum News {
    /// By the group's leader, before partitions come and go.
    Told(Told),
    Assigned(Vec<TopicPartition>),
    /// To be given up; the offsets to commit are awaited.
    Revoked(Vec<TopicPartition>, oneshot::Sender<Offsets>),
    Lost(Vec<TopicPartition>),
}

/// What the leader has told the thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pub(super) active: BTreeSet<TaskId>,
    pub(super) standby: BTreeSet<TaskId>,
    /// A task that no topology can have.
    pub(super) unknown: Option<String>,
    pub(super) error: AssignmentError,
    pub(super) next_rebalance_ms: Option<i64>,
}
