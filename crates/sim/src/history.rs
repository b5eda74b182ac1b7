//! What has happened in a world, as one number: two runs of a seed have the same, or the world is not
//! what it says it is.

use std::fmt;

/// The digest of all that has happened so far (FNV-1a, by words), and the lines of it if they are wanted.
#[derive(Debug)]
pub(crate) struct History {
    digest: u64,
    pub(crate) lines: Option<Vec<String>>,
}

impl History {
    pub(crate) fn new(keeps_lines: bool) -> Self {
        Self {
            digest: 0xcbf2_9ce4_8422_2325,
            lines: keeps_lines.then(Vec::new),
        }
    }

    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let mut add = |word: u64| {
            self.digest = (self.digest ^ word).wrapping_mul(0x0100_0000_01b3);
            self.digest ^= self.digest >> 29;
        };
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| add(u64::from(*byte)));
    }

    /// Notes that something happened at a time.
    pub(crate) fn note(&mut self, at_ms: i64, what: fmt::Arguments<'_>) {
        let line = format!("{at_ms:>6} {what}");
        self.bytes(line.as_bytes());
        if let Some(lines) = &mut self.lines {
            lines.push(line);
        }
    }

    /// Notes what its bytes have told already: lines alone.
    pub(crate) fn show(&mut self, at_ms: i64, what: fmt::Arguments<'_>) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{at_ms:>6} {what}"));
        }
    }
}
