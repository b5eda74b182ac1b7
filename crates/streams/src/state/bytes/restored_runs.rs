//! Rows of a changelog that memory has no room for: sorted runs in a file, and the rows of all runs in order.
//!
//! ```text
//!   rows in memory ──sorted──> run | run | run     a file without a name, one after the other
//!                                └────┴────┘
//!                            merged: the newest row of each key, once, for tables of the store
//! ```
//!
//! A run is rows as they are, without filters: nobody looks for a row in it, and it goes with the process.
//! So what tables cost is paid once a key, however often a changelog has it.

use super::ByteString;
use super::budget::Budget;
use super::span_file::{BLOCK_BYTES, Span, SpanFile};
use std::cmp::Ordering;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// So many runs are merged. They have as many rows as memory has room for, 256 times.
const RUNS: usize = 256;
/// Fewer are, if the largest rows of all runs, which are in memory at once, have more bytes.
const LARGEST_ROWS_BYTES: usize = 16 << 20;
/// Bytes of all runs that are read ahead.
const READ_BYTES: usize = 4 << 20;
/// At most so many of one run.
const RUN_READ_BYTES: usize = 256 << 10;
/// Before a row: the lengths of key and value.
const HEAD_BYTES: usize = 6;
/// Stands for the length of a value when there is none.
const DELETED: u32 = u32::MAX;

/// How a key goes on behind what all keys begin with: enough to compare most keys without a look at them.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyRest {
    /// The first bytes, as a number that is in their order.
    pub(super) first: u64,
    /// How many bytes there are.
    pub(super) size_bytes: usize,
}

impl KeyRest {
    const AT_END: Self = Self {
        first: u64::MAX,
        size_bytes: usize::MAX,
    };

    pub(super) fn of(key: &[u8], shared_bytes: usize) -> Self {
        let rest = key.get(shared_bytes..).unwrap_or_default();
        let mut first = [0; size_of::<u64>()];
        match rest.first_chunk() {
            Some(whole) => first = *whole,
            None => first[..rest.len()].copy_from_slice(rest),
        }
        Self {
            first: u64::from_be_bytes(first),
            size_bytes: rest.len(),
        }
    }

    /// How two keys are ordered; none when the bytes that follow decide.
    pub(super) fn compare(self, other: Self) -> Option<Ordering> {
        let sizes_bytes = (self.size_bytes, other.size_bytes);
        match self.first.cmp(&other.first) {
            // Of two that differ in zeros at the end, which are those of the number, the shorter one is first.
            Ordering::Equal if sizes_bytes.0.max(sizes_bytes.1) <= size_of::<u64>() => {
                Some(sizes_bytes.0.cmp(&sizes_bytes.1))
            }
            Ordering::Equal => None,
            order => Some(order),
        }
    }
}

/// How many bytes two keys begin with.
pub(super) fn shared_bytes(left: &[u8], right: &[u8]) -> usize {
    let pairs = left.iter().zip(right);
    pairs.take_while(|(left, right)| left == right).count()
}

/// The runs of one map, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RestoredRuns {
    /// Not there before the first run.
    file: Option<SpanFile>,
    runs: Vec<Span>,
    /// What all keys begin with.
    shared: Option<Vec<u8>>,
    /// What is in memory of all runs together when they are merged: of each its largest row, or what is read at once.
    read_bytes: usize,
}

