//! A file of entries of one size in ascending order, only ever appended to: what the offset index
//! and the time index have in common.
//!
//! ```text
//!   file on disk                       in memory
//!   [entry][entry] ... [entry]         [entry][entry]  tail
//!    0                  written_count                  written_count + tail.len()
//! ```
//!
//! Entries collect in a short tail and reach the file together, so most appends to a log make no
//! system call for its indexes. A lookup first asks the tail, then looks at the file where the last
//! one ended, since readers go forward, and then searches by halves. The file is opened when it is
//! first needed and may be closed at any time.

use std::io;

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Context, StorageError};
use crate::file_name::{FileKind, FileName, PartitionFiles};
use crate::open_files::{FileSlot, OpenFile};
use model::Offset;

/// Entries that are kept in memory before they are written: at most 768 bytes per index.
const TAIL_COUNT_MAX: usize = 64;
/// The search by halves ends when this many entries are left, which are read at once.
const BLOCK_COUNT: u32 = 256;

/// Size of the largest entry.
const ENTRY_SIZE_MAX_BYTES: usize = 34;

/// An entry of an index.
pub(crate) trait IndexEntry: Copy + std::fmt::Debug + PartialEq {
    const KIND: FileKind;
    const SIZE_BYTES: usize;
    /// Reads the entry of exactly `SIZE_BYTES`.
    fn decode(bytes: &[u8]) -> Option<Self>;
    fn encode(&self, bytes: &mut Vec<u8>);
}

/// An index of one segment.
#[derive(Debug)]
pub(crate) struct IndexFile<D: Disk, E> {
    file: FileSlot<D::File>,
    written_count: u32,
    tail: Vec<E>,
    last: Option<E>,
}

/// What a lookup has to ask when memory does not answer: the written part of an index.
#[derive(Debug)]
pub(crate) struct WrittenEntries<D: Disk> {
    file: OpenFile<D::File>,
    count: u32,
}

/// Answer of the part of an index that is in memory.
#[derive(Debug)]
pub(crate) enum Lookup<D: Disk, E> {
    /// The entry, if there is one at all.
    Found(Option<E>),
    /// It is in the file, if anywhere.
    Search(WrittenEntries<D>),
}

impl<D: Disk, E: IndexEntry> IndexFile<D, E> {
    /// The index of a new segment. No file is made before there are entries.
    pub(crate) const fn empty() -> Self {
        Self {
            file: FileSlot::new(),
            written_count: 0,
            tail: Vec::new(),
            last: None,
        }
    }

