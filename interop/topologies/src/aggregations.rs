//! Topologies of tables and aggregations.

use crate::Topologies;
use crate::streams::stream;
use riverrun_streams::dsl::{Grouped, StreamsBuilder};

pub(crate) fn add(all: &Topologies) {
    all.dsl("two-aggregations", two_aggregations);
    all.dsl("two-aggregations-named", |builder| {
        let grouped = stream(builder, "in")
            .select_key(|_, value| value.clone())
            .group_by_key_with(Grouped::named("g"));
        grouped.count();
        grouped.reduce(|value, _| value.clone());
    });
    all.named("count-generated-refused", |builder| {
        stream(builder, "in").group_by_key().count();
    });
    add_optimized(all);
}

fn two_aggregations(builder: &StreamsBuilder) {
    let stream = stream(builder, "in").select_key(|_, value| value.clone());
    stream.group_by_key().count();
    stream.group_by_key().reduce(|value, _| value.clone());
}

fn add_optimized(all: &Topologies) {
    all.optimized("optimized-two-aggregations", two_aggregations);
    all.optimized("optimized-aggregations-below-values", |builder| {
        let stream = stream(builder, "in").select_key(|_, value| value.clone());
        stream.map_values(Clone::clone).group_by_key().count();
        stream
            .filter(|_, _| true)
            .group_by_key_with(Grouped::named("g"))
            .count();
        stream.to("three");
    });
    all.optimized("optimized-aggregations-below-merge", |builder| {
        let keyed = stream(builder, "in").select_key(|_, value| value.clone());
        let other = stream(builder, "other").map(|key, value| (key.clone(), value.clone()));
        let merged = keyed.merge(&other);
        merged.group_by_key().count();
        merged.group_by_key().reduce(|value, _| value.clone());
    });
    all.optimized("optimized-aggregations-of-two-keys", |builder| {
        let stream = stream(builder, "in").select_key(|_, value| value.clone());
        stream.group_by_key().count();
        let again = stream.select_key(|_, value| value.clone());
        again.group_by_key().count();
        again
            .map_values(Clone::clone)
            .group_by_key()
            .reduce(|value, _| value.clone());
        stream.group_by_key().count();
    });
}
