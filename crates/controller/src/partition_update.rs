//! The one place where a partition's leader and its in-sync replicas are decided.
//!
//! ```text
//!   reassignment complete? ─> eligible leader replicas ─> election ─> PartitionChange
//! ```
//!
//! A leader is taken from the in-sync replicas, or, when there are none, from the eligible leader
//! replicas (KIP-966), the last known leader, or, if the topic allows it, from any replica. The
//! last two are unclean: the new leader is alone in sync and has to recover.

use crate::placement::default_directory;
use metadata::{
    LeaderRecoveryState, MetadataImage, NO_LEADER, Partition, PartitionChange, UNASSIGNED_DIRECTORY,
};
use model::{BrokerId, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// How far an election goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Election {
    /// The preferred leader if it can lead; else as [`Election::Online`].
    Preferred,
    /// The leader stays if it can lead; else another replica that has all records.
    Online,
    /// As [`Election::Online`], but rather any replica than none.
    Unclean,
}

/// What is wanted of a partition. Begin with [`PartitionUpdate::new`], set what changes, and
/// [`PartitionUpdate::build`] the change.
pub(crate) struct PartitionUpdate<'a> {
    image: &'a MetadataImage,
    partition: &'a Partition,
    /// In-sync replicas from which on no other replica is an eligible leader.
    min_isr: usize,
    /// Whether a broker may lead at all.
    can_lead: &'a dyn Fn(BrokerId) -> bool,
    /// How far the election goes.
    pub(crate) election: Election,
    /// The in-sync replicas.
    pub(crate) isr: Vec<BrokerId>,
    /// A broker that may have lost records.
    pub(crate) unclean_shutdown: Option<BrokerId>,
    /// The replicas.
    pub(crate) replicas: Vec<BrokerId>,
    /// Replicas that a reassignment removes.
    pub(crate) removing_replicas: Vec<BrokerId>,
    /// Replicas that a reassignment adds.
    pub(crate) adding_replicas: Vec<BrokerId>,
    /// Whether the leader recovers.
    pub(crate) leader_recovery_state: LeaderRecoveryState,
    eligible: Vec<BrokerId>,
    directories: BTreeMap<BrokerId, Uuid>,
    change: PartitionChange,
}

/// Who is elected, and whether records may be lost by it.
struct Elected {
    leader: BrokerId,
    is_unclean: bool,
}

impl<'a> PartitionUpdate<'a> {
    /// An update that changes nothing but what an election must.
    pub(crate) fn new(
        image: &'a MetadataImage,
        (topic_id, partition_id): (Uuid, i32),
        partition: &'a Partition,
        min_isr: usize,
        can_lead: &'a dyn Fn(BrokerId) -> bool,
    ) -> Self {
        let replicas = partition.replicas.iter().copied();
        Self {
            image,
            partition,
            min_isr,
            can_lead,
            election: Election::Online,
            isr: partition.isr.clone(),
            unclean_shutdown: None,
            replicas: partition.replicas.clone(),
            removing_replicas: partition.removing_replicas.clone(),
            adding_replicas: partition.adding_replicas.clone(),
            leader_recovery_state: partition.leader_recovery_state,
            eligible: partition.eligible_leader_replicas.clone(),
            directories: replicas
                .zip(partition.directories.iter().copied())
                .collect(),
            change: PartitionChange::of(topic_id, partition_id),
        }
    }

    /// Moves the replica on `broker` to a directory.
    pub(crate) fn set_directory(&mut self, broker: BrokerId, directory: Uuid) {
        self.directories.insert(broker, directory);
    }

    /// The change that brings the partition there; `None` when it is there already.
    pub(crate) fn build(mut self) -> Option<PartitionChange> {
        self.complete_reassignment();
        self.keep_eligible_replicas();
        self.elect();
        self.raise_leader_epoch_if_replicas_leave();
        self.write_eligible_replicas();
        self.write_isr();
        self.write_last_known_leader();
        self.write_assignment();
        if self.leader_recovery_state != self.partition.leader_recovery_state {
            self.change.leader_recovery_state = Some(self.leader_recovery_state);
        }
        (!self.change.is_empty()).then_some(self.change)
    }

