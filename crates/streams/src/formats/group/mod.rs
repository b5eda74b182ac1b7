//! What the members of a group of the classic protocol tell one another through its leader, in the
//! user data of the protocol `stream`: what a member has, and what it is to do.
//!
//! Both begin with an i32 version. Of a version that is newer than [`LATEST_VERSION`] only the
//! greatest version that the other side knows is read ([`OfVersion::Newer`]), for version probing.

mod member_assignment;
mod member_subscription;
mod task_id;

pub use member_assignment::{
    AssignedPartition, AssignmentError, HostPartitions, MemberAssignment, StandbyTask,
};
pub use member_subscription::{
    LATEST_OFFSET, MemberSubscription, SHUTDOWN_REQUESTED, UNKNOWN_OFFSET_SUM,
};
pub use task_id::TaskId;

/// The newest version that this implementation reads and writes.
pub const LATEST_VERSION: i32 = 11;
/// The oldest version of a leader that a member may probe with a newer one.
pub const EARLIEST_PROBEABLE_VERSION: i32 = 3;
/// From which version on tasks have a named topology.
const NAMED_TOPOLOGY_FROM: i32 = 10;

/// User data of a known version, or of one that is newer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfVersion<T> {
    /// What was read.
    Known(T),
    /// Of a version beyond [`LATEST_VERSION`].
    Newer {
        /// The version that it is in.
        version: i32,
        /// The greatest version of the member, or the greatest that all members know.
        latest_supported_version: i32,
    },
}

impl<T> OfVersion<T> {
    /// What was read, if the version is known.
    pub fn known(self) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Newer { .. } => None,
        }
    }
}

/// Takes any bytes for the user data of a member.
pub fn fuzz_group_user_data(bytes: &[u8]) {
    if let Ok(OfVersion::Known(subscription)) = MemberSubscription::read(bytes) {
        let again = MemberSubscription::read(&subscription.to_bytes());
        assert_eq!(again, Ok(OfVersion::Known(subscription)));
    }
    if let Ok(OfVersion::Known(assignment)) = MemberAssignment::read(bytes) {
        let written = assignment.to_bytes();
        let again = MemberAssignment::read(&written);
        assert_eq!(again, Ok(OfVersion::Known(assignment)));
    }
}

#[cfg(test)]
mod tests;
