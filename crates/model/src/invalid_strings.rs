//! Strings of a message that are not UTF-8, and the message with others in their place.
//!
//! Java, and so Apache Kafka, puts U+FFFD where bytes are not text. A decoded message borrows its
//! strings from the frame, so here the frame is written again: a pass over it notes the strings
//! ([`crate::Reader::noting`]), and [`InvalidStrings::replace_in`] makes a frame to decode anew.

use crate::varint::write_unsigned_varint;
use crate::writer::Writer;
use std::sync::{Mutex, PoisonError};

/// Where strings are that are not UTF-8, in the order in which they were read.
#[derive(Debug, Default)]
pub struct InvalidStrings(Mutex<Vec<Invalid>>);

#[derive(Debug, Clone, Copy)]
enum Invalid {
    Text(InvalidString),
    /// A tagged field with such strings, noted after them; its size stands before `content`.
    Tagged {
        size: Span,
        content: Span,
    },
}

/// Where bytes are: their address, and how many.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    bytes: usize,
}

impl Span {
    fn of(bytes: &[u8]) -> Self {
        Self {
            start: bytes.as_ptr() as usize,
            bytes: bytes.len(),
        }
    }

    const fn end(self) -> usize {
        self.start + self.bytes
    }
}

/// Bytes in place of others.
struct Edit {
    replaced: Span,
    by: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct InvalidString {
    /// The string with its length.
    field: Span,
    /// Bytes of the text at the field's end.
    text_bytes: usize,
    flexible: bool,
}

impl InvalidStrings {
    /// Notes a field that ends with `text_bytes` of text.
    pub(crate) fn note(&self, field: &[u8], text_bytes: usize, flexible: bool) {
        self.list().push(Invalid::Text(InvalidString {
            field: Span::of(field),
            text_bytes,
            flexible,
        }));
    }

    /// How many notes there are.
    pub(crate) fn count(&self) -> usize {
        self.list().len()
    }

    /// Notes a tagged field that has noted strings: its size, and its content.
    pub(crate) fn note_tagged(&self, size: &[u8], content: &[u8]) {
        self.list().push(Invalid::Tagged {
            size: Span::of(size),
            content: Span::of(content),
        });
    }

