//! Regular expressions over names of topics, in the syntax of RE2 as Kafka's broker takes it.
//!
//! The expression is rewritten for `regex-lite`. Names of topics are letters, digits, dots,
//! underscores and dashes of ASCII, so classes of Unicode stand for their ASCII part. What RE2
//! does not know (look-around, back-references, `\Z`) is refused, as is what another syntax knows
//! and RE2 does not.

use regex_lite::{Regex, RegexBuilder};
use std::iter::Peekable;
use std::str::Chars;

/// What an expression may take in memory: to match a name takes time in proportion to it, in which
/// other groups wait.
const EXPRESSION_BYTES_MAX: usize = 1024 * 1024;

/// The largest count of a repetition.
const REPETITIONS_MAX: u32 = 1_000;

/// How every group begins: nobody asks what one matched, and to remember it takes memory in
/// proportion to the size of the expression, for each group.
const UNCAPTURED_GROUP: &str = "(?:";

/// A regular expression that matches whole names of topics.
#[derive(Debug)]
pub(in crate::group) struct TopicPattern(Regex);

impl TopicPattern {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(in crate::group) fn parse(text: &str) -> Result<Self, String> {
        let mut translation = Translation {
            rest: text.chars().peekable(),
            out: String::with_capacity(text.len() + 8),
            depth: 0,
        };
        translation.run()?;
        // A name matches as a whole.
        let whole = format!("^(?:{})$", translation.out);
        let mut builder = RegexBuilder::new(&whole);
        let built = builder.size_limit(EXPRESSION_BYTES_MAX).build();
        built.map(Self).map_err(|error| error.to_string())
    }

    pub(in crate::group) fn matches(&self, topic: &str) -> bool {
        self.0.is_match(topic)
    }
}

struct Translation<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    depth: usize,
}

