//! Nodes as a world sees them: how they start, run, come to rest and stop, and what their files are.

use super::{Judge, Promise};
use crate::partition::Observed;
use std::path::Path;

impl Judge {
    /// A node leads the quorum.
    pub(crate) fn started(&mut self, quorum_epoch: i32) {
        if quorum_epoch <= self.quorum_epoch {
            let detail = format!("{quorum_epoch} after {}", self.quorum_epoch);
            self.broken(Promise::QuorumEpochIsLedOnce, detail);
        }
        self.quorum_epoch = quorum_epoch;
    }

    /// The partitions of a node as they are.
    pub(crate) fn observed(&mut self, all: &[Observed], is_at_rest: bool) {
        for one in all {
            let offsets = one.offsets;
            let facts = self.logs.entry(one.key).or_default();
            let detail = format!("{:?}: {offsets:?}", one.key);
            let epoch_before = facts.leader_epoch;
            facts.leader_epoch = epoch_before.max(offsets.leader_epoch);
            let is_whole = offsets.last_stable_offset == offsets.log_end_offset;
            if offsets.leader_epoch < epoch_before {
                self.broken(Promise::LeaderEpochsNeverGoBack, detail);
            } else if offsets.high_watermark > offsets.log_end_offset {
                self.broken(Promise::WatermarksAreInOrder, detail);
            } else if is_at_rest && !is_whole {
                self.broken(Promise::AllComesToRest, detail);
            }
        }
    }

    /// So many events have happened, in a world that has `count_max` at most if it is sound.
    pub(crate) fn events(&mut self, count: u64, count_max: u64) {
        if count > count_max {
            self.broken(Promise::WorldEnds, format!("{count_max} events"));
        }
    }

    /// A node could not start, where something may still be wrong with its disk, or not.
    pub(crate) fn not_started(&mut self, reason: String, may_fail: bool) {
        if !may_fail {
            self.broken(Promise::NodeStarts, reason);
        }
    }

    /// A node could not go on, where something may still be wrong with its disk, or not.
    pub(crate) fn halted(&mut self, reason: String, may_fail: bool) {
        if !may_fail {
            self.broken(Promise::NodeGoesOn, reason);
        }
    }

    /// A node was asked to stop, and gave up doing that in order.
    pub(crate) fn stopped_badly(&mut self, reason: String) {
        self.broken(Promise::NodeStopsInOrder, reason);
    }

    /// What a node has found wrong with a log.
    pub(crate) fn complained(&mut self, complaint: Option<&str>) {
        if let Some(complaint) = complaint {
            self.broken(Promise::LogsAreUndamaged, complaint.to_owned());
        }
    }

    /// A client of the product has given up.
    pub(crate) fn client_gave_up(&mut self, reason: String) {
        self.broken(Promise::ClientGoesOn, reason);
    }

    /// Nothing goes wrong any more, and something has not come to rest: a group as it is, or something else.
    pub(crate) fn restless(
        &mut self,
        group_fault: Option<String>,
        detail: String,
        deadline_ms: i64,
    ) {
        if self.now_ms <= deadline_ms {
            return;
        }
        match group_fault {
            Some(fault) => self.broken(Promise::MembersHaveAll, fault),
            None => self.broken(Promise::AllComesToRest, detail),
        }
    }

    /// Records that are there were not given.
    pub(crate) fn unreadable(&mut self, detail: String) {
        self.broken(Promise::RecordsAreReadable, detail);
    }

    /// The partitions of a node before a clean shutdown, and after the start that followed.
    pub(crate) fn stopped_and_started(&mut self, before: &[Observed], after: &[Observed]) {
        let ends = |all: &[Observed]| -> Vec<_> {
            let end = |one: &Observed| (one.key, one.offsets.log_end_offset);
            all.iter().map(end).collect()
        };
        if ends(before) != ends(after) {
            let detail = format!("{before:?} and then {after:?}");
            self.broken(Promise::CleanShutdownChangesNothing, detail);
        }
    }

    /// What `dump-log` finds wrong with a file of a node that was shut down cleanly.
    pub(crate) fn file(&mut self, path: &Path, faults: &[String]) {
        if let Some(fault) = faults.first() {
            let detail = format!("{}: {fault}", path.display());
            self.broken(Promise::FilesAreReadable, detail);
        }
    }
}
