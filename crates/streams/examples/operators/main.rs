//! An example of each operator, which runs without a broker:
//!
//!     cargo run -p riverrun-streams --example operators              names them
//!     cargo run -p riverrun-streams --example operators -- window    runs those with `window` in their names
//!
//! An example writes records to its input topics and shows what comes to the topic `out`: `in a 1 10 -> a=2@10` says
//! that the record of key `a`, value `1` and time 10 in the topic `in` gives the value `2` at the time 10.

#![allow(clippy::print_stdout, reason = "an example talks to who runs it")]

mod all;

use riverrun_streams::dsl::StreamsBuilder;
use riverrun_streams::test_driver::TopologyTestDriver;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = std::env::args().nth(1);
    for example in all::examples() {
        let Some(wanted) = &wanted else {
            println!("{}", example.operator);
            continue;
        };
        if !example.operator.contains(wanted) {
            continue;
        }
        let builder = StreamsBuilder::new();
        (example.build)(&builder);
        let topology = builder.build()?;
        println!("=== {}\n{}", example.operator, topology.describe());
        let driver = TopologyTestDriver::new(&topology)?;
        for line in example.ran {
            println!("{}", all::script::step(&driver, line)?);
        }
    }
    Ok(())
}
