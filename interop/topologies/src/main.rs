//! What riverrun's `describe()` says of topologies, for the runner to compare with Kafka Streams'.
//!
//! `topologies/` among the sources of `interop/streams` builds the same topologies under the same names. Each is
//! printed as a line `topology NAME`, and then its lines, with `|` in front. Of one that is refused the line is
//! `refused`.
#![expect(clippy::print_stdout, reason = "a command's result is what it prints")]
#![expect(
    clippy::print_stderr,
    reason = "why a topology is refused is in the log"
)]

mod aggregations;
mod inputs;
mod joins;
mod nodes;
mod streams;
mod word_count;

use riverrun_streams::dsl::{Optimization, StreamsBuilder, TopologyConfig};
use riverrun_streams::topology::{Topology, TopologyError};

/// Prints topologies as they are added.
struct Topologies;

impl Topologies {
    /// A topology of nodes.
    fn nodes(&self, name: &str, build: impl FnOnce(&mut Topology) -> Result<(), TopologyError>) {
        let mut topology = Topology::new();
        self.print(name, build(&mut topology).map(|()| topology));
    }

    /// A topology of streams and tables, without optimization.
    fn dsl(&self, name: &str, build: impl FnOnce(&StreamsBuilder)) {
        self.configured(name, &TopologyConfig::default(), build);
    }

    /// A topology of streams and tables, with all optimizations.
    fn optimized(&self, name: &str, build: impl FnOnce(&StreamsBuilder)) {
        let config = TopologyConfig {
            optimization: Optimization::ALL,
            ..TopologyConfig::default()
        };
        self.configured(name, &config, build);
    }

    /// A topology of streams and tables in which nothing internal may have a generated name.
    fn named(&self, name: &str, build: impl FnOnce(&StreamsBuilder)) {
        let config = TopologyConfig {
            ensure_explicit_internal_resource_naming: true,
            ..TopologyConfig::default()
        };
        self.configured(name, &config, build);
    }

    fn configured(&self, name: &str, config: &TopologyConfig, build: impl FnOnce(&StreamsBuilder)) {
        let builder = StreamsBuilder::new();
        build(&builder);
        self.print(name, builder.build_with(config));
    }

    fn print(&self, name: &str, topology: Result<Topology, TopologyError>) {
        println!("topology {name}");
        match topology {
            Ok(topology) => {
                for line in topology.describe().to_string().split('\n') {
                    println!("|{line}");
                }
            }
            Err(error) => {
                eprintln!("{name}: {error}");
                println!("refused");
            }
        }
    }
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("word-count") {
        return word_count::run(arguments);
    }
    let all = Topologies;
    nodes::add(&all);
    streams::add(&all);
    aggregations::add(&all);
    joins::add(&all);
    Ok(())
}
