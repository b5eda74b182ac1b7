//! The commands of operators: a file for each, over [`riverrun_client::admin::Admin`].

pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod group;
mod hanging;
mod health;
pub(crate) mod places;
pub(crate) mod quota;
pub(crate) mod topic;
pub(crate) mod transaction;
pub(crate) mod user;