impl RestoredRuns {
    pub(super) const fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether these are to be merged before others come.
    pub(super) const fn is_full(&self) -> bool {
        self.runs.len() >= RUNS || self.read_bytes > LARGEST_ROWS_BYTES
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, SpanFile::size_bytes)
    }

    /// Writes a run of rows that are sorted by key, each key once. When that fails there is no such run.
    pub(super) fn write<'a>(
        &mut self,
        directory: &Path,
        rows: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(SpanFile::new(directory)?),
        };
        let mut out = file.writer();
        let mut ends: Option<(&[u8], &[u8])> = None;
        let mut largest_bytes = 0;
        for (key, value) in rows {
            out.put(&head(key, value)?)?;
            out.put(key)?;
            out.put(value.unwrap_or_default())?;
            let row_bytes = HEAD_BYTES + key.len() + value.map_or(0, <[u8]>::len);
            largest_bytes = largest_bytes.max(row_bytes);
            ends = Some((ends.map_or(key, |(first, _)| first), key));
        }
        // Keys between two have what both begin with.
        if let Some((first, last)) = ends {
            self.runs.push(out.finish()?);
            let shared = self.shared.get_or_insert_with(|| first.to_vec());
            shared.truncate(shared_bytes(shared, first));
            shared.truncate(shared_bytes(shared, last));
            self.read_bytes += largest_bytes.next_multiple_of(BLOCK_BYTES);
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> &SpanFile {
        self.file.as_ref().expect("a run")
    }

    /// The rows of all runs.
    pub(super) fn merged(self, budget: Arc<Budget>) -> io::Result<MergedRows> {
        let left_bytes = self.size_bytes();
        let Some(file) = self.file else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let most = READ_BYTES / self.runs.len().max(1);
        let mut merged = MergedRows {
            file,
            rests: vec![KeyRest::AT_END; self.runs.len()],
            runs: self.runs.into_iter().map(Run::new).collect(),
            order: Vec::new(),
            shared_bytes: self.shared.map_or(0, |shared| shared.len()),
            read_bytes: most.min(RUN_READ_BYTES),
            budget,
            held_bytes: 0,
            left_bytes,
        };
        for at in 0..merged.runs.len() {
            merged.read_next(at)?;
        }
        merged.arrange();
        Ok(merged)
    }
}

fn head(key: &[u8], value: Option<&[u8]>) -> io::Result<[u8; HEAD_BYTES]> {
    let key_bytes = u16::try_from(key.len()).map_err(io::Error::other)?;
    let value_bytes = match value {
        Some(value) => u32::try_from(value.len()).map_err(io::Error::other)?,
        None => DELETED,
    };
    let mut head = [0; HEAD_BYTES];
    head[..2].copy_from_slice(&key_bytes.to_le_bytes());
    head[2..].copy_from_slice(&value_bytes.to_le_bytes());
    Ok(head)
}

/// The rows of all runs by key, the newest of each.
#[derive(Debug)]
pub(super) struct MergedRows {
    file: SpanFile,
    /// The oldest first.
    runs: Vec<Run>,
    /// Of the next key of each run.
    rests: Vec<KeyRest>,
    /// A tournament: the first is the run with the next row, each other the loser of its two branches.
    order: Vec<usize>,
    shared_bytes: usize,
    /// So much of a run is read ahead.
    read_bytes: usize,
    budget: Arc<Budget>,
    /// What the buffers of the runs have of it.
    held_bytes: usize,
    /// What is still to come, with what is hidden.
    left_bytes: u64,
}

impl Drop for MergedRows {
    fn drop(&mut self) {
        self.budget.give_back(self.held_bytes);
    }
}

impl MergedRows {
    /// Whether no row is left.
    pub(super) fn is_at_end(&self) -> bool {
        self.next_run().row.is_none()
    }

    pub(super) const fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    fn next_run(&self) -> &Run {
        &self.runs[self.order[0]]
    }

    fn read_next(&mut self, at: usize) -> io::Result<()> {
        let run = &mut self.runs[at];
        self.left_bytes -= run.row_bytes();
        let capacity_bytes = run.buffer.capacity();
        let read = run.read_next(&self.file, self.read_bytes);
        if run.buffer.capacity() != capacity_bytes {
            self.budget.take(run.buffer.capacity());
            self.budget.give_back(capacity_bytes);
            self.held_bytes += run.buffer.capacity();
            self.held_bytes -= capacity_bytes;
        }
        read?;
        self.rests[at] = match run.row {
            Some(_) => KeyRest::of(run.key(), self.shared_bytes),
            None => KeyRest::AT_END,
        };
        Ok(())
    }

    /// Plays all matches.
    fn arrange(&mut self) {
        let count = self.runs.len();
        self.order = vec![0; count];
        let mut winners = vec![0; count];
        winners.extend(0..count);
        for at in (1..count).rev() {
            let (left, right) = (winners[2 * at], winners[2 * at + 1]);
            let (winner, loser) = match self.is_before(left, right) {
                true => (left, right),
                false => (right, left),
            };
            (winners[at], self.order[at]) = (winner, loser);
        }
        self.order[0] = winners[1];
    }

