//! Which replicas are in sync, as the leader of a partition sees it, and what the high watermark is by them
//! (KIP-497, KIP-841, KIP-903, KIP-966).
//!
//! ```text
//!   Replicas: what the controller has committed ─┐
//!   PendingIsr: what it is asked for ────────────┼─> maximal ISR ──> high watermark
//!   followers: how far each is ──────────────────┘
//! ```
//!
//! - A replica that is to be added counts at once, as the controller may have added it already; one that is to
//!   be removed counts until the controller says that it is.
//! - What becomes of a request of which nothing is known is not guessed: it is pending until an answer or newer
//!   metadata tell.

use crate::alter_partition::{IsrAnswer, IsrProposal, Verdict};
use crate::follower::{FollowerFetch, FollowerState, SessionTime};
use crate::leaders::Leaders;
use crate::partition_key::PartitionKey;
use crate::progress::Progress;
use crate::role::Replicas;
use model::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, MonotonicTime, Offset};
use std::sync::Arc;

/// The low watermark of a leader that has no followers any more.
pub(crate) const NO_FOLLOWERS: Offset = Offset::MAX;

/// What a leader knows of its followers, and has asked for.
#[derive(Debug)]
pub(crate) struct InSync {
    leaders: Arc<Leaders>,
    key: PartitionKey,
    /// One for each follower of the assignment.
    followers: Vec<FollowerState>,
    pending: Option<PendingIsr>,
    /// Where the log ended when this broker began to lead in its epoch, or later.
    epoch_start_offset: Offset,
    /// No replica that is alive has records below.
    low_watermark: Arc<Progress>,
}

/// In-sync replicas that the controller is asked for.
#[derive(Debug)]
struct PendingIsr {
    proposal: IsrProposal,
    /// Who is to be added, if it is not about who is to be removed.
    added: Option<BrokerId>,
}

impl InSync {
    /// Nothing is known of any follower of a log that ends here.
    pub(crate) fn new(leaders: &Arc<Leaders>, key: PartitionKey, log_end_offset: Offset) -> Self {
        Self {
            leaders: leaders.clone(),
            key,
            followers: Vec::new(),
            pending: None,
            epoch_start_offset: log_end_offset,
            low_watermark: Arc::default(),
        }
    }

    /// What the metadata have from here on.
    pub(crate) fn take_replicas(&mut self, replicas: &Replicas) {
        let known = std::mem::take(&mut self.followers);
        let of = |id: &BrokerId| known.iter().find(|one| one.broker_id == *id).cloned();
        let followers = replicas.followers.iter();
        let followers = followers.map(|id| of(id).unwrap_or_else(|| FollowerState::new(*id)));
        self.followers = followers.collect();
        // While the partition is as it was when the request was made, it may still be done.
        self.pending
            .take_if(|pending| replicas.partition_epoch > pending.proposal.partition_epoch);
    }

    /// The broker leads in a new epoch, from this log end on. Where another one `may_have_led` since the last one,
    /// logs of followers may have been cut as that has said, and how far they are is not known any more.
    pub(crate) fn begin_epoch(
        &mut self,
        replicas: &Replicas,
        log_end_offset: Offset,
        may_have_led: bool,
    ) {
        self.epoch_start_offset = log_end_offset;
        let now = self.leaders.now();
        for follower in &mut self.followers {
            if may_have_led {
                *follower = FollowerState::new(follower.broker_id);
            }
            let is_in_sync = replicas.isr.contains(&follower.broker_id);
            follower.begin_epoch(is_in_sync, log_end_offset, now);
        }
    }

    /// The log has grown.
    pub(crate) fn note_append(&mut self) {
        for follower in &mut self.followers {
            follower.leave_session();
        }
    }

    /// Where the log ended when the epoch began.
    pub(crate) const fn epoch_start_offset(&self) -> Offset {
        self.epoch_start_offset
    }

    pub(crate) fn follower(&self, broker_id: BrokerId) -> Option<&FollowerState> {
        self.followers.iter().find(|one| one.broker_id == broker_id)
    }

    fn follower_mut(&mut self, broker_id: BrokerId) -> Option<&mut FollowerState> {
        let mut followers = self.followers.iter_mut();
        followers.find(|one| one.broker_id == broker_id)
    }

