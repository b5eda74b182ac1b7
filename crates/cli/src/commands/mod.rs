//! The commands of operators: a file for each, over [`client::admin::Admin`].

pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod group;
pub(crate) mod places;
pub(crate) mod topic;
pub(crate) mod transaction;