impl Translation<'_> {
    fn run(&mut self) -> Result<(), String> {
        // Whether the last thing may be repeated, and whether it is a repetition itself.
        let (mut is_repeatable, mut is_repetition) = (false, false);
        while let Some(c) = self.rest.next() {
            let repeats = match c {
                '*' | '+' | '?' => Some(c.to_string()),
                '{' => self.counted_repetition()?,
                _ => None,
            };
            if let Some(repetition) = repeats {
                if is_repetition {
                    return Err(format!(
                        "invalid nested repetition operator: `{repetition}`"
                    ));
                }
                if !is_repeatable {
                    return Err(format!(
                        "missing argument to repetition operator: `{repetition}`"
                    ));
                }
                self.out.push_str(&repetition);
                if self.rest.next_if_eq(&'?').is_some() {
                    self.out.push('?');
                }
                (is_repeatable, is_repetition) = (false, true);
                continue;
            }
            is_repetition = false;
            is_repeatable = true;
            match c {
                '(' => {
                    self.open_group()?;
                    is_repeatable = false;
                }
                ')' => {
                    self.depth = self.depth.checked_sub(1).ok_or("unexpected )")?;
                    self.out.push(')');
                }
                '|' => {
                    self.out.push('|');
                    is_repeatable = false;
                }
                '[' => self.class()?,
                '\\' => is_repeatable = self.escape()?,
                '{' => self.out.push_str("\\{"),
                '}' | ']' => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                c => self.out.push(c),
            }
        }
        if self.depth > 0 {
            return Err("missing closing )".to_owned());
        }
        Ok(())
    }

    /// `{2}`, `{2,}` or `{2,3}`; anything else after the brace is text.
    fn counted_repetition(&mut self) -> Result<Option<String>, String> {
        // No further than a count goes: there may be thousands of braces, each with a long rest.
        let mut ahead = self.rest.clone();
        let is_of_count = |c: &char| c.is_ascii_digit() || *c == ',';
        let body: String = std::iter::from_fn(|| ahead.next_if(is_of_count)).collect();
        let has_end = ahead.next() == Some('}');
        let mut bounds = body.splitn(2, ',');
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let first = bounds.next().filter(|text| is_number(text));
        let last = bounds.next();
        let (Some(first), true) = (first, has_end) else {
            return Ok(None);
        };
        if last.is_some_and(|last| !last.is_empty() && !is_number(last)) {
            return Ok(None);
        }
        let too_many = || format!("invalid repeat count: `{{{body}}}`");
        let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= REPETITIONS_MAX);
        let from = number(first).ok_or_else(too_many)?;
        if let Some(last) = last.filter(|last| !last.is_empty())
            && number(last).ok_or_else(too_many)? < from
        {
            return Err(too_many());
        }
        for _ in 0..=body.chars().count() {
            self.rest.next();
        }
        Ok(Some(format!("{{{body}}}")))
    }

    fn open_group(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.rest.next_if_eq(&'?').is_none() {
            self.out.push_str(UNCAPTURED_GROUP);
            return Ok(());
        }
        let invalid = || "invalid or unsupported Perl syntax".to_owned();
        self.rest.next_if_eq(&'P');
        if self.rest.next_if_eq(&'<').is_some() {
            let name: String = std::iter::from_fn(|| self.rest.next_if(|c| *c != '>')).collect();
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if self.rest.next().is_none() || name.is_empty() || !name.chars().all(is_word) {
                return Err(format!("invalid named capture: `{name}`"));
            }
            self.out.push_str(UNCAPTURED_GROUP);
            return Ok(());
        }
        let mut flags = String::new();
        loop {
            match self.rest.next() {
                Some(c @ ('i' | 'm' | 's' | 'U' | '-')) => flags.push(c),
                Some(':') => {
                    self.out.push_str(&format!("(?{flags}:"));
                    return Ok(());
                }
                Some(')') if !flags.is_empty() => {
                    self.depth -= 1;
                    self.out.push_str(&format!("(?{flags})"));
                    return Ok(());
                }
                _ => return Err(invalid()),
            }
        }
    }

    /// An escape outside of a class; says whether it may be repeated.
    fn escape(&mut self) -> Result<bool, String> {
        let Some(c) = self.rest.next() else {
            return Err("trailing backslash at end of expression".to_owned());
        };
        match c {
            'Q' => {
                self.quoted();
                return Ok(true);
            }
            'E' => return Ok(false),
            'A' | 'z' | 'b' | 'B' => {
                self.out.push('\\');
                self.out.push(c);
            }
            'C' => self.out.push_str("(?s:.)"),
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
                self.out.push('\\');
                self.out.push(c);
            }
            'p' | 'P' => {
                let class = self.unicode_class(c == 'P')?;
                self.out.push_str(&format!("[{class}]"));
            }
            c => {
                let literal = self.escaped_char(c)?;
                push_literal(&mut self.out, literal);
            }
        }
        Ok(true)
    }

    /// Text between `\Q` and `\E` stands for itself.
    fn quoted(&mut self) {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            push_literal(&mut self.out, c);
        }
    }

    /// The character that an escape stands for.
    fn escaped_char(&mut self, c: char) -> Result<char, String> {
        let invalid = |c: char| format!("invalid escape sequence: `\\{c}`");
        match c {
            'a' => Ok('\x07'),
            'f' => Ok('\x0c'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\x0b'),
            '0'..='7' => {
                let next_is_octal = self.rest.peek().is_some_and(|c| ('0'..='7').contains(c));
                if c != '0' && !next_is_octal {
                    return Err(invalid(c));
                }
                let mut number = c.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let Some(digit) = self.rest.next_if(|c| ('0'..='7').contains(c)) else {
                        break;
                    };
                    number = number * 8 + digit.to_digit(8).unwrap_or_default();
                }
                char::from_u32(number).ok_or_else(|| invalid(c))
            }
            'x' => {
                let digits: String = if self.rest.next_if_eq(&'{').is_some() {
                    let digits = std::iter::from_fn(|| self.rest.next_if(|c| *c != '}')).collect();
                    self.rest.next().ok_or_else(|| invalid(c))?;
                    digits
                } else {
                    self.rest.by_ref().take(2).collect()
                };
                let number = u32::from_str_radix(&digits, 16)
                    .ok()
                    .filter(|_| digits.len() >= 2);
                number.and_then(char::from_u32).ok_or_else(|| invalid(c))
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok(c),
            c => Err(invalid(c)),
        }
    }

    /// A class in brackets.
    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            let Some(c) = self.rest.next() else {
                return Err("missing closing ]".to_owned());
            };
            match c {
                ']' if !is_first => {
                    self.out.push(']');
                    return Ok(());
                }
                '[' if self.rest.peek() == Some(&':') => self.posix_class()?,
                '\\' if matches!(self.rest.peek(), Some('d' | 'D' | 's' | 'S' | 'w' | 'W')) => {
                    self.out.push('\\');
                    self.out.extend(self.rest.next());
                }
                '\\' if matches!(self.rest.peek(), Some('p' | 'P')) => {
                    let is_negated = self.rest.next() == Some('P');
                    let class = self.unicode_class(is_negated)?;
                    self.out.push_str(&class);
                }
                c => self.class_range(c)?,
            }
            is_first = false;
        }
    }

    /// A character of a class, or the first of a range.
    fn class_range(&mut self, c: char) -> Result<(), String> {
        let from = self.class_char(c)?;
        push_literal(&mut self.out, from);
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('-') || matches!(ahead.next(), None | Some(']')) {
            return Ok(());
        }
        self.rest.next();
        let last = self.rest.next().unwrap_or(']');
        let to = self.class_char(last)?;
        if to < from {
            return Err(format!("invalid character class range: `{from}-{to}`"));
        }
        self.out.push('-');
        push_literal(&mut self.out, to);
        Ok(())
    }

    fn class_char(&mut self, c: char) -> Result<char, String> {
        match c {
            '\\' => {
                let escaped = self.rest.next().ok_or("missing closing ]")?;
                self.escaped_char(escaped)
            }
            c => Ok(c),
        }
    }

    /// `[:alpha:]` and its like, after the bracket.
    fn posix_class(&mut self) -> Result<(), String> {
        let rest: String = self.rest.clone().take(12).collect();
        // The colon after the bracket does not end the name as well: `[:]` is a bracket and a colon.
        let Some((name, _)) = rest.get(1..).and_then(|rest| rest.split_once(":]")) else {
            self.out.push_str("\\[");
            return Ok(());
        };
        let (name, is_negated) = match name.strip_prefix('^') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let known = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print",
            "punct", "space", "upper", "word", "xdigit",
        ];
        if !known.contains(&name) {
            return Err(format!("invalid character class range: `[:{name}:]`"));
        }
        let caret = if is_negated { "^" } else { "" };
        self.out.push_str(&format!("[:{caret}{name}:]"));
        for _ in 0..":".len() + caret.len() + name.len() + ":]".len() {
            self.rest.next();
        }
        Ok(())
    }

    /// A class of Unicode, as ranges of ASCII.
    fn unicode_class(&mut self, is_negated: bool) -> Result<String, String> {
        let invalid = |name: &str| format!("invalid character class range: `\\p{{{name}}}`");
        let name: String = match self.rest.next() {
            Some('{') => {
                let name: String =
                    std::iter::from_fn(|| self.rest.next_if(|c| *c != '}')).collect();
                self.rest.next().ok_or_else(|| invalid(&name))?;
                name
            }
            Some(c) => c.to_string(),
            None => return Err(invalid("")),
        };
        let (name, is_negated) = match name.strip_prefix('^') {
            Some(name) => (name, !is_negated),
            None => (&*name, is_negated),
        };
        let is_member: fn(u8) -> bool = match name {
            "Any" => |_| true,
            "L" | "Latin" => |byte| byte.is_ascii_alphabetic(),
            "Lu" => |byte| byte.is_ascii_uppercase(),
            "Ll" => |byte| byte.is_ascii_lowercase(),
            "N" | "Nd" => |byte| byte.is_ascii_digit(),
            "P" => |byte| matches!(byte, b'.' | b'_' | b'-'),
            "Pc" => |byte| byte == b'_',
            "Pd" => |byte| byte == b'-',
            "Po" => |byte| byte == b'.',
            "C" | "Cc" | "Cf" | "Co" | "Cs" | "Lm" | "Lo" | "Lt" | "M" | "Mc" | "Me" | "Mn"
            | "Nl" | "No" | "Pe" | "Pf" | "Pi" | "Ps" | "S" | "Sc" | "Sk" | "Sm" | "So" | "Z"
            | "Zl" | "Zp" | "Zs" | "Common" | "Greek" | "Cyrillic" | "Armenian" | "Hebrew"
            | "Arabic" | "Thai" | "Han" | "Hiragana" | "Katakana" | "Hangul" | "Georgian"
            | "Devanagari" => |_| false,
            name => return Err(invalid(name)),
        };
        let legal = (0u8..128).filter(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
        let members = legal.filter(|byte| is_member(*byte) != is_negated);
        let mut class = String::new();
        for byte in members {
            push_literal(&mut class, char::from(byte));
        }
        if class.is_empty() {
            // Some character that no name of a topic has.
            class.push_str("\\x00");
        }
        Ok(class)
    }
}

