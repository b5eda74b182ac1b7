//! The public signatures of published crates: they name no crate of the workspace, but for what the
//! crate re-exports as its own.
//!
//! ```text
//!   use model::{ErrorCode, Reader};      imported        pub use model::ErrorCode;      re-exported
//!   pub fn code(&self) -> ErrorCode      allowed
//!   pub fn reader(&self) -> Reader<'_>   reported
//! ```
//!
//! What is `pub` is reachable: the lint `unreachable_pub` sees to that.

use std::collections::BTreeSet;

use super::source::{Source, words};

/// Folders of the crates that people depend on.
const PUBLISHED: &[&str] = &["crates/client", "crates/embedded"];

/// Checks each published crate; `crates` are the names of the workspace's own.
pub(super) fn check(crates: &BTreeSet<String>, sources: &[Source], findings: &mut Vec<String>) {
    for folder in PUBLISHED {
        let folder = format!("{folder}/src/");
        let own = sources
            .iter()
            .filter(|one| !one.is_test && one.name.starts_with(&folder));
        check_crate(crates, &own.collect::<Vec<_>>(), findings);
    }
}

fn check_crate(crates: &BTreeSet<String>, sources: &[&Source], findings: &mut Vec<String>) {
    let codes: Vec<(&String, String)> = sources
        .iter()
        .map(|source| (&source.name, without_attributes(&source.code)))
        .collect();
    let mut exported = BTreeSet::new();
    for (_, code) in &codes {
        for (visibility, path) in uses(code) {
            if visibility == "pub" && is_of(crates, &path) {
                exported.insert(last(&path).to_owned());
            }
        }
    }
    for (name, code) in &codes {
        let internal: BTreeSet<String> = uses(code)
            .into_iter()
            .filter(|(_, path)| is_of(crates, path))
            .map(|(_, path)| last(&path).to_owned())
            .filter(|name| !exported.contains(name))
            .collect();
        for signature in signatures(code) {
            let words = words(&signature);
            // `config::` of the client is a module of its own, after `crate::` or `self::`.
            let paths = words.windows(2).filter(|pair| pair[1] == "::");
            let paths = paths
                .map(|pair| pair[0])
                .filter(|word| crates.contains(*word));
            let is_own = signature.contains("crate::") || signature.contains("super::");
            let paths = paths.filter(|_| !is_own);
            let named = words
                .iter()
                .copied()
                .filter(|word| internal.contains(*word));
            if let Some(word) = named.chain(paths).next() {
                let line = signature.split_whitespace().collect::<Vec<_>>().join(" ");
                findings.push(format!(
                    "{name}: `{line}`: `{word}` is internal: re-export it as the crate's own, or keep it out"
                ));
            }
        }
    }
}

fn is_of(crates: &BTreeSet<String>, path: &str) -> bool {
    path.split("::")
        .next()
        .is_some_and(|one| crates.contains(one))
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

fn without_attributes(code: &str) -> String {
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("#["));
    lines.collect::<Vec<_>>().join("\n")
}

/// What each `use` at the start of a line brings in, under its own name or another, as a path that
/// ends in that name; with the visibility.
fn uses(code: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let start = code[..at].rfind('\n').map_or(0, |end| end + 1);
        let visibility = code[start..at].trim();
        if visibility != code[start..at].trim_end()
            || !matches!(visibility, "" | "pub" | "pub(crate)")
        {
            continue;
        }
        let end = code[at..].find(';').map_or(code.len(), |end| at + end);
        let tree: String = code[at + 4..end]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        spread("", &tree, &mut |path| found.push((visibility, path)));
    }
    found
}

