//! Keys of records, of which there are few.

/// The key of a record, of which there are few: the last digit of the number in its value.
pub(crate) fn key_of(value: &str) -> &str {
    let name = value.split(' ').next().unwrap_or(value);
    name.get(name.len().saturating_sub(1)..).unwrap_or(name)
}
