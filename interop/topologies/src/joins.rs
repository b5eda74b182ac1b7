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

fn add_streams(all: &Topologies) {
    all.dsl("join-streams", |builder| {
        let left = stream(builder, "left");
        let right = stream(builder, "right");
        left.join(&right, |value, _| value.clone(), windows())
            .to("out");
    });
    all.dsl("join-streams-left", |builder| {
        let left = stream(builder, "left");
        let right = stream(builder, "right");
        left.left_join(&right, |value, _| value.clone(), windows())
            .to("out");
    });
    all.dsl("join-streams-outer", |builder| {
        let left = keyed(builder, "left");
        let right = keyed(builder, "right");
        left.outer_join(&right, |_, _| String::new(), windows())
            .to("out");
    });
    all.dsl("join-streams-outer-sources-first", |builder| {
        let left = stream(builder, "left");
        let right = stream(builder, "right");
        let left = left.select_key(|_, value| value.clone());
        let right = right.select_key(|_, value| value.clone());
        left.outer_join(&right, |_, _| String::new(), windows())
            .to("out");
    });
    all.dsl("join-streams-named", |builder| {
        let left = keyed(builder, "left");
        let right = keyed(builder, "right");
        let joined = StreamJoined::named("n").with_store_name("s");
        left.join_with(&right, |value, _| value.clone(), windows(), joined)
            .to("out");
    });
    all.dsl("join-streams-outer-named", |builder| {
        let left = keyed(builder, "left");
        let right = keyed(builder, "right");
        let joined = StreamJoined::named("n").with_store_name("s");
        left.outer_join_with(&right, |_, _| String::new(), windows(), joined)
            .to("out");
    });
    all.dsl("join-stream-with-itself", |builder| {
        let left = stream(builder, "left");
        left.join(&left, |value, _| value.clone(), windows())
            .to("out");
    });
}

fn add_optimized(all: &Topologies) {
    all.optimized("optimized-join-streams-and-count", |builder| {
        let left = stream(builder, "left").map(|key, value| (key.clone(), value.clone()));
        let right = stream(builder, "right");
        left.join(&right, |value, _| value.clone(), windows())
            .to("out");
        left.group_by_key().count();
    });
}
