//! The keys of a server: broker and controller, as in `server.properties`.
//!
//! Each theme is a table of its own; a key stands in exactly one of them.

use crate::table::{ConfigTable, sorted};

mod controller;
mod groups;
mod log;
mod network;
mod oauthbearer;
mod quotas;
mod remote_storage;
mod replication;
mod sasl;
mod server;
mod share_and_streams_groups;
mod tls;
mod topic_defaults;
mod transactions;

/// Every key of a server.
pub static BROKER: ConfigTable = ConfigTable::new(|| {
    sorted(&[
        network::NETWORK,
        server::SERVER,
        controller::CONTROLLER,
        topic_defaults::TOPIC_DEFAULTS,
        log::LOG,
        replication::REPLICATION,
        groups::GROUPS,
        share_and_streams_groups::SHARE_AND_STREAMS_GROUPS,
        transactions::TRANSACTIONS,
        quotas::QUOTAS,
        tls::TLS,
        sasl::SASL,
        oauthbearer::OAUTHBEARER,
        remote_storage::REMOTE_STORAGE,
    ])
});
