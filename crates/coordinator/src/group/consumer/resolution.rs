//! Which topics match the regular expressions of a group, found without its shard.
//!
//! ```text
//!   shard ── take_resolutions ──> RegexResolution: step, step …    other groups go on
//!         <── regexes_resolved ──
//! ```
//!
//! To match a name takes time in proportion to the size of the expression, which may be
//! milliseconds, and there may be thousands of names. So a step looks at one name. What matched
//! before is known with the topics that there were: only those are looked at that have come since.

use super::topic_pattern::TopicPattern;
use metadata::{SharedMap, Topic};
use model::Uuid;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

/// All topics, as of some metadata.
pub(super) type AllTopics = SharedMap<Uuid, Arc<Topic>>;

/// The topics that match a regular expression, as of some metadata.
#[derive(Debug)]
pub(in crate::group) struct Matching {
    /// The offset of the metadata.
    pub(super) version: i64,
    /// The topics that there were.
    all: AllTopics,
    /// Ascending, each once; none for an expression that is malformed.
    pub(super) names: Arc<[Arc<str>]>,
}

/// A regular expression, with what is known to match it.
pub(super) type KnownMatching = (Arc<str>, Option<Arc<Matching>>);

/// The regular expressions of a group on their way to the topics that match them.
///
/// Life: [`GroupShard::take_resolutions`], [`RegexResolution::step`] until nothing is left to do,
/// [`GroupShard::regexes_resolved`]. Dropped in between, it is as if it had never begun.
///
/// [`GroupShard::take_resolutions`]: crate::group::GroupShard::take_resolutions
/// [`GroupShard::regexes_resolved`]: crate::group::GroupShard::regexes_resolved
#[derive(Debug)]
pub struct RegexResolution {
    pub(in crate::group) group_id: Arc<str>,
    /// The group has the other end for as long as it waits for this.
    pub(in crate::group) wanted: Weak<()>,
    version: i64,
    all: AllTopics,
    todo: Vec<KnownMatching>,
    current: Option<Matcher>,
    found: Vec<(Arc<str>, Arc<Matching>)>,
}

/// One expression that is being matched.
#[derive(Debug)]
struct Matcher {
    regex: Arc<str>,
    pattern: TopicPattern,
    /// The names that have not been looked at.
    candidates: Vec<Arc<str>>,
    names: BTreeSet<Arc<str>>,
}

impl RegexResolution {
    /// Nothing is matched yet.
    pub(super) fn new(
        group_id: Arc<str>,
        wanted: Weak<()>,
        (version, all): (i64, AllTopics),
        todo: Vec<KnownMatching>,
    ) -> Self {
        Self {
            group_id,
            wanted,
            version,
            all,
            todo,
            current: None,
            found: Vec::new(),
        }
    }

    /// Whether the group still waits for it.
    pub fn is_wanted(&self) -> bool {
        self.wanted.strong_count() > 0
    }

    /// Looks at one more name, or begins with one more expression; `false` when nothing is left to
    /// do.
    pub fn step(&mut self) -> bool {
        if let Some(matcher) = &mut self.current {
            if !matcher.step()
                && let Some(Matcher { regex, names, .. }) = self.current.take()
            {
                self.note(regex, names.into_iter().collect());
            }
            return true;
        }
        let Some((regex, known)) = self.todo.pop() else {
            return false;
        };
        self.begin(regex, known.as_deref());
        true
    }

    /// What matches each expression; empty before every step is done.
    pub(in crate::group) fn into_found(self) -> Vec<(Arc<str>, Arc<Matching>)> {
        match self.todo.is_empty() && self.current.is_none() {
            true => self.found,
            false => Vec::new(),
        }
    }

    fn begin(&mut self, regex: Arc<str>, known: Option<&Matching>) {
        let (mut gone, mut candidates) = (BTreeSet::new(), Vec::new());
        match known {
            None => candidates.extend(self.all.values().map(|topic| Arc::clone(&topic.name))),
            Some(known) => {
                for difference in known.all.diff(&self.all) {
                    match (difference.before, difference.after) {
                        (Some(topic), None) => drop(gone.insert(&*topic.name)),
                        (None, Some(topic)) => candidates.push(Arc::clone(&topic.name)),
                        _ => {}
                    }
                }
            }
        }
        let names = known.map(|known| &known.names);
        let pattern = match candidates.is_empty() {
            false => TopicPattern::parse(&regex).ok(),
            true => None,
        };
        match (names, pattern) {
            (names, Some(pattern)) => {
                let left = names.iter().flat_map(|names| names.iter());
                let left = left.filter(|name| !gone.contains(&***name));
                self.current = Some(Matcher {
                    regex,
                    pattern,
                    candidates,
                    names: left.map(Arc::clone).collect(),
                });
            }
            (Some(names), None) if !names.iter().any(|name| gone.contains(&**name)) => {
                let names = Arc::clone(names);
                self.note(regex, names);
            }
            (names, None) => {
                let left = names.iter().flat_map(|names| names.iter());
                let left = left.filter(|name| !gone.contains(&***name));
                let names = left.map(Arc::clone).collect();
                self.note(regex, names);
            }
        }
    }

    fn note(&mut self, regex: Arc<str>, names: Arc<[Arc<str>]>) {
        let matching = Matching {
            version: self.version,
            all: self.all.clone(),
            names,
        };
        self.found.push((regex, Arc::new(matching)));
    }
}

impl Matcher {
    fn step(&mut self) -> bool {
        let Some(name) = self.candidates.pop() else {
            return false;
        };
        if self.pattern.matches(&name) {
            self.names.insert(name);
        }
        true
    }
}