    /// Whether nothing is noted.
    pub fn is_empty(&self) -> bool {
        self.list().is_empty()
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<Invalid>> {
        // A list is whole after every step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that were read with U+FFFD in place of what is not text; `None` when nothing is
    /// noted of them. A text that is longer then than the protocol can carry is cut off.
    pub fn replace_in(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let at = |span: Span| {
            let start = span.start.checked_sub(bytes.as_ptr() as usize)?;
            bytes.get(start..start.checked_add(span.bytes)?)
        };
        let mut edits: Vec<Edit> = Vec::new();
        for invalid in self.list().iter() {
            edits.push(match *invalid {
                Invalid::Text(one) => {
                    let text = &at(one.field)?[one.field.bytes - one.text_bytes..];
                    let mut by = Vec::new();
                    Writer::string(Some(&String::from_utf8_lossy(text)), one.flexible, &mut by);
                    let replaced = one.field;
                    Edit { replaced, by }
                }
                Invalid::Tagged { size, content } => {
                    let within = |edit: &&Edit| {
                        content.start <= edit.replaced.start && edit.replaced.end() <= content.end()
                    };
                    // What is within was noted just before.
                    let grown = edits
                        .iter()
                        .rev()
                        .take_while(within)
                        .map(|edit| edit.by.len() as i64 - edit.replaced.bytes as i64);
                    let mut by = Vec::new();
                    let content_bytes = content.bytes as i64 + grown.sum::<i64>();
                    write_unsigned_varint(content_bytes as u32, &mut by);
                    let replaced = size;
                    Edit { replaced, by }
                }
            });
        }
        edits.sort_by_key(|edit| edit.replaced.start);
        // A message may have been read more than once.
        edits.dedup_by_key(|edit| edit.replaced.start);
        let mut replaced = Vec::with_capacity(bytes.len());
        let mut copied = 0;
        for edit in &edits {
            let start = edit.replaced.start - bytes.as_ptr() as usize;
            replaced.extend_from_slice(bytes.get(copied..start)?);
            replaced.extend_from_slice(&edit.by);
            copied = start + edit.replaced.bytes;
        }
        replaced.extend_from_slice(&bytes[copied..]);
        (!edits.is_empty()).then_some(replaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    #[test]
    fn what_is_not_text_is_replaced_and_the_rest_kept() {
        for flexible in [false, true] {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (text, replaced) in [
                (&b"first"[..], "first"),
                (b"\xff", "\u{fffd}"),
                ("\u{e9}".as_bytes(), "\u{e9}"),
                (b"a\xc3(b\xf0\x9f", "a\u{fffd}(b\u{fffd}"),
                (b"last", "last"),
            ] {
                match flexible {
                    true => bytes.push(text.len() as u8 + 1),
                    false => bytes.extend_from_slice(&(text.len() as u16).to_be_bytes()),
                }
                bytes.extend_from_slice(text);
                expected.push(replaced);
            }
            let invalid = InvalidStrings::default();
            let mut reader = Reader::noting(&bytes, &invalid);
            let read: Vec<&str> = (0..5).map(|_| reader.string(flexible).unwrap()).collect();
            assert_eq!(read, ["first", "", "\u{e9}", "", "last"]);
            let replaced = invalid.replace_in(&bytes).unwrap();
            let mut reader = Reader::new(&replaced);
            let read: Vec<&str> = (0..5).map(|_| reader.string(flexible).unwrap()).collect();
            assert_eq!(read, expected);
            assert!(reader.is_empty());
            assert_eq!(InvalidStrings::default().replace_in(&bytes), None);
        }
    }

    #[test]
    fn a_tagged_field_grows_with_its_strings() {
        // One tagged field, 7: a string, and a tagged field 1 of its own with another.
        let inner = [1, 1, 2, 2, 0xff];
        let mut bytes = vec![1, 7, 3 + inner.len() as u8, 3, b'a', 0xfe];
        bytes.extend_from_slice(&inner);
        bytes.push(9);
        let read = |reader: &mut Reader<'_>| {
            let mut texts = Vec::new();
            let outer = reader.tagged_fields(|tag, field| {
                assert_eq!(tag, 7);
                texts.push(field.string(true)?.to_owned());
                field.tagged_fields(|tag, field| {
                    assert_eq!(tag, 1);
                    texts.push(field.string(true)?.to_owned());
                    Ok(())
                })
            });
            outer.unwrap();
            assert_eq!(reader.remaining(), [9]);
            texts
        };
        let invalid = InvalidStrings::default();
        read(&mut Reader::noting(&bytes, &invalid));
        let replaced = invalid.replace_in(&bytes).unwrap();
        let texts = read(&mut Reader::new(&replaced));
        assert_eq!(texts, ["a\u{fffd}", "\u{fffd}"]);
        // What is read again is noted again.
        read(&mut Reader::noting(&bytes, &invalid));
        assert_eq!(invalid.replace_in(&bytes).unwrap(), replaced);
    }

    #[test]
    fn a_tag_that_comes_again_and_again_counts_as_elements() {
        let count = 100;
        let mut bytes = vec![count];
        for _ in 0..count {
            bytes.extend_from_slice(&[0, 2, 2, 0xff]);
        }
        let read = |elements_max: usize| {
            let invalid = InvalidStrings::default();
            let mut reader = Reader::noting(&bytes, &invalid).with_elements_max(elements_max);
            reader.tagged_fields(|_, field| field.string(true).map(drop))
        };
        assert_eq!(read(100), Ok(()));
        assert_eq!(read(99), Err(crate::DecodeError::TooManyElements));
    }

    #[test]
    fn a_text_that_grows_beyond_the_protocol_is_cut() {
        let mut bytes = 0x7fff_u16.to_be_bytes().to_vec();
        bytes.resize(2 + 0x7fff, 0xff);
        let invalid = InvalidStrings::default();
        assert_eq!(Reader::noting(&bytes, &invalid).string(false), Ok(""));
        let replaced = invalid.replace_in(&bytes).unwrap();
        let text = Reader::new(&replaced).string(false).unwrap();
        assert_eq!(text, "\u{fffd}".repeat(0x7fff / 3));
    }
}
