//! How an instance is closed (KIP-1153).

use std::time::Duration;

/// What becomes of the membership of an instance's threads in their group when it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupMembershipOperation {
    /// They leave, static ones too: others have their tasks at once.
    LeaveGroup,
    /// They stay until their sessions end; members of streams groups leave all the same. An instance of static members
    /// that is started again meanwhile has its tasks back without a rebalance.
    RemainInGroup,
}

/// How an instance is closed, and for how long that is waited for.
///
/// ```
/// use riverrun_streams::runtime::{CloseOptions, GroupMembershipOperation};
/// use std::time::Duration;
///
/// let options = CloseOptions::timeout(Duration::from_secs(30))
///     .with_group_membership_operation(GroupMembershipOperation::RemainInGroup);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CloseOptions {
    pub(super) timeout: Option<Duration>,
    pub(super) operation: Option<GroupMembershipOperation>,
}

impl CloseOptions {
    /// Waits no longer than this.
    pub fn timeout(timeout: Duration) -> Self {
        Self::default().with_timeout(timeout)
    }

    /// Does this with the membership.
    pub fn group_membership_operation(operation: GroupMembershipOperation) -> Self {
        Self::default().with_group_membership_operation(operation)
    }

    /// Waits no longer than this; without it, for as long as it takes.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Does this with the membership; without it dynamic members leave, and static ones stay.
    #[must_use]
    pub const fn with_group_membership_operation(
        mut self,
        operation: GroupMembershipOperation,
    ) -> Self {
        self.operation = Some(operation);
        self
    }
}
