//! Rows of a changelog that memory has no room for: sorted runs in a file, and the rows of all runs in order.
//!
//! ```text
//!   rows in memory ──sorted──> run | run | run     a file without a name, one after the other
//!                                └────┴────┘
//!                            merged: the newest row of each key, once, for tables of the store
//! ```
//!
//! A run is rows as they are, without blocks, filters and checksums: nobody looks for a row in it, and it goes with the
//! process. So what tables cost is paid once a key, however often a changelog has it.

use super::ByteString;
use super::budget::Budget;
use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// So many runs are merged. They have as many rows as memory has room for, 256 times.
const RUNS: usize = 256;
/// Bytes of all runs that are read ahead.
const READ_BYTES: usize = 4 << 20;
/// So many of one run.
const RUN_READ_BYTES: Range<usize> = 4 << 10..256 << 10;
const WRITE_BYTES: usize = 256 << 10;
/// In a file only as long as it is made.
const FILE_NAME: &str = "restored-rows";
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
    file: Option<File>,
    /// Where each run ends, and the next one begins.
    ends: Vec<u64>,
    /// What all keys begin with.
    shared: Option<Vec<u8>>,
}

impl RestoredRuns {
    pub(super) const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether these are to be merged before others come.
    pub(super) const fn is_full(&self) -> bool {
        self.ends.len() >= RUNS
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Writes a run of rows that are sorted by key, each key once. When that fails there is no such run.
    pub(super) fn write<'a>(
        &mut self,
        directory: &Path,
        rows: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> io::Result<()> {
        let mut end = self.size_bytes();
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless_file(directory)?),
        };
        file.seek(SeekFrom::Start(end))?;
        let mut out = BufWriter::with_capacity(WRITE_BYTES, &*file);
        let mut ends: Option<(&[u8], &[u8])> = None;
        for (key, value) in rows {
            out.write_all(&head(key, value)?)?;
            out.write_all(key)?;
            out.write_all(value.unwrap_or_default())?;
            end += (HEAD_BYTES + key.len() + value.map_or(0, <[u8]>::len)) as u64;
            ends = Some((ends.map_or(key, |(first, _)| first), key));
        }
        out.flush()?;
        drop(out);
        // Keys between two have what both begin with.
        if let Some((first, last)) = ends {
            let shared = self.shared.get_or_insert_with(|| first.to_vec());
            shared.truncate(shared_bytes(shared, first));
            shared.truncate(shared_bytes(shared, last));
            self.ends.push(end);
        }
        Ok(())
    }

    /// The file ends before the last run does.
    #[cfg(test)]
    pub(super) fn cut(&self) {
        let file = self.file.as_ref().expect("a file");
        file.set_len(self.size_bytes() - 1).expect("cut");
    }

    /// The rows of all runs.
    pub(super) fn merged(self, budget: Arc<Budget>) -> io::Result<MergedRows> {
        let Some(file) = self.file else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let most = READ_BYTES / self.ends.len().max(1);
        let read_bytes = most.clamp(RUN_READ_BYTES.start, RUN_READ_BYTES.end);
        let held_bytes = read_bytes * self.ends.len();
        budget.take(held_bytes);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let spans = starts.zip(&self.ends);
        let mut merged = MergedRows {
            file,
            runs: spans.map(|(start, end)| Run::new(start..*end)).collect(),
            rests: vec![KeyRest::AT_END; self.ends.len()],
            order: Vec::new(),
            shared_bytes: self.shared.map_or(0, |shared| shared.len()),
            read_bytes,
            budget,
            held_bytes,
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

/// A file that no other process finds, and that goes with this one.
fn nameless_file(directory: &Path) -> io::Result<File> {
    let path = directory.join(FILE_NAME);
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    let file = options.open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// The rows of all runs by key, the newest of each.
#[derive(Debug)]
pub(super) struct MergedRows {
    file: File,
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
    held_bytes: usize,
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

    fn next_run(&self) -> &Run {
        &self.runs[self.order[0]]
    }

    fn read_next(&mut self, at: usize) -> io::Result<()> {
        let run = &mut self.runs[at];
        run.read_next(&mut self.file, self.read_bytes)?;
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
    unread: Range<u64>,
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
    const fn new(unread: Range<u64>) -> Self {
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

    fn read_next(&mut self, file: &mut File, read_bytes: usize) -> io::Result<()> {
        self.row = None;
        if self.next == self.buffer.len() && self.unread.is_empty() {
            self.buffer = Vec::new();
            self.next = 0;
            return Ok(());
        }
        self.fill(HEAD_BYTES, file, read_bytes)?;
        let head = &self.buffer[self.next..][..HEAD_BYTES];
        let key_bytes = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let value_bytes = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
        let is_there = value_bytes != DELETED;
        let value_bytes = if is_there { value_bytes as usize } else { 0 };
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
    fn fill(&mut self, wanted_bytes: usize, file: &mut File, read_bytes: usize) -> io::Result<()> {
        let there = self.buffer.len() - self.next;
        if there >= wanted_bytes {
            return Ok(());
        }
        let unread_bytes = usize::try_from(self.unread.end - self.unread.start);
        let unread_bytes = unread_bytes.unwrap_or(usize::MAX);
        if unread_bytes < wanted_bytes - there {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.buffer.copy_within(self.next.., 0);
        self.next = 0;
        let new_bytes = read_bytes.max(wanted_bytes) - there;
        let new_bytes = new_bytes.min(unread_bytes);
        self.buffer.resize(there + new_bytes, 0);
        file.seek(SeekFrom::Start(self.unread.start))?;
        file.read_exact(&mut self.buffer[there..])?;
        self.unread.start += new_bytes as u64;
        Ok(())
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

    #[test]
    fn a_file_that_was_cut_is_an_error() {
        let directory = trials::directory();
        let mut runs = RestoredRuns::default();
        let value = vec![0; 100];
        for _ in 0..2 {
            let rows = [(&b"a"[..], Some(&*value)), (b"b", None)];
            runs.write(directory.path(), rows.into_iter())
                .expect("written");
        }
        runs.cut();
        assert!(runs.merged(Arc::new(Budget::new(0))).is_err());
    }
}
