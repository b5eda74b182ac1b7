//! A Rust file as the checks see it: its code apart from its tests, comments and texts.
//!
//! ```text
//!   text    let a = "b"; // c      #[cfg(test)] mod tests { .. }      as it is written
//!   code    let a = " ";                                              spaces for what is no code
//!   tests                                       mod tests { .. }      spaces for what is no test
//! ```
//!
//! Lines and columns are those of the file in all three.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One file of the workspace.
#[derive(Debug)]
pub(super) struct Source {
    /// Its path below the workspace.
    pub(super) name: String,
    pub(super) text: String,
    /// Empty lines in a file of tests.
    pub(super) code: String,
    pub(super) tests: String,
    /// Whether the whole file is compiled for tests alone.
    pub(super) is_test: bool,
}

/// Every file of `files`, which are paths below `root` and their texts.
pub(super) fn read(root: &Path, files: BTreeMap<PathBuf, String>) -> Vec<Source> {
    let bare: Vec<(PathBuf, String, String)> = files
        .into_iter()
        .map(|(path, text)| {
            let code = without_comments_and_texts(&text);
            (path, text, code)
        })
        .collect();
    let modules: BTreeSet<PathBuf> = bare
        .iter()
        .flat_map(|(path, _, code)| test_modules(path, code))
        .collect();
    let sources = bare.into_iter().map(|(path, text, code)| {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
        let is_test = name.contains("/tests/")
            || path
                .with_extension("")
                .ancestors()
                .any(|one| modules.contains(one));
        Source::new(name.into_owned(), text, &code, is_test)
    });
    sources.collect()
}

impl Source {
    fn new(name: String, text: String, bare: &str, is_test: bool) -> Self {
        let tests = match is_test {
            true => std::iter::once(0..text.len()).collect(),
            false => test_items(bare),
        };
        let (mut outside, mut within, mut end) = (String::new(), String::new(), 0);
        for range in &tests {
            outside.push_str(&bare[end..range.start]);
            outside.push_str(&blank(&text[range.clone()]));
            within.push_str(&blank(&text[end..range.start]));
            within.push_str(&text[range.clone()]);
            end = range.end;
        }
        outside.push_str(&bare[end..]);
        within.push_str(&blank(&text[end..]));
        Self {
            name,
            text,
            code: outside,
            tests: within,
            is_test,
        }
    }

    /// A file that is no test as a whole, in a test of a check.
    #[cfg(test)]
    pub(super) fn of(name: &str, text: &str) -> Self {
        let is_test = name.contains("/tests/");
        Self::new(
            name.to_owned(),
            text.to_owned(),
            &without_comments_and_texts(text),
            is_test,
        )
    }

    /// The words and signs of the code, with the line of each.
    pub(super) fn tokens(&self) -> Vec<(usize, &str)> {
        let lines = self.code.lines().enumerate();
        lines
            .flat_map(|(index, line)| words(line).into_iter().map(move |word| (index + 1, word)))
            .collect()
    }
}

/// Identifiers and numbers, `::`, and other signs one by one.
pub(super) fn words(code: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match rest.find(|one: char| !is_of_word(one)) {
            _ if rest.starts_with("::") => 2,
            Some(0) => first.len_utf8(),
            Some(end) => end,
            None => rest.len(),
        };
        let (word, after) = rest.split_at(end);
        words.push(word);
        rest = after.trim_start();
    }
    words
}

fn is_of_word(one: char) -> bool {
    one.is_alphanumeric() || one == '_'
}

/// Spaces for everything but the ends of lines, byte for byte.
fn blank(text: &str) -> String {
    let bytes = text.bytes();
    bytes
        .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
        .collect()
}

/// The code with spaces for comments and for what stands in texts and characters.
fn without_comments_and_texts(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let after_word = text[..at].ends_with(is_of_word);
        let skipped = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => quoted(rest),
            'r' | 'b' | 'c' if !after_word => prefixed(rest),
            '\'' => character(rest),
            _ => 0,
        };
        let end = at + skipped.max(first.len_utf8());
        match skipped {
            0 => code.push(first),
            _ => code.push_str(&blank(&text[at..end])),
        }
        at = end;
    }
    code
}

/// How long the comment is with which the text begins; comments of this kind nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        let (step, change) = match rest {
            [b'/', b'*', ..] => (2, 1),
            [b'*', b'/', ..] => (2, -1),
            _ => (1, 0),
        };
        at += step;
        depth += change;
        if depth == 0 {
            break;
        }
    }
    at
}

/// How long the quoted text is with which the text begins.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// How long the text is that begins with a letter, such as `b"…"` and `r#"…"#`; 0 if it is a word.
fn prefixed(text: &str) -> usize {
    let letters = text.bytes().take_while(u8::is_ascii_lowercase).count();
    let after = &text[letters..];
    let hashes = after.bytes().take_while(|&byte| byte == b'#').count();
    match &text[..letters] {
        "b" | "c" if after.starts_with('"') => letters + quoted(after),
        "b" if after.starts_with('\'') => letters + character(after),
        "r" | "br" | "cr" if after[hashes..].starts_with('"') => {
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = letters + hashes + 1;
            text[begin..]
                .find(&end)
                .map_or(text.len(), |at| begin + at + end.len())
        }
        _ => 0,
    }
}

