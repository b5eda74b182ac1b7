//! Offsets of topics that are gone: deleted before anybody asks their group again, again until the log
//! takes that, and when the groups are loaded.
//!
//! ```text
//!   deletion ──> metadata without the topic: commits are refused
//!                  └─> noted at each shard ──> queue of its log directory ──┬─> its offsets are deleted
//!                           request of a group, if it comes first ──────────┘     │ refused
//!   load, retry ──> offsets of all topics that the metadata lack <────────────────┘
//! ```
//!
//! A shard may be in a call on a disk that is stuck, so whoever deletes a topic waits for none of them.
//! Committed offsets go by the names of topics; so those of a deleted topic are gone before the shard
//! answers anybody, or decides anything, and another topic of the name does not meet them. After a
//! crash they are known by the topic's id.

use super::{GroupCoordination, GroupSeat, GroupSlot, Groups, OFFSETS_TOPIC};
use crate::coordinators::runtime::{Parked, ReadyResponse};
use crate::scheduling::clock;
use coordinator::group::{DeletedTopic, GroupShard};
use coordinator::runtime::Asker;
use coordinator::{Decision, GroupResponse};
use metadata::MetadataImage;
use model::{ErrorCode, MonotonicTime, Uuid};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How long after a deletion was refused it is tried again.
const RETRY_MS: i64 = 1_000;

/// More topics are not noted one by one: a shard whose disk is stuck may not look for long.
const NOTED_MAX: usize = 10_000;

/// Topics that are gone, of which a shard may have offsets.
#[derive(Debug)]
pub(crate) enum NotedTopics {
    /// These, by name and id.
    Named(Vec<(String, Uuid)>),
    /// More than are worth naming: all that the metadata do not have.
    Absent,
    /// The shard cannot be loaded, and nobody asks it.
    Needless,
}

impl Default for NotedTopics {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

impl NotedTopics {
    /// Whether nothing is to be done about any topic.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Named(noted) => noted.is_empty(),
            Self::Absent => false,
            Self::Needless => true,
        }
    }

    fn note(&mut self, topics: &[DeletedTopic<'_>]) {
        if let Self::Named(noted) = self {
            if noted.len() + topics.len() > NOTED_MAX {
                *self = Self::Absent;
                return;
            }
            let named = topics.iter();
            noted.extend(named.map(|topic| (topic.name.to_owned(), topic.topic_id)));
        }
    }
}

impl Groups {
    /// Notes that topics are gone, which `image` does not have: no group answers with an offset of
    /// them from here on. Gives the places of the log directories where
    /// [`Self::delete_noted_offsets`] is to be called.
    pub(crate) fn note_deleted_topics(
        &self,
        image: &Arc<MetadataImage>,
        topics: &[DeletedTopic<'_>],
    ) -> BTreeSet<usize> {
        // First: a commit that has found the topics is either before the deletion or refused.
        self.set_metadata(image);
        let mut directory_indexes = BTreeSet::new();
        for slot in self.runtime.all_slots() {
            slot.noted.lock().note(topics);
            directory_indexes.insert(slot.partition.directory_index());
        }
        directory_indexes
    }

    /// How many topics are noted at all shards.
    #[cfg(test)]
    pub(crate) fn noted_topic_count(&self) -> usize {
        let count = |slot: Arc<GroupSlot>| match &*slot.noted.lock() {
            NotedTopics::Named(named) => named.len(),
            NotedTopics::Absent | NotedTopics::Needless => 0,
        };
        self.runtime.all_slots().into_iter().map(count).sum()
    }

    /// Deletes the offsets of topics that are gone from the shards in a log directory, durably where
    /// `flush.messages` asks for it; those that load do so when they have loaded. Blocks for as long
    /// as the disk is stuck.
    pub(crate) fn delete_noted_offsets(&self, log_directory: &str) {
        let here = self.runtime.all_slots().into_iter();
        let here = here.filter(|slot| *slot.partition.log_directory() == *log_directory);
        let asked = here.map(|slot| {
            let (asker, asked) = slot.own_asker::<(), _>();
            // What is noted is deleted before any event.
            slot.push(|_, served| served.hosted.read(asker, clock::now(), |_, _| ()));
            asked
        });
        let asked: Vec<_> = asked.collect();
        for one in asked {
            // One that loads, or has failed, has nothing to delete; who flushes reports a failure.
            let _ = one.wait();
        }
    }
}

/// Hears whether a deletion was refused.
struct Deletion<'a>(&'a Cell<Option<ErrorCode>>);