    /// Goes on in the run with the next row, and plays its matches again.
    fn pass(&mut self) -> io::Result<()> {
        let mut winner = self.order[0];
        self.read_next(winner)?;
        let mut at = (winner + self.runs.len()) / 2;
        while at > 0 {
            let loser = self.order[at];
            if self.is_before(loser, winner) {
                self.order[at] = winner;
                winner = loser;
            }
            at /= 2;
        }
        self.order[0] = winner;
        Ok(())
    }

    /// Whether the row of a run comes before that of another; of the same key the newer one does.
    fn is_before(&self, left: usize, right: usize) -> bool {
        let order = match self.rests[left].compare(self.rests[right]) {
            Some(order) => order,
            None => self.compare_whole(left, right),
        };
        order.then(right.cmp(&left)).is_lt()
    }

    #[cold]
    fn compare_whole(&self, left: usize, right: usize) -> Ordering {
        let (left, right) = (&self.runs[left], &self.runs[right]);
        let is_at_end = |run: &Run| run.row.is_none();
        is_at_end(left)
            .cmp(&is_at_end(right))
            .then_with(|| left.key().cmp(right.key()))
    }
}

impl Iterator for MergedRows {
    /// A row without a value is deleted.
    type Item = io::Result<(ByteString, Option<ByteString>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let run = self.next_run();
        run.row.as_ref()?;
        let key = ByteString::from(run.key());
        let value = run.value().map(ByteString::from);
        let rest = self.rests[self.order[0]];
        loop {
            if let Err(error) = self.pass() {
                return Some(Err(error));
            }
            let is_same = match rest.compare(self.rests[self.order[0]]) {
                Some(order) => order.is_eq(),
                None => !self.is_at_end() && *self.next_run().key() == *key,
            };
            if !is_same {
                return Some(Ok((key, value)));
            }
        }
    }
}

/// A run that is read.
#[derive(Debug)]
struct Run {
    /// What is still to be read of the file.
    unread: Span,
    buffer: Vec<u8>,
    /// Where the next row is in the buffer; none at the end.
    row: Option<Row>,
    /// Where what follows it begins.
    next: usize,
}

/// Where the parts of a row are.
#[derive(Debug, Clone)]
struct Row {
    key: Range<usize>,
    value: Option<Range<usize>>,
}

impl Run {
    const fn new(unread: Span) -> Self {
        Self {
            unread,
            buffer: Vec::new(),
            row: None,
            next: 0,
        }
    }

    fn key(&self) -> &[u8] {
        let row = self.row.as_ref();
        row.map_or(&[], |row| &self.buffer[row.key.clone()])
    }

    fn value(&self) -> Option<&[u8]> {
        let value = self.row.as_ref()?.value.clone()?;
        Some(&self.buffer[value])
    }

    /// What the next row takes of the file.
    fn row_bytes(&self) -> u64 {
        let row = self.row.as_ref();
        row.map_or(0, |row| (self.next - row.key.start + HEAD_BYTES) as u64)
    }

    fn read_next(&mut self, file: &SpanFile, read_bytes: usize) -> io::Result<()> {
        self.row = None;
        if self.next == self.buffer.len() && self.unread.unread_bytes() == 0 {
            self.buffer = Vec::new();
            self.next = 0;
            return Ok(());
        }
        self.fill(HEAD_BYTES, file, read_bytes)?;
        let head = &self.buffer[self.next..][..HEAD_BYTES];
        let key_bytes = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let noted_bytes = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
        let is_there = noted_bytes != DELETED;
        let value_bytes = if is_there { noted_bytes as usize } else { 0 };
        self.fill(HEAD_BYTES + key_bytes + value_bytes, file, read_bytes)?;
        let start = self.next + HEAD_BYTES;
        let middle = start + key_bytes;
        self.next = middle + value_bytes;
        self.row = Some(Row {
            key: start..middle,
            value: is_there.then_some(middle..self.next),
        });
        Ok(())
    }

