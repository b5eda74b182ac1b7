//! The commands of operators: a file for each, over [`riverrun_client::admin::Admin`].

pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod group;
mod hanging;
mod health;
pub(crate) mod partition;
pub(crate) mod places;
pub(crate) mod profile;
pub(crate) mod quota;
mod reassign;
mod reassignment_plan;
mod throttles;
pub(crate) mod topic;
pub(crate) mod transaction;
pub(crate) mod user;

/// The name among `names` that is meant, in whatever case of letters.
fn one_of(names: &[&str], text: &str) -> Result<String, String> {
    let meant = names.iter().find(|name| name.eq_ignore_ascii_case(text));
    meant
        .map(|name| (*name).to_owned())
        .ok_or_else(|| format!("unknown state; use one of {}", names.join(", ")))
}