impl Asker<GroupShard, (), Parked<GroupResponse>> for Deletion<'_> {
    fn answered(self, outcome: Result<(&GroupShard, ()), ErrorCode>) -> ReadyResponse {
        self.0.set(outcome.err());
        ReadyResponse::new(|_| {})
    }

    fn parked(self) -> Parked<GroupResponse> {
        unreachable!("a deletion waits for no member")
    }
}

impl GroupCoordination {
    /// Deletes the offsets of topics that were noted; one that the log does not take is tried again.
    pub(super) fn forget_deleted(
        &self,
        slot: &Arc<GroupSlot>,
        served: &mut GroupSeat,
        deleted: &NotedTopics,
    ) {
        let topics: Vec<_> = match deleted {
            NotedTopics::Named(named) if named.is_empty() => return,
            NotedTopics::Needless => return,
            NotedTopics::Absent => return self.delete_offsets_of_absent_topics(slot, served),
            NotedTopics::Named(named) => named
                .iter()
                .map(|(name, topic_id)| DeletedTopic {
                    name,
                    topic_id: *topic_id,
                })
                .collect(),
        };
        self.delete(slot, served, |shard| shard.delete_topic_offsets(&topics));
    }

    /// Deletes what a deletion has left that was refused, once it is to be tried again.
    pub(super) fn retry_deletion(
        &self,
        slot: &Arc<GroupSlot>,
        served: &mut GroupSeat,
        now: MonotonicTime,
    ) {
        if served.known.deletion_due.take_if(|at| *at <= now).is_some() {
            self.delete_offsets_of_absent_topics(slot, served);
        }
    }

    /// Deletes what deletions have left that did not come to an end.
    pub(super) fn delete_offsets_of_absent_topics(
        &self,
        slot: &Arc<GroupSlot>,
        served: &mut GroupSeat,
    ) {
        // Metadata without the topic that the groups are in are older than the groups.
        let topics = &served.known.environment.image.topics;
        if topics.by_name(OFFSETS_TOPIC).is_some() {
            self.delete(slot, served, GroupShard::delete_offsets_of_absent_topics);
        }
    }

    fn delete(
        &self,
        slot: &Arc<GroupSlot>,
        served: &mut GroupSeat,
        delete: impl FnOnce(&mut GroupShard) -> Decision<()>,
    ) {
        let refused = Cell::new(None);
        let now = clock::now();
        served
            .hosted
            .decide(Deletion(&refused), None, now, |shard, _| delete(shard));
        let Some(error) = refused.take() else { return };
        served.known.deletion_due = Some(now.monotonic.plus_ms(RETRY_MS));
        if let Some(not_logged) = self.refused_deletions.due() {
            let partition = &slot.partition;
            tracing::warn!(%partition, %error, not_logged, "offsets of deleted topics cannot be deleted; retrying");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_noted_one_by_one_up_to_a_bound() {
        let topic = DeletedTopic {
            name: "topic",
            topic_id: Uuid::METADATA_TOPIC,
        };
        let mut noted = NotedTopics::default();
        for count in 1..=NOTED_MAX {
            noted.note(&[topic]);
            assert!(matches!(&noted, NotedTopics::Named(named) if named.len() == count));
        }
        noted.note(&[topic]);
        assert!(matches!(noted, NotedTopics::Absent));
    }
}
