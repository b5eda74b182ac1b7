//! Topologies of joins.

use crate::Topologies;
use crate::streams::{Stream, stream};
use riverrun_streams::dsl::{JoinWindows, StreamJoined, StreamsBuilder};

const MINUTE_MS: i64 = 60_000;

pub(crate) fn add(all: &Topologies) {
    add_streams(all);
    add_optimized(all);
}

fn keyed(builder: &StreamsBuilder, topic: &str) -> Stream {
    stream(builder, topic).select_key(|_, value| value.clone())
}

fn windows() -> JoinWindows {
    JoinWindows::of_time_difference_with_no_grace(MINUTE_MS)
}

fn first(value: &String, _: &String) -> String {
    value.clone()
}

fn add_streams(all: &Topologies) {
    all.dsl("join-streams", |builder| {
        let left = stream(builder, "left");
        left.join(&stream(builder, "right"), first, windows())
            .to("out");
    });
}

fn add_optimized(all: &Topologies) {
    all.optimized("optimized-join-streams-and-count", |builder| {
        let left = stream(builder, "left").map(|key, value| (key.clone(), value.clone()));
        left.join(&stream(builder, "right"), first, windows())
            .to("out");
        left.group_by_key().count();
    });
}