    fn has_eligible_replicas(&self) -> bool {
        self.image.features.has_eligible_leader_replicas()
    }

    /// Ends a reassignment once all replicas that it adds are in sync. One that reduces the
    /// number of replicas waits for all that remain: it must not make the ISR smaller than need be.
    fn complete_reassignment(&mut self) {
        let (removing, adding) = (&self.removing_replicas, &self.adding_replicas);
        if removing.is_empty() && adding.is_empty() {
            return;
        }
        let staying = |replicas: &[BrokerId]| -> Vec<BrokerId> {
            let stays = |id: &BrokerId| !removing.contains(id);
            replicas.iter().copied().filter(stays).collect()
        };
        let (isr, replicas) = (staying(&self.isr), staying(&self.replicas));
        let in_sync = |ids: &[BrokerId]| ids.iter().all(|id| isr.contains(id));
        let shrinks = adding.len() < removing.len();
        let is_empty = !removing.is_empty() && (isr.is_empty() || replicas.is_empty());
        if is_empty || !in_sync(adding) || (shrinks && !in_sync(&replicas)) {
            return;
        }
        self.isr = isr;
        self.replicas = replicas;
        self.removing_replicas.clear();
        self.adding_replicas.clear();
    }

    /// Replicas that leave the ISR while it is too small stay eligible, unless they may have lost
    /// records. Whoever leaves the partition is no replica of it any more.
    fn keep_eligible_replicas(&mut self) {
        if !self.has_eligible_replicas() {
            return;
        }
        if self.isr.len() >= self.min_isr {
            self.eligible.clear();
            return;
        }
        let candidates: BTreeSet<BrokerId> = self
            .eligible
            .iter()
            .chain(&self.partition.isr)
            .copied()
            // One that leaves the assignment loses its log: should it come back, it has nothing to lead with.
            .filter(|id| self.replicas.contains(id) && !self.isr.contains(id))
            .filter(|id| self.unclean_shutdown != Some(*id))
            .collect();
        self.eligible = candidates.into_iter().collect();
    }

    fn elect(&mut self) {
        let Elected { leader, is_unclean } = match self.election {
            Election::Preferred => self.preferred_leader(),
            Election::Online | Election::Unclean => self.any_leader(),
        };
        if leader == self.partition.leader {
            return;
        }
        if self.eligible.contains(&leader) {
            self.isr = vec![leader];
            self.eligible.retain(|id| *id != leader);
        }
        self.change.leader = Some(leader);
        if is_unclean {
            self.change.isr = Some(vec![leader]);
            if self.partition.leader_recovery_state != LeaderRecoveryState::Recovering {
                self.change.leader_recovery_state = Some(LeaderRecoveryState::Recovering);
            }
        }
    }

    fn preferred_leader(&self) -> Elected {
        let preferred = self.replicas.first().copied().unwrap_or(NO_LEADER);
        if self.is_valid_leader(preferred) {
            return Elected {
                leader: preferred,
                is_unclean: false,
            };
        }
        self.any_leader()
    }

    fn any_leader(&self) -> Elected {
        let current = [self.partition.leader];
        let clean = current
            .iter()
            .chain(&self.replicas)
            .find(|id| self.is_valid_leader(**id));
        if let Some(leader) = clean {
            return Elected {
                leader: *leader,
                is_unclean: false,
            };
        }
        let any_replica = || {
            (self.election == Election::Unclean)
                .then(|| self.replicas.iter().find(|id| self.is_acceptable(**id)))
                .flatten()
                .copied()
        };
        let unclean = self.last_known_leader().or_else(any_replica);
        Elected {
            leader: unclean.unwrap_or(NO_LEADER),
            is_unclean: unclean.is_some(),
        }
    }