    /// Has so many bytes in the buffer from `next` on.
    fn fill(&mut self, wanted_bytes: usize, file: &SpanFile, read_bytes: usize) -> io::Result<()> {
        let there = self.buffer.len() - self.next;
        if there >= wanted_bytes {
            return Ok(());
        }
        self.buffer.copy_within(self.next.., 0);
        self.next = 0;
        self.buffer.truncate(there);
        let missing_bytes = wanted_bytes - there;
        let read_bytes = read_bytes.saturating_sub(there).max(missing_bytes);
        let unread_bytes = usize::try_from(self.unread.unread_bytes()).unwrap_or(usize::MAX);
        let read_bytes = read_bytes.min(unread_bytes.max(missing_bytes));
        self.unread.read(file, read_bytes, &mut self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn row() -> impl Strategy<Value = (Vec<u8>, Option<Vec<u8>>)> {
        let key = proptest::collection::vec(prop_oneof![Just(0_u8), Just(7), Just(255)], 0..12);
        let value = proptest::collection::vec(any::<u8>(), 0..40);
        (key, proptest::option::weighted(0.8, value))
    }

    proptest! {
        #![proptest_config(trials::property(96))]

        #[test]
        fn the_newest_row_of_each_key_comes_once_and_in_order(
            runs in proptest::collection::vec(
                proptest::collection::btree_map(
                    row().prop_map(|row| row.0),
                    row().prop_map(|row| row.1),
                    0..30,
                ),
                1..9,
            ),
            shared in proptest::collection::vec(any::<u8>(), 0..3),
            read_bytes in 1..80_usize,
        ) {
            let directory = trials::directory();
            let budget = Arc::new(Budget::new(0));
            let (mut written, mut model) = (RestoredRuns::default(), BTreeMap::new());
            for rows in runs {
                let rows: BTreeMap<Vec<u8>, Option<Vec<u8>>> =
                    rows.into_iter().map(|(key, value)| ([&*shared, &*key].concat(), value)).collect();
                let borrowed = rows.iter().map(|(key, value)| (&**key, value.as_deref()));
                written.write(directory.path(), borrowed).expect("written");
                model.extend(rows);
            }
            prop_assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
            if written.is_empty() {
                return Ok(());
            }
            let mut merged = written.merged(Arc::clone(&budget)).expect("read");
            merged.read_bytes = read_bytes;
            for (key, value) in model {
                let (found_key, found_value) = merged.next().expect("a row").expect("read");
                prop_assert_eq!((&*found_key, found_value.as_deref()), (&*key, value.as_deref()));
            }
            prop_assert!(merged.is_at_end() && merged.next().is_none());
            drop(merged);
            prop_assert_eq!(budget.held_bytes(), 0);
        }
    }

    /// Two runs of rows with these keys in a file, to which something happens.
    fn check_bad(keys: [&[u8]; 2], happens: impl FnOnce(&RestoredRuns)) {
        let directory = trials::directory();
        let mut runs = RestoredRuns::default();
        let value = vec![0; 100];
        for _ in 0..2 {
            let rows = keys.map(|key| (key, Some(&*value)));
            runs.write(directory.path(), rows.into_iter())
                .expect("written");
        }
        happens(&runs);
        let merged = runs.merged(Arc::new(Budget::new(0)));
        let bad = merged.and_then(|merged| merged.collect::<io::Result<Vec<_>>>());
        assert!(bad.is_err());
    }

    #[test]
    fn a_file_that_is_not_as_it_was_written_is_an_error() {
        check_bad([b"a", b"b"], |runs| runs.file().cut());
        check_bad([b"a", b"b"], |runs| runs.file().damage());
    }

    /// A row of each run is in memory.
    #[test]
    fn fewer_runs_are_merged_of_larger_rows() {
        let directory = trials::directory();
        let budget = Arc::new(Budget::new(0));
        let mut runs = RestoredRuns::default();
        let value = vec![7; 1 << 20];
        let mut count = 0_u8;
        while !runs.is_full() {
            let key = [count];
            let rows = [(&key[..], Some(&*value))].into_iter();
            runs.write(directory.path(), rows).expect("written");
            count += 1;
        }
        assert_eq!(count, 16);
        let size_bytes = runs.size_bytes();
        let mut merged = runs.merged(Arc::clone(&budget)).expect("read");
        assert_eq!(merged.left_bytes(), size_bytes);
        assert_eq!(budget.held_bytes() as u64, size_bytes);
        for left in (0..16).rev() {
            assert!(merged.next().is_some_and(|row| row.is_ok()));
            assert_eq!(merged.left_bytes(), size_bytes / 16 * left);
            assert_eq!(budget.held_bytes() as u64, size_bytes / 16 * left);
        }
    }
}
