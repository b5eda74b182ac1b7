//! What becomes of a consumer's membership when it is closed (KIP-1092).

/// What becomes of a consumer's membership in its group when it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupMembershipOperation {
    /// A dynamic member leaves, and others have its partitions at once. A static one stays for its session.
    #[default]
    Default,
    /// The member leaves, if it is a static one too.
    LeaveGroup,
    /// The member stays for its session.
    RemainInGroup,
}
