//! Functions of an application that choose the partitions of what it writes.

use crate::harness::Error;
use crate::world::{World, until};
use riverrun_client::admin::NewTopic;
use riverrun_streams::dsl::StreamsBuilder;
use riverrun_streams::topology::{Produced, StreamPartitioner};
use std::sync::Arc;

/// The topic is none of the application's own, and may be made after it has started.
#[test]
fn partitions_are_chosen_among_all_of_the_topic() -> Result<(), Error> {
    let world = World::start(1)?;
    let partitioner: StreamPartitioner<String, String> =
        Arc::new(|_, _, word, count| Some(vec![word.len() as i32 % count]));
    let builder = StreamsBuilder::new();
    builder.stream::<String, String>("words").to_with(
        "out",
        Produced::default().with_stream_partitioner(partitioner),
    );
    let state = trials::directory();
    let streams = world.start_streams(builder.build()?, world.config(state.path())?)?;
    world.create(NewTopic::new("out").partitions(3))?;
    for word in ["a", "be", "two", "four", "seven"] {
        world.write("words", 0, "key", word.as_bytes())?;
    }
    let ends = || {
        let ends = (0..3).map(|partition| world.end("out", partition));
        ends.collect::<Result<Vec<i64>, Error>>()
    };
    until("all are written", || Ok(ends()?.iter().sum::<i64>() == 5))?;
    assert_eq!(ends()?, [1, 2, 2]);
    streams.close()?;
    Ok(())
}
