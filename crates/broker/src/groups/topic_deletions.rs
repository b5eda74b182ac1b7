//! Offsets of topics that are gone: deleted with their topics, again until the log takes that, and
//! when the groups are loaded.
//!
//! ```text
//!   deletion ──> metadata without the topic: commits are refused ──> its offsets are deleted
//!                                                                     │ refused
//!   load, retry ──> offsets of all topics that the metadata lack <────┘
//! ```

use super::{Decided, Groups, OFFSETS_TOPIC, Shard, State};
use crate::clock;
use coordinator::group::DeletedTopic;
use metadata::MetadataImage;
use model::{ErrorCode, Uuid};
use std::sync::Arc;
use tokio::task::JoinHandle;

/// How long after a deletion was refused it is tried again.
const RETRY_MS: i64 = 1_000;

impl Groups {
    /// Forgets the offsets of topics that were deleted, which `image` does not have; a shard that
    /// loads does so when it has loaded. Waits for what is to be flushed, so that no other topic of
    /// the name meets them after a crash. Not to be called on a worker.
    pub(crate) fn delete_topic_offsets(
        &self,
        image: &Arc<MetadataImage>,
        topics: &[DeletedTopic<'_>],
    ) {
        // First: a commit that has found the topics is either before the deletion or refused.
        self.set_metadata(image);
        let mut flushes = Vec::new();
        for shard in self.all_shards() {
            if let State::Loading(deleted) = &mut *shard.lock() {
                let topics = topics.iter();
                deleted.extend(topics.map(|topic| (topic.name.to_owned(), topic.topic_id)));
                continue;
            }
            let decided =
                self.decide_in(&shard, None, |shard, _| shard.delete_topic_offsets(topics));
            flushes.extend(self.flush_of_deletion(&shard, decided));
        }
        for flush in flushes {
            // Who flushes reports a failure.
            let _ = self.runtime.block_on(flush);
        }
    }

    /// Deletes offsets of topics that are gone: of those that were deleted while the shard was
    /// loaded, and of those whose deletion did not come to an end before.
    pub(super) fn delete_old_offsets(&self, shard: &Arc<Shard>, deleted: &[(String, Uuid)]) {
        let deleted: Vec<_> = deleted
            .iter()
            .map(|(name, topic_id)| DeletedTopic {
                name,
                topic_id: *topic_id,
            })
            .collect();
        let decided = self.decide_in(shard, None, |shard, _| shard.delete_topic_offsets(&deleted));
        self.flush_of_deletion(shard, decided);
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

    fn delete_offsets_of_absent_topics(&self, shard: &Arc<Shard>) {
        // Metadata without the topic that the groups are in are older than the groups.
        let image = self.surroundings.read().image.clone();
        if image.topics.by_name(OFFSETS_TOPIC).is_some() {
            let decided = self.decide_in(shard, None, |shard, _| {
                shard.delete_offsets_of_absent_topics()
            });
            self.flush_of_deletion(shard, decided);
        }
    }

    /// What a deletion becomes durable by; one that the log does not take is tried again.
    fn flush_of_deletion(
        &self,
        shard: &Shard,
        decided: Result<Decided<()>, ErrorCode>,
    ) -> Option<JoinHandle<Result<(), ErrorCode>>> {
        let error = match decided {
            Ok(decided) => return decided.flushing,
            Err(error) => error,
        };
        // What is not in service deletes them when it is loaded.
        let due = clock::monotonic().plus_ms(RETRY_MS);
        shard.lock().ready().ok()?.deletion_due = Some(due);
        self.alarm.wake_by(Some(due));
        if let Some(not_logged) = self.refused_deletions.due() {
            let partition = &shard.partition;
            tracing::warn!(%partition, %error, not_logged, "offsets of deleted topics cannot be deleted; retrying");
        }
        None
    }
}
