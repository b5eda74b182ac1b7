//! What a member asks of the coordinator. The shell adds group, member, instance and generation,
//! which are the membership's at that time.

use std::collections::BTreeSet;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupRequest {
    /// Of any broker: who coordinates the group?
    FindCoordinator,
    /// Become a member of the next generation.
    Join(JoinRequest),
    /// Of the metadata: the partitions of these topics and their racks.
    DescribeTopics(BTreeSet<String>),
    /// What is mine? From the leader, with what is everybody's.
    Sync(SyncRequest),
    /// I live.
    Heartbeat,
    /// I go.
    Leave {
        /// For the broker's log.
        reason: &'static str,
    },
}

/// The fields of JoinGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JoinRequest {
    pub(crate) session_timeout_ms: i64,
    pub(crate) rebalance_timeout_ms: i64,
    /// Assignors with the subscription as each of them wants it.
    pub(crate) protocols: Vec<(String, Vec<u8>)>,
    pub(crate) reason: &'static str,
}

/// The fields of SyncGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyncRequest {
    pub(crate) protocol_name: String,
    /// From the leader: the assignment of each member.
    pub(crate) assignments: Vec<(String, Vec<u8>)>,
}
