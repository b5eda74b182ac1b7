//! The keys of a client metrics subscription.

use crate::definition::{ANY, ConfigDefinition, int, list};
use crate::table::{ConfigTable, sorted};

/// Every key of a client metrics subscription.
pub static CLIENT_METRICS: ConfigTable = ConfigTable::new(|| sorted(&[CLIENT_METRICS_DEFINITIONS]));

#[rustfmt::skip]
const CLIENT_METRICS_DEFINITIONS: &[ConfigDefinition] = &[
    int("interval.ms").default("300000").medium().cluster_wide()
        .doc("Milliseconds between two pushes of a subscribed client, from 100 to 3600000."),
    list("match").default("").list_of(ANY).medium().cluster_wide()
        .doc("Which clients the subscription is for, as `attribute=pattern` pairs separated by \
              commas; empty means all clients."),
    list("metrics").default("").list_of(ANY).medium().cluster_wide()
        .doc("Prefixes of the metric names that are pushed, separated by commas; `*` means all \
              and empty means none."),
];
