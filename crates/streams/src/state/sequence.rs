//! Numbers that tell rows of one key and window apart, in stores that keep duplicates.

/// The last number that was given; after 2^31 - 1 they start anew.
///
/// A process goes on behind the numbers of those before it, or it would write over their rows. Each row has a record of
/// the changelog, so none of them is above the offset of the last record by more than one.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    last: i64,
    scratch: Vec<u8>,
}

impl Sequence {
    /// The changelog has a row at this offset.
    pub(crate) fn go_on_behind(&mut self, offset: i64) {
        self.last = self.last.max(offset.saturating_add(1));
    }

    /// The next number.
    pub(crate) fn next_number(&mut self) -> i32 {
        self.last = self.last.wrapping_add(1);
        self.last_number()
    }

    /// The last number.
    fn last_number(&self) -> i32 {
        i32::try_from(self.last & i64::from(i32::MAX)).expect("it has 31 bits")
    }

    /// `key` with the next number instead of the one that it ends with.
    pub(crate) fn number(&mut self, key: &[u8]) -> Vec<u8> {
        let number = self.next_number();
        self.numbered(key, number)
    }

    /// `key` with the last number instead of the one that it ends with: that of the row that was put last.
    pub(crate) fn with_last_number(&mut self, key: &[u8]) -> Vec<u8> {
        self.numbered(key, self.last_number())
    }

    fn numbered(&mut self, key: &[u8], number: i32) -> Vec<u8> {
        let mut numbered = std::mem::take(&mut self.scratch);
        numbered.clear();
        let start = key.len().saturating_sub(size_of::<i32>());
        numbered.extend_from_slice(&key[..start]);
        numbered.extend_from_slice(&number.to_be_bytes());
        numbered
    }

    /// Takes the room of a key back that `number` has made.
    pub(crate) fn give_back(&mut self, numbered: Vec<u8>) {
        self.scratch = numbered;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_behind_those_that_were_logged() {
        let mut sequence = Sequence::default();
        assert_eq!([sequence.next_number(), sequence.next_number()], [1, 2]);
        // Its own rows.
        sequence.go_on_behind(1);
        assert_eq!(sequence.next_number(), 3);
        sequence.go_on_behind(9);
        sequence.go_on_behind(4);
        assert_eq!(sequence.next_number(), 11);
        sequence.go_on_behind(i64::from(i32::MAX) - 2);
        assert_eq!(
            [sequence.next_number(), sequence.next_number()],
            [i32::MAX, 0]
        );
        sequence.go_on_behind(i64::MAX);
        assert_eq!(sequence.next_number(), 0);
    }
}
