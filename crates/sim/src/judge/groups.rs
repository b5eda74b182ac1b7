//! Groups: who is a member, what members have of the partitions, and what they have handed over.

use super::{Broken, Judge, Promise, ReadRecord, short};
use crate::protocol::SESSION_TIMEOUT_MS;
use replication::PartitionKey;
use std::collections::BTreeMap;

impl Judge {
    /// What a member of a group has; none when it is in no generation.
    pub(crate) fn assigned(&mut self, group: &str, member: usize, partitions: Option<Vec<i32>>) {
        let members = self.groups.entry(group.to_owned()).or_default();
        match partitions {
            Some(partitions) => drop(members.insert(member, partitions)),
            None => drop(members.remove(&member)),
        }
    }

    /// A member of a group gives a record to its application.
    pub(crate) fn handed_over(
        &mut self,
        group: &str,
        key: PartitionKey,
        record: &ReadRecord,
        is_committed: bool,
    ) {
        self.record(key, record, is_committed);
        let handed_over = self.handed_over.entry((group.to_owned(), key)).or_default();
        handed_over.insert(record.offset);
    }

    /// A member of a group that was last heard then is none any more.
    pub(crate) fn expelled(&mut self, group: &str, heard_at_ms: i64) {
        let silent_ms = self.now_ms - heard_at_ms;
        // A coordinator that does not know yet that it is none any more may have heard it last.
        if !self.leaders_change && silent_ms < i64::from(SESSION_TIMEOUT_MS) {
            let detail = format!("{group}: silent for {silent_ms} ms");
            self.broken(Promise::LivingMemberStays, detail);
        }
    }

    /// Every group at rest: all partitions are somebody's, and each is one's. Gives one that is not so.
    pub(crate) fn group_fault(&self, partition_count: i32) -> Option<String> {
        let all: Vec<i32> = (0..partition_count).collect();
        let is_whole = |members: &BTreeMap<usize, Vec<i32>>| {
            let mut assigned: Vec<i32> = members.values().flatten().copied().collect();
            assigned.sort_unstable();
            assigned == all
        };
        let mut groups = self.groups.iter();
        let fault = groups.find(|(_, members)| !is_whole(members));
        fault.map(|(group, members)| format!("{group}: {members:?}"))
    }

    /// A record that a group has committed, and no member has handed over.
    pub(super) fn group_gap(&self) -> Option<Broken> {
        self.handed_over.iter().find_map(|((group, key), handed)| {
            let known = self.known_offset(&(group.clone(), key.0, key.1))?;
            let facts = self.logs.get(key)?;
            let mut left = facts.committed.iter().filter(|(_, at)| **at < known);
            let (value, at) = left.find(|(_, at)| !handed.contains(at))?;
            let detail = format!("{group} {key:?} {at}: {}", short(value));
            Some((Promise::CommittedIsHandedOver, detail))
        })
    }
}
