//! Who leads a partition: how this broker comes to its role, whom it refuses in it, and who waits for what
//! it has taken as the leader.
//!
//! ```text
//!   metadata ──> Partition::take_role ──> Leader: epoch noted at the log end, high watermark
//!                                     └─> Follower: who waits as with the leader is told
//!   log directory failed, topic deleted ─> None, for ever
//! ```

use crate::follower::FollowerFetch;
use crate::in_sync::InSync;
use crate::isolation::Isolation;
use crate::leaders::Leaders;
use crate::leadership::{EpochChange, Leadership};
use crate::log_state::LogState;
use crate::partition::Partition;
use crate::partition_key::PartitionKey;
use crate::progress::Watches;
use crate::role::Role;
use crate::state::State;
use model::{BrokerId, ErrorCode, LeaderEpoch, Offset};
use std::sync::Arc;
use storage::{Disk, StorageError};

impl<D: Disk> State<D> {
    /// Whether a client that knows this epoch of the leader may read here, whoever leads; -1 does not say.
    pub(crate) fn check_replica(&self, current_leader_epoch: LeaderEpoch) -> Result<(), ErrorCode> {
        match &self.role {
            Role::None => Err(ErrorCode::KafkaStorageError),
            _ => check_leader_epoch(self.leader_epoch, current_leader_epoch),
        }
    }

    /// Whether the controller has committed that a follower is in sync.
    pub(crate) fn is_in_sync(&self, broker_id: BrokerId) -> bool {
        let replicas = self.role.replicas();
        replicas.is_some_and(|replicas| replicas.isr.contains(&broker_id))
    }

    /// Whether a follower is in sync, and nothing else is asked for.
    pub(crate) fn stays_in_sync(&self, broker_id: BrokerId) -> bool {
        let in_sync = self.in_sync.as_ref();
        let is_to_be_removed = in_sync.is_some_and(|one| one.is_to_be_removed(broker_id));
        self.is_in_sync(broker_id) && !is_to_be_removed
    }

    /// Notes how far a follower is. Whether more is replicated by it.
    pub(crate) fn note_fetch(
        &mut self,
        fetch_offset: Offset,
        fetch: &FollowerFetch<'_>,
    ) -> Result<bool, ErrorCode> {
        let (log_start_offset, end) = (self.log_start_offset(), self.log_end_offset());
        let (Some(in_sync), Some(replicas)) = (&mut self.in_sync, self.role.replicas()) else {
            return Ok(false);
        };
        if in_sync.note_fetch(fetch, fetch_offset, end)? {
            in_sync.advance_low_watermark(log_start_offset);
        }
        in_sync.expand(
            replicas,
            self.leader_epoch,
            fetch.broker_id,
            self.high_watermark,
        );
        Ok(self.advance_high_watermark())
    }

    /// Whether a client that knows the leader of `current_leader_epoch` is right here; -1 does not say.
    pub(crate) fn check_leader(&self, current_leader_epoch: LeaderEpoch) -> Result<(), ErrorCode> {
        match &self.role {
            Role::None => Err(ErrorCode::KafkaStorageError),
            role => {
                check_leader_epoch(self.leader_epoch, current_leader_epoch)?;
                match role.is_leader() {
                    true => Ok(()),
                    false => Err(ErrorCode::NotLeaderOrFollower),
                }
            }
        }
    }

    /// Whether the metadata of a role are older than what is known: by the epoch of the leader, or, in the same
    /// one, as the controller has answered the leader earlier than the metadata have come.
    fn is_older(&self, role: &Role) -> bool {
        let Some(leader_epoch) = role.leader_epoch() else {
            return false;
        };
        let epoch_of = |role: &Role| role.replicas().map(|one| one.partition_epoch);
        let is_behind = || epoch_of(role) < epoch_of(&self.role) && role.replicas().is_some();
        leader_epoch < self.leader_epoch || (leader_epoch == self.leader_epoch && is_behind())
    }

    /// Whether this broker leads in an epoch.
    pub(crate) fn leads_in(&self, leader_epoch: LeaderEpoch) -> bool {
        self.leader_epoch == leader_epoch && self.role.is_leader()
    }