    /// All followers of the assignment.
    pub(crate) fn followers(&self) -> &[FollowerState] {
        &self.followers
    }

    /// How many replicas `acks=all` needs: no more than there are.
    const fn min_isr(&self, min_insync_replicas: u32) -> usize {
        let replica_count = 1 + self.followers.len();
        let wanted = min_insync_replicas as usize;
        if wanted < replica_count {
            wanted
        } else {
            replica_count
        }
    }

    /// Whether enough replicas are in sync, as the controller has it, to append for `acks=all`.
    pub(crate) fn has_min_isr(&self, replicas: &Replicas, min_insync_replicas: u32) -> bool {
        replicas.isr.len() >= self.min_isr(min_insync_replicas)
    }

    /// The same for what has been appended: who is to be added counts.
    pub(crate) fn keeps_min_isr(&self, replicas: &Replicas, min_insync_replicas: u32) -> bool {
        let added = self.pending.as_ref().and_then(|pending| pending.added);
        let added = added.filter(|id| !replicas.isr.contains(id));
        let maximal_len = replicas.isr.len() + usize::from(added.is_some());
        maximal_len >= self.min_isr(min_insync_replicas)
    }

    /// Whether the controller is asked for in-sync replicas without this one.
    pub(crate) fn is_to_be_removed(&self, broker_id: BrokerId) -> bool {
        let is_in =
            |pending: &PendingIsr| pending.proposal.isr.iter().any(|one| one.0 == broker_id);
        self.pending.as_ref().is_some_and(|one| !is_in(one))
    }

    fn is_in_maximal_isr(&self, replicas: &Replicas, broker_id: BrokerId) -> bool {
        let added = self.pending.as_ref().and_then(|pending| pending.added);
        replicas.isr.contains(&broker_id) || added == Some(broker_id)
    }

    /// Up to where the records of a log that ends at `log_end_offset` are on every replica that counts;
    /// [`Offset::NONE`] while too few are in sync for anything to be replicated.
    ///
    /// A follower that is out of sync, and had everything a moment ago, counts as well: it could not come back
    /// while the leader goes on without it.
    pub(crate) fn replicated_end(
        &self,
        replicas: &Replicas,
        min_insync_replicas: u32,
        log_end_offset: Offset,
    ) -> Offset {
        if !self.has_min_isr(replicas, min_insync_replicas) {
            return Offset::NONE;
        }
        let counted = self.followers.iter().filter(|one| {
            self.is_in_maximal_isr(replicas, one.broker_id)
                || (one.was_caught_up_within(self.leaders.lag_max_ms(), self.leaders.now())
                    && self.leaders.is_eligible(one.broker_id, one.broker_epoch))
        });
        counted.fold(log_end_offset, |end, one| end.min(one.log_end_offset))
    }

    /// A follower has fetched from `fetch_offset` on. Whether its log starts elsewhere than before.
    ///
    /// # Errors
    /// `NotLeaderOrFollower` for a run of its broker that is over.
    pub(crate) fn note_fetch(
        &mut self,
        fetch: &FollowerFetch<'_>,
        fetch_offset: Offset,
        log_end_offset: Offset,
    ) -> Result<bool, ErrorCode> {
        if self.leaders.is_stale(fetch.broker_id, fetch.broker_epoch) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let Some(follower) = self.follower_mut(fetch.broker_id) else {
            return Ok(false);
        };
        let has_moved = follower.log_start_offset != fetch.log_start_offset;
        follower.note_fetch(fetch, fetch_offset, log_end_offset);
        Ok(has_moved)
    }

    /// What the session of a follower says is not about this partition any more.
    pub(crate) fn leave_session(&mut self, broker_id: BrokerId, session: &Arc<SessionTime>) {
        if let Some(follower) = self.follower_mut(broker_id) {
            follower.leave_session_of(session);
        }
    }

