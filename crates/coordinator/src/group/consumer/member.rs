//! A member of a consumer group, as the log has it.

use super::partitions::OwnedPartitions;
use super::subscription::Subscription;
use std::sync::Arc;

/// How far a member is on its way to its target assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::group) enum MemberState {
    /// The member has what it was told.
    #[default]
    Stable,
    /// The member was told to give partitions up and has not said that it did.
    UnrevokedPartitions,
    /// Partitions that the member is to have are still with others.
    UnreleasedPartitions,
    /// A later version of the coordinator left it so.
    Unknown,
}

impl MemberState {
    /// The number of the state in records.
    pub(in crate::group) const fn id(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
            Self::Unknown => 127,
        }
    }

    pub(in crate::group) const fn from_id(id: i8) -> Self {
        match id {
            0 => Self::Stable,
            1 => Self::UnrevokedPartitions,
            2 => Self::UnreleasedPartitions,
            _ => Self::Unknown,
        }
    }
}

/// The name and the metadata of an assignor of the classic protocol.
pub(in crate::group) type NamedProtocol = (Arc<str>, Arc<[u8]>);

/// What is kept of a member that speaks the classic protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::group) struct ClassicMember {
    pub(in crate::group) session_timeout_ms: i32,
    /// The assignors that the member supports, best first.
    pub(in crate::group) protocols: Box<[NamedProtocol]>,
}

/// The epoch of a static member that left and will be back.
pub(in crate::group) const LEFT_STATIC_MEMBER_EPOCH: i32 = -2;

/// A member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::group) struct ConsumerMember {
    pub(in crate::group) id: Arc<str>,
    pub(in crate::group) instance_id: Option<Arc<str>>,
    pub(in crate::group) rack_id: Option<Arc<str>>,
    pub(in crate::group) client_id: Arc<str>,
    pub(in crate::group) client_host: Arc<str>,
    pub(in crate::group) subscription: Arc<Subscription>,
    pub(in crate::group) rebalance_timeout_ms: i32,
    pub(in crate::group) server_assignor: Option<Arc<str>>,
    pub(in crate::group) classic: Option<Arc<ClassicMember>>,
    pub(in crate::group) member_epoch: i32,
    pub(in crate::group) previous_member_epoch: i32,
    pub(in crate::group) state: MemberState,
    pub(in crate::group) assigned: OwnedPartitions,
    pub(in crate::group) pending_revocation: OwnedPartitions,
}

impl ConsumerMember {
    /// A member that nothing is known of.
    pub(in crate::group) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            instance_id: None,
            rack_id: None,
            client_id: Arc::from(""),
            client_host: Arc::from(""),
            subscription: Arc::default(),
            rebalance_timeout_ms: -1,
            server_assignor: None,
            classic: None,
            member_epoch: 0,
            previous_member_epoch: -1,
            state: MemberState::Stable,
            assigned: OwnedPartitions::default(),
            pending_revocation: OwnedPartitions::default(),
        }
    }

    pub(in crate::group) fn uses_classic_protocol(&self) -> bool {
        self.classic.is_some()
    }

    /// Whether the member has the assignment of `epoch`.
    pub(in crate::group) fn is_reconciled_to(&self, epoch: i32) -> bool {
        self.state == MemberState::Stable && self.member_epoch == epoch
    }

    /// The member in `epoch`; the one before is remembered.
    pub(in crate::group) fn in_epoch(&self, epoch: i32) -> Self {
        Self {
            previous_member_epoch: self.member_epoch,
            member_epoch: epoch,
            ..self.clone()
        }
    }
}