    /// Has this role from here on.
    pub(crate) fn set_role(&mut self, role: Role, leaders: &Arc<Leaders>, key: PartitionKey) {
        if self.role.is_leader() && !role.is_leader() {
            self.leadership.0 = self.leadership.0.wrapping_add(1);
        }
        let epoch = match role.leader_epoch() {
            Some(same) if same == self.leader_epoch && self.role.is_leader() => EpochChange::None,
            Some(next) if next == self.leader_epoch.next() && self.role.is_leader() => {
                EpochChange::Next
            }
            _ => EpochChange::Later,
        };
        if let Some(leader_epoch) = role.leader_epoch() {
            self.leader_epoch = leader_epoch;
        }
        self.role = role;
        self.take_replicas(epoch, leaders, key);
        self.advance_high_watermark();
    }

    /// Knows as many followers from here on as the role has.
    pub(crate) fn take_replicas(
        &mut self,
        epoch: EpochChange,
        leaders: &Arc<Leaders>,
        key: PartitionKey,
    ) {
        let (log_start_offset, end) = (self.log_start_offset(), self.log_end_offset());
        let Some(replicas) = self.role.replicas() else {
            if let Some(in_sync) = self.in_sync.take() {
                in_sync.end();
                leaders.note_followed(key, false);
            }
            return;
        };
        let in_sync = self.in_sync.get_or_insert_with(|| {
            leaders.note_followed(key, true);
            Box::new(InSync::new(leaders, key, end))
        });
        in_sync.take_replicas(replicas);
        if epoch != EpochChange::None {
            in_sync.begin_epoch(replicas, end, epoch == EpochChange::Later);
        }
        in_sync.advance_low_watermark(log_start_offset);
    }
}

impl<D: Disk> Partition<D> {
    /// Takes a role that the metadata give; one of an older epoch is passed by, and one in a partition
    /// that has failed, or is closed. Whether this broker leads from here on, and did not before.
    ///
    /// # Errors
    /// When the log of a leader cannot note the epoch: it has failed then.
    pub fn take_role(&self, role: Role) -> Result<bool, StorageError> {
        let mut state = self.lock();
        if state.is_older(&role) || state.role == role || state.is_failed || state.is_closed {
            return Ok(false);
        }
        let is_elected = role.is_leader() && !state.role.is_leader();
        let is_new_epoch = role.leader_epoch() != Some(state.leader_epoch);
        if role.is_leader() && (is_elected || is_new_epoch) {
            note_leader_epoch(&mut state, &role)?;
        }
        state.set_role(role, self.host.leaders(), self.key());
        drop(state);
        // Readers that know the older epoch are told, and those who wait as with the leader.
        self.notify();
        Ok(is_elected)
    }

    /// Leads in a later epoch from here on, alone.
    ///
    /// # Errors
    /// When the log cannot note it.
    pub fn set_leader_epoch(&self, leader_epoch: LeaderEpoch) -> Result<(), StorageError> {
        self.take_role(Role::alone(leader_epoch)).map(drop)
    }

    /// The role in force.
    pub fn role(&self) -> Role {
        self.lock().role.clone()
    }

    /// Who leads, as far as `broker_id` knows that hosts this, and the epoch.
    pub fn known_leader(&self, broker_id: BrokerId) -> (BrokerId, LeaderEpoch) {
        let state = self.lock();
        (state.role.leader(broker_id), state.leader_epoch)
    }

    /// The time for which this broker leads. Whoever waits for what is appended asks for it before.
    pub fn leadership(&self) -> Leadership {
        self.published.leadership()
    }

    /// Whether a client is right that takes this broker for the leader of an epoch; -1 does not say.
    ///
    /// # Errors
    /// `FencedLeaderEpoch` for an older epoch, `UnknownLeaderEpoch` for a newer one,
    /// `NotLeaderOrFollower` where another broker leads, or none, and `KafkaStorageError` when the log
    /// directory has failed.
    pub fn check_leader(&self, current_leader_epoch: LeaderEpoch) -> Result<(), ErrorCode> {
        self.lock().check_leader(current_leader_epoch)
    }

