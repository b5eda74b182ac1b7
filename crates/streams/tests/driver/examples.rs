//! The examples of the operators give what they say.

#[path = "../../examples/operators/all/mod.rs"]
pub(crate) mod all;

use riverrun_streams::dsl::StreamsBuilder;
use riverrun_streams::test_driver::TopologyTestDriver;
use std::collections::BTreeSet;
use std::path::Path;

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

/// The types whose methods are operators.
const OF_OPERATORS: [&str; 11] = [
    "StreamsBuilder",
    "KStream",
    "BranchedKStream",
    "KGroupedStream",
    "TimeWindowedKStream",
    "SessionWindowedKStream",
    "CogroupedKStream",
    "TimeWindowedCogroupedKStream",
    "SessionWindowedCogroupedKStream",
    "KTable",
    "KGroupedTable",
];
/// The types of what operators are told.
const OF_SETTINGS: [&str; 19] = [
    "Consumed",
    "Produced",
    "Repartitioned",
    "Grouped",
    "Materialized",
    "Joined",
    "StreamJoined",
    "TableJoined",
    "Named",
    "Branched",
    "Printed",
    "JoinWindows",
    "TimeWindows",
    "SlidingWindows",
    "SessionWindows",
    "UnlimitedWindows",
    "EmitStrategy",
    "Suppressed",
    "BufferConfig",
];
/// Their methods that are none: the examples' own frame, and what tells of a table or of windows.
const NO_OPERATORS: [&str; 8] = [
    "new",
    "build",
    "build_with",
    "queryable_store_name",
    "size_ms",
    "grace_ms",
    "starts",
    "is_closed",
];

#[test]
fn every_operator_has_an_example() -> std::io::Result<()> {
    let of_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    let examples = source(&of_crate.join("examples/operators/all"))?;
    let library = source(&of_crate.join("src/dsl"))? + &source(&of_crate.join("src/topology"))?;
    let mut operators = BTreeSet::new();
    let mut of_type = "";
    for line in library.lines() {
        if line.starts_with("impl") {
            let words = line.split(|letter: char| !letter.is_alphanumeric());
            let known = |word: &&str| OF_OPERATORS.contains(word) || OF_SETTINGS.contains(word);
            let is_of_trait = line.contains(" for ");
            of_type = words.into_iter().find(known).unwrap_or_default();
            if is_of_trait {
                of_type = "";
            }
        }
        let method = line
            .trim_start()
            .strip_prefix("pub ")
            .map(|line| line.trim_start_matches("const "));
        let name = method.and_then(|method| method.strip_prefix("fn "));
        let name = name.and_then(|name| name.split(['(', '<']).next());
        if let Some(name) = name.filter(|name| !of_type.is_empty() && !NO_OPERATORS.contains(name))
        {
            operators.insert((of_type, name));
        }
    }
    let is_shown = |(of_type, name): &(&str, &str)| {
        let calls = [
            format!(".{name}("),
            format!(".{name}::<"),
            format!("{of_type}::{name}("),
        ];
        calls.iter().any(|call| examples.contains(call))
    };
    let (shown, missing): (Vec<_>, Vec<_>) = operators.into_iter().partition(is_shown);
    assert_eq!(missing, [("", ""); 0], "have no example");
    for known in [
        ("KGroupedStream", "count"),
        ("KStream", "join_table"),
        ("TableJoined", "with"),
    ] {
        assert!(shown.contains(&known), "{known:?} among {shown:?}");
    }
    Ok(())
}

/// The text of all files in a directory and in those below it.
fn source(directory: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        text += &match path.is_dir() {
            true => source(&path)?,
            false => std::fs::read_to_string(&path)?,
        };
    }
    Ok(text)
}

/// A crate of its own that depends on this one alone, as the guide says, compiles what the guide shows.
#[test]
fn the_guide_needs_no_other_crate() {
    let guide = include_str!("../../../../docs/streams.md");
    let reference = include_str!("../../../../docs/streams-reference.md");
    let lines = guide.lines().chain(reference.lines());
    let imports = lines.filter_map(|line| line.strip_prefix("use "));
    let others: Vec<&str> = imports
        .filter(|import| {
            !["riverrun_streams::", "std::"]
                .iter()
                .any(|own| import.starts_with(own))
        })
        .collect();
    assert_eq!(others, [""; 0]);
}
