//! The paths that code names, in expressions and types as in the trees of `use`.

/// Each path with the line it begins in: `a::b::c`, and one for each leaf of `use a::{b, c::{self, *}}`. Without
/// a leading `::`, and without visibilities such as `(crate)`.
pub(super) fn paths<'a>(tokens: &[(usize, &'a str)]) -> Vec<(usize, Vec<&'a str>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&(line, word)) = tokens.get(at) {
        let is_visibility = matches!(
            tokens[at..],
            [(_, "("), (_, "crate" | "super"), (_, ")"), ..]
        );
        if is_visibility {
            at += 3;
        } else if word == "use" {
            at = spread(tokens, at + 1, &[], &mut found);
        } else if is_name(word) {
            let mut path = vec![word];
            while let [(_, "::"), (_, next), ..] = tokens[at + 1..]
                && is_name(next)
            {
                path.push(next);
                at += 2;
            }
            found.push((line, path));
            at += 1;
        } else {
            at += 1;
        }
    }
    found
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Adds the leaves of the tree at `at`, below `before`; returns where the tree ends.
fn spread<'a>(
    tokens: &[(usize, &'a str)],
    mut at: usize,
    before: &[&'a str],
    found: &mut Vec<(usize, Vec<&'a str>)>,
) -> usize {
    let mut path = before.to_vec();
    let mut is_leaf = true;
    while let Some(&(line, word)) = tokens.get(at) {
        match word {
            "::" => {}
            "{" => {
                is_leaf = false;
                at += 1;
                while tokens.get(at).is_some_and(|(_, word)| *word != "}") {
                    at = spread(tokens, at, &path, found);
                    at += usize::from(tokens.get(at).is_some_and(|(_, word)| *word == ","));
                }
            }
            "as" => at += 1,
            "self" if !path.is_empty() => {}
            "*" => path.push(word),
            _ if is_name(word) => path.push(word),
            _ => {
                if is_leaf && path.len() >= before.len() && !path.is_empty() {
                    found.push((line, path));
                }
                return at;
            }
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::super::source::words;
    use super::*;

    #[test]
    fn trees_are_spread() {
        for (code, expect) in [
            ("use a;", "a"),
            ("use ::a::b as c;", "a::b"),
            (
                "pub(crate) use a::{b, c::{self, d as e, *},};",
                "pub a::b a::c a::c::d a::c::*",
            ),
            ("use {a, b::c}; d::e::<f::g>()", "a b::c d::e f::g"),
            ("h.i(self::j)", "h i self::j"),
        ] {
            let tokens: Vec<(usize, &str)> =
                words(code).into_iter().map(|word| (1, word)).collect();
            let paths: Vec<String> = paths(&tokens)
                .iter()
                .map(|(_, path)| path.join("::"))
                .collect();
            assert_eq!(paths.join(" "), expect);
        }
    }
}
