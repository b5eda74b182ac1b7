//! Random tests: each takes its seeds from `trials`, so that `cargo xtask hunt` reaches it, and each
//! `fuzz_` function is a target of `cargo xtask fuzz`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::source::{is_test_file, without_test_module};

/// What only a generator of random numbers names.
const GENERATORS: &[&str] = &["6_364_136_223_846_793_005", "0x9e37_79b9_7f4a_7c15"];
/// What draws random numbers from a seed.
const DRAWS: &[&str] = &["Random::new(", "Choices::new(", "Crash::Random("];
/// Where a property test says how many cases it tries, in the lines after it begins.
const CONFIGURATION: &str = "#![proptest_config(trials::property(";
const CONFIGURATION_LINES: usize = 4;

/// Checks the tests of the file `name` with this text.
pub(super) fn check(name: &str, text: &str, findings: &mut Vec<String>) {
    let is_own = name.starts_with("xtask/src/tidy") || name.starts_with("crates/trials/");
    if is_own {
        return;
    }
    let tests = match is_test_file(name) {
        true => text,
        false => &text[without_test_module(text).len()..],
    };
    let asks = tests.contains("trials::");
    let first_line = text[..text.len() - tests.len()].lines().count();
    let lines: Vec<&str> = tests.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let at = first_line + index + 1;
        let begins = line.trim_start();
        if begins.starts_with("proptest! {") || begins.starts_with("proptest::proptest! {") {
            let mut head = lines[index..].iter().take(CONFIGURATION_LINES);
            if !head.any(|line| line.trim_start().starts_with(CONFIGURATION)) {
                findings.push(format!(
                    "{name}:{at}: begin it with `{CONFIGURATION}CASES))]`"
                ));
            }
        }
        if GENERATORS.iter().any(|constant| line.contains(constant)) {
            findings.push(format!(
                "{name}:{at}: draw from `interpreter::Random`, with a seed from `trials`"
            ));
        }
        if !asks && DRAWS.iter().any(|draw| line.contains(draw)) {
            findings.push(format!("{name}:{at}: take the seed from `trials`"));
        }
    }
}

/// Checks that the program of `fuzz/` has a target for each function that takes bytes to be parsed.
pub(super) fn check_targets(
    files: &BTreeMap<PathBuf, String>,
    program: &str,
    findings: &mut Vec<String>,
) {
    let mut functions: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for (path, text) in files {
        for line in text.lines() {
            let Some(rest) = line.trim_start().strip_prefix("pub fn fuzz_") else {
                continue;
            };
            let name = rest.split(['(', '<']).next().unwrap_or(rest);
            functions.entry(name).or_default().push(path);
        }
    }
    for (name, paths) in functions {
        let is_named = |line: &&str| {
            line.split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word.strip_prefix("fuzz_") == Some(name))
        };
        let targets = program.lines().filter(is_named).count();
        if targets < paths.len() {
            findings.push(format!(
                "{}: make `fuzz_{name}` a target of fuzz/src/main.rs",
                paths[targets].display()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(name: &str, text: &str, expect: &[&str]) {
        let mut findings = Vec::new();
        check(name, text, &mut findings);
        assert_eq!(findings.len(), expect.len(), "{findings:?}");
        for (found, expect) in findings.iter().zip(expect) {
            assert!(found.contains(expect), "{found} / {expect}");
        }
    }

    #[test]
    fn seeds_of_tests_come_from_one_place() {
        let (code, test) = ("crates/x/src/a.rs", "crates/x/tests/a.rs");
        let draws = "let mut random = Random::new(7);\n";
        check_text(code, draws, &[]);
        check_text(test, draws, &[":1: take the seed"]);
        let in_module = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{draws}}}\n");
        check_text(code, &in_module, &[":4: take the seed"]);
        check_text(test, "Random::new(trials::seed(7));\n", &[]);
        let generator = "let next = state.wrapping_mul(6_364_136_223_846_793_005);\n";
        check_text(test, generator, &["interpreter::Random"]);
        check_text(test, "proptest! {\n    #[test]\n", &["begin it with"]);
        let property = "proptest! {\n    #![proptest_config(trials::property(7))]\n";
        check_text(test, property, &[]);
    }

    #[test]
    fn a_parser_that_no_fuzzer_runs_is_named() {
        let file = |name: &str| {
            let text = "/// Bytes.\npub fn fuzz_batch(bytes: &[u8]) {}\n".to_owned();
            (PathBuf::from(name), text)
        };
        let files = BTreeMap::from([file("a.rs"), file("b.rs")]);
        let findings = |program: &str| {
            let mut findings = Vec::new();
            check_targets(&files, program, &mut findings);
            findings
        };
        let both = "(\"a\", a::fuzz_batch),\n(\"b\", b::fuzz_batch),\n";
        assert_eq!(findings(both), [""; 0]);
        assert_eq!(findings("(\"a\", a::fuzz_batch),\n").len(), 1);
        assert_eq!(findings("(\"a\", a::fuzz_batches),\n").len(), 1);
    }
}
