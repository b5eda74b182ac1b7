//! What has come out of a codec and not been passed over.

/// Bytes that are appended at one end and dropped at the other.
///
/// The room behind them keeps what was in it: codecs that write into initialized memory would
/// otherwise have it zeroed for each block, which costs a third of what LZ4 takes to fill it.
#[derive(Debug, Default)]
pub(crate) struct Expanded {
    /// `bytes[..end]` is what it holds, the rest is room.
    bytes: Vec<u8>,
    end: usize,
}

impl Expanded {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    pub(crate) const fn len(&self) -> usize {
        self.end
    }

    pub(crate) const fn clear(&mut self) {
        self.end = 0;
    }

    /// Drops the first `count` bytes that it holds.
    pub(crate) fn drop_front(&mut self, count: usize) {
        self.bytes.copy_within(count..self.end, 0);
        self.end -= count;
    }

    /// Gives back what is beyond `kept_bytes`.
    pub(crate) fn shrink_to(&mut self, kept_bytes: usize) {
        if self.bytes.len() > kept_bytes.max(self.end) {
            self.bytes.truncate(kept_bytes.max(self.end));
        }
        self.bytes.shrink_to(kept_bytes);
    }

    /// Room for `size_bytes` behind what it holds, of whatever contents.
    pub(super) fn room(&mut self, size_bytes: usize) -> &mut [u8] {
        let needed_bytes = self.end + size_bytes;
        if self.bytes.len() < needed_bytes {
            self.bytes.resize(needed_bytes, 0);
        }
        &mut self.bytes[self.end..needed_bytes]
    }

    /// Holds the first `size_bytes` of the room as well.
    pub(super) fn fill_room(&mut self, size_bytes: usize) {
        self.end += size_bytes;
        assert!(self.end <= self.bytes.len(), "the room was asked for");
    }

    /// Appends by a codec that writes behind the end of a vector.
    pub(super) fn append<T>(&mut self, append: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.bytes.truncate(self.end);
        let appended = append(&mut self.bytes);
        self.end = self.bytes.len();
        appended
    }

    /// With what a caller's vector holds.
    pub(super) const fn from_vec(bytes: Vec<u8>) -> Self {
        let end = bytes.len();
        Self { bytes, end }
    }

    pub(super) fn into_vec(mut self) -> Vec<u8> {
        self.bytes.truncate(self.end);
        self.bytes
    }
}