    /// The index of an existing segment; `Err` holds what is wrong with the file.
    pub(crate) fn load(
        files: &PartitionFiles<D>,
        base_offset: Offset,
    ) -> Result<Result<Self, String>, StorageError> {
        let name = FileName::new(base_offset, E::KIND);
        let path = files.path(name);
        let file = match files.disk.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Err("it is missing".to_owned()));
            }
            result => result.context("open", &path)?,
        };
        let length = file.length().context("read", &path)?;
        let count = length / E::SIZE_BYTES as u64;
        let Some(written_count) = u32::try_from(count)
            .ok()
            .filter(|_| length % E::SIZE_BYTES as u64 == 0)
        else {
            let reason = format!("its length {length} is no multiple of {}", E::SIZE_BYTES);
            return Ok(Err(reason));
        };
        let last = match written_count.checked_sub(1).map(|at| read_entry(&file, at)) {
            None => None,
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok(Err("its last entry is none".to_owned()));
            }
            Some(entry) => Some(entry.context("read", &path)?),
        };
        Ok(Ok(Self {
            file: FileSlot::new(),
            written_count,
            tail: Vec::new(),
            last,
        }))
    }

    /// The first entries of a file that has so many at least: it may be growing, and its length may be
    /// between two entries. `Err` holds what is wrong with the file.
    pub(crate) fn load_first(
        files: &PartitionFiles<D>,
        base_offset: Offset,
        written_count: u32,
    ) -> Result<Result<Self, String>, StorageError> {
        let Some(last) = written_count.checked_sub(1) else {
            return Ok(Ok(Self::empty()));
        };
        let path = files.path(FileName::new(base_offset, E::KIND));
        let file = files.disk.open(&path, OpenMode::Read);
        let file = file.context("open", &path)?;
        match read_entry(&file, last) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Ok(Err(format!("entry {last} is none")))
            }
            entry => Ok(Ok(Self {
                file: FileSlot::new(),
                written_count,
                tail: Vec::new(),
                last: Some(entry.context("read", &path)?),
            })),
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.written_count + self.tail.len() as u32
    }

    /// The entries that are only in memory.
    pub(crate) fn unwritten(&self) -> &[E] {
        &self.tail
    }

    /// How many entries the file has.
    pub(crate) const fn written_count(&self) -> u32 {
        self.written_count
    }

    pub(crate) const fn last(&self) -> Option<E> {
        self.last
    }

    /// Adds an entry in memory; [`Self::write_tail_if_long`] takes it from there.
    pub(crate) fn push(&mut self, entry: E) {
        self.tail.push(entry);
        self.last = Some(entry);
    }

    pub(crate) fn write_tail_if_long(
        &mut self,
        files: &PartitionFiles<D>,
        base_offset: Offset,
    ) -> Result<(), StorageError> {
        match self.tail.len() >= TAIL_COUNT_MAX {
            true => self.write_tail(files, base_offset),
            false => Ok(()),
        }
    }

    /// Writes what is only in memory. The file exists afterwards, even for an index without
    /// entries: Kafka rebuilds a segment that lacks it.
    pub(crate) fn write_tail(
        &mut self,
        files: &PartitionFiles<D>,
        base_offset: Offset,
    ) -> Result<(), StorageError> {
        if self.tail.is_empty() && self.written_count > 0 {
            return Ok(());
        }
        let name = FileName::new(base_offset, E::KIND);
        let file = files.open_in(&self.file, name, OpenMode::Create)?;
        if self.tail.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(self.tail.len() * E::SIZE_BYTES);
        for entry in &self.tail {
            entry.encode(&mut bytes);
        }
        let position = u64::from(self.written_count) * E::SIZE_BYTES as u64;
        let written = files.write(&file, |file| file.write_at(&bytes, position));
        written.context("write", &files.path(name))?;
        self.written_count += self.tail.len() as u32;
        self.tail.clear();
        Ok(())
    }

    /// Makes the file of an index that was built in memory from scratch, unless it is what is
    /// there already. An index without entries has no file unless `is_required`.
    pub(crate) fn write_anew(
        &mut self,
        files: &PartitionFiles<D>,
        base_offset: Offset,
        is_required: bool,
    ) -> Result<(), StorageError> {
        let name = FileName::new(base_offset, E::KIND);
        let path = files.path(name);
        if self.tail.is_empty() && !is_required {
            return files.remove(&path);
        }
        let mut bytes = Vec::with_capacity(self.tail.len() * E::SIZE_BYTES);
        for entry in &self.tail {
            entry.encode(&mut bytes);
        }
        let is_written = match files.disk.read(&path, bytes.len() as u64) {
            Ok(found) => found == bytes,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::InvalidData => false,
                _ => return Err(StorageError::new("read", &path, error)),
            },
        };
        if !is_written {
            let file = files.open(name, OpenMode::Replace)?;
            file.write_at(&bytes, 0).context("write", &path)?;
        }
        self.written_count = self.tail.len() as u32;
        self.tail = Vec::new();
        Ok(())
    }

    /// Makes the file `name` of an index that was built in memory, durably; it is used under its
    /// own name once the file has that. Whether there is a file: an index without entries has none
    /// unless `is_required`.
    pub(crate) fn write_under(
        &mut self,
        files: &PartitionFiles<D>,
        name: FileName,
        is_required: bool,
    ) -> Result<bool, StorageError> {
        if self.tail.is_empty() && !is_required {
            return Ok(false);
        }
        let path = files.path(name);
        let mut bytes = Vec::with_capacity(self.tail.len() * E::SIZE_BYTES);
        for entry in &self.tail {
            entry.encode(&mut bytes);
        }
        let file = files.open(name, OpenMode::Replace)?;
        file.write_at(&bytes, 0).context("write", &path)?;
        file.sync().context("sync", &path)?;
        self.written_count = self.tail.len() as u32;
        self.tail = Vec::new();
        Ok(true)
    }

    /// Size of all entries.
    pub(crate) fn size_bytes(&self) -> u64 {
        u64::from(self.count()) * E::SIZE_BYTES as u64
    }

    /// The last entry for which `precedes` holds, which must hold for a prefix of the entries.
    pub(crate) fn lookup(
        &self,
        files: &PartitionFiles<D>,
        base_offset: Offset,
        precedes: impl Fn(&E) -> bool,
    ) -> Result<Lookup<D, E>, StorageError> {
        let in_tail = self.tail.partition_point(&precedes);
        if let Some(at) = in_tail.checked_sub(1) {
            return Ok(Lookup::Found(Some(self.tail[at])));
        }
        if self.written_count == 0 {
            return Ok(Lookup::Found(None));
        }
        Ok(Lookup::Search(self.written(files, base_offset)?))
    }

    /// Passes the entries on, from the first one for which `precedes` does not hold, until
    /// `take` returns false.
    pub(crate) fn visit_from(
        &self,
        files: &PartitionFiles<D>,
        base_offset: Offset,
        precedes: impl Fn(&E) -> bool,
        mut take: impl FnMut(&E) -> bool,
    ) -> Result<(), StorageError> {
        if self.written_count > 0 {
            let path = files.path(FileName::new(base_offset, E::KIND));
            let written = self.written(files, base_offset)?;
            let (mut at, _) = written.search(&precedes).context("read", &path)?;
            while at < self.written_count {
                let block: Vec<E> = written.block(at).context("read", &path)?;
                at += block.len() as u32;
                if !block.iter().all(&mut take) {
                    return Ok(());
                }
            }
        }
        let in_tail = self.tail.partition_point(&precedes);
        self.tail[in_tail..].iter().all(take);
        Ok(())
    }

    /// Keeps the prefix of entries for which `kept` holds.
    pub(crate) fn truncate(
        &mut self,
        files: &PartitionFiles<D>,
        base_offset: Offset,
        kept: impl Fn(&E) -> bool,
    ) -> Result<(), StorageError> {
        let in_tail = self.tail.partition_point(&kept);
        self.tail.truncate(in_tail);
        if let Some(last) = self.tail.last() {
            self.last = Some(*last);
            return Ok(());
        }
        self.last = None;
        if self.written_count > 0 {
            let path = files.path(FileName::new(base_offset, E::KIND));
            let written = self.written(files, base_offset)?;
            let (count, last) = written.search(&kept).context("read", &path)?;
            if count < self.written_count {
                let length = u64::from(count) * E::SIZE_BYTES as u64;
                let cut = files.write(&written.file, |file| file.truncate(length));
                cut.context("truncate", &path)?;
            }
            self.written_count = count;
            self.last = last;
        }
        Ok(())
    }

    /// The file, which exists once the tail has been written: what a flush has to sync.
    pub(crate) fn open_file(
        &self,
        files: &PartitionFiles<D>,
        base_offset: Offset,
    ) -> Result<OpenFile<D::File>, StorageError> {
        let name = FileName::new(base_offset, E::KIND);
        files.open_in(&self.file, name, OpenMode::Write)
    }

    /// The place of the same file.
    pub(crate) fn slot(&self) -> FileSlot<D::File> {
        self.file.share()
    }

    fn written(
        &self,
        files: &PartitionFiles<D>,
        base_offset: Offset,
    ) -> Result<WrittenEntries<D>, StorageError> {
        Ok(WrittenEntries {
            file: self.open_file(files, base_offset)?,
            count: self.written_count,
        })
    }

    /// What a sync has met that the file needed before it could be closed.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.file.failure()
    }

    /// Closes the file if it has been synced; the next use opens it again.
    pub(crate) fn close_file(&mut self, files: &PartitionFiles<D>) {
        self.file.close_clean(&files.open_files);
    }
}

