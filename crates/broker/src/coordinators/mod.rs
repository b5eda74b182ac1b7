//! Groups and transactions: replicated state, kept in partitions of internal topics.

pub(crate) mod coordinator_log;
pub(crate) mod coordinator_topics;
pub(crate) mod group_settings;
pub(crate) mod groups;
pub(crate) mod transaction_markers;
pub(crate) mod transaction_verification;
pub(crate) mod transactions;
