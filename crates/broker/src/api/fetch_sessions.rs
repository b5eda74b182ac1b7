//! Incremental fetch sessions, in shards whose locks are apart: to apply a request that names
//! thousands of partitions takes a while, in which the sessions of the same shard wait.
//!
//! The id of a session tells its shard. A new one comes to the shard that has the fewest.

use crate::scheduling::off_workers::off_workers;
use parking_lot::Mutex;
use replication::{FetchSession, FetchSessionCache, NewSession};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many slots make a shard worth its while.
const SLOTS_OF_SHARD: usize = 64;
const SHARDS_MAX: usize = 8;
/// How many partitions all sessions of a shard may have together: some 30 MB.
const PARTITIONS_OF_SHARD: usize = 150_000;
/// How many partitions all sessions have together where there is one shard.
const PARTITIONS_MAX: usize = 500_000;

/// How long a worker waits for a shard before others take over its tasks.
const LOCK_MOMENT: Duration = Duration::from_micros(100);

/// The sessions of a broker.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    shards: Vec<Shard>,
    /// How many ids each shard has; the first one begins at 1.
    ids_of_shard: i32,
}

#[derive(Debug)]
struct Shard {
    cache: Mutex<FetchSessionCache>,
    /// How many sessions there are.
    len: AtomicUsize,
}

impl FetchSessions {
    /// None yet; `max.incremental.fetch.session.cache.slots` at most.
    pub(crate) fn new(slots_max: usize) -> Self {
        let count = (slots_max / SLOTS_OF_SHARD).clamp(1, SHARDS_MAX);
        let partitions_max = match count {
            1 => PARTITIONS_MAX,
            _ => PARTITIONS_OF_SHARD,
        };
        let ids_of_shard = i32::MAX / count as i32;
        let shards = (0..count).map(|at| {
            let first = at as i32 * ids_of_shard + 1;
            let slots = slots_max / count + usize::from(at < slots_max % count);
            let ids = first..=first + (ids_of_shard - 1);
            Shard {
                cache: Mutex::new(FetchSessionCache::with_limits(slots, partitions_max, ids)),
                len: AtomicUsize::new(0),
            }
        });
        Self {
            shards: shards.collect(),
            ids_of_shard,
        }
    }

    /// Looks at the sessions of the shard that an id is of. Those that end are freed when nobody
    /// waits for the shard any longer.
    pub(crate) fn with<T>(
        &self,
        session_id: i32,
        work: impl FnOnce(&mut FetchSessionCache) -> T,
    ) -> T {
        // What is no session's id, 0 for instance, is not there in any shard.
        let at = (session_id.max(1) - 1) / self.ids_of_shard;
        let last = self.shards.len() - 1;
        self.shards[(at as usize).min(last)].with(work)
    }

    /// Makes a session of a full fetch: see [`FetchSessionCache::create`].
    pub(crate) fn create(&self, new: NewSession, session: FetchSession, now_ms: i64) -> i32 {
        let len = |shard: &&Shard| shard.len.load(Ordering::Relaxed);
        let shard = self.shards.iter().min_by_key(len);
        let shard = shard.expect("there is a shard");
        shard.with(|sessions| sessions.create(new, session, now_ms))
    }
}

impl Shard {
    fn with<T>(&self, work: impl FnOnce(&mut FetchSessionCache) -> T) -> T {
        let mut cache = self
            .cache
            .try_lock_for(LOCK_MOMENT)
            .unwrap_or_else(|| off_workers(|| self.cache.lock()));
        let result = work(&mut cache);
        let removed = cache.take_removed();
        self.len.store(cache.len(), Ordering::Relaxed);
        drop(cache);
        drop(removed);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{LeaderEpoch, Offset};
    use replication::{FetchPartition, ReadOutcome, SessionTopic};
    use std::sync::mpsc;
    use std::thread;

    const NEW: NewSession = NewSession {
        is_privileged: false,
        random: 7,
    };

    fn session() -> FetchSession {
        let topic = SessionTopic::Name("topic".into());
        let request = FetchPartition {
            current_leader_epoch: LeaderEpoch::NONE,
            fetch_offset: Offset(0),
            last_fetched_epoch: LeaderEpoch::NONE,
            log_start_offset: Offset::NONE,
            max_bytes: 1,
        };
        let outcome = ReadOutcome::error(model::ErrorCode::None);
        let answered = [(topic.as_ref(), 0, request, outcome)];
        FetchSession::answered(false, answered.into_iter())
    }

    #[test]
    fn all_slots_are_used_and_each_session_is_found_by_its_id() {
        for slots in [0, 1, 2, 64, 127, 128, 130, 1000, 5000] {
            let sessions = FetchSessions::new(slots);
            let mut ids: Vec<i32> = (0..slots)
                .map(|_| sessions.create(NEW, session(), 0))
                .collect();
            for id in &ids {
                let is_found = sessions.with(*id, |cache| cache.find(*id).is_some());
                assert!(is_found, "{id} of {slots}");
            }
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), slots);
            assert!(ids.first().is_none_or(|first| *first > 0));
            for id in [0, -1, i32::MIN, i32::MAX] {
                sessions.with(id, |cache| assert!(cache.find(id).is_none()));
            }
        }
    }

    #[test]
    fn a_shard_that_is_busy_holds_up_no_other() {
        let sessions = FetchSessions::new(1000);
        let (first, other) = (
            sessions.create(NEW, session(), 0),
            sessions.create(NEW, session(), 0),
        );
        let (is_over, over) = mpsc::channel();
        let (begin, begun) = mpsc::channel();
        thread::scope(|scope| {
            let sessions = &sessions;
            scope.spawn(move || {
                sessions.with(first, |_| {
                    begin.send(()).expect("it listens");
                    let over: Result<(), _> = over.recv_timeout(testkit::LIMIT);
                    over.expect("the other session is looked at meanwhile");
                });
            });
            begun.recv().expect("it begins");
            assert!(sessions.with(other, |cache| cache.find(other).is_some()));
            is_over.send(()).expect("it listens");
        });
    }
}
