//! A map that takes little memory while it has few entries: there may be a million groups with an
//! offset each.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// With more entries a search costs less than to move those behind an insertion.
const FEW_MAX: usize = 8;

/// Entries in the order of their keys, each key once.
#[derive(Debug, Clone)]
pub(crate) enum SmallMap<K, V> {
    /// At most [`FEW_MAX`].
    Few(Vec<(K, V)>),
    /// More than half of [`FEW_MAX`].
    Many(BTreeMap<K, V>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl<K: Ord, V: PartialEq> PartialEq for SmallMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Ord, V: Eq> Eq for SmallMap<K, V> {}

impl<K: Ord, V> SmallMap<K, V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(entries) => entries.len(),
            Self::Many(entries) => entries.len(),
        }
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Few(entries) => {
                let at = place(entries, key).ok()?;
                entries.get(at).map(|(_, value)| value)
            }
            Self::Many(entries) => entries.get(key),
        }
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Few(entries) => {
                let at = place(entries, key).ok()?;
                entries.get_mut(at).map(|(_, value)| value)
            }
            Self::Many(entries) => entries.get_mut(key),
        }
    }

    /// Inserts an entry, in place of one of the same key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let entries = match self {
            Self::Many(entries) => {
                entries.insert(key, value);
                return;
            }
            Self::Few(entries) => entries,
        };
        match place(entries, &key) {
            Ok(at) => entries[at].1 = value,
            Err(at) if entries.len() < FEW_MAX => {
                if entries.len() == entries.capacity() {
                    entries.reserve_exact(entries.len().max(1));
                }
                entries.insert(at, (key, value));
            }
            Err(_) => {
                let mut many: BTreeMap<K, V> = std::mem::take(entries).into_iter().collect();
                many.insert(key, value);
                *self = Self::Many(many);
            }
        }
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Few(entries) => {
                let at = place(entries, key).ok()?;
                Some(entries.remove(at).1)
            }
            Self::Many(entries) => {
                let removed = entries.remove(key);
                if entries.len() <= FEW_MAX / 2 {
                    *self = Self::Few(std::mem::take(entries).into_iter().collect());
                }
                removed
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (few, many) = match self {
            Self::Few(entries) => (&entries[..], None),
            Self::Many(entries) => (&[][..], Some(entries)),
        };
        let few = few.iter().map(|(key, value)| (key, value));
        few.chain(many.into_iter().flatten())
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

/// Where the entry of a key is, or belongs.
fn place<K: Borrow<Q>, V, Q: Ord + ?Sized>(entries: &[(K, V)], key: &Q) -> Result<usize, usize> {
    entries.binary_search_by(|(one, _)| one.borrow().cmp(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(trials::property(256))]

        #[test]
        fn it_is_a_map(changes in prop::collection::vec((0..20u8, prop::option::of(any::<u8>())), 0..200)) {
            let (mut small, mut model) = (SmallMap::default(), BTreeMap::new());
            for (key, value) in changes {
                match value {
                    Some(value) => {
                        small.insert(key, value);
                        model.insert(key, value);
                    }
                    None => prop_assert_eq!(small.remove(&key), model.remove(&key)),
                }
                prop_assert!(small.iter().eq(model.iter()));
                prop_assert_eq!(small.len(), model.len());
                prop_assert_eq!(small.get(&key), model.get(&key));
                prop_assert_eq!(small.get_mut(&key), model.get_mut(&key));
                // What it looks like within does not matter.
                let mut made_anew = SmallMap::default();
                model.iter().for_each(|(key, value)| made_anew.insert(*key, *value));
                prop_assert_eq!(&small, &made_anew);
                prop_assert!(matches!(&small, SmallMap::Few(_)) || small.len() > FEW_MAX / 2);
            }
        }
    }
}
