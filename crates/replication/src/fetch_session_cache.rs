//! All incremental fetch sessions of a broker: which session a request belongs to, and which
//! session gives way when the slots are full (KIP-227).
//!
//! | request's session id | epoch | meaning |
//! |--|--|--|
//! | any | 0 | full fetch that ends the session of that id and asks for a new one |
//! | any | -1 | fetch without a session, which ends the session of that id |
//! | n | k | incremental fetch of session n, whose next epoch must be k |

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use model::{BrokerEpoch, BrokerId, ErrorCode};

use crate::fetch_session::{
    FetchPartition, FetchSession, SessionUpdate, TopicRef, next_session_epoch,
};

/// The session id that stands for no session.
pub const INVALID_SESSION_ID: i32 = 0;
/// The session epoch of a full fetch that asks for a session.
pub const INITIAL_EPOCH: i32 = 0;
/// The session epoch of a full fetch that asks for none.
pub const FINAL_EPOCH: i32 = -1;
/// From this age on a session gives way to a larger one, and to any one if unused for as long.
pub const EVICTION_AGE_MS: i64 = 120_000;
/// How many partitions all sessions may have together: some 100 MB.
const PARTITIONS_MAX: usize = 500_000;
/// From this many on, a session ends that has more room for partitions that have left than
/// partitions.
const SPARE_SLOTS_MAX: usize = 100;

/// What a Fetch request says about its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRequest {
    /// The id, 0 for none.
    pub session_id: i32,
    /// The epoch.
    pub session_epoch: i32,
    /// Whether the request names topics by id: version 13 and later.
    pub uses_topic_ids: bool,
    /// The replica that fetches, with the epoch of its broker's registration; `None` for a consumer.
    pub replica: Option<(BrokerId, BrokerEpoch)>,
}

/// How a Fetch request is to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchContext {
    /// Read and answer all partitions of the request; session id 0.
    Sessionless,
    /// The same; [`FetchSessionCache::create`] then says which session id the response carries.
    Full,
    /// Read what [`FetchSession::take_changed`] yields, answer what [`FetchSession::answer`]
    /// selects.
    Incremental(IncrementalFetch),
}

/// An incremental fetch under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncrementalFetch {
    /// The session's id, which the response carries.
    pub session_id: i32,
    /// The session's epoch while this fetch is the last one.
    epoch: i32,
    /// Partitions that have come and gone with the request.
    pub update: SessionUpdate,
}

/// A session that a full fetch asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSession {
    /// Whether the client is a follower, which consumers never drive out.
    pub is_privileged: bool,
    /// A random number that the id is made of, so that clients cannot guess each other's ids.
    pub random: u32,
}

/// Unprivileged before privileged, small before large: the first gives way first.
type EvictionKey = (bool, usize, i32);

#[derive(Debug)]
struct CachedSession {
    session: FetchSession,
    is_privileged: bool,
    created_ms: i64,
    last_used_ms: i64,
    /// The number of partitions when the session was last used, as the eviction sets know it.
    cached_len: usize,
}

impl CachedSession {
    const fn eviction_key(&self, id: i32) -> EvictionKey {
        (self.is_privileged, self.cached_len, id)
    }
}

/// The sessions, `0 <= len() <= slots_max`, with `0 <= partition_count() <= partitions_max`.
///
/// `last_used` holds each session once; the eviction sets hold those that may give way to any
/// larger session, or to a privileged one.
#[derive(Debug)]
pub struct FetchSessionCache {
    slots_max: usize,
    partitions_max: usize,
    ids: RangeInclusive<i32>,
    sessions: BTreeMap<i32, CachedSession>,
    last_used: BTreeSet<(i64, i32)>,
    evictable_by_all: BTreeSet<EvictionKey>,
    evictable_by_privileged: BTreeSet<EvictionKey>,
    partition_count: usize,
    eviction_count: u64,
    removed: Vec<FetchSession>,
}

impl FetchSessionCache {
    /// A cache of `max.incremental.fetch.session.cache.slots` sessions.
    pub fn new(slots_max: usize) -> Self {
        Self::with_limits(slots_max, PARTITIONS_MAX, 1..=i32::MAX)
    }

