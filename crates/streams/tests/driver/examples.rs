//! The examples of the operators give what they say.

#[path = "../../examples/operators/all/mod.rs"]
pub(crate) mod all;

use riverrun_streams::dsl::StreamsBuilder;
use riverrun_streams::test_driver::TopologyTestDriver;

#[test]
fn every_example_gives_what_it_says() {
    for example in all::examples() {
        let operator = example.operator;
        let builder = StreamsBuilder::new();
        (example.build)(&builder);
        let ran = || {
            let driver = TopologyTestDriver::new(&builder.build()?)?;
            let steps = example.ran.iter();
            let steps: Result<Vec<String>, _> =
                steps.map(|line| all::script::step(&driver, line)).collect();
            Ok::<_, Box<dyn std::error::Error>>(steps?)
        };
        let ran = ran().unwrap_or_else(|error| panic!("{operator}: {error}"));
        assert_eq!(ran, example.ran, "{operator}");
    }
}

/// A crate of its own that depends on this one alone, as the guide says, compiles what the guide shows.
#[test]
fn the_guide_needs_no_other_crate() {
    let guide = include_str!("../../../../docs/streams.md");
    let imports = guide.lines().filter_map(|line| line.strip_prefix("use "));
    let others: Vec<&str> = imports
        .filter(|import| {
            !["riverrun_streams::", "std::"]
                .iter()
                .any(|own| import.starts_with(own))
        })
        .collect();
    assert_eq!(others, [""; 0]);
}
