//! Counts the words of the topic `lines` into the topic `counts`:
//!
//!     cargo run --release -- server &
//!     riverrun topic create lines -p 2 && riverrun topic create counts -p 2
//!     cargo run --release -p riverrun-streams --example word_count -- localhost:9092
//!     echo 'to be or not to be' | riverrun produce lines
//!     riverrun consume counts --format '%k %v{i64}\n'
//!
//! A second argument is the state directory; give each instance on one machine its own. The program ends when its
//! standard input does.

#![allow(clippy::print_stdout, reason = "an example talks to who runs it")]

use riverrun_streams::dsl::{Materialized, StreamsBuilder};
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee, StreamsConfig};
use std::io::Read as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let servers = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "localhost:9092".to_owned());
    let builder = StreamsBuilder::new();
    builder
        // Lines may come without a key, so the key's type can be null.
        .stream::<Option<String>, String>("lines")
        .flat_map_values(|line| {
            line.split_whitespace()
                .map(str::to_lowercase)
                .collect::<Vec<_>>()
        })
        .group_by(|_, word| word.clone())
        .count_with(Materialized::named("word-counts"))
        .to_stream()
        .to("counts");
    let topology = builder.build()?;
    println!("{}", topology.describe());

    let mut config = StreamsConfig::new("word-count", &servers)?;
    config.processing_guarantee = ProcessingGuarantee::ExactlyOnceV2;
    // Each instance on one machine has a directory of its own.
    if let Some(state_dir) = std::env::args().nth(2) {
        config.state_dir = state_dir.into();
    }
    let streams = KafkaStreams::new(topology, config);
    streams.start()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    streams.close()?;
    Ok(())
}
