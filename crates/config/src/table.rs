//! A set of keys, found by name.
//!
//! Tables are written by theme and sorted once, at first use, so that a look-up is a binary search
//! and iteration is by name.

use std::fmt;
use std::sync::LazyLock;

use crate::definition::ConfigDefinition;

/// Every key of one kind of resource.
pub struct ConfigTable {
    sorted: LazyLock<Vec<&'static ConfigDefinition>, fn() -> Vec<&'static ConfigDefinition>>,
}

impl ConfigTable {
    pub(crate) const fn new(sorted: fn() -> Vec<&'static ConfigDefinition>) -> Self {
        Self {
            sorted: LazyLock::new(sorted),
        }
    }

    /// The definition of `name`, if the table has it.
    pub fn definition(&self, name: &str) -> Option<&'static ConfigDefinition> {
        let index = self
            .sorted
            .binary_search_by(|definition| definition.name.cmp(name))
            .ok()?;
        self.sorted.get(index).copied()
    }

    /// Every definition, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'static ConfigDefinition> + '_ {
        self.sorted.iter().copied()
    }
}

impl fmt::Debug for ConfigTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|definition| definition.name))
            .finish()
    }
}

/// The definitions of all `themes`, by name.
pub(crate) fn sorted(
    themes: &'static [&'static [ConfigDefinition]],
) -> Vec<&'static ConfigDefinition> {
    let mut definitions: Vec<_> = themes.iter().copied().flatten().collect();
    definitions.sort_by_key(|definition| definition.name);
    definitions
}

#[cfg(test)]
mod tests;