    /// The leader that the partition lost last, if no other replica is known to have as much.
    fn last_known_leader(&self) -> Option<BrokerId> {
        if !self.has_eligible_replicas() || !self.eligible.is_empty() || !self.isr.is_empty() {
            return None;
        }
        match *self.partition.last_known_eligible_leader_replicas {
            [only] if self.is_acceptable(only) => Some(only),
            _ => None,
        }
    }

    fn is_valid_leader(&self, id: BrokerId) -> bool {
        let has_records =
            self.isr.contains(&id) || (self.isr.is_empty() && self.eligible.contains(&id));
        has_records && self.is_acceptable(id)
    }

    /// Whether the broker may lead, and the directory that its replica is in from now on is online.
    fn is_acceptable(&self, id: BrokerId) -> bool {
        let directory = self.directories.get(&id).copied();
        let directory = directory.unwrap_or(UNASSIGNED_DIRECTORY);
        let is_online =
            |broker: &metadata::BrokerRegistration| broker.has_online_directory(directory);
        (self.can_lead)(id) && self.image.cluster.broker(id).is_some_and(|b| is_online(b))
    }

    fn raise_leader_epoch_if_replicas_leave(&mut self) {
        let stays = |id| self.replicas.contains(id);
        if self.change.leader.is_none() && !self.partition.replicas.iter().all(stays) {
            self.change.leader = Some(self.partition.leader);
        }
    }

    fn write_eligible_replicas(&mut self) {
        let is_clean = self.change.isr.is_none();
        if !is_clean || !self.has_eligible_replicas() {
            self.eligible.clear();
        }
        if self.eligible != self.partition.eligible_leader_replicas {
            self.change.eligible_leader_replicas = Some(self.eligible.clone());
        }
    }

    /// Without eligible leader replicas the last in-sync replica stays in sync: it alone tells who
    /// has all records.
    fn write_isr(&mut self) {
        let may_be_written = !self.isr.is_empty() || self.has_eligible_replicas();
        if self.change.isr.is_none() && may_be_written && self.isr != self.partition.isr {
            self.change.isr = Some(self.isr.clone());
        }
        let metadata_version = self.image.metadata_version();
        if !metadata_version.raises_leader_epoch_on_isr_shrink() || self.change.leader.is_some() {
            return;
        }
        if let Some(isr) = &self.change.isr
            && !self.partition.isr.iter().all(|id| isr.contains(id))
        {
            self.change.leader = Some(self.partition.leader);
        }
    }

    /// Remembers the leader that the partition loses, and forgets it once there is a leader.
    fn write_last_known_leader(&mut self) {
        if !self.has_eligible_replicas() {
            return;
        }
        let is_known = !self
            .partition
            .last_known_eligible_leader_replicas
            .is_empty();
        match self.change.leader {
            Some(NO_LEADER) if !is_known && self.partition.has_leader() => {
                self.change.last_known_eligible_leader_replicas = Some(vec![self.partition.leader]);
            }
            Some(leader) if leader != NO_LEADER && is_known => {
                self.change.last_known_eligible_leader_replicas = Some(Vec::new());
            }
            _ => {}
        }
    }

    fn write_assignment(&mut self) {
        let Self {
            image, partition, ..
        } = *self;
        if !self.replicas.is_empty() {
            let has_directories = image.metadata_version().supports_directory_assignment();
            let directory_of = |id: &BrokerId| {
                let known = self.directories.get(id).copied();
                known.unwrap_or_else(|| default_directory(image, *id))
            };
            let directories: Vec<Uuid> = self.replicas.iter().map(directory_of).collect();
            if has_directories && directories != partition.directories {
                self.change.directories = Some(directories);
            }
            self.change.replicas = changed(&self.replicas, &partition.replicas);
        }
        self.change.removing_replicas =
            changed(&self.removing_replicas, &partition.removing_replicas);
        self.change.adding_replicas = changed(&self.adding_replicas, &partition.adding_replicas);
    }
}

fn changed(wanted: &[BrokerId], current: &[BrokerId]) -> Option<Vec<BrokerId>> {
    (wanted != current).then(|| wanted.to_vec())
}
