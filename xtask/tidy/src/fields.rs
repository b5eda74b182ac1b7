//! Fields of the typed configuration: each has a reader outside the files that fill it. A key that
//! nothing reads belongs in `config::effect`, where whoever sets it is told so.

use super::source::Source;

/// Files that turn values into fields.
const FILLED_IN: &[&str] = &[
    "crates/config/src/listeners.rs",
    "crates/config/src/server.rs",
    "crates/config/src/server/",
    "crates/config/src/topic_settings.rs",
];
/// Where fields are read: a field of the same name elsewhere proves nothing.
const READ_IN: &[&str] = &[
    "crates/broker/src/",
    "crates/cli/src/server.rs",
    "crates/config/src/",
    "crates/controller/src/",
    "crates/raft/src/",
];

/// Checks every public field of the typed configuration.
pub(super) fn check(sources: &[Source], findings: &mut Vec<String>) {
    let among = |name: &str, places: &[&str]| places.iter().any(|place| name.starts_with(place));
    let (filled, read): (Vec<_>, Vec<_>) = sources
        .iter()
        .filter(|one| among(&one.name, READ_IN))
        .partition(|one| among(&one.name, FILLED_IN));
    for Source { name, code, .. } in filled {
        for (index, line) in code.lines().enumerate() {
            let Some(field) = public_field(line) else {
                continue;
            };
            if !read.iter().any(|one| has_access(&one.code, field)) {
                findings.push(format!(
                    "{name}:{}: nothing reads `{field}`: read it, or delete it and name its key \
                     in crates/config/src/effect.rs",
                    index + 1
                ));
            }
        }
    }
}

/// The field that a line of a struct declares.
fn public_field(line: &str) -> Option<&str> {
    let (field, _) = line.strip_prefix("    pub ")?.split_once(": ")?;
    let is_name = field
        .bytes()
        .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
    is_name.then_some(field)
}

/// Whether the text has `.field`, as a whole word.
fn has_access(text: &str, field: &str) -> bool {
    text.match_indices(field).any(|(at, _)| {
        let after = text[at + field.len()..].bytes().next();
        let ends = !after.is_some_and(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
        text[..at].ends_with('.') && ends && after != Some(b'(')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_without_a_reader_is_found() {
        let filled = "pub struct LogConfig {\n    /// Read.\n    pub read_ms: i64,\n    /// Idle.\n    \
                      pub idle: i32,\n}\n";
        let reader = "config.log.read_ms + other.idle_ms + config.idle()";
        let files = [
            ("crates/config/src/server/log.rs", filled),
            ("crates/broker/src/a.rs", reader),
            ("crates/client/src/a.rs", "it.idle"),
        ];
        let mut findings = Vec::new();
        check(
            &files.map(|(name, text)| Source::of(name, text)),
            &mut findings,
        );
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(
            findings[0].contains("log.rs:5: nothing reads `idle`"),
            "{findings:?}"
        );
    }
}
