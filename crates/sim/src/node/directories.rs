//! The log directories of a node: where partitions are, where new ones go, and what is left when one fails.
//!
//! ```text
//!   start   scan ──> Places: found in a directory │ new, to be made in one │ lost: in one that is not there
//!   later   an error of a data directory ──> it is offline, its partitions are lost, the controller is told
//! ```
//!
//! The first one holds the metadata log and the logs of the coordinators: without it the node halts.

use super::hosting::Hosting;
use super::log_directory::{LogDirectory, Places};
use crate::halted::Halted;
use crate::partition::SimPartition;
use controller::directories::DirectoryAssignment;
use controller::metadata_log::known_directories;
use metadata::{LOST_DIRECTORY, MIGRATING_DIRECTORY, MetadataImage, UNASSIGNED_DIRECTORY};
use model::{BrokerId, Uuid};
use replication::PartitionKey;
use std::collections::BTreeMap;

/// Whether the metadata leave open where a replica is.
fn is_unplaced(directory_id: Uuid) -> bool {
    [UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY].contains(&directory_id)
}

impl Hosting {
    /// Chooses a directory for each partition that has no log yet. One whose log may be in a directory
    /// that is not there has none: an empty log in its place would lose its records.
    pub(super) fn place_all(
        &self,
        image: &MetadataImage,
        node_id: BrokerId,
        found: BTreeMap<PartitionKey, usize>,
        directory_count: usize,
    ) -> Places {
        let mut places = Places {
            found,
            ..Places::default()
        };
        let known = known_directories(image, node_id).unwrap_or_default();
        let is_here = |id: &Uuid| self.directories.iter().any(|one| one.id == *id);
        let are_all_here = self.directories.len() == directory_count && known.keys().all(is_here);
        let away: Vec<&Uuid> = known.keys().filter(|id| !is_here(id)).collect();
        for topic in image.topics.iter() {
            for (index, partition) in topic.partitions.iter() {
                let Some(directory_id) = partition.directory_of(node_id) else {
                    continue;
                };
                let key = (topic.id, *index);
                let may_be_new = match is_unplaced(directory_id) {
                    true => are_all_here,
                    false => is_here(&directory_id),
                };
                let mut note = |directory| {
                    places.notes.push(DirectoryAssignment {
                        directory,
                        topic_id: key.0,
                        partition_id: key.1,
                    });
                };
                let at = match places.found.get(&key) {
                    Some(at) => *at,
                    None if may_be_new => {
                        let counts = places.found.values().chain(places.new.values());
                        let count = |at: usize| counts.clone().filter(|one| **one == at).count();
                        let chosen = self.choose_directory(directory_id, &topic.name, count);
                        places.new.insert(key, chosen);
                        chosen
                    }
                    None => {
                        match &away[..] {
                            _ if !is_unplaced(directory_id) => {}
                            // What is there decides when it is back.
                            [only] => note(**only),
                            // Each of them is missed until it is back, or nobody would miss it.
                            away if away.iter().all(|id| known[*id] > 0) => {}
                            _ => note(LOST_DIRECTORY),
                        }
                        places.lost.insert(key);
                        continue;
                    }
                };
                if self.directories[at].id != directory_id {
                    note(self.directories[at].id);
                }
            }
        }
        places
    }

    /// The directory that the metadata say, or else of those that work the one with the fewest.
    pub(super) fn choose_directory(
        &self,
        directory_id: Uuid,
        topic: &str,
        count: impl Fn(usize) -> usize,
    ) -> usize {
        let online = |at: &usize| !self.directories[*at].is_offline;
        let all = || (0..self.directories.len()).filter(online);
        let named = all().find(|at| self.directories[*at].id == directory_id);
        let fewest = || all().min_by_key(|at| count(*at));
        match topic.starts_with("__") {
            true => 0,
            false => named.or_else(fewest).unwrap_or(0),
        }
    }

    /// How many partitions are in a directory.
    pub(super) fn partition_count(&self, at: usize) -> usize {
        let name = &self.directories[at].name;
        self.all()
            .filter(|one| one.log_directory() == *name)
            .count()
    }

    /// The place of the directory that a partition is in.
    pub(super) fn place_of(&self, partition: &SimPartition) -> usize {
        let name = partition.log_directory();
        let place = self.directories.iter().position(|one| one.name == name);
        place.unwrap_or(0)
    }

    /// Does without the directory that an error is about. The one of the metadata halts the node.
    pub(super) fn do_without(&mut self, halted: Halted) -> Result<(), Halted> {
        let is_named = |one: &LogDirectory| halted.reason.contains(&format!("{}/", one.name));
        match self.directories.iter().position(is_named) {
            Some(at) if at > 0 => {
                self.fail_directory(at);
                Ok(())
            }
            _ => Err(halted),
        }
    }

    /// Takes a directory offline: its partitions are served no more until a start finds it well.
    pub(super) fn fail_directory(&mut self, at: usize) {
        let directory = &mut self.directories[at];
        if directory.is_offline {
            return;
        }
        directory.is_offline = true;
        self.untold_failures.push(directory.id);
        let place = self.host.directory_index_of(&directory.name);
        let path = directory.path.clone();
        let name = directory.name.clone();
        let here = self.all().filter(|one| one.log_directory() == name);
        let here: Vec<PartitionKey> = here.map(|one| one.key()).collect();
        self.forget_running(&here);
        for key in here {
            if let Some(partition) = self.partitions.remove(&key) {
                let _ = partition.fail_at(place);
                partition.notify();
                self.lost.insert(key);
            }
        }
        self.removals
            .retain(|(_, removal)| !removal.starts_with(&path));
    }

    /// Whether a start may find more than there is now.
    pub(super) fn lacks_directories(&self, directory_count: usize) -> bool {
        self.directories.len() < directory_count
            || self.directories.iter().any(|one| one.is_offline)
    }
}
