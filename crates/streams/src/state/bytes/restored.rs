//! What came of a changelog on its way to the tables of a store.
//!
//! ```text
//!   changelog ──> rows ──────────> runs ──────────> merged ──────────> tables
//!                 in memory        sorted, in a     what is left of    one a step
//!                                  file             them
//! ```
//!
//! What is further to the right came before. Few rows are written as they are; those that memory has no room for wait
//! in files until all have come, and are merged into tables once.

use super::ByteString;
use super::family::Family;
use super::restored_rows::RestoredRows;
use super::restored_runs::{MergedRows, RestoredRuns};
use crate::store_fault::StoreFault;
use std::io;
use std::sync::Arc;

/// How many bytes of rows are put into the store at a time.
const TABLE_BYTES: usize = 16 << 20;
/// How many are read for that at most: they may be of few keys.
const READ_BYTES: u64 = 64 << 20;

/// Rows that are not in the store.
#[derive(Debug, Default)]
pub(super) struct Restored {
    rows: RestoredRows,
    runs: RestoredRuns,
    merged: Option<Merged>,
    /// Why nobody knows which rows of the runs are in the store.
    fault: Option<StoreFault>,
}

/// Runs some of whose rows are in the store.
#[derive(Debug)]
struct Merged {
    rows: MergedRows,
    /// The store had no rows before: those that are deleted hide none.
    hides_none: bool,
}

impl Restored {
    pub(super) const fn is_empty(&self) -> bool {
        self.rows.is_empty() && !self.has_files() && self.fault.is_none()
    }

    const fn has_files(&self) -> bool {
        self.merged.is_some() || !self.runs.is_empty()
    }

    /// What of them is in files.
    pub(super) fn file_bytes(&self) -> u64 {
        let merged = self.merged.as_ref();
        let merged_bytes = merged.map_or(0, |merged| merged.rows.left_bytes());
        self.runs.size_bytes() + merged_bytes
    }

    /// Forgets them.
    pub(super) fn give_up(self) -> Result<(), StoreFault> {
        self.check()
    }

    /// Those in memory, if there are no older ones.
    pub(super) fn only_rows(&mut self) -> Option<&mut RestoredRows> {
        let has_older = self.has_files() || self.fault.is_some();
        (!has_older).then_some(&mut self.rows)
    }

    /// Those in memory.
    pub(super) const fn rows(&mut self) -> &mut RestoredRows {
        &mut self.rows
    }

