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

use super::{Groups, OFFSETS_TOPIC, Ready, Shard};
use crate::runtime::clock;
use coordinator::group::DeletedTopic;
use metadata::MetadataImage;
use model::{ErrorCode, MonotonicTime, Uuid};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How long after a deletion was refused it is tried again.
const RETRY_MS: i64 = 1_000;

/// More topics are not noted one by one: a shard whose disk is stuck may not look for long.
const NOTED_MAX: usize = 10_000;

/// Topics that are gone, of which a shard may have offsets.
#[derive(Debug)]
pub(super) enum NotedTopics {
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
        let mut places = BTreeSet::new();
        for shard in self.all_shards() {
            shard.deleted.lock().note(topics);
            places.insert(shard.partition.place());
        }
        places
    }

    /// How many topics are noted at all shards.
    #[cfg(test)]
    pub(crate) fn noted_topic_count(&self) -> usize {
        let count = |shard: Arc<Shard>| match &*shard.deleted.lock() {
            NotedTopics::Named(named) => named.len(),
            NotedTopics::Absent | NotedTopics::Needless => 0,
        };
        self.all_shards().into_iter().map(count).sum()
    }

    /// Deletes the offsets of topics that are gone from the shards in a log directory, durably where
    /// `flush.messages` asks for it; those that load do so when they have loaded. Blocks for as long
    /// as the disk is stuck.
    pub(crate) fn delete_noted_offsets(&self, log_directory: &str) {
        let here = self.all_shards().into_iter();
        let here = here.filter(|shard| *shard.partition.log_directory() == *log_directory);
        let here: Vec<_> = here.collect();
        for shard in &here {
            self.bring_up_to_date(shard);
        }
        for shard in &here {
            let end_offset = shard.partition.offsets().log_end_offset;
            let flushed = shard.partition.wait_for_high_watermark(end_offset);
            // Who flushes reports a failure.
            let _ = self.runtime.block_on(flushed);
        }
    }

    /// Deletes offsets of topics that are gone: of those that were deleted while the shard was
    /// loaded, and of those whose deletion did not come to an end before.
    pub(super) fn delete_old_offsets(&self, shard: &Arc<Shard>) {
        self.bring_up_to_date(shard);
        self.delete_offsets_of_absent_topics(shard);
    }

    /// Deletes what a deletion has left that was refused, once it is to be tried again.
    pub(super) fn retry_deletion(&self, shard: &Arc<Shard>) {
        let now = clock::monotonic();
        let is_due = shard.lock().ready().is_ok_and(|ready| {
            let due = ready.deletion_due.take_if(|at| *at <= now);
            due.is_some()
        });
        if is_due {
            self.delete_offsets_of_absent_topics(shard);
        }
    }

    /// Deletes the offsets of topics that were noted; one that the log does not take is tried again.
    pub(super) fn forget_deleted(
        &self,
        shard: &Arc<Shard>,
        ready: &mut Ready,
        deleted: NotedTopics,
    ) {
        let decision = match &deleted {
            NotedTopics::Named(named) if named.is_empty() => return,
            NotedTopics::Needless => return,
            NotedTopics::Absent => ready.shard.delete_offsets_of_absent_topics(),
            NotedTopics::Named(named) => {
                let topics = named.iter().map(|(name, topic_id)| DeletedTopic {
                    name,
                    topic_id: *topic_id,
                });
                ready
                    .shard
                    .delete_topic_offsets(&topics.collect::<Vec<_>>())
            }
        };
        if let Err(error) = self.carry_out(shard, ready, None, decision, clock::now()) {
            ready.deletion_due = Some(self.retry_later(shard, error));
        }
    }

    fn bring_up_to_date(&self, shard: &Arc<Shard>) {
        let mut state = shard.lock();
        // One that loads, or has failed, has nothing to delete.
        let _ = self.up_to_date(shard, &mut state);
        let deadline = state.next_deadline();
        drop(state);
        self.alarm.wake_by(deadline);
    }

    fn delete_offsets_of_absent_topics(&self, shard: &Arc<Shard>) {
        // Metadata without the topic that the groups are in are older than the groups.
        let image = self.environment.read().image.clone();
        if image.topics.by_name(OFFSETS_TOPIC).is_none() {
            return;
        }
        let decided = self.decide_in(shard, None, |shard, _| {
            shard.delete_offsets_of_absent_topics()
        });
        // What is not in service deletes them when it is loaded.
        if let Err(error) = decided
            && let Ok(ready) = shard.lock().ready()
        {
            ready.deletion_due = Some(self.retry_later(shard, error));
        }
    }

    /// Says that a deletion was refused; when it is to be tried again.
    fn retry_later(&self, shard: &Shard, error: ErrorCode) -> MonotonicTime {
        let due = clock::monotonic().plus_ms(RETRY_MS);
        self.alarm.wake_by(Some(due));
        if let Some(not_logged) = self.refused_deletions.due() {
            let partition = &shard.partition;
            tracing::warn!(%partition, %error, not_logged, "offsets of deleted topics cannot be deleted; retrying");
        }
        due
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
