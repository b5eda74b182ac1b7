//! Numbers that tell rows of one key and window apart, in stores that keep duplicates.

/// The last number that was given. It starts anew with each process, and after 2^31 - 1.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    last: i32,
    scratch: Vec<u8>,
}

impl Sequence {
    /// `key` with the next number instead of the one that it ends with.
    pub(crate) fn number(&mut self, key: &[u8]) -> Vec<u8> {
        self.last = self.last.wrapping_add(1) & i32::MAX;
        let mut numbered = std::mem::take(&mut self.scratch);
        numbered.clear();
        let start = key.len().saturating_sub(size_of::<i32>());
        numbered.extend_from_slice(&key[..start]);
        numbered.extend_from_slice(&self.last.to_be_bytes());
        numbered
    }

    /// Takes the room of a key back that `number` has made.
    pub(crate) fn give_back(&mut self, numbered: Vec<u8>) {
        self.scratch = numbered;
    }
}
