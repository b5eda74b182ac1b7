//! What is counted of a cache.

/// How often a row was looked for in a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CacheLookups {
    pub(crate) count: u64,
    /// How often it was there.
    pub(crate) hit_count: u64,
}
