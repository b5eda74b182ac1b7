//! A change of a table as the repartition topic of its grouping carries it. The last byte says
//! which form it has:
//!
//! | flag | bytes before it |
//! |--|--|
//! | 0, 1 | old value; new value |
//! | 2 | varint length of the new value, new value, old value |
//! | 3, 4, 5 | as 0, 1, 2, and a byte for "is the latest version of the key"; never written |

use super::FormatError;
use super::field_reader::FieldReader;
use model::varint::write_varint;

const OLD: u8 = 0;
const NEW: u8 = 1;
const BOTH: u8 = 2;
/// What the flags of forms with "is latest" are greater by.
const WITH_IS_LATEST: u8 = 3;

/// A change of a table: at least one of the values is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableChange<'a> {
    /// The serialized value after the change.
    pub new: Option<&'a [u8]>,
    /// The serialized value before the change.
    pub old: Option<&'a [u8]>,
    /// Whether the new value is the latest version of its key; a record that does not say so has it.
    pub is_latest: bool,
}

impl<'a> TableChange<'a> {
    /// Reads the value of a record.
    ///
    /// # Errors
    /// When the bytes end with no flag, or the length of the new value is wrong.
    pub fn read(value: &'a [u8]) -> Result<Self, FormatError> {
        let (flag, values) = value.split_last().ok_or(FormatError::Truncated)?;
        match *flag {
            OLD | NEW | BOTH => Self::of_form(*flag, values, true),
            3..=5 => {
                let (is_latest, values) = values.split_last().ok_or(FormatError::Truncated)?;
                let is_latest = FieldReader::new(std::slice::from_ref(is_latest)).flag()?;
                Self::of_form(flag - WITH_IS_LATEST, values, is_latest)
            }
            other => Err(FormatError::UnknownFlag(i32::from(other))),
        }
    }

    fn of_form(form: u8, values: &'a [u8], is_latest: bool) -> Result<Self, FormatError> {
        let (new, old) = match form {
            OLD => (None, Some(values)),
            NEW => (Some(values), None),
            _ => {
                let mut reader = FieldReader::new(values);
                let length = reader.varint()?;
                (Some(reader.take(length)?), Some(reader.rest()))
            }
        };
        Ok(Self {
            new,
            old,
            is_latest,
        })
    }

    /// Appends the value of a record; whether the change is the latest is not written.
    ///
    /// # Panics
    /// When both values are null, which no record says, or the new one takes 2 GiB or more.
    pub fn write(&self, out: &mut Vec<u8>) {
        match (self.new, self.old) {
            (Some(new), Some(old)) => {
                let length = i32::try_from(new.len()).expect("a value is smaller than 2 GiB");
                write_varint(length, out);
                out.extend_from_slice(new);
                out.extend_from_slice(old);
                out.push(BOTH);
            }
            (Some(new), None) => {
                out.extend_from_slice(new);
                out.push(NEW);
            }
            (None, Some(old)) => {
                out.extend_from_slice(old);
                out.push(OLD);
            }
            (None, None) => panic!("a change has an old value or a new one"),
        }
    }
}

/// Takes any bytes for a change.
pub fn fuzz_table_change(bytes: &[u8]) {
    if let Ok(change) = TableChange::read(bytes) {
        let mut written = Vec::new();
        change.write(&mut written);
        let again = TableChange::read(&written).map(|again| (again.new, again.old));
        assert_eq!(again, Ok((change.new, change.old)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::fuzz::hex;
    use proptest::prelude::*;

    fn change<'a>(new: Option<&'a [u8]>, old: Option<&'a [u8]>) -> TableChange<'a> {
        TableChange {
            new,
            old,
            is_latest: true,
        }
    }

    #[test]
    fn changes_are_those_of_kafka_streams() {
        for (new, old, expected) in [
            (Some(&b"n"[..]), None, "6e 01"),
            (None, Some(&b"o"[..]), "6f 00"),
            (Some(b"n"), Some(b"o"), "02 6e 6f 02"),
        ] {
            let mut bytes = Vec::new();
            change(new, old).write(&mut bytes);
            assert_eq!(bytes, hex(expected));
            assert_eq!(TableChange::read(&bytes), Ok(change(new, old)));
        }
        let bytes = hex("6f 01 03");
        assert_eq!(TableChange::read(&bytes), Ok(change(None, Some(b"o"))));
        let bytes = hex("6e 00 04");
        let later = TableChange::read(&bytes).unwrap();
        assert_eq!(
            (later.new, later.old, later.is_latest),
            (Some(&b"n"[..]), None, false)
        );
        let bytes = hex("02 6e 6f 01 05");
        assert_eq!(
            TableChange::read(&bytes),
            Ok(change(Some(b"n"), Some(b"o")))
        );
    }

    #[test]
    fn what_is_no_change_is_refused() {
        for (text, expected) in [
            ("", FormatError::Truncated),
            ("03", FormatError::Truncated),
            ("6e 06", FormatError::UnknownFlag(6)),
            ("6e 02 05", FormatError::UnknownFlag(2)),
            ("02", FormatError::Truncated),
            ("04 6e 02", FormatError::LengthBeyondEnd),
            ("01 6e 02", FormatError::NegativeLength),
            ("ffffffffff01 02", FormatError::VarintTooLong),
        ] {
            assert_eq!(TableChange::read(&hex(text)), Err(expected), "{text}");
        }
    }

    proptest! {
        #![proptest_config(trials::property(256))]

        #[test]
        fn changes_come_back(new: Option<Vec<u8>>, old: Option<Vec<u8>>, bytes: Vec<u8>) {
            fuzz_table_change(&bytes);
            let old = if new.is_none() { old.or(Some(bytes)) } else { old };
            let expected = change(new.as_deref(), old.as_deref());
            let mut written = Vec::new();
            expected.write(&mut written);
            prop_assert_eq!(TableChange::read(&written), Ok(expected));
        }
    }
}
