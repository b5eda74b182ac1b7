//! One Rust file: its size, its opening comment, the width of its comments, its names, unfinished work.

use super::source::{Source, words};

/// Most lines of a file.
const FILE_LINES_MAX: usize = 800;
/// Most characters of a line of comment.
const COMMENT_COLUMNS_MAX: usize = 120;
/// Suffixes that say nothing of what a type is.
const BANNED_SUFFIXES: &[&str] = &["Manager", "Helper", "Utils", "Impl", "Wrapper"];

pub(super) fn check(source: &Source, findings: &mut Vec<String>) {
    let name = &source.name;
    let line_count = source.text.lines().count();
    if line_count > FILE_LINES_MAX {
        findings.push(format!(
            "{name}: {line_count} lines; split it, {FILE_LINES_MAX} are the most"
        ));
    }
    if !source.is_test && !source.text.starts_with("//!") {
        findings.push(format!("{name}: open with `//!` and say what the file is"));
    }
    check_names(source, findings);
    let is_own = name.starts_with("xtask/tidy/src");
    for (index, line) in source.text.lines().enumerate() {
        let at = index + 1;
        let unfinished = words(line)
            .iter()
            .any(|word| matches!(*word, "TODO" | "FIXME"));
        if unfinished && !is_own {
            findings.push(format!(
                "{name}:{at}: finish it, or name the issue that will"
            ));
        }
        if line.trim_start().starts_with("//") && line.chars().count() > COMMENT_COLUMNS_MAX {
            findings.push(format!(
                "{name}:{at}: wrap the comment at {COMMENT_COLUMNS_MAX} columns"
            ));
        }
    }
}

fn check_names(source: &Source, findings: &mut Vec<String>) {
    for pair in source.tokens().windows(2) {
        let ((_, keyword), (at, type_name)) = (pair[0], pair[1]);
        let declares = matches!(keyword, "struct" | "enum" | "trait" | "type");
        let suffix = BANNED_SUFFIXES
            .iter()
            .find(|suffix| type_name.ends_with(**suffix));
        if let Some(suffix) = suffix.filter(|_| declares) {
            findings.push(format!(
                "{}:{at}: `{type_name}`: name it without `{suffix}`",
                source.name
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_finds_its_fault() {
        let check_text = |text: &str, expect: &[&str]| {
            let mut findings = Vec::new();
            check(&Source::of("crates/x/src/a.rs", text), &mut findings);
            assert_eq!(findings.len(), expect.len(), "{findings:?}");
            for (found, expect) in findings.iter().zip(expect) {
                assert!(found.contains(expect), "{found} / {expect}");
            }
        };
        check_text("//! Fine.\n\nstruct Segment;\n", &[]);
        check_text("struct Segment;\n", &["open with"]);
        check_text("//! A.\npub struct LogManager;\n", &["without `Manager`"]);
        check_text("//! A.\n// TODO later\n", &["finish it"]);
        check_text(&format!("//! A.\n    // {}\n", "a".repeat(114)), &["wrap"]);
        let most = "\n".repeat(FILE_LINES_MAX - 1);
        check_text(&format!("//! A.\n{most}"), &[]);
        let long = "\n".repeat(FILE_LINES_MAX);
        check_text(&format!("//! A.\n{long}"), &["split it"]);
        let within = format!("//! A.\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        check_text(&within, &["split it"]);
    }
}
