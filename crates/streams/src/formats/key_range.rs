//! A range of stored keys that holds everything a fetch may want, and what of it is wanted.
//!
//! Keys of several lengths do not sort by key and time once times stand behind them: `a` at a late
//! time may sort after `a\0` at an early one. So the range of a fetch over several keys is wider
//! than the fetch, and each key that is found in it is looked at again.

use std::ops::{Bound, RangeBounds};

/// A range of stored keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    lower: Vec<u8>,
    upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Both ends belong to the range; nothing does when they are the wrong way round.
    pub(super) fn inclusive(lower: Vec<u8>, upper: Vec<u8>) -> Self {
        // Maps refuse ranges that end before they start.
        let upper = match lower <= upper {
            true => Bound::Included(upper),
            false => Bound::Excluded(lower.clone()),
        };
        Self { lower, upper }
    }

    /// From a key on without end.
    pub(super) const fn from(lower: Vec<u8>) -> Self {
        let upper = Bound::Unbounded;
        Self { lower, upper }
    }

    /// All keys.
    pub const fn all() -> Self {
        Self::from(Vec::new())
    }

    /// All keys that begin with these bytes.
    pub fn of_prefix(prefix: &[u8]) -> Self {
        Self::up_to_prefix(prefix.to_vec(), prefix)
    }

    /// All keys from one on to the last that begins with `prefix`.
    pub(super) fn up_to_prefix(lower: Vec<u8>, prefix: &[u8]) -> Self {
        let upper = match end_of_prefix(prefix) {
            Some(end) => Bound::Excluded(end.max(lower.clone())),
            None => Bound::Unbounded,
        };
        Self { lower, upper }
    }

    /// The first key that may be in the range.
    pub fn lower(&self) -> &[u8] {
        &self.lower
    }

    /// Whether a stored key is in the range.
    pub fn contains(&self, stored_key: &[u8]) -> bool {
        RangeBounds::contains(self, stored_key)
    }

    /// Where the range ends.
    pub fn upper(&self) -> Bound<&[u8]> {
        self.upper.as_ref().map(Vec::as_slice)
    }
}

impl RangeBounds<[u8]> for KeyRange {
    fn start_bound(&self) -> Bound<&[u8]> {
        Bound::Included(&self.lower)
    }

    fn end_bound(&self) -> Bound<&[u8]> {
        self.upper()
    }
}

/// The first bytes behind all that begin with `prefix`, if there are any.
fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The lowest stored key whose key is `from` or greater: times and sequence numbers are not below
/// zero, so `suffix_bytes` zeros behind it.
pub(super) fn lowest(prefix: &[u8], from: &[u8], suffix_bytes: usize) -> Vec<u8> {
    let mut lower = [prefix, from].concat();
    lower.resize(lower.len() + suffix_bytes, 0);
    lower
}

/// The highest stored key whose key is `to` or less and whose suffix is `suffix` at most.
///
/// A key that is less than `to` without being a beginning of it sorts before all that begins with
/// `to`. So it is one of the beginnings of `to`, which may be `to` itself, with the suffix.
pub(super) fn highest(prefix: &[u8], to: &[u8], suffix: &[u8]) -> Vec<u8> {
    let mut length = to.len();
    for shorter in (0..to.len()).rev() {
        // Whether the suffix is greater where the longer key goes on.
        let longer = to[shorter..length].iter().chain(suffix);
        if suffix.iter().gt(longer) {
            length = shorter;
        }
    }
    [prefix, &to[..length], suffix].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        let upper = |prefix: &[u8]| KeyRange::of_prefix(prefix).upper;
        assert_eq!(upper(b"a"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(upper(b"a\xff\xff"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(upper(b"\xff"), Bound::Unbounded);
        assert_eq!(upper(b""), Bound::Unbounded);
    }

    #[test]
    fn ends_the_wrong_way_round_hold_nothing() {
        for range in [
            KeyRange::inclusive(b"b".to_vec(), b"a".to_vec()),
            KeyRange::up_to_prefix(b"b".to_vec(), b"a"),
            KeyRange::up_to_prefix(b"c".to_vec(), b"a"),
        ] {
            let map = std::collections::BTreeMap::from([(b"b".to_vec(), ()), (b"a".to_vec(), ())]);
            assert_eq!(map.range::<[u8], _>(range).count(), 0);
        }
    }

    #[test]
    fn a_beginning_with_a_late_time_is_the_highest() {
        assert_eq!(highest(b"", b"ab", &[0, 7]), b"ab\0\x07");
        assert_eq!(highest(b"", b"a\0", &[0, 7]), b"a\0\x07");
        assert_eq!(highest(b"", b"a\0\0", &[0, 7]), b"a\0\x07");
        assert_eq!(highest(b"", b"\0a", &[0, 7]), b"\0a\0\x07");
        assert_eq!(highest(b"\x01", b"", &[0, 7]), b"\x01\0\x07");
    }
}
