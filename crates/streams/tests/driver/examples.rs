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
/// Their methods that are none: the examples' own frame, and what tells of a table.
const NO_OPERATORS: [&str; 4] = ["new", "build", "build_with", "queryable_store_name"];

#[test]
fn every_operator_has_an_example() -> std::io::Result<()> {
    let of_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    let examples = source(&of_crate.join("examples/operators/all"))?;
    let library = source(&of_crate.join("src/dsl"))?;
    let mut operators = BTreeSet::new();
    let mut is_of_operators = false;
    for line in library.lines() {
        if line.starts_with("impl") {
            let words: Vec<&str> = line
                .split(|letter: char| !letter.is_alphanumeric())
                .collect();
            let is_of_trait = line.contains(" for ");
            is_of_operators = !is_of_trait && words.iter().any(|word| OF_OPERATORS.contains(word));
        }
        let method = line
            .trim_start()
            .strip_prefix("pub ")
            .map(|line| line.trim_start_matches("const "));
        let name = method.and_then(|method| method.strip_prefix("fn "));
        let name = name.and_then(|name| name.split(['(', '<']).next());
        if let Some(name) = name.filter(|name| is_of_operators && !NO_OPERATORS.contains(name)) {
            operators.insert(name);
        }
    }
    let calls = |name: &str| ["(", "::<"].map(|after| format!(".{name}{after}"));
    let is_shown = |name: &&str| calls(name).iter().any(|call| examples.contains(call));
    let (shown, missing): (Vec<&str>, Vec<&str>) = operators.into_iter().partition(is_shown);
    assert_eq!(missing, [""; 0], "have no example");
    assert!(
        shown.contains(&"count") && shown.contains(&"join_table"),
        "{shown:?}"
    );
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
