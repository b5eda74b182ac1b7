//! Random tests: each takes its seeds from `trials`, so that `cargo xtask hunt` reaches it, and each
//! `fuzz_` function is a target of `cargo xtask fuzz`.

use std::collections::BTreeMap;

use super::source::{Source, words};

/// What only a generator of random numbers names.
const GENERATORS: &[&str] = &["6_364_136_223_846_793_005", "0x9e37_79b9_7f4a_7c15"];
/// What draws random numbers from a seed.
const DRAWS: &[&str] = &["Random::new(", "Choices::new(", "Crash::Random("];
/// Where a property test says how many cases it tries, in the lines after it begins.
const CONFIGURATION: &str = "#![proptest_config(trials::property(";
const CONFIGURATION_LINES: usize = 4;

/// Checks the tests in a file.
pub(super) fn check(source: &Source, findings: &mut Vec<String>) {
    let name = &source.name;
    if name.starts_with("xtask/tidy/src") || name.starts_with("crates/trials/") {
        return;
    }
    let asks = source.tests.contains("trials::");
    let lines: Vec<&str> = source.tests.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let at = index + 1;
        let begins = line.trim_start();
        if begins.starts_with("proptest! {") || begins.starts_with("proptest::proptest! {") {
            let mut head = lines[index..].iter().take(CONFIGURATION_LINES);
            if !head.any(|line| line.trim_start().starts_with(CONFIGURATION)) {
                findings.push(format!(
                    "{name}:{at}: begin it with `{CONFIGURATION}CASES))]`"
                ));
            }
        }
        if words(line).iter().any(|word| GENERATORS.contains(word)) {
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
pub(super) fn check_targets(sources: &[Source], findings: &mut Vec<String>) {
    let (program, sources): (Vec<_>, Vec<_>) = sources
        .iter()
        .partition(|one| one.name == "fuzz/src/main.rs");
    let mut functions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Source {
        name: file, text, ..
    } in sources
    {
        for line in text.lines() {
            let Some(rest) = line.trim_start().strip_prefix("pub fn fuzz_") else {
                continue;
            };
            let name = rest.split(['(', '<']).next().unwrap_or(rest);
            functions.entry(name).or_default().push(file);
        }
    }
    for (name, paths) in functions {
        let target = format!("fuzz_{name}");
        let targets = program.iter().flat_map(|program| program.tokens());
        let targets = targets.filter(|(_, word)| *word == target).count();
        if targets < paths.len() {
            findings.push(format!(
                "{}: make `fuzz_{name}` a target of fuzz/src/main.rs",
                paths[targets]
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(name: &str, text: &str, expect: &[&str]) {
        let mut findings = Vec::new();
        check(&Source::of(name, text), &mut findings);
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
        let parser = "/// Bytes.\npub fn fuzz_batch(bytes: &[u8]) {}\n";
        let findings = |program: &str| {
            let files = [
                ("a.rs", parser),
                ("b.rs", parser),
                ("fuzz/src/main.rs", program),
            ];
            let mut findings = Vec::new();
            check_targets(
                &files.map(|(name, text)| Source::of(name, text)),
                &mut findings,
            );
            findings
        };
        let both = "(\"a\", a::fuzz_batch),\n(\"b\", b::fuzz_batch),\n";
        assert_eq!(findings(both), [""; 0]);
        assert_eq!(findings("(\"a\", a::fuzz_batch),\n").len(), 1);
        assert_eq!(findings("(\"a\", a::fuzz_batches),\n").len(), 1);
    }
}
