//! The states of a transactional id, in Kafka's names and numbers, and which may follow which.

use model::ErrorCode;

/// How far the transaction of a transactional id is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionState {
    /// A producer has the id and has no transaction.
    Empty,
    /// Partitions have been added.
    Ongoing,
    /// It will be committed, come what may; markers are being written.
    PrepareCommit,
    /// It will be aborted, come what may; markers are being written.
    PrepareAbort,
    /// It was committed.
    CompleteCommit,
    /// It was aborted.
    CompleteAbort,
}

use TransactionState::{
    CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit,
};

impl TransactionState {
    /// Every state that a record may have. Kafka knows two more, `Dead` and `PrepareEpochFence`,
    /// which are in nobody's log: here a tombstone and a bumped epoch are decided at once.
    pub const ALL: [Self; 6] = [
        Empty,
        Ongoing,
        PrepareCommit,
        PrepareAbort,
        CompleteCommit,
        CompleteAbort,
    ];

    /// The number in records.
    pub const fn id(self) -> i8 {
        match self {
            Empty => 0,
            Ongoing => 1,
            PrepareCommit => 2,
            PrepareAbort => 3,
            CompleteCommit => 4,
            CompleteAbort => 5,
        }
    }

    /// The state of this number.
    pub fn from_id(id: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.id() == id)
    }

    /// The name that administrators see.
    pub const fn name(self) -> &'static str {
        match self {
            Empty => "Empty",
            Ongoing => "Ongoing",
            PrepareCommit => "PrepareCommit",
            PrepareAbort => "PrepareAbort",
            CompleteCommit => "CompleteCommit",
            CompleteAbort => "CompleteAbort",
        }
    }

    /// The state of this name, exactly as it is shown.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether a name is that of a state which is never shown.
    pub fn is_hidden_name(name: &str) -> bool {
        matches!(name, "Dead" | "PrepareEpochFence")
    }

    /// The states that a record of this one may follow in the log.
    pub const fn valid_previous(self) -> &'static [Self] {
        match self {
            Empty => &[Empty, CompleteCommit, CompleteAbort],
            Ongoing => &[Ongoing, Empty, CompleteCommit, CompleteAbort],
            PrepareCommit => &[Ongoing],
            // A client of version 2 may abort what has no partitions yet.
            PrepareAbort => &[Ongoing, Empty, CompleteCommit, CompleteAbort],
            CompleteCommit => &[PrepareCommit],
            CompleteAbort => &[PrepareAbort],
        }
    }

    /// Whether the end is decided and markers are being written.
    pub const fn is_prepared(self) -> bool {
        matches!(self, PrepareCommit | PrepareAbort)
    }

    /// Whether a transactional id that rests in this state is forgotten after a while.
    pub const fn may_expire(self) -> bool {
        matches!(self, Empty | CompleteCommit | CompleteAbort)
    }

    /// The state in which a transaction's end is decided.
    pub(super) const fn prepared(committed: bool) -> Self {
        if committed {
            PrepareCommit
        } else {
            PrepareAbort
        }
    }

    /// The state after the markers of this one.
    pub(super) const fn completed(self) -> Option<Self> {
        match self {
            PrepareCommit => Some(CompleteCommit),
            PrepareAbort => Some(CompleteAbort),
            Empty | Ongoing | CompleteCommit | CompleteAbort => None,
        }
    }

    /// What EndTxn makes of a transaction in this state, of a client whose producer is the
    /// current one.
    ///
    /// `is_retry` tells that the client of version 2 has asked before and got the next epoch
    /// since. In version 1 an epoch tells nothing, so every request may be a retry.
    ///
    /// # Errors
    /// The answer of a request that decides nothing: `None` for a retry of what was decided.
    pub fn end(
        self,
        committed: bool,
        is_retry: bool,
        supports_epoch_bump: bool,
    ) -> Result<Self, ErrorCode> {
        match (self, committed) {
            (PrepareCommit | PrepareAbort, _) => Err(ErrorCode::ConcurrentTransactions),
            (Ongoing, _) => Ok(Self::prepared(committed)),
            (CompleteCommit, true) | (CompleteAbort, false) if is_retry => Err(ErrorCode::None),
            (Empty | CompleteAbort, false) if supports_epoch_bump => Ok(PrepareAbort),
            (CompleteCommit, false) if supports_epoch_bump && !is_retry => Ok(PrepareAbort),
            (Empty | CompleteCommit | CompleteAbort, _) => Err(ErrorCode::InvalidTxnState),
        }
    }
}
