//! Which leader wrote which offsets: `leader-epoch-checkpoint`.
//!
//! Each entry is an epoch with the first offset written in it; it reaches to the next entry, the
//! last one to the end of the log. Text like the other checkpoints, `epoch offset` per line:
//!
//! ```text
//!   0            epochs    2        5        7
//!   3            offsets   [0..10)  [10..11) [11..
//!   2 0
//!   5 10         end of epoch 4? -> epoch 2 ends at 10
//!   7 11         end of epoch 7? -> the end of the log
//! ```
//!
//! Epochs and offsets both ascend; an entry that contradicts older ones replaces them.

use model::{LeaderEpoch, Offset};
use std::fmt::Write;
use std::path::Path;

use crate::checkpoint;
use crate::disk::Disk;

/// Name of the file in a partition's directory.
pub const LEADER_EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";
/// A file that is longer is not read at once.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The first offset of a leader epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderEpochStart {
    /// The epoch.
    pub leader_epoch: LeaderEpoch,
    /// Offset of the first record that its leader wrote, or could have written.
    pub start_offset: Offset,
}

/// Where a leader epoch ends, as `OffsetForLeaderEpoch` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderEpochEnd {
    /// The largest epoch that is known and not above the one asked for.
    pub leader_epoch: LeaderEpoch,
    /// Its end, exclusive.
    pub end_offset: Offset,
}

/// The history of leader epochs of one log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    /// Ascending in both fields.
    entries: Vec<LeaderEpochStart>,
}

