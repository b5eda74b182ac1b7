//! Streams and tables that topologies begin with.

use riverrun_streams::dsl::{KStream, KTable, StreamsBuilder};

pub(crate) type Table = KTable<String, String>;

pub(crate) type Stream = KStream<String, String>;

pub(crate) fn stream(builder: &StreamsBuilder, topic: &str) -> Stream {
    builder.stream(topic)
}

pub(crate) fn table(builder: &StreamsBuilder, topic: &str) -> Table {
    builder.table(topic)
}