fn push_literal(out: &mut String, c: char) {
    if c.is_ascii() && !c.is_ascii_alphanumeric() {
        out.push_str(&format!("\\x{:02x}", u32::from(c)));
    } else {
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::TopicPattern;

    const TOPICS: [&str; 6] = ["orders", "orders-1", "orders.eu", "Orders", "a_b", "x{2}"];

    #[track_caller]
    fn check(pattern: &str, expected: &[&str]) {
        let pattern = TopicPattern::parse(pattern).expect("a valid expression");
        let matching: Vec<&str> = TOPICS
            .into_iter()
            .filter(|topic| pattern.matches(topic))
            .collect();
        assert_eq!(matching, expected);
    }

    #[test]
    fn whole_names_match() {
        check("orders", &["orders"]);
        check("orders.*", &["orders", "orders-1", "orders.eu"]);
        check("order", &[]);
        check("orders|a_b", &["orders", "a_b"]);
        check("(?i)orders", &["orders", "Orders"]);
        check("(?i:O)rders", &["orders", "Orders"]);
        check("(?P<name>o)rders(?<more>-1)?", &["orders", "orders-1"]);
        check(r"\Qorders.\Eeu", &["orders.eu"]);
        check(r"orders[.\-][\w]+", &["orders-1", "orders.eu"]);
        check(r"\p{Lu}\pL+", &["Orders"]);
        check(r"[[:lower:]]+", &["orders"]);
        check(r"[[:^lower:]]\w+", &["Orders"]);
        check(r"[^\pL]*", &[]);
        check("x{2}", &[]);
        check(r"x\{2}", &["x{2}"]);
        check("x{a}|a_b", &["a_b"]);
        check("[]a]_b", &["a_b"]);
        check("[a-]_b", &["a_b"]);
        check("[[:a]_b", &["a_b"]);
        check("[[:]]?a_b", &[]);
        check("a[[:_]b", &["a_b"]);
        check(r"\x61_\142", &["a_b"]);
        check("", &[]);
        check(".*", &TOPICS);
        check("orders.{2,3}", &["orders-1", "orders.eu"]);
    }

    #[test]
    fn no_group_is_remembered() {
        let groups = ["()", "(a)", "(?P<name>a)", "(?<name>a)", "(?i:a)"];
        for group in groups {
            let pattern = TopicPattern::parse(&group.repeat(1_000)).expect("a valid expression");
            assert_eq!(pattern.0.captures_len(), 1, "{group}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for pattern in [
            "(",
            ")",
            "[",
            "[a",
            "*",
            "a**",
            "a|*",
            "(?=a)",
            "(?<=a)",
            "(?!a)",
            r"(a)\1",
            r"\Z",
            r"\",
            "a{1001}",
            "a{3,2}",
            "[b-a]",
            "[[:nope:]]",
            r"\p{Nope}",
            "(?x)a",
            "(?",
            r"\y",
            "a{2}{3}",
        ] {
            assert!(TopicPattern::parse(pattern).is_err(), "{pattern}");
        }
    }
}