impl<D: Disk> WrittenEntries<D> {
    /// How many entries are in the prefix for which `precedes` holds, and the last of them.
    pub(crate) fn search<E: IndexEntry>(
        &self,
        precedes: impl Fn(&E) -> bool,
    ) -> io::Result<(u32, Option<E>)> {
        let (mut low, mut high) = (0, self.count);
        if high > BLOCK_COUNT {
            let mut at = self.file.last_found();
            // Where the last search ended, and what follows it.
            for _ in 0..2 {
                if at >= high {
                    break;
                }
                let block: Vec<E> = self.block(at)?;
                let count = block.partition_point(&precedes);
                let end = at + block.len() as u32;
                if count == 0 {
                    high = at;
                    break;
                }
                if count < block.len() || end == self.count {
                    return Ok(self.found(at + count as u32, Some(block[count - 1])));
                }
                (low, at) = (end, end);
            }
        }
        while high - low > BLOCK_COUNT {
            let middle = low + (high - low) / 2;
            match precedes(&read_entry(&*self.file, middle)?) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        // The entry before `low` may be the one that is looked for.
        let first = low.saturating_sub(1);
        let entries: Vec<E> = self.entries(first, high)?;
        let count = entries.partition_point(precedes);
        let last = count.checked_sub(1).map(|at| entries[at]);
        Ok(self.found(first + count as u32, last))
    }

    /// The answer of a search, with which the next one begins.
    fn found<E>(&self, count: u32, last: Option<E>) -> (u32, Option<E>) {
        self.file.set_last_found(count.saturating_sub(1));
        (count, last)
    }

    /// Up to a block of entries from the one at `at` on; none at the end.
    fn block<E: IndexEntry>(&self, at: u32) -> io::Result<Vec<E>> {
        let count = self.count.saturating_sub(at).min(BLOCK_COUNT);
        self.entries(at, at + count)
    }

    fn entries<E: IndexEntry>(&self, first: u32, end: u32) -> io::Result<Vec<E>> {
        let mut bytes = vec![0; (end - first) as usize * E::SIZE_BYTES];
        let position = u64::from(first) * E::SIZE_BYTES as u64;
        if self.file.read_full_at(&mut bytes, position)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let entries = bytes.chunks_exact(E::SIZE_BYTES).map(E::decode);
        let entries: Option<Vec<E>> = entries.collect();
        entries.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn read_entry<E: IndexEntry>(file: &impl DiskFile, at: u32) -> io::Result<E> {
    let mut bytes = [0; ENTRY_SIZE_MAX_BYTES];
    let bytes = &mut bytes[..E::SIZE_BYTES];
    let position = u64::from(at) * E::SIZE_BYTES as u64;
    if file.read_full_at(bytes, position)? < E::SIZE_BYTES {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    E::decode(bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offset_index::OffsetEntry;
    use crate::sim::SimDisk;
    use proptest::prelude::*;
    use std::path::Path;

    type Index = IndexFile<SimDisk, OffsetEntry>;

    fn files() -> PartitionFiles<SimDisk> {
        let open_files = std::sync::Arc::new(crate::OpenFiles::new(usize::MAX));
        PartitionFiles::new(SimDisk::default(), Path::new("/").into(), open_files)
    }

    fn entry(relative_offset: u32) -> OffsetEntry {
        OffsetEntry {
            relative_offset,
            position: relative_offset * 10,
        }
    }

    fn floor(index: &Index, files: &PartitionFiles<SimDisk>, target: u32) -> Option<u32> {
        let precedes = |entry: &OffsetEntry| entry.relative_offset <= target;
        let found = match index.lookup(files, Offset(0), precedes).unwrap() {
            Lookup::Found(found) => found,
            Lookup::Search(written) => written.search(precedes).unwrap().1,
        };
        found.map(|entry| entry.relative_offset)
    }

    fn from(index: &Index, files: &PartitionFiles<SimDisk>, target: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let precedes = |entry: &OffsetEntry| entry.relative_offset < target;
        let visited = index.visit_from(files, Offset(0), precedes, |entry| {
            found.push(entry.relative_offset);
            true
        });
        visited.unwrap();
        found
    }

    proptest! {
        #![proptest_config(trials::property(40))]
        #[test]
        fn an_index_is_a_sorted_list(
            gaps in prop::collection::vec(1u32..5, 0..2400),
            kept_percent in 0u32..100,
            reload in any::<bool>(),
        ) {
            let files = files();
            let mut index = Index::empty();
            let mut list = Vec::new();
            for gap in gaps {
                let next = list.last().unwrap_or(&0) + gap;
                list.push(next);
                index.push(entry(next));
                index.write_tail_if_long(&files, Offset(0)).unwrap();
            }
            let end = list.last().map_or(5, |last| last + 5);
            if reload {
                index.write_tail(&files, Offset(0)).unwrap();
                index = Index::load(&files, Offset(0)).unwrap().unwrap();
            }
            let check = |index: &Index, list: &[u32]| {
                assert_eq!(index.count() as usize, list.len());
                assert_eq!(index.last(), list.last().map(|last| entry(*last)));
                // Forwards, as readers go, and to and fro.
                let to_and_fro = (0..end).step_by(101).flat_map(|at| [at, end - at]);
                let targets = (0..end).step_by(13).chain(list.iter().step_by(9).copied());
                for target in targets.chain(to_and_fro) {
                    let expected = list.iter().rev().find(|at| **at <= target).copied();
                    assert_eq!(floor(index, &files, target), expected);
                }
                let middle = end / 2;
                let expected: Vec<u32> = list.iter().copied().filter(|at| *at >= middle).collect();
                assert_eq!(from(index, &files, middle), expected);
            };
            check(&index, &list);
            let kept_end = end * kept_percent / 100;
            index.truncate(&files, Offset(0), |entry| entry.relative_offset < kept_end).unwrap();
            list.retain(|at| *at < kept_end);
            check(&index, &list);
            index.push(entry(end));
            list.push(end);
            index.close_file(&files);
            index.write_tail(&files, Offset(0)).unwrap();
            check(&index, &list);
            let path = files.path(FileName::new(Offset(0), FileKind::OffsetIndex));
            let bytes = files.disk.read(&path, 1 << 20).unwrap();
            prop_assert_eq!(bytes.len(), list.len() * OffsetEntry::SIZE_BYTES);
        }
    }

    #[test]
    fn a_file_of_an_odd_length_is_damaged() {
        let files = files();
        let missing = Index::load(&files, Offset(0)).unwrap();
        assert_eq!(missing.unwrap_err(), "it is missing");
        let name = FileName::new(Offset(0), FileKind::OffsetIndex);
        let file = files.open(name, OpenMode::Create).unwrap();
        file.write_at(&[0; 12], 0).unwrap();
        let odd = Index::load(&files, Offset(0)).unwrap();
        assert_eq!(odd.unwrap_err(), "its length 12 is no multiple of 8");
    }
}
