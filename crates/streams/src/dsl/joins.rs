//! Joins with tables: of two tables by their keys or by a foreign key, of a stream with a table, of a stream with a
//! global table.

mod foreign_key;
mod joined;
mod lookup;
mod stream_global;
mod stream_table;
mod table_table;

use super::{Builder, Written};
use crate::topology::TopologyError;
pub use foreign_key::TableJoined;
pub use joined::Joined;
use std::sync::Arc;

/// Both sides of `operator` must come from one builder.
fn same_builder(left: &Builder, right: &Builder, operator: &str) {
    if !left.is(right) {
        left.check::<()>(Err(TopologyError::OtherBuilder {
            operator: operator.to_owned(),
        }));
    }
}

/// The nodes that a join stands below, left and right: a table that is joined with itself is both.
fn both_parents<'a>(written: &Written<'a>) -> (&'a Arc<str>, &'a Arc<str>) {
    match written.parents {
        [both] => (both, both),
        [left, right] => (left, right),
        other => unreachable!("a join has one parent or two, not {}", other.len()),
    }
}
