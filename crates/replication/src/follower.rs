//! What a leader knows of a follower: how far its log is, and when it had all that the leader had.
//!
//! ```text
//!   fetch of the partition ──> FollowerState::note_fetch
//!   fetch of a session that does not name the partition ──> SessionTime::note, once for all of them
//!   append ──> FollowerState::leave_session: what the session has said so far counts, no more from here on
//! ```
//!
//! A fetch in a session speaks for all of its partitions, but names those that have changed only. What it says
//! of the others is that their followers still have everything. So a follower that is found at the log end is
//! left to the session: from then on its last fetch is that of the session, until the log end moves. That
//! costs nothing for a partition that is quiet, and after an hour its first append finds a follower that had
//! everything a moment ago.

use model::{BrokerEpoch, BrokerId, MonotonicTime, Offset};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// When a fetch session of a follower has fetched last.
#[derive(Debug)]
pub struct SessionTime(AtomicI64);

impl SessionTime {
    /// Of a session that has not fetched yet.
    pub const fn new() -> Self {
        Self(AtomicI64::new(MonotonicTime::MIN.as_ms()))
    }

    /// The session has fetched, and what it has said of the partitions that it names is noted.
    pub fn note(&self, now: MonotonicTime) {
        self.0.fetch_max(now.as_ms(), Ordering::AcqRel);
    }

    fn last(&self) -> MonotonicTime {
        MonotonicTime::from_ms(self.0.load(Ordering::Acquire))
    }
}

impl Default for SessionTime {
    fn default() -> Self {
        Self::new()
    }
}

/// A fetch by a replica, beside what it reads.
#[derive(Debug, Clone, Copy)]
pub struct FollowerFetch<'a> {
    /// The replica's broker.
    pub broker_id: BrokerId,
    /// The epoch of its registration; [`BrokerEpoch::NONE`] if it does not say.
    pub broker_epoch: BrokerEpoch,
    /// Where its log starts.
    pub log_start_offset: Offset,
    /// When it came.
    pub now: MonotonicTime,
    /// That of the session that the fetch is of.
    pub session: Option<&'a Arc<SessionTime>>,
    /// Whether it has waited since: it says nothing new of the follower then.
    pub has_waited: bool,
    /// Whether it gets no records while it is out of sync: replication takes more than it may.
    pub is_throttled: bool,
}

/// A follower, as its leader knows it.
#[derive(Debug, Clone)]
pub(crate) struct FollowerState {
    pub(crate) broker_id: BrokerId,
    /// Where its last fetch began; [`Offset::NONE`] before.
    pub(crate) log_end_offset: Offset,
    /// Where its log started then.
    pub(crate) log_start_offset: Offset,
    /// The epoch of its registration when it fetched last; `None` before.
    pub(crate) broker_epoch: Option<BrokerEpoch>,
    /// The leader's log end at its last fetch.
    leader_end_offset: Offset,
    last_fetch: MonotonicTime,
    last_caught_up: MonotonicTime,
    /// Its last fetch is that of the session: it had all that the leader has.
    session: Option<Arc<SessionTime>>,
}

impl FollowerState {
    /// A follower that has not fetched.
    pub(crate) const fn new(broker_id: BrokerId) -> Self {
        Self {
            broker_id,
            log_end_offset: Offset::NONE,
            log_start_offset: Offset::NONE,
            broker_epoch: None,
            leader_end_offset: Offset::NONE,
            last_fetch: MonotonicTime::MIN,
            last_caught_up: MonotonicTime::MIN,
            session: None,
        }
    }

    /// A new epoch of the leader begins, whose log ends here. The in-sync replicas have the time of a lag to
    /// fetch in it.
    pub(crate) fn begin_epoch(
        &mut self,
        is_in_sync: bool,
        log_end_offset: Offset,
        now: MonotonicTime,
    ) {
        let since = match is_in_sync {
            true => now,
            false => MonotonicTime::MIN,
        };
        self.session = None;
        self.leader_end_offset = log_end_offset;
        self.last_fetch = since;
        self.last_caught_up = since;
    }

    /// It has fetched from `fetch_offset` on while the leader's log ended at `leader_end_offset`.
    pub(crate) fn note_fetch(
        &mut self,
        fetch: &FollowerFetch<'_>,
        fetch_offset: Offset,
        leader_end_offset: Offset,
    ) {
        self.leave_session();
        let caught_up = if fetch_offset >= leader_end_offset {
            fetch.now
        } else if fetch_offset >= self.leader_end_offset {
            self.last_fetch
        } else {
            MonotonicTime::MIN
        };
        self.last_caught_up = self.last_caught_up.max(caught_up);
        self.log_end_offset = fetch_offset;
        self.log_start_offset = fetch.log_start_offset;
        self.leader_end_offset = self.leader_end_offset.max(leader_end_offset);
        self.last_fetch = fetch.now;
        self.broker_epoch = Some(fetch.broker_epoch);
        if fetch_offset >= leader_end_offset {
            self.session = fetch.session.cloned();
        }
    }

    /// What its session has said so far counts; what it says from here on is not of this follower.
    pub(crate) fn leave_session(&mut self) {
        if let Some(session) = self.session.take() {
            let last = session.last();
            self.last_fetch = self.last_fetch.max(last);
            self.last_caught_up = self.last_caught_up.max(last);
        }
    }

    /// The same, if it is left to this session.
    pub(crate) fn leave_session_of(&mut self, session: &Arc<SessionTime>) {
        if self
            .session
            .as_ref()
            .is_some_and(|one| Arc::ptr_eq(one, session))
        {
            self.leave_session();
        }
    }

    /// When it had all that the leader had, as far as is known.
    pub(crate) fn last_caught_up(&self) -> MonotonicTime {
        match &self.session {
            Some(session) => self.last_caught_up.max(session.last()),
            None => self.last_caught_up,
        }
    }

    /// Whether it had all that the leader had this lately.
    pub(crate) fn was_caught_up_within(&self, lag_max_ms: i64, now: MonotonicTime) -> bool {
        now.ms_since(self.last_caught_up()) <= lag_max_ms
    }
}
