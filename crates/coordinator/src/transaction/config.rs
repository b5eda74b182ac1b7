//! The broker's settings that the transaction coordinator obeys.

/// Settings of the transaction coordinator, named as in `server.properties`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionConfig {
    /// `transaction.max.timeout.ms`: the longest timeout that a producer may ask for.
    pub timeout_max_ms: i32,
    /// `transactional.id.expiration.ms`: how long an idle transactional id is remembered.
    pub transactional_id_expiration_ms: i32,
    /// `transaction.two.phase.commit.enable`: whether a transaction may be without a timeout.
    pub two_phase_commit_enable: bool,
}

impl Default for TransactionConfig {
    fn default() -> Self {
        Self {
            timeout_max_ms: 900_000,
            transactional_id_expiration_ms: 604_800_000,
            two_phase_commit_enable: false,
        }
    }
}
