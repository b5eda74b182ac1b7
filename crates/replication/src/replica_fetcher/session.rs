//! The fetch session of a follower with its leader (KIP-227), as the follower keeps it.
//!
//! ```text
//!   Full{0} ── answer with a session ──> Incremental{id, 1} ── answer ──> Incremental{id, 2} …
//!      ^                                      │ │
//!      ├── the leader does not know it, or ───┘ │
//!      │   answers without one                  │
//!   Full{id}, which closes it <── anything else ┘
//! ```

use crate::fetch_session::next_session_epoch;
use crate::fetch_session_cache::{INITIAL_EPOCH, INVALID_SESSION_ID};

/// What the next request is to the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    /// It names every partition, and begins a session; one of this id, if it is not zero, ends.
    Full { closed_id: i32 },
    /// It names what has changed.
    Incremental { id: i32, epoch: i32 },
}

impl Session {
    /// That of the first request.
    pub(super) const FIRST: Self = Self::Full {
        closed_id: INVALID_SESSION_ID,
    };

    /// The id and the epoch of the next request.
    pub(super) const fn id_and_epoch(self) -> (i32, i32) {
        match self {
            Self::Full { closed_id } => (closed_id, INITIAL_EPOCH),
            Self::Incremental { id, epoch } => (id, epoch),
        }
    }

    pub(super) const fn is_full(self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// The answer bears this id.
    pub(super) const fn answered(&mut self, answered_id: i32) {
        *self = match *self {
            _ if answered_id == INVALID_SESSION_ID => Self::FIRST,
            Self::Full { .. } => Self::Incremental {
                id: answered_id,
                epoch: next_session_epoch(INITIAL_EPOCH),
            },
            Self::Incremental { id, epoch } => Self::Incremental {
                id,
                epoch: next_session_epoch(epoch),
            },
        };
    }

    /// What the leader keeps of it is not known: the next request begins another one, and ends it.
    pub(super) const fn renew(&mut self) {
        if let Self::Incremental { id, .. } = *self {
            *self = Self::Full { closed_id: id };
        }
    }

    /// The leader does not have it, or answers another question: the next request begins one.
    pub(super) const fn forget(&mut self) {
        *self = Self::FIRST;
    }
}
