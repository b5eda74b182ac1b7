//! What a member of a consumer group subscribes to: names of topics, a regular expression, or both.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A subscription; members with the same one share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(in crate::group) struct Subscription {
    /// Ascending, each once.
    pub(in crate::group) topics: Box<[Arc<str>]>,
    /// Empty for none.
    pub(in crate::group) regex: Arc<str>,
}

/// The topics that match a regular expression, as of some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::group) struct ResolvedRegex {
    /// Ascending, each once.
    pub(in crate::group) topics: Arc<[Arc<str>]>,
    /// The offset of the metadata that the topics are from.
    pub(in crate::group) version: i64,
    pub(in crate::group) timestamp_ms: i64,
}

/// The resolved regular expressions of a group.
pub(in crate::group) type ResolvedRegexes = BTreeMap<Arc<str>, ResolvedRegex>;

impl Subscription {
    pub(in crate::group) fn new<'a>(topics: impl Iterator<Item = &'a str>, regex: &str) -> Self {
        let mut names: Vec<&str> = topics.collect();
        names.sort_unstable();
        names.dedup();
        Self {
            topics: names.into_iter().map(Arc::from).collect(),
            regex: Arc::from(regex),
        }
    }

    pub(in crate::group) fn has_regex(&self) -> bool {
        !self.regex.is_empty()
    }

    /// The topics subscribed to by name and by regular expression; one that is not resolved yet
    /// matches none. A topic may come twice.
    pub(in crate::group) fn topics<'a>(
        &'a self,
        resolved: &'a ResolvedRegexes,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        let matching = resolved.get(&self.regex).filter(|_| self.has_regex());
        let matching = matching.into_iter().flat_map(|regex| regex.topics.iter());
        self.topics.iter().chain(matching)
    }

    /// Whether the subscription covers a topic.
    pub(in crate::group) fn covers(&self, topic: &str, resolved: &ResolvedRegexes) -> bool {
        let contains =
            |topics: &[Arc<str>]| topics.binary_search_by(|one| (**one).cmp(topic)).is_ok();
        contains(&self.topics)
            || (self.has_regex()
                && resolved
                    .get(&self.regex)
                    .is_some_and(|regex| contains(&regex.topics)))
    }
}
