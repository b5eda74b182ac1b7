//! What Kafka promises of records that are deleted. A leader answers DeleteRecords when no replica whose broker is
//! alive, as it knows, has the records any more; it waits for nobody else. So they may come back, with a replica
//!
//! - that was not alive then, and leads before it has followed: as the last in sync, or as an eligible leader replica;
//! - that has died since, before its log start was noted, and leads before it has followed.
//!
//! Each of these is a holder until its log starts later. When a holder leads, what it has counts from there on, for
//! replicas that follow it too: the deletion is over. What a leader answers that has been replaced, and has not heard
//! of it, binds no later leader.

use super::Log;
use model::{BrokerId, LeaderEpoch};
use std::collections::{BTreeMap, BTreeSet};

/// Records below an offset are deleted, as a leader has answered.
#[derive(Debug)]
struct Deletion {
    end_offset: i64,
    leader_epoch: LeaderEpoch,
    /// Who may have the records.
    holders: BTreeSet<BrokerId>,
}

/// A leader answers that records are deleted.
#[derive(Debug, Clone)]
pub(in crate::cluster) struct Deleted {
    pub(in crate::cluster) log: Log,
    pub(in crate::cluster) end_offset: i64,
    pub(in crate::cluster) leader_epoch: LeaderEpoch,
    /// The other replicas, and whether their brokers are alive, as the leader knows.
    pub(in crate::cluster) followers: Vec<(BrokerId, bool)>,
}

/// All deletions, and where replicas start.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// Of a broker that does not run, as it was noted.
    log_starts: BTreeMap<(BrokerId, Log), i64>,
    /// The highest that each has ever had.
    highest_log_starts: BTreeMap<(BrokerId, Log), i64>,
    /// The epoch of the latest leader of each.
    leader_epochs: BTreeMap<Log, LeaderEpoch>,
    deletions: BTreeMap<Log, Vec<Deletion>>,
}

impl Deletions {
    /// A replica's log starts here.
    pub(super) fn starts(&mut self, broker: BrokerId, log: Log, log_start_offset: i64) {
        let key = (broker, log);
        self.log_starts.insert(key, log_start_offset);
        let highest = self.highest_log_starts.entry(key).or_default();
        *highest = log_start_offset.max(*highest);
        for one in self.deletions.get_mut(&log).into_iter().flatten() {
            if one.end_offset <= log_start_offset {
                one.holders.remove(&broker);
            }
        }
    }

    /// A broker has died, with these log starts noted.
    pub(super) fn died(&mut self, broker: BrokerId, noted: &BTreeMap<Log, i64>) {
        for (log, log_start_offset) in noted {
            self.log_starts.insert((broker, *log), *log_start_offset);
            for one in self.deletions.get_mut(log).into_iter().flatten() {
                if one.end_offset > *log_start_offset {
                    one.holders.insert(broker);
                }
            }
        }
    }

    /// A leader has answered. Gives a replica that is alive and has never deleted the records.
    pub(super) fn deleted(&mut self, deleted: &Deleted) -> Option<BrokerId> {
        let (log, end_offset) = (deleted.log, deleted.end_offset);
        let is_above = |starts: &BTreeMap<(BrokerId, Log), i64>, broker: BrokerId| {
            let start = starts.get(&(broker, log));
            start.is_some_and(|start| *start >= end_offset)
        };
        let mut holders = BTreeSet::new();
        for (broker, is_alive) in &deleted.followers {
            let has_had = is_above(&self.highest_log_starts, *broker);
            if *is_alive && !has_had {
                return Some(*broker);
            }
            if !is_above(&self.log_starts, *broker) {
                holders.insert(*broker);
            }
        }
        let latest = self.leader_epochs.get(&log);
        if latest.is_none_or(|latest| *latest <= deleted.leader_epoch) {
            self.deletions.entry(log).or_default().push(Deletion {
                end_offset,
                leader_epoch: deleted.leader_epoch,
                holders,
            });
        }
        None
    }

    /// A broker leads from here on. Gives up to where records are back that it may not have.
    pub(super) fn leads(
        &mut self,
        (broker, log): (BrokerId, Log),
        leader_epoch: LeaderEpoch,
        log_start_offset: i64,
    ) -> Option<i64> {
        let latest = self.leader_epochs.entry(log).or_insert(leader_epoch);
        *latest = leader_epoch.max(*latest);
        let deletions = self.deletions.get_mut(&log)?;
        // A leader that was replaced before does not know of it.
        let is_undone =
            |one: &Deletion| one.end_offset > log_start_offset && one.leader_epoch < leader_epoch;
        let is_broken = |one: &&Deletion| is_undone(one) && !one.holders.contains(&broker);
        let broken = deletions.iter().find(is_broken);
        let broken = broken.map(|one| one.end_offset);
        deletions.retain(|one| !is_undone(one));
        broken
    }
}