/// Calls `visit` with each path of a tree such as `model::{self, ids::{A, B as C}}`.
fn spread(before: &str, tree: &str, visit: &mut impl FnMut(String)) {
    if let Some((path, rest)) = tree.split_once('{') {
        let inner = rest.strip_suffix('}').unwrap_or(rest);
        let before = format!("{before}{}", path.trim());
        let (mut depth, mut start) = (0, 0);
        for (at, sign) in inner.char_indices().chain([(inner.len(), ',')]) {
            match sign {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    let part = inner[start..at.max(start)].trim();
                    if !part.is_empty() {
                        spread(&before, part, visit);
                    }
                    start = at + 1;
                }
                _ => {}
            }
        }
    } else {
        match tree.split_once(" as ") {
            Some((path, name)) => visit(format!("{before}{}::{}", path.trim(), name.trim())),
            None => visit(format!("{before}{}", tree.trim())),
        }
    }
}

/// The public signatures: functions up to their body, fields, constants and types, the variants of
/// public enums, the items of public traits, and who implements which trait.
fn signatures(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = code.lines().peekable();
    // How far in the public enum or trait stands whose items are public without saying so.
    let mut within: Option<usize> = None;
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim();
        if within == Some(indent) && text == "}" {
            within = None;
        }
        let is_item =
            text.starts_with("pub ") || (text.starts_with("impl") && text.contains(" for "));
        let is_inside = within.is_some_and(|outer| indent == outer + 4) && text != "}";
        let is_variant_field =
            within.is_some_and(|outer| indent > outer + 4 && text.ends_with(','));
        if !(is_item || is_inside || is_variant_field) || text.starts_with("pub use ") {
            continue;
        }
        if text.starts_with("pub enum ") || text.starts_with("pub trait ") {
            within = Some(indent);
        }
        let mut signature = text.to_owned();
        // rustfmt breaks what is long, and ends it so.
        while !signature.ends_with(['{', ';', ',', '}']) || is_open(&signature) {
            match lines.next() {
                Some(next) => {
                    signature.push(' ');
                    signature.push_str(next.trim());
                }
                None => break,
            }
        }
        let body = signature
            .find('{')
            .filter(|_| !signature.starts_with("impl"));
        signature.truncate(body.unwrap_or(signature.len()));
        found.push(signature);
    }
    found
}

/// Whether a round bracket is open.
fn is_open(signature: &str) -> bool {
    signature.matches('(').count() > signature.matches(')').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[&str]) -> Vec<String> {
        let crates = ["model", "wire"].map(str::to_owned).into();
        let sources: Vec<Source> = files.iter().map(|text| Source::of("a.rs", text)).collect();
        let mut findings = Vec::new();
        check_crate(&crates, &sources.iter().collect::<Vec<_>>(), &mut findings);
        findings
    }

    #[test]
    fn an_internal_type_in_a_public_signature_is_reported() {
        for signature in [
            "pub fn f(&self) -> Reader<'_> {\n}",
            "pub async fn f(\n    &self,\n    reader: &Reader<'_>,\n) {\n}",
            "pub struct S {\n    pub field: Vec<Reader>,\n}",
            "pub enum E {\n    One(Reader),\n}",
            "pub enum E {\n    One {\n        field: Reader,\n    },\n}",
            "pub trait T {\n    fn f(&self, reader: Reader);\n}",
            "impl From<Reader> for S {\n}",
            "pub type T = wire::Array;",
            "pub const C: Other = 1;",
        ] {
            let code =
                format!("use model::{{Reader, ids::{{self, Id as Other}}}};\n\n{signature}\n");
            assert_eq!(findings(&[&code]).len(), 1, "{signature}");
        }
    }

    #[test]
    fn what_is_private_or_re_exported_is_not() {
        let code = "use model::{ErrorCode, Reader};\n\n\
            pub fn f() -> ErrorCode {\n    let reader: Reader = 1;\n}\n\
            pub(crate) fn g() -> Reader {\n}\n\
            struct S {\n    field: Reader,\n}\n\
            pub struct P {\n    field: Reader,\n}\n\
            // pub fn h() -> Reader\n\
            #[cfg(test)]\nmod tests {\n    pub fn h() -> Reader {}\n}\n";
        let exports = "pub use model::{ErrorCode, Uuid};\n";
        assert_eq!(findings(&[code, exports]), [""; 0]);
    }
}