    /// The same where any replica is right, whoever leads.
    ///
    /// # Errors
    /// As [`Self::check_leader`], but for `NotLeaderOrFollower`.
    pub fn check_replica(&self, current_leader_epoch: LeaderEpoch) -> Result<(), ErrorCode> {
        self.lock().check_replica(current_leader_epoch)
    }

    /// Waits until everything below `end_offset`, appended in `leadership`, is on every in-sync replica.
    ///
    /// # Errors
    /// Why it will not be known to be: `KafkaStorageError` when the log has failed, and
    /// `NotLeaderOrFollower` when this broker has ceased to lead. The records may be replicated all the
    /// same. `NotEnoughReplicasAfterAppend` when they are, and too few replicas are in sync by now.
    pub async fn wait_until_replicated(
        &self,
        leadership: Leadership,
        end_offset: Offset,
    ) -> Result<(), ErrorCode> {
        self.wait_for_replicas(leadership, end_offset).await?;
        // Replicas may have been lost since it was replicated.
        match self.published.is_below_min_isr() {
            true => Err(ErrorCode::NotEnoughReplicasAfterAppend),
            false => Ok(()),
        }
    }

    /// The same, however many replicas are in sync by then.
    ///
    /// # Errors
    /// `KafkaStorageError` and `NotLeaderOrFollower`, as there.
    pub async fn wait_for_replicas(
        &self,
        leadership: Leadership,
        end_offset: Offset,
    ) -> Result<(), ErrorCode> {
        let leads_on = || self.leadership() == leadership;
        // In this order: afterwards there may be other records at these offsets.
        let is_replicated = || self.high_watermark() >= end_offset && leads_on();
        if is_replicated() {
            return Ok(());
        }
        let mut watches = Watches::default();
        let progress = self.progress(Isolation::HighWatermark);
        loop {
            let seen = progress.seen();
            if is_replicated() {
                return Ok(());
            }
            if self.is_failed() {
                return Err(ErrorCode::KafkaStorageError);
            }
            if !leads_on() {
                return Err(ErrorCode::NotLeaderOrFollower);
            }
            watches.watch_for(0, progress, seen, end_offset);
            watches.changes().any().await;
            watches.take_changed(|_| {});
        }
    }

    /// The same for what has been appended just now; `false` when it will not be.
    #[must_use = "it says whether the wait was in vain"]
    pub async fn wait_for_high_watermark(&self, end_offset: Offset) -> bool {
        let replicated = self.wait_for_replicas(self.leadership(), end_offset);
        replicated.await.is_ok()
    }
}

/// Notes the epoch of a leader at the end of its log. One that is idle notes it when it is opened, at the
/// same offset.
fn note_leader_epoch<D: Disk>(state: &mut State<D>, role: &Role) -> Result<(), StorageError> {
    let (LogState::Open(log), Some(leader_epoch)) = (&mut state.residence, role.leader_epoch())
    else {
        return Ok(());
    };
    let end = log.log_end_offset();
    match log.assign_leader_epoch(leader_epoch, end) {
        // The first batch of the epoch notes it.
        Err(error) if error.is_out_of_files() => Ok(()),
        noted => noted,
    }
}

/// Whether a client knows the leader of `leader_epoch` by the epoch that it has; -1 does not say.
///
/// # Errors
/// `FencedLeaderEpoch` for an older epoch, `UnknownLeaderEpoch` for a newer one.
pub fn check_leader_epoch(
    leader_epoch: LeaderEpoch,
    current_leader_epoch: LeaderEpoch,
) -> Result<(), ErrorCode> {
    match current_leader_epoch {
        // Only this number stands for none: another negative epoch is one of long ago.
        LeaderEpoch::NONE => Ok(()),
        epoch if epoch < leader_epoch => Err(ErrorCode::FencedLeaderEpoch),
        epoch if epoch > leader_epoch => Err(ErrorCode::UnknownLeaderEpoch),
        _ => Ok(()),
    }
}