impl LeaderEpochs {
    /// Reads the text of the file. Entries out of order are damage, and so is a last line without its end: its
    /// offset may have had more digits.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut entries: Vec<LeaderEpochStart> = Vec::new();
        for line in checkpoint::lines(bytes)? {
            let entry = parse_line(line).ok_or(format!("it has the line `{line}`"))?;
            let ascending = entries.last().is_none_or(|last| {
                last.leader_epoch < entry.leader_epoch && last.start_offset <= entry.start_offset
            });
            if !ascending {
                return Err(format!("the line `{line}` is not above the one before"));
            }
            entries.push(entry);
        }
        Ok(Self { entries })
    }

    /// Those in a partition's directory; `None` where the file does not say, and only the log does.
    pub(crate) fn read<D: Disk>(disk: &D, directory: &Path) -> Option<Self> {
        let path = directory.join(LEADER_EPOCH_CHECKPOINT);
        let bytes = disk.read(&path, FILE_BYTES_MAX).ok()?;
        Self::parse(&bytes).ok().filter(|_| !bytes.is_empty())
    }

    /// The text of the file.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("0\n{}\n", self.entries.len());
        for entry in &self.entries {
            let LeaderEpochStart {
                leader_epoch,
                start_offset,
            } = entry;
            writeln!(text, "{leader_epoch} {start_offset}").expect("a string takes all");
        }
        text
    }

    /// All entries, ascending.
    pub fn entries(&self) -> &[LeaderEpochStart] {
        &self.entries
    }

    /// The current epoch, if any is known.
    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|entry| entry.leader_epoch)
    }

    /// Notes that `leader_epoch` writes from `start_offset` on; returns whether that is news.
    /// Entries that contradict it go.
    pub(crate) fn assign(&mut self, leader_epoch: LeaderEpoch, start_offset: Offset) -> bool {
        if leader_epoch.is_none() || start_offset < Offset::ZERO {
            return false;
        }
        let known = self.entries.last().is_some_and(|last| {
            last.leader_epoch == leader_epoch && last.start_offset <= start_offset
        });
        if known {
            return false;
        }
        while self
            .entries
            .pop_if(|last| last.leader_epoch >= leader_epoch || last.start_offset >= start_offset)
            .is_some()
        {}
        // Most logs have one entry, and are many: room for four is not made with the first one.
        self.entries
            .reserve_exact(usize::from(self.entries.is_empty()));
        self.entries.push(LeaderEpochStart {
            leader_epoch,
            start_offset,
        });
        true
    }

    /// The epoch in which the record at `offset` was written.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self
            .entries
            .partition_point(|entry| entry.start_offset <= offset);
        self.entries[..after].last().map(|entry| entry.leader_epoch)
    }

    /// Where the largest known epoch that is not above `leader_epoch` ends; `None` when the
    /// epoch asked for is above all that are known.
    pub fn end_offset_for(
        &self,
        leader_epoch: LeaderEpoch,
        log_end_offset: Offset,
    ) -> Option<LeaderEpochEnd> {
        // Only this number stands for none: another negative epoch is one before all that are known.
        if leader_epoch == LeaderEpoch::NONE {
            return None;
        }
        if self.latest() == Some(leader_epoch) {
            return Some(LeaderEpochEnd {
                leader_epoch,
                end_offset: log_end_offset,
            });
        }
        let above = self
            .entries
            .partition_point(|entry| entry.leader_epoch <= leader_epoch);
        let next = self.entries.get(above)?;
        let floor = self.entries[..above].last();
        Some(LeaderEpochEnd {
            // Before the first entry nothing is left to tell the epoch from the one asked for.
            leader_epoch: floor.map_or(leader_epoch, |entry| entry.leader_epoch),
            end_offset: next.start_offset,
        })
    }

    /// Drops epochs that start at `end_offset` or above; returns whether there were any.
    pub(crate) fn truncate_from_end(&mut self, end_offset: Offset) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.start_offset < end_offset);
        before != self.entries.len()
    }

    /// Forgets offsets below `start_offset`; the epoch that covers it starts there from now on.
    pub(crate) fn truncate_from_start(&mut self, start_offset: Offset) -> bool {
        let covered = self
            .entries
            .partition_point(|entry| entry.start_offset <= start_offset);
        let Some(last) = covered.checked_sub(1) else {
            return false;
        };
        let changed = last > 0 || self.entries[last].start_offset != start_offset;
        self.entries[last].start_offset = start_offset;
        self.entries.drain(..last);
        changed
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

fn parse_line(line: &str) -> Option<LeaderEpochStart> {
    let (leader_epoch, start_offset) = line.trim().split_once(' ')?;
    Some(LeaderEpochStart {
        leader_epoch: LeaderEpoch(leader_epoch.parse().ok().filter(|epoch| *epoch >= 0)?),
        start_offset: start_offset
            .trim()
            .parse()
            .ok()
            .filter(|offset| *offset >= Offset::ZERO)?,
    })
}

/// Takes any bytes for the file: what it accepts must come back from its own text.
pub fn fuzz_leader_epochs(bytes: &[u8]) {
    if let Ok(epochs) = LeaderEpochs::parse(bytes) {
        assert_eq!(LeaderEpochs::parse(epochs.to_text().as_bytes()), Ok(epochs));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn epochs(entries: &[(i32, i64)]) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        for (leader_epoch, start_offset) in entries {
            assert!(epochs.assign(LeaderEpoch(*leader_epoch), Offset(*start_offset)));
        }
        epochs
    }

    fn shown(epochs: &LeaderEpochs) -> String {
        let entry =
            |entry: &LeaderEpochStart| format!("{}@{}", entry.leader_epoch, entry.start_offset);
        epochs
            .entries
            .iter()
            .map(entry)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn text_is_kafkas() {
        let text = "0\n2\n0 0\n3 17\n";
        let parsed = LeaderEpochs::parse(text.as_bytes()).unwrap();
        assert_eq!(shown(&parsed), "0@0 3@17");
        assert_eq!(parsed.to_text(), text);
        assert_eq!(shown(&LeaderEpochs::parse(b"").unwrap()), "");
        for damaged in [
            "0\n1\n",
            "0\n1\n0\n",
            "0\n2\n1 0\n1 5\n",
            "0\n2\n1 5\n2 4\n",
            "0\n2\n0 0\n3 1",
        ] {
            assert!(
                LeaderEpochs::parse(damaged.as_bytes()).is_err(),
                "{damaged}"
            );
        }
    }

    #[test]
    fn an_entry_replaces_those_it_contradicts() {
        let check = |known: &[(i32, i64)], news: (i32, i64), expected: &str| {
            let mut epochs = epochs(known);
            epochs.assign(LeaderEpoch(news.0), Offset(news.1));
            assert_eq!(shown(&epochs), expected, "{known:?} + {news:?}");
        };
        check(&[], (0, 0), "0@0");
        check(&[(0, 0), (1, 10)], (2, 20), "0@0 1@10 2@20");
        check(&[(0, 0), (1, 10)], (1, 15), "0@0 1@10");
        check(&[(0, 0), (1, 10)], (1, 5), "0@0 1@5");
        check(&[(0, 0), (1, 10)], (2, 10), "0@0 2@10");
        check(&[(0, 0), (5, 10)], (2, 7), "0@0 2@7");
        check(&[(0, 0)], (-1, 7), "0@0");
    }

    #[test]
    fn epochs_end_where_the_next_one_starts() {
        let known = epochs(&[(2, 5), (5, 10), (7, 11)]);
        let check = |epoch, expected: Option<(LeaderEpoch, Offset)>| {
            let found = known.end_offset_for(epoch, Offset(100));
            assert_eq!(
                found.map(|end| (end.leader_epoch, end.end_offset)),
                expected
            );
        };
        check(LeaderEpoch::NONE, None);
        check(LeaderEpoch(-5), Some((LeaderEpoch(-5), Offset(5))));
        check(LeaderEpoch(0), Some((LeaderEpoch(0), Offset(5))));
        check(LeaderEpoch(2), Some((LeaderEpoch(2), Offset(10))));
        check(LeaderEpoch(4), Some((LeaderEpoch(2), Offset(10))));
        check(LeaderEpoch(6), Some((LeaderEpoch(5), Offset(11))));
        check(LeaderEpoch(7), Some((LeaderEpoch(7), Offset(100))));
        check(LeaderEpoch(8), None);
    }

    #[test]
    fn an_offset_belongs_to_the_epoch_that_covers_it() {
        let known = epochs(&[(2, 5), (5, 10)]);
        assert_eq!(known.epoch_for_offset(Offset(4)), None);
        assert_eq!(known.epoch_for_offset(Offset(5)), Some(LeaderEpoch(2)));
        assert_eq!(known.epoch_for_offset(Offset(9)), Some(LeaderEpoch(2)));
        assert_eq!(known.epoch_for_offset(Offset(10)), Some(LeaderEpoch(5)));
    }

    #[test]
    fn truncation_keeps_the_epoch_of_what_is_left() {
        let known = [(2, 5), (5, 10), (7, 20)];
        let from_end = |offset, expected: &str| {
            let mut epochs = epochs(&known);
            epochs.truncate_from_end(offset);
            assert_eq!(shown(&epochs), expected, "from the end at {offset}");
        };
        from_end(Offset(21), "2@5 5@10 7@20");
        from_end(Offset(20), "2@5 5@10");
        from_end(Offset(5), "");
        let from_start = |offset, expected: &str| {
            let mut epochs = epochs(&known);
            epochs.truncate_from_start(offset);
            assert_eq!(shown(&epochs), expected, "from the start at {offset}");
        };
        from_start(Offset(4), "2@5 5@10 7@20");
        from_start(Offset(7), "2@7 5@10 7@20");
        from_start(Offset(10), "5@10 7@20");
        from_start(Offset(30), "7@30");
    }

    proptest! {
        #![proptest_config(trials::property(200))]
        #[test]
        fn any_bytes_are_taken(text in "0\n[0-3]\n([0-9 ]{1,4}\n){0,4}\\PC?") {
            fuzz_leader_epochs(text.as_bytes());
        }
    }
}