/// How long the quoted character is with which the text begins; 0 if it is a lifetime.
fn character(text: &str) -> usize {
    let mut signs = text.char_indices().skip(1);
    match (signs.next(), signs.next()) {
        // What is escaped may be a quote; the end is the next one after it.
        (Some((_, '\\')), Some((at, sign))) => {
            let begin = at + sign.len_utf8();
            text[begin..]
                .find('\'')
                .map_or(text.len(), |end| begin + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

const TEST: &str = "#[cfg(test)]";

/// Where items for tests alone stand, with their attributes.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    for (at, _) in code.match_indices(TEST) {
        if items.last().is_none_or(|before| at >= before.end) {
            items.push(at..at + TEST.len() + item_length(&code[at + TEST.len()..]));
        }
    }
    items
}

/// Up to the end of the item, statement or field with which the code begins.
fn item_length(code: &str) -> usize {
    // Attributes and visibility stand before the word that says what it is.
    let head = words(&code[..code.floor_char_boundary(200)]);
    let head = &head[..head.len().min(8)];
    let is_body_last = head
        .iter()
        .any(|word| matches!(*word, "fn" | "mod" | "impl" | "struct" | "enum" | "trait"));
    let is_field = !is_body_last
        && !head
            .iter()
            .any(|word| matches!(*word, "use" | "const" | "static" | "let" | "type"));
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            // The struct, or the block, ends before the field or the expression has.
            b')' | b']' | b'}' if depth == 0 => return at,
            b')' | b']' => depth -= 1,
            b'}' => {
                depth -= 1;
                if depth == 0 && is_body_last {
                    return at + 1;
                }
            }
            b';' if depth == 0 => return at + 1,
            b',' if depth == 0 && is_field => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// The files, without their extension, and folders of modules that `path` declares for tests alone.
fn test_modules(path: &Path, code: &str) -> Vec<PathBuf> {
    let is_root = ["lib", "main", "mod"]
        .map(Some)
        .contains(&path.file_stem().and_then(|stem| stem.to_str()));
    let folder = match is_root {
        true => path.parent().unwrap_or(path).to_owned(),
        false => path.with_extension(""),
    };
    let items = test_items(code)
        .into_iter()
        .map(|item| words(&code[item][TEST.len()..]));
    let modules = items.filter_map(|words| {
        let at = words.iter().position(|word| *word == "mod")?;
        (words.get(at + 2) == Some(&";")).then(|| folder.join(words[at + 1]))
    });
    modules.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_code_is_blank() {
        for (text, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"a("b\"{"), c"#, "a(      ), c"),
            (r##"a(r#"b"{"#) c"##, "a(        ) c"),
            (r#"for b in b"{" {"#, "for b in      {"),
            (r"a('{', '\'', b'}')", "a(   ,     ,     )"),
            ("fn f<'a>(r: &'a u8)", "fn f<'a>(r: &'a u8)"),
        ] {
            assert_eq!(without_comments_and_texts(text), code);
        }
    }

    #[test]
    fn tests_end_where_their_item_does() {
        for item in [
            "mod tests;",
            "mod tests { fn f() {} }",
            "pub(crate) fn f<A, B>(a: [A; 2]) -> B { g(); }",
            "#[derive(Debug)]\nstruct S { a: u8 }",
            "use a::{b, c};",
            "const A: S = S { a: 1 };",
            "pub field: BTreeMap<u8, u8>,",
            "call(a, b);",
        ] {
            // A comma in the type of a field ends it early: what is left over of it is code.
            let field = item.starts_with("pub field");
            let text = format!("fn before() {{}}\n#[cfg(test)]\n{item}\nfn after() {{}}\n");
            let source = Source::of("a.rs", &text);
            let words: Vec<&str> = source.tokens().into_iter().map(|(_, word)| word).collect();
            let expect = if field {
                "fn before ( ) { } u8 > , fn after ( ) { }"
            } else {
                "fn before ( ) { } fn after ( ) { }"
            };
            assert_eq!(words.join(" "), expect);
            assert!(source.tests.contains("#[cfg(test)]"));
            assert_eq!(source.tests.lines().count(), text.lines().count());
        }
    }

    #[test]
    fn a_module_declared_for_tests_is_one_in_all_its_files() {
        let files = [
            (
                "/w/crates/a/src/lib.rs",
                "mod b;\n#[cfg(test)]\nmod simulated;\n",
            ),
            (
                "/w/crates/a/src/b.rs",
                "#[cfg(test)]\nmod simulation;\nfn f() {}\n",
            ),
            ("/w/crates/a/src/b/simulation.rs", ""),
            ("/w/crates/a/src/b/c.rs", ""),
            ("/w/crates/a/src/simulated/d/e.rs", ""),
            ("/w/crates/a/tests/f.rs", ""),
        ];
        let files = files.map(|(path, text)| (PathBuf::from(path), text.to_owned()));
        let sources = read(Path::new("/w"), BTreeMap::from(files));
        let tests: Vec<&str> = sources
            .iter()
            .filter(|one| one.is_test)
            .map(|one| &*one.name)
            .collect();
        let expect = [
            "crates/a/src/b/simulation.rs",
            "crates/a/src/simulated/d/e.rs",
            "crates/a/tests/f.rs",
        ];
        assert_eq!(tests, expect);
    }
}
