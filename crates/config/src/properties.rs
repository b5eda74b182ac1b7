//! Java's `.properties` format: reading it and writing it.
//!
//! ```text
//!   # or ! comment          key = value      key: value      key value
//!   a line that ends in \   continues on the next, whose leading white space is dropped
//!   \t \n \r \f \uXXXX \x   escapes in keys and values; an unknown \x is x itself
//! ```
//!
//! Trailing white space belongs to the value. Of two lines with one key the later one wins, which
//! is left to the reader: `parse` reports every line, so that it can be named in messages.

use std::fmt::Write as _;

/// One key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// The key, without escapes.
    pub key: String,
    /// The value, without escapes; empty if the line has only a key.
    pub value: String,
    /// Number of the line on which the key stands, from 1.
    pub line: usize,
}

/// Why a text is not in the format. Everything else than a broken `\u` has a meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: `\\u` must be followed by four hexadecimal digits")]
pub struct PropertiesError {
    /// Number of the line on which the key stands, from 1.
    pub line: usize,
}

/// Reads every property of `text`, in order.
pub fn parse(text: &str) -> Result<Vec<Property>, PropertiesError> {
    let mut properties = Vec::new();
    for (line, logical) in LogicalLines::new(text) {
        let key_end = key_end(&logical);
        let (key, rest) = logical.split_at(key_end);
        let rest = rest.trim_start_matches(is_blank);
        let value = match rest.strip_prefix(['=', ':']) {
            Some(value) => value.trim_start_matches(is_blank),
            None => rest,
        };
        let unescaped = |text| unescape(text).ok_or(PropertiesError { line });
        properties.push(Property {
            key: unescaped(key)?,
            value: unescaped(value)?,
            line,
        });
    }
    Ok(properties)
}

/// Writes `pairs` so that `parse` reads them back, one a line, in plain ASCII.
pub fn write<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (key, value) in pairs {
        escape(&mut text, key, true);
        text.push('=');
        escape(&mut text, value, false);
        text.push('\n');
    }
    text
}

/// Lines with continuations joined, without comments and blank lines, and without leading white
/// space. Escapes are still in place.
struct LogicalLines<'a> {
    lines: std::iter::Enumerate<NaturalLines<'a>>,
}

impl<'a> LogicalLines<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            lines: NaturalLines { rest: Some(text) }.enumerate(),
        }
    }
}

impl Iterator for LogicalLines<'_> {
    type Item = (usize, String);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (index, first) = self.lines.by_ref().find(|(_, line)| {
                let content = line.trim_start_matches(is_blank);
                !content.is_empty() && !content.starts_with(['#', '!'])
            })?;
            let mut logical = first.trim_start_matches(is_blank).to_owned();
            while ends_in_continuation(&logical) {
                logical.pop();
                // A line that has nothing but its continuation is no line at all: what follows
                // may be a comment.
                if logical.is_empty() {
                    break;
                }
                match self.lines.next() {
                    Some((_, line)) => logical.push_str(line.trim_start_matches(is_blank)),
                    None => break,
                }
            }
            if !logical.is_empty() {
                return Some((index + 1, logical));
            }
        }
    }
}

/// Lines ended by `\n`, `\r` or `\r\n`.
struct NaturalLines<'a> {
    rest: Option<&'a str>,
}

impl<'a> Iterator for NaturalLines<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest?;
        let Some(end) = rest.find(['\n', '\r']) else {
            self.rest = None;
            return (!rest.is_empty()).then_some(rest);
        };
        let (line, ending) = rest.split_at(end);
        let width = if ending.starts_with("\r\n") { 2 } else { 1 };
        self.rest = ending.get(width..);
        Some(line)
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\u{c}')
}

/// An odd number of backslashes at the end continues the line; an even one is escaped backslashes.
fn ends_in_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Byte position of the first separator that is not escaped.
fn key_end(line: &str) -> usize {
    let mut escaped = false;
    for (position, character) in line.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '=' | ':' => return position,
            _ if is_blank(character) => return position,
            _ => {}
        }
    }
    line.len()
}

fn unescape(text: &str) -> Option<String> {
    let mut units: Vec<u16> = Vec::new();
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\\' {
            let Some(escaped) = characters.next() else {
                break;
            };
            if escaped == 'u' {
                units.push(hexadecimal_unit(&mut characters)?);
                continue;
            }
            flush_units(&mut out, &mut units);
            out.push(match escaped {
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                'f' => '\u{c}',
                other => other,
            });
        } else {
            flush_units(&mut out, &mut units);
            out.push(character);
        }
    }
    flush_units(&mut out, &mut units);
    Some(out)
}

/// `\u` escapes are UTF-16 units: two of them can make one character. A lone surrogate has no
/// place in UTF-8 and becomes U+FFFD.
fn flush_units(out: &mut String, units: &mut Vec<u16>) {
    if !units.is_empty() {
        out.push_str(&String::from_utf16_lossy(units));
        units.clear();
    }
}

fn hexadecimal_unit(characters: &mut std::str::Chars<'_>) -> Option<u16> {
    let mut unit: u16 = 0;
    for _ in 0..4 {
        let digit = characters.next()?.to_digit(16)?;
        unit = (unit << 4) | u16::try_from(digit).ok()?;
    }
    Some(unit)
}

fn escape(out: &mut String, text: &str, is_key: bool) {
    for (position, character) in text.char_indices() {
        match character {
            ' ' if is_key || position == 0 => out.push_str("\\ "),
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{c}' => out.push_str("\\f"),
            '=' | ':' | '#' | '!' if is_key => {
                out.push('\\');
                out.push(character);
            }
            ' '..='~' => out.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04X}").expect("writing to a string cannot fail");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