    /// A cache that keeps no more than so many partitions, and whose session ids are of a range, so
    /// that several caches share the work and an id tells which cache it is of. The range must hold
    /// more ids than there are slots.
    pub fn with_limits(slots_max: usize, partitions_max: usize, ids: RangeInclusive<i32>) -> Self {
        let ids_count = i64::from(*ids.end()) - i64::from(*ids.start()) + 1;
        assert!(
            *ids.start() > INVALID_SESSION_ID,
            "session ids are positive"
        );
        assert!(ids_count > slots_max as i64, "there is always a free id");
        Self {
            slots_max,
            partitions_max,
            ids,
            sessions: BTreeMap::new(),
            last_used: BTreeSet::new(),
            evictable_by_all: BTreeSet::new(),
            evictable_by_privileged: BTreeSet::new(),
            partition_count: 0,
            eviction_count: 0,
            removed: Vec::new(),
        }
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// How many partitions all sessions have.
    pub const fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// How many sessions have given way to others.
    pub const fn eviction_count(&self) -> u64 {
        self.eviction_count
    }

    /// Finds out what kind of fetch a request is, and applies it to its session.
    ///
    /// The partitions of the request and those it forgets are looked at only if the fetch is
    /// incremental. The caller follows the added partitions from before they are read.
    ///
    /// A session that outgrows the cache ends, as does one that most of its partitions have left:
    /// the client then makes a full fetch.
    pub fn start<'a>(
        &mut self,
        request: SessionRequest,
        partitions: impl Iterator<Item = (TopicRef<'a>, i32, FetchPartition)>,
        forgotten: impl Iterator<Item = (TopicRef<'a>, i32)>,
        now_ms: i64,
    ) -> Result<FetchContext, ErrorCode> {
        let id = request.session_id;
        if request.session_epoch == INITIAL_EPOCH || request.session_epoch == FINAL_EPOCH {
            self.remove(id);
            let is_final = request.session_epoch == FINAL_EPOCH;
            return Ok(if is_final {
                FetchContext::Sessionless
            } else {
                FetchContext::Full
            });
        }
        let cached = self
            .sessions
            .get_mut(&id)
            .ok_or(ErrorCode::FetchSessionIdNotFound)?;
        let session = &mut cached.session;
        // What a session leaves unsaid is said of its own follower.
        if session.follower().map(|one| one.replica) != request.replica {
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        if session.epoch() != request.session_epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.uses_topic_ids() != request.uses_topic_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        let update = session.update(partitions, forgotten);
        if session.is_empty() {
            self.remove(id);
            return Ok(FetchContext::Sessionless);
        }
        let (len, is_sparse) = (
            session.len(),
            session.spare_slots() > SPARE_SLOTS_MAX.max(session.len()),
        );
        let has_outgrown = len > cached.cached_len
            && self.partition_count - cached.cached_len + len > self.partitions_max;
        if is_sparse || has_outgrown {
            self.remove(id);
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        let epoch = next_session_epoch(request.session_epoch);
        session.set_epoch(epoch);
        self.touch(id, now_ms);
        Ok(FetchContext::Incremental(IncrementalFetch {
            session_id: id,
            epoch,
            update,
        }))
    }

    /// The session of an incremental fetch that is being answered, unless it has given way or
    /// another fetch has overtaken this one: the response is then this error and no partition.
    pub fn session(&mut self, fetch: &IncrementalFetch) -> Result<&mut FetchSession, ErrorCode> {
        let session = self
            .find(fetch.session_id)
            .ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch() != fetch.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        Ok(session)
    }

    /// The session of an id, to mark partitions or to look at them.
    pub fn find(&mut self, session_id: i32) -> Option<&mut FetchSession> {
        Some(&mut self.sessions.get_mut(&session_id)?.session)
    }

    /// Makes a session of a full fetch that is being answered and gives its id, or 0 if there is
    /// no room.
    ///
    /// The session is [one that is answered in full](FetchSession::answered).
    pub fn create(&mut self, new: NewSession, session: FetchSession, now_ms: i64) -> i32 {
        if !self.make_room(new, session.len(), now_ms) {
            self.removed.push(session);
            return INVALID_SESSION_ID;
        }
        let id = self.free_id(new.random);
        let cached = CachedSession {
            session,
            is_privileged: new.is_privileged,
            created_ms: now_ms,
            last_used_ms: now_ms,
            cached_len: 0,
        };
        self.sessions.insert(id, cached);
        self.touch(id, now_ms);
        id
    }

    /// Ends a session, if it is there.
    pub fn remove(&mut self, session_id: i32) {
        if let Some(cached) = self.sessions.remove(&session_id) {
            self.last_used.remove(&(cached.last_used_ms, session_id));
            self.evictable_by_all
                .remove(&cached.eviction_key(session_id));
            self.evictable_by_privileged
                .remove(&cached.eviction_key(session_id));
            self.partition_count -= cached.cached_len;
            self.removed.push(cached.session);
        }
    }

    /// The sessions that have ended since the last call. To free a large one takes a while, which
    /// is not to pass while others wait for the cache.
    pub fn take_removed(&mut self) -> Vec<FetchSession> {
        std::mem::take(&mut self.removed)
    }

    /// An unused id, near the one that `random` says.
    fn free_id(&self, random: u32) -> i32 {
        let (first, last) = (i64::from(*self.ids.start()), i64::from(*self.ids.end()));
        let ids_count = last - first + 1;
        let mut id = first + i64::from(random) % ids_count;
        while self.sessions.contains_key(&(id as i32)) {
            id = if id == last { first } else { id + 1 };
        }
        id as i32
    }

    /// Frees a slot and the room for the partitions where there is none, if sessions may give way
    /// for it.
    fn make_room(&mut self, new: NewSession, len: usize, now_ms: i64) -> bool {
        let Some(victims) = self.victims(new, len, now_ms) else {
            return false;
        };
        for victim in victims {
            self.remove(victim);
            self.eviction_count += 1;
        }
        true
    }

    /// The sessions that give way to a new one: none if there is room, `None` if too few may.
    fn victims(&self, new: NewSession, len: usize, now_ms: i64) -> Option<BTreeSet<i32>> {
        let unused = self
            .last_used
            .iter()
            .take_while(|(last_used_ms, _)| now_ms - last_used_ms > EVICTION_AGE_MS)
            .map(|(_, id)| *id);
        let evictable = if new.is_privileged {
            &self.evictable_by_privileged
        } else {
            &self.evictable_by_all
        };
        let smaller = evictable
            .iter()
            .take_while(|key| (new.is_privileged, len, 0) >= **key)
            .map(|(_, _, id)| *id);
        let mut candidates = unused.chain(smaller);
        let mut victims = BTreeSet::new();
        let (mut sessions, mut partitions) = (self.sessions.len(), self.partition_count);
        while sessions >= self.slots_max || partitions + len > self.partitions_max {
            let victim = candidates.next()?;
            if victims.insert(victim) {
                sessions -= 1;
                partitions -= self.sessions[&victim].cached_len;
            }
        }
        Some(victims)
    }

    /// Notes that a session is used, and what may drive it out from here on.
    fn touch(&mut self, id: i32, now_ms: i64) {
        let cached = self
            .sessions
            .get_mut(&id)
            .expect("only sessions of the cache are touched");
        self.last_used.remove(&(cached.last_used_ms, id));
        self.evictable_by_all.remove(&cached.eviction_key(id));
        self.evictable_by_privileged
            .remove(&cached.eviction_key(id));
        self.partition_count -= cached.cached_len;

        cached.last_used_ms = now_ms;
        cached.cached_len = cached.session.len();
        self.last_used.insert((now_ms, id));
        let is_old = now_ms - cached.created_ms > EVICTION_AGE_MS;
        if is_old {
            self.evictable_by_all.insert(cached.eviction_key(id));
        }
        if is_old || !cached.is_privileged {
            self.evictable_by_privileged.insert(cached.eviction_key(id));
        }
        self.partition_count += cached.cached_len;
    }
}

#[cfg(test)]
mod tests;