    /// Takes rows out of memory. If there are too many files, what was taken out before goes into the store in steps
    /// that follow what comes. A step has more rows than memory, so that a merge has ended when the next is due.
    pub(super) fn spill(&mut self, family: &Family) -> Result<(), StoreFault> {
        self.check()?;
        self.write_run(family)?;
        if self.merged.is_some() || self.runs.is_full() {
            self.write_table(family)?;
        }
        while self.merged.is_some() && self.runs.is_full() {
            self.write_table(family)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), StoreFault> {
        match &self.fault {
            Some(fault) => Err(fault.again()),
            None => Ok(()),
        }
    }

    fn write_run(&mut self, family: &Family) -> Result<(), StoreFault> {
        if !self.rows.is_empty() {
            self.runs.write(family.directory(), self.rows.sorted())?;
            self.rows.clear();
        }
        Ok(())
    }

    /// Puts rows that are in files into the store, at most a table of them, if there are more than so many bytes or
    /// some were put there before. Whether no more are left.
    pub(super) fn settle(&mut self, most_bytes: u64, family: &Family) -> Result<bool, StoreFault> {
        self.check()?;
        if self.merged.is_none() && self.runs.size_bytes() <= most_bytes {
            return Ok(true);
        }
        if self.merged.is_none() {
            self.write_run(family)?;
            self.rows.free();
        }
        self.write_table(family)?;
        Ok(self.merged.is_none() && self.runs.size_bytes() <= most_bytes)
    }

    /// Puts all rows into the store.
    pub(super) fn settle_all(&mut self, family: &Family) -> Result<(), StoreFault> {
        self.check()?;
        self.write_run(family)?;
        while self.has_files() {
            self.write_table(family)?;
        }
        Ok(())
    }

    /// Puts the next rows into the store that are in files. What a step has taken out of these is lost when it fails.
    fn write_table(&mut self, family: &Family) -> Result<(), StoreFault> {
        let written = self.write_next(family);
        if let Err(fault) = &written {
            self.fault = Some(fault.again());
        }
        written
    }

    fn write_next(&mut self, family: &Family) -> Result<(), StoreFault> {
        family.wait_for_tables()?;
        let mut merged = match self.merged.take() {
            Some(merged) => merged,
            None => Merged {
                rows: std::mem::take(&mut self.runs).merged(Arc::clone(self.rows.budget()))?,
                hides_none: family.is_empty()?,
            },
        };
        family.ingest(merged.table())?;
        if !merged.rows.is_at_end() {
            self.merged = Some(merged);
        }
        Ok(())
    }
}

impl Merged {
    /// The next rows, of about a table's size.
    fn table(&mut self) -> impl Iterator<Item = io::Result<(ByteString, Option<ByteString>)>> {
        let hides_none = self.hides_none;
        let rows = &mut self.rows;
        let mut left_bytes = TABLE_BYTES;
        let unread_bytes = rows.left_bytes().saturating_sub(READ_BYTES);
        let rows = std::iter::from_fn(move || {
            if left_bytes == 0 || rows.left_bytes() < unread_bytes {
                return None;
            }
            let row = rows.next()?;
            if let Ok((key, value)) = &row {
                let row_bytes = key.len() + value.as_ref().map_or(0, |value| value.len());
                left_bytes = left_bytes.saturating_sub(row_bytes);
            }
            Some(row)
        });
        rows.filter(move |row| !(hides_none && matches!(row, Ok((_, None)))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::task_database::TaskDatabase;
    use super::super::{ALL, Direction};
    use super::*;

    type Pair = (&'static str, Option<&'static str>);

    /// A map on a disk of its own.
    fn family() -> (Family, trials::Directory) {
        let directory = trials::directory();
        let database = TaskDatabase::open(&directory.path().join("stores")).expect("opened");
        let family = Family::open(&database, "s/default".to_owned()).expect("a keyspace");
        (family, directory)
    }

    fn take(restored: &mut Restored, rows: &[Pair]) {
        for (key, value) in rows {
            let value = value.map(str::as_bytes);
            assert!(restored.rows().push(key.as_bytes(), value));
        }
    }

    fn check(family: &Family, rows: &[(&str, &str)]) {
        let found = family.scan(&ALL, Direction::Forward, |value| value);
        let found: Vec<(String, String)> = found
            .map(|row| {
                let (key, value) = row.expect("read");
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                (text(&key), text(&value))
            })
            .collect();
        let borrowed: Vec<(&str, &str)> = found.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(borrowed, rows);
    }

    #[test]
    fn later_rows_hide_earlier_ones_wherever_they_wait() {
        let (family, _directory) = family();
        let mut restored = Restored::default();
        take(
            &mut restored,
            &[("", Some("1")), ("a", Some("1")), ("b", Some("1"))],
        );
        restored.spill(&family).expect("spilled");
        take(&mut restored, &[("a", Some("2")), ("b", None), ("c", None)]);
        restored.spill(&family).expect("spilled");
        take(&mut restored, &[("", Some("3")), ("d", Some("3"))]);
        assert!(
            restored.only_rows().is_none(),
            "others are to be written before"
        );
        restored.settle_all(&family).expect("written");
        assert!(restored.is_empty());
        check(&family, &[("", "3"), ("a", "2"), ("d", "3")]);
        assert_eq!(
            family.approximate_count(),
            3,
            "what is deleted hides nothing"
        );

        take(&mut restored, &[("a", None), ("e", Some("4"))]);
        restored.spill(&family).expect("spilled");
        take(&mut restored, &[("", None)]);
        assert!(restored.settle(1 << 20, &family).expect("few"));
        check(&family, &[("", "3"), ("a", "2"), ("d", "3")]);
        assert!(restored.settle(0, &family).expect("written"));
        check(&family, &[("d", "3"), ("e", "4")]);
    }

    #[test]
    fn a_store_settles_table_by_table_while_more_comes() {
        let (family, _directory) = family();
        let mut restored = Restored::default();
        let value = vec![b'v'; 1 << 20];
        for half in 0..2_u8 {
            for number in 0..10_u8 {
                let key = [b'0' + half, b'0' + number];
                assert!(restored.rows().push(&key, Some(&value)));
            }
            restored.spill(&family).expect("spilled");
        }
        assert!(!restored.settle(0, &family).expect("written"));
        assert!(restored.runs.is_empty());
        assert_eq!(family.approximate_count(), 16);
        // What comes meanwhile is newer than what is left.
        take(&mut restored, &[("18", Some("new")), ("19", None)]);
        restored.spill(&family).expect("spilled");
        let left = restored.merged.is_none();
        assert!(left, "a step was done");
        assert_eq!(family.approximate_count(), 20);
        restored.settle_all(&family).expect("written");
        let newest = family.get(b"18").expect("read");
        assert_eq!(newest.as_deref(), Some(&b"new"[..]));
        assert_eq!(family.get(b"19").expect("read"), None);
    }

    /// Whoever waits for a step waits no longer for rows that hide others.
    #[test]
    fn a_step_ends_though_few_keys_come_of_it() {
        let (family, _directory) = family();
        let mut restored = Restored::default();
        let value = vec![b'v'; 100 << 10];
        for _ in 0..40 {
            for number in 0..20_u8 {
                assert!(restored.rows().push(&[number], Some(&value)));
            }
            restored.spill(&family).expect("spilled");
        }
        let all_bytes = restored.file_bytes();
        assert!(!restored.settle(0, &family).expect("a step"));
        let read_bytes = all_bytes - restored.file_bytes();
        let of_key_bytes = all_bytes / 20;
        assert!(read_bytes > READ_BYTES && read_bytes <= READ_BYTES + 2 * of_key_bytes);
        assert!(restored.settle(0, &family).expect("a step"));
        assert_eq!(family.approximate_count(), 20);
    }

    /// Nobody may note that the rows are there.
    #[test]
    fn rows_that_a_step_has_lost_are_never_forgotten() {
        let (family, _directory) = family();
        let mut restored = Restored::default();
        take(&mut restored, &[("a", Some("1")), ("b", Some("1"))]);
        restored.spill(&family).expect("spilled");
        restored.runs.file().cut();
        assert!(restored.settle(0, &family).is_err());
        assert!(!restored.is_empty());
        assert!(restored.only_rows().is_none());
        for _ in 0..2 {
            for lost in [
                restored.settle_all(&family),
                restored.settle(u64::MAX, &family).map(|_| ()),
                restored.spill(&family),
            ] {
                let is_first = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
                assert!(matches!(&lost, Err(StoreFault::Disk(error)) if is_first(error)));
            }
        }
        assert!(restored.give_up().is_err());
    }
}
