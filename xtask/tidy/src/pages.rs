//! Pages about the source: each file and folder that one names in backticks is there, and lines can be read in a
//! terminal.
//!
//! A page may name a file from the root or from any folder on, without `crates` and `src`, and without its extension:
//! `crates/broker/src/net/listener.rs`, `broker/net/listener` and `net/listener` are the same one.

use super::source::Source;
use std::path::{Path, PathBuf};

/// Extensions by which one word is the name of a file.
const EXTENSIONS: [&str; 4] = ["md", "rs", "toml", "txt"];

/// How many letters a line has at most, but for tables, pictures and code.
const WIDTH: usize = 150;

/// A page below the workspace, and its text.
pub(super) type Page = (String, String);

/// The pages that are checked.
pub(super) fn read(root: &Path, files: &[PathBuf]) -> std::io::Result<Vec<Page>> {
    let names = files.iter().filter_map(|file| below(root, file));
    let pages = names.filter(|name| {
        let is_page = name.ends_with(".md");
        is_page && (!name.contains('/') || name.starts_with("docs/"))
    });
    let pages = pages.map(|name| Ok((name.clone(), std::fs::read_to_string(root.join(name))?)));
    pages.collect()
}

/// A path below the workspace, as pages write it.
pub(super) fn below(root: &Path, file: &Path) -> Option<String> {
    Some(file.strip_prefix(root).ok()?.to_str()?.to_owned())
}

/// Reports names of files that are not there, and lines that are too long.
pub(super) fn check(pages: &[Page], files: &[String], code: &[Source], findings: &mut Vec<String>) {
    for (page, text) in pages {
        check_width(page, text, findings);
    }
    let files: Vec<Vec<&str>> = files.iter().map(|file| parts(file)).collect();
    for (page, text) in pages {
        for (index, line) in text.lines().enumerate() {
            let spans = line.split('`').skip(1).step_by(2);
            for span in spans.filter(|span| is_path(span)) {
                let named = parts(span);
                if !files.iter().any(|file| holds(file, &named)) && !is_suite(&named, code) {
                    findings.push(format!(
                        "{page}:{}: `{span}` is no file and no folder; name the one that is meant",
                        index + 1
                    ));
                }
            }
        }
    }
}

fn check_width(page: &str, text: &str, findings: &mut Vec<String>) {
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        if !is_code && !line.starts_with(['|', '!']) && line.chars().count() > WIDTH {
            findings.push(format!(
                "{page}:{}: over {WIDTH} letters; wrap the line",
                index + 1
            ));
        }
    }
}

fn is_path(span: &str) -> bool {
    let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "_-./".contains(sign);
    let is_number = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
    let has_extension = span
        .rsplit_once('.')
        .is_some_and(|(_, extension)| EXTENSIONS.contains(&extension));
    let path = span.strip_suffix('/').unwrap_or(span);
    // What begins so is in the reader's own directory.
    !span.starts_with("./")
        && span.chars().all(is_sign)
        && (span.contains('/') || has_extension)
        && path.split('/').all(|part| !part.is_empty())
        && !path.split('/').any(is_number)
}

fn parts(path: &str) -> Vec<&str> {
    let parts = path.split('/');
    parts
        .filter(|part| !matches!(*part, "" | "crates" | "src"))
        .collect()
}

/// Whether the parts of a file's path have those that are named, one after another.
fn holds(file: &[&str], named: &[&str]) -> bool {
    let Some((last, before)) = named.split_last() else {
        return true;
    };
    file.windows(named.len()).any(|window| {
        let (end, begin) = window.split_last().expect("as long as what is named");
        let stem = end.rsplit_once('.').map_or(*end, |(stem, _)| stem);
        begin == before && (end == last || stem == *last)
    })
}

/// Whether this is the name of a suite, which the code has as a text.
fn is_suite(named: &[&str], code: &[Source]) -> bool {
    let [_, suite] = named else {
        return false;
    };
    let text = format!("name: \"{suite}\"");
    code.iter().any(|source| source.text.contains(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped() {
        let long = "letters ".repeat(20);
        let count = |text: String| {
            let mut findings = Vec::new();
            check_width("a page", &text, &mut findings);
            findings.len()
        };
        assert_eq!(count(format!("{long}\n- {long}\n")), 2);
        assert_eq!(count("é".repeat(WIDTH)), 0);
        assert_eq!(count(format!("| {long} |\n```\n{long}\n```\n")), 0);
        assert_eq!(count(format!("```\n{long}\n```\n{long}\n")), 1);
    }

    #[test]
    fn what_a_page_names_is_there() {
        let files = [
            "crates/broker/src/net/listener.rs",
            "crates/broker/src/api/mod.rs",
            "docs/cluster.md",
            "interop/crash/src/main.rs",
        ];
        let files = files.map(str::to_owned);
        let suites = "//! Suites.\nconst KGO: Suite = Suite { name: \"kgo\" };\n";
        let code = [Source::of("interop/runner/src/suite.rs", suites)];
        let count = |text: &str| {
            let page = ("ARCHITECTURE.md".to_owned(), format!("A page\n{text}\n"));
            let mut findings = Vec::new();
            check(&[page], &files, &code, &mut findings);
            findings.len()
        };
        for there in [
            "`net/listener` accepts, `api/mod` serves",
            "`crates/broker/src/net/listener.rs`",
            "`broker/net`, `crates/broker/src/` and `crates/`",
            "`listener.rs`, `docs/cluster.md`, `interop/crash/`",
            "`cluster/kgo` is a suite, `1/32` a shard",
            "`api/<name>.rs`, `./data`, `a / b`, `log.dirs`, `Served::SERVED`, `/etc`",
            "net/gone is no name of a file",
        ] {
            assert_eq!(count(there), 0, "{there}");
        }
        for gone in [
            "`net/gone`",
            "`net/listener.md`",
            "`runtime/listener`",
            "`net/listener/mod`",
            "`gone.rs`",
            "`docs/gone.md`",
            "`gone/`",
            "`cluster/gone`",
        ] {
            assert_eq!(count(&format!("As {gone} does")), 1, "{gone}");
        }
    }
}
