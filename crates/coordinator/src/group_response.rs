//! The answers that members of a classic group wait for: those of JoinGroup and SyncGroup.

use model::ErrorCode;
use std::sync::Arc;

/// The answer of a request that was parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupResponse {
    /// Of a JoinGroup request.
    Join(JoinGroupResponse),
    /// Of a SyncGroup request.
    Sync(SyncGroupResponse),
}

/// The answer to [`JoinGroup`](crate::group::JoinGroup).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinGroupResponse {
    /// `None` or why the member is not in the group.
    pub error: ErrorCode,
    /// The generation the member is in; -1 with an error.
    pub generation_id: i32,
    /// The group's protocol type; `None` with an error.
    pub protocol_type: Option<Arc<str>>,
    /// The assignor chosen; empty with an error.
    pub protocol_name: Option<Arc<str>>,
    /// The leader's member id; empty with an error.
    pub leader: Arc<str>,
    /// Whether the leader is not to compute assignments.
    pub skip_assignment: bool,
    /// The id of the member that asked.
    pub member_id: Arc<str>,
    /// All members, for the leader alone.
    pub members: Vec<JoinedMember>,
}

/// A member as its leader gets to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedMember {
    /// The member's id.
    pub member_id: Arc<str>,
    /// Of static members.
    pub group_instance_id: Option<Arc<str>>,
    /// Of the protocol chosen.
    pub metadata: Arc<[u8]>,
}

/// The answer to [`SyncGroup`](crate::group::SyncGroup).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncGroupResponse {
    /// `None` or why there is no assignment.
    pub error: ErrorCode,
    /// The group's protocol type; `None` with an error.
    pub protocol_type: Option<Arc<str>>,
    /// The assignor chosen; `None` with an error.
    pub protocol_name: Option<Arc<str>>,
    /// The member's assignment.
    pub assignment: Arc<[u8]>,
}

impl JoinGroupResponse {
    /// Refuses the member.
    pub fn error(member_id: &str, error: ErrorCode) -> Self {
        Self {
            error,
            generation_id: -1,
            protocol_type: None,
            protocol_name: Some(Arc::from("")),
            leader: Arc::from(""),
            skip_assignment: false,
            member_id: Arc::from(member_id),
            members: Vec::new(),
        }
    }
}

impl SyncGroupResponse {
    /// Refuses the member.
    pub fn error(error: ErrorCode) -> Self {
        Self {
            error,
            protocol_type: None,
            protocol_name: None,
            assignment: Arc::from([]),
        }
    }
}
