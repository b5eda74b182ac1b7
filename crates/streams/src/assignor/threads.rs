//! The tasks of a process, spread over its members.

use super::members::{Members, lag};
use super::process::{Processes, Work};
use crate::formats::group::TaskId;
use std::collections::BTreeSet;

/// What a member is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) active: BTreeSet<TaskId>,
    pub(super) standby: BTreeSet<TaskId>,
}

impl Share {
    fn task_count(&self) -> usize {
        self.active.len() + self.standby.len()
    }
}

/// The share of each member, in their order.
pub(super) fn spread(processes: &Processes, members: &Members, work: &Work) -> Vec<Share> {
    let mut shares = vec![Share::default(); members.threads.len()];
    for (id, process) in processes {
        let indexes = members.of_process(*id);
        let active = |is_stateful: bool| -> BTreeSet<TaskId> {
            process
                .active
                .iter()
                .filter(|task| work.stateful.contains(task) == is_stateful)
                .copied()
                .collect()
        };
        let spreading = Spreading { members, indexes };
        spreading.spread(active(true), &mut shares, |share| &mut share.active);
        spreading.spread(process.standby.clone(), &mut shares, |share| {
            &mut share.standby
        });
        spreading.spread(active(false), &mut shares, |share| &mut share.active);
    }
    shares
}

struct Spreading<'a> {
    members: &'a Members,
    /// The members of the process.
    indexes: Vec<usize>,
}

impl Spreading<'_> {
    /// As many for each as there are for all; first what they had before, then whatever is left, the rest to who had it
    /// before or has the least to do.
    fn spread(
        &self,
        mut tasks: BTreeSet<TaskId>,
        shares: &mut [Share],
        of: fn(&mut Share) -> &mut BTreeSet<TaskId>,
    ) {
        if self.indexes.is_empty() {
            return;
        }
        let least = tasks.len() / self.indexes.len();
        let mut counts = vec![0; shares.len()];
        for index in &self.indexes {
            for task in self.previous(*index) {
                if counts[*index] < least && tasks.remove(&task) {
                    counts[*index] += 1;
                    of(&mut shares[*index]).insert(task);
                }
            }
        }
        while let Some(index) = self.fewest(&counts, least, shares)
            && let Some(task) = tasks.pop_first()
        {
            counts[index] += 1;
            of(&mut shares[index]).insert(task);
        }
        for task in tasks {
            let owner = self
                .indexes
                .iter()
                .copied()
                .filter(|index| counts[*index] == least)
                .find(|index| self.members.threads[*index].offset_sums.contains_key(&task));
            let index = owner.or_else(|| self.fewest(&counts, least + 1, shares));
            let Some(index) = index else { return };
            counts[index] += 1;
            of(&mut shares[index]).insert(task);
        }
    }

    /// The member that has the least to do, of those that have fewer than `most` of this kind.
    fn fewest(&self, counts: &[usize], most: usize, shares: &[Share]) -> Option<usize> {
        self.indexes
            .iter()
            .copied()
            .filter(|index| counts[*index] < most)
            .min_by_key(|index| (counts[*index], shares[*index].task_count()))
    }

    /// Tasks that the member runs or has the state of, best first.
    fn previous(&self, index: usize) -> Vec<TaskId> {
        let sums = &self.members.threads[index].offset_sums;
        let mut previous: Vec<TaskId> = sums.keys().copied().collect();
        previous.sort_by_key(|task| (lag(sums[task], i64::MAX), *task));
        previous
    }
}
