//! One Rust file: its size, its opening comment, its names, what it may not name.

/// Most lines of a file, tests apart.
const FILE_LINES_MAX: usize = 800;
/// Suffixes that say nothing of what a type is.
const BANNED_SUFFIXES: &[&str] = &["Manager", "Helper", "Utils", "Impl", "Wrapper"];
/// What a crate without effects may not name, and why.
const IMPURE: &[(&str, &str)] = &[
    ("Instant::now", "take the time as an argument"),
    ("SystemTime::now", "take the time as an argument"),
    ("net::Tcp", "leave sockets to the broker and `connection`"),
    ("net::Udp", "leave sockets to the broker and `connection`"),
    ("thread::spawn", "leave threads to the shell"),
    ("thread::sleep", "leave waiting to the shell"),
    ("collections::HashMap", "its order is random; use BTreeMap"),
    ("collections::HashSet", "its order is random; use BTreeSet"),
];

/// Checks the file `name` with this text.
pub(super) fn check(name: &str, text: &str, findings: &mut Vec<String>) {
    let is_test = is_test_file(name);
    let code = without_test_module(text);
    let lines = code.lines().count();
    if !is_test && lines > FILE_LINES_MAX {
        findings.push(format!(
            "{name}: {lines} lines; split it, {FILE_LINES_MAX} are the most"
        ));
    }
    if !is_test && !text.starts_with("//!") {
        findings.push(format!("{name}: open with `//!` and say what the file is"));
    }
    check_names(name, code, findings);
    for (index, line) in text.lines().enumerate() {
        let at = index + 1;
        if !name.starts_with("xtask/src/tidy")
            && (has_word(line, "TODO") || has_word(line, "FIXME"))
        {
            findings.push(format!(
                "{name}:{at}: finish it, or name the issue that will"
            ));
        }
    }
}

/// Checks that a pure crate names no clock, socket, thread or randomly ordered map. A program of such a
/// crate is the shell around it.
pub(super) fn check_purity(name: &str, text: &str, pure: bool, findings: &mut Vec<String>) {
    let is_shell = name.ends_with("build.rs") || name.ends_with("/src/main.rs");
    if !pure || is_test_file(name) || is_shell {
        return;
    }
    for (index, line) in without_test_module(text).lines().enumerate() {
        for (banned, instead) in IMPURE {
            if line.contains(banned) && !line.trim_start().starts_with("//") {
                findings.push(format!("{name}:{}: `{banned}`: {instead}", index + 1));
            }
        }
    }
}

pub(super) fn is_test_file(name: &str) -> bool {
    name.ends_with("/tests.rs") || name.contains("/tests/") || name.ends_with("_tests.rs")
}

pub(super) fn without_test_module(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod ")
        .map_or(text, |at| &text[..at])
}

fn check_names(name: &str, code: &str, findings: &mut Vec<String>) {
    for (index, line) in code.lines().enumerate() {
        let line = line.trim_start();
        let declared = ["struct ", "enum ", "trait ", "type "]
            .iter()
            .find_map(|keyword| {
                let rest = line
                    .trim_start_matches("pub(crate) ")
                    .trim_start_matches("pub(super) ")
                    .trim_start_matches("pub ");
                rest.strip_prefix(keyword)
            });
        let Some(declared) = declared else { continue };
        let type_name: String = declared
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        for suffix in BANNED_SUFFIXES {
            if type_name.ends_with(suffix) {
                let at = index + 1;
                findings.push(format!(
                    "{name}:{at}: `{type_name}`: name it without `{suffix}`"
                ));
            }
        }
    }
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str, expect: &[&str]) {
        let mut findings = Vec::new();
        check("crates/x/src/a.rs", text, &mut findings);
        check_purity("crates/x/src/a.rs", text, true, &mut findings);
        let found: Vec<&str> = findings
            .iter()
            .filter_map(|f| f.split_once(": ").map(|(_, what)| what))
            .collect();
        assert_eq!(found.len(), expect.len(), "{findings:?}");
        for (found, expect) in found.iter().zip(expect) {
            assert!(found.contains(expect), "{found} / {expect}");
        }
    }

    #[test]
    fn each_rule_finds_its_fault() {
        check_text("//! Fine.\n\nstruct Segment;\n", &[]);
        check_text("struct Segment;\n", &["open with"]);
        check_text("//! A.\npub struct LogManager;\n", &["without `Manager`"]);
        check_text("//! A.\n// TODO later\n", &["finish it"]);
        check_text("//! A.\nlet now = Instant::now();\n", &["take the time"]);
        check_text(&format!("//! A.\n{}", "\n".repeat(900)), &["split it"]);
    }
}
