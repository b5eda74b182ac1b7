//! A sorted map whose clones share what they have in common.
//!
//! Entries live in sorted chunks behind reference counts. A clone copies one pointer; a change to
//! a clone copies the list of chunks and the one chunk it touches, and nothing at all while the
//! map is not shared. So an image of a hundred thousand topics is cheap to publish after every
//! record, and two images are compared by skipping the chunks they share.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A chunk that grows beyond this many entries is split into two.
const CHUNK_ENTRIES_MAX: usize = 256;

/// A sorted map with cheap clones; see the module.
///
/// Invariants: no chunk is empty, and keys ascend within a chunk and from chunk to chunk.
#[derive(Clone)]
pub struct SharedMap<K, V> {
    chunks: Arc<Vec<Chunk<K, V>>>,
    len: usize,
}

type Chunk<K, V> = Arc<Vec<(K, V)>>;

impl<K, V> SharedMap<K, V> {
    /// A map without entries.
    pub fn new() -> Self {
        Self {
            chunks: Arc::new(Vec::new()),
            len: 0,
        }
    }

    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        self.cursor_at(0, 0)
    }

    /// The keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// The values in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Whether both are the same map in memory, hence equal.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.chunks, &other.chunks)
    }

    fn cursor_at(&self, chunk: usize, entry: usize) -> Iter<'_, K, V> {
        Iter {
            chunks: &self.chunks,
            chunk,
            entry,
        }
    }

    /// The chunk that holds `key` or has to hold it, and the entry's position or its place there.
    fn find<Q>(&self, key: &Q) -> (usize, Result<usize, usize>)
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let after = self.chunks.partition_point(|chunk| {
            chunk
                .first()
                .is_some_and(|(first, _)| first.borrow() <= key)
        });
        let index = after.saturating_sub(1);
        let place = self.chunks.get(index).map_or(Err(0), |chunk| {
            chunk.binary_search_by(|(entry, _)| entry.borrow().cmp(key))
        });
        (index, place)
    }

    /// The value of `key`.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let (chunk, place) = self.find(key);
        let (_, value) = self.chunks.get(chunk)?.get(place.ok()?)?;
        Some(value)
    }

    /// Whether there is an entry of `key`.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.find(key).1.is_ok()
    }

    /// The entries from the first key that is not below `key`.
    pub fn iter_from<Q>(&self, key: &Q) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let (chunk, place) = self.find(key);
        let (Ok(entry) | Err(entry)) = place;
        self.cursor_at(chunk, entry)
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// Sets the value of `key`; returns the value it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (index, place) = self.find(&key);
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(chunk) = chunks.get_mut(index) else {
            chunks.push(Arc::new(vec![(key, value)]));
            self.len = 1;
            return None;
        };
        let entries = Arc::make_mut(chunk);
        let place = match place {
            Ok(place) => {
                let (_, old) = entries.get_mut(place).expect("found at this position");
                return Some(std::mem::replace(old, value));
            }
            Err(place) => place,
        };
        entries.insert(place, (key, value));
        self.len += 1;
        if entries.len() > CHUNK_ENTRIES_MAX {
            // Keys that arrive in order leave full chunks behind them.
            let at = if place + 1 == entries.len() {
                CHUNK_ENTRIES_MAX
            } else {
                CHUNK_ENTRIES_MAX / 2
            };
            let upper = entries.split_off(at);
            entries.shrink_to_fit();
            chunks.insert(index + 1, Arc::new(upper));
        }
        None
    }

    /// Removes the entry of `key`; returns the value it had.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let (index, place) = self.find(key);
        let place = place.ok()?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let entries = Arc::make_mut(chunks.get_mut(index)?);
        let (_, value) = entries.remove(place);
        if entries.is_empty() {
            chunks.remove(index);
        }
        self.len -= 1;
        Some(value)
    }

    /// The value of `key`, to be changed in place.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let (index, place) = self.find(key);
        let place = place.ok()?;
        let chunk = Arc::make_mut(&mut self.chunks).get_mut(index)?;
        let (_, value) = Arc::make_mut(chunk).get_mut(place)?;
        Some(value)
    }
}

