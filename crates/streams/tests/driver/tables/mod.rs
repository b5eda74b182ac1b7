//! Tables and their joins against Apache Kafka 4.3.1: the same topologies have the same nodes, stores and topics, and
//! the same records give the same results, changelogs and messages in internal topics.

pub(crate) mod harness;
mod of_foreign_keys;
mod of_joins;
mod of_tables;
