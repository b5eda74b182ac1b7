//! What may stand between a typed store and its rows; see `byte_store`.

mod adapter;
mod cache;
mod cache_budget;
mod cache_entries;
mod changelog;
mod metered;

pub(crate) use adapter::Adapted;
pub(crate) use cache::Cached;
pub use cache_budget::CacheBudget;
pub(crate) use cache_entries::SegmentOrder;
pub(crate) use changelog::{Changelog, Changelogged, Logged};
pub(crate) use metered::{Metered, Operation, StoreMeter, Timed};