impl<K: Ord, V: PartialEq> SharedMap<K, V> {
    /// What differs from `self` to `after`, in the order of the keys.
    pub fn diff<'a>(&'a self, after: &'a Self) -> Diff<'a, K, V> {
        Diff::between(Some(self), Some(after))
    }
}

/// The entries of a [`SharedMap`] from some position on.
#[derive(Debug, Clone)]
pub struct Iter<'a, K, V> {
    chunks: &'a [Chunk<K, V>],
    chunk: usize,
    entry: usize,
}

impl<'a, K, V> Iter<'a, K, V> {
    fn peek(&self) -> Option<&'a (K, V)> {
        let chunk = self.chunks.get(self.chunk)?;
        match chunk.get(self.entry) {
            Some(entry) => Some(entry),
            // Only `iter_from` stops behind the last entry of a chunk.
            None => self.chunks.get(self.chunk + 1)?.first(),
        }
    }

    /// The chunk whose first entry is next.
    fn chunk_ahead(&self) -> Option<&'a Chunk<K, V>> {
        (self.entry == 0)
            .then(|| self.chunks.get(self.chunk))
            .flatten()
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let mut chunk = self.chunks.get(self.chunk)?;
        if self.entry >= chunk.len() {
            self.chunk += 1;
            self.entry = 0;
            chunk = self.chunks.get(self.chunk)?;
        }
        let (key, value) = chunk.get(self.entry)?;
        self.entry += 1;
        if self.entry == chunk.len() {
            self.chunk += 1;
            self.entry = 0;
        }
        Some((key, value))
    }
}

/// An entry that differs between two maps: its value in each, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference<'a, K, V> {
    /// The entry's key.
    pub key: &'a K,
    /// The value in the earlier map; `None` for an entry that was added.
    pub before: Option<&'a V>,
    /// The value in the later map; `None` for an entry that was removed.
    pub after: Option<&'a V>,
}

/// The entries that differ between two maps; see [`SharedMap::diff`].
#[derive(Debug, Clone)]
pub struct Diff<'a, K, V> {
    before: Iter<'a, K, V>,
    after: Iter<'a, K, V>,
}

impl<'a, K, V> Diff<'a, K, V> {
    /// What differs between two maps; `None` is a map without entries.
    pub fn between(
        before: Option<&'a SharedMap<K, V>>,
        after: Option<&'a SharedMap<K, V>>,
    ) -> Self {
        let entries = |map: Option<&'a SharedMap<K, V>>| Iter {
            chunks: map.map_or(&[], |map| &map.chunks),
            chunk: 0,
            entry: 0,
        };
        Self {
            before: entries(before),
            after: entries(after),
        }
    }

    fn skip_shared_chunks(&mut self) {
        while let (Some(before), Some(after)) =
            (self.before.chunk_ahead(), self.after.chunk_ahead())
            && Arc::ptr_eq(before, after)
        {
            self.before.chunk += 1;
            self.after.chunk += 1;
        }
    }
}

impl<'a, K: Ord, V: PartialEq> Iterator for Diff<'a, K, V> {
    type Item = Difference<'a, K, V>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.skip_shared_chunks();
            let order = match (self.before.peek(), self.after.peek()) {
                (Some((before, _)), Some((after, _))) => before.cmp(after),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return None,
            };
            let before = order.is_le().then(|| self.before.next()).flatten();
            let after = order.is_ge().then(|| self.after.next()).flatten();
            let (key, _) = before.or(after)?;
            let before = before.map(|(_, value)| value);
            let after = after.map(|(_, value)| value);
            if before != after {
                return Some(Difference { key, before, after });
            }
        }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || (self.len == other.len && self.diff(other).next().is_none())
    }
}

impl<K: Ord, V: Eq> Eq for SharedMap<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a, K, V> IntoIterator for &'a SharedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

#[cfg(test)]
mod tests;