    /// Asks for a follower to be in sync that has just fetched, if it may be and is not.
    pub(crate) fn expand(
        &mut self,
        replicas: &Replicas,
        leader_epoch: LeaderEpoch,
        broker_id: BrokerId,
        high_watermark: Offset,
    ) {
        if self.pending.is_some() || replicas.isr.contains(&broker_id) {
            return;
        }
        let Some(follower) = self.follower(broker_id) else {
            return;
        };
        let log_end_offset = follower.log_end_offset;
        let has_caught_up =
            log_end_offset >= high_watermark && log_end_offset >= self.epoch_start_offset;
        if !has_caught_up || !self.leaders.is_eligible(broker_id, follower.broker_epoch) {
            return;
        }
        let mut isr = replicas.isr.clone();
        isr.push(broker_id);
        self.propose(replicas, leader_epoch, isr, Some(broker_id));
    }

    /// Asks for the followers to be out of sync that are too late.
    pub(crate) fn shrink(
        &mut self,
        replicas: &Replicas,
        leader_epoch: LeaderEpoch,
        log_end_offset: Offset,
        now: MonotonicTime,
    ) {
        if self.pending.is_some() {
            return;
        }
        let lag_max_ms = self.leaders.lag_max_ms();
        let stays = |id: &BrokerId| {
            let follower = self.follower(*id);
            *id == replicas.leader
                || follower.is_some_and(|one| {
                    one.log_end_offset == log_end_offset
                        || one.was_caught_up_within(lag_max_ms, now)
                })
        };
        let isr: Vec<BrokerId> = replicas.isr.iter().copied().filter(stays).collect();
        if isr.len() < replicas.isr.len() {
            self.propose(replicas, leader_epoch, isr, None);
        }
    }

    fn propose(
        &mut self,
        replicas: &Replicas,
        leader_epoch: LeaderEpoch,
        isr: Vec<BrokerId>,
        added: Option<BrokerId>,
    ) {
        let known_epoch = |id| {
            let known = self.follower(id).and_then(|one| one.broker_epoch);
            known.unwrap_or(BrokerEpoch::NONE)
        };
        let isr = isr.into_iter().map(|id| (id, known_epoch(id)));
        let isr = isr.collect();
        let key = self.key;
        self.pending = self.leaders.with_proposals(|proposals| {
            let proposal = IsrProposal {
                key,
                number: proposals.next_number(),
                leader_epoch,
                partition_epoch: replicas.partition_epoch,
                isr,
            };
            // What was asked before the metadata have changed is still under way.
            let is_submitted = proposals.submit(proposal.clone());
            is_submitted.then_some(PendingIsr { proposal, added })
        });
    }

    /// What the controller says to a proposal; one that is not pending any more changes nothing. Whether the
    /// replicas have changed.
    pub(crate) fn apply_answer(
        &mut self,
        replicas: &mut Arc<Replicas>,
        leader_epoch: LeaderEpoch,
        number: u64,
        answer: &IsrAnswer,
    ) -> bool {
        let Some(pending) = self.pending.as_ref() else {
            return false;
        };
        if pending.proposal.number != number {
            return false;
        }
        match answer {
            Ok(committed) => {
                // Newer metadata are on their way.
                if committed.leader_epoch != leader_epoch
                    || committed.partition_epoch < replicas.partition_epoch
                {
                    return false;
                }
                let replicas = Arc::make_mut(replicas);
                replicas.isr.clone_from(&committed.isr);
                replicas.partition_epoch = committed.partition_epoch;
                self.pending = None;
                true
            }
            Err(error) => {
                match Verdict::of(*error) {
                    Verdict::Refused => self.pending = None,
                    Verdict::AwaitsMetadata => {}
                    Verdict::Unknown => {
                        let again = pending.proposal.clone();
                        self.leaders
                            .with_proposals(|proposals| proposals.submit(again));
                    }
                }
                false
            }
        }
    }

    /// Below which no replica that is alive has records, and who waits for it is told.
    pub(crate) fn advance_low_watermark(&self, log_start_offset: Offset) {
        let alive = self.followers.iter();
        let alive = alive.filter(|one| self.leaders.is_alive(one.broker_id));
        let low_watermark = alive.fold(log_start_offset, |low, one| low.min(one.log_start_offset));
        self.low_watermark.advance_to(low_watermark);
    }

    pub(crate) const fn low_watermark(&self) -> &Arc<Progress> {
        &self.low_watermark
    }

    /// There are no followers any more, or this broker does not lead: who waits for them looks at it.
    pub(crate) fn end(&self) {
        self.low_watermark.advance_to(NO_FOLLOWERS);
        self.low_watermark.disturb();
    }
}
