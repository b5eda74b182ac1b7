//! The assignor `uniform` for members that all subscribe to the same topics: nobody has more than
//! one partition more than another, and as many as possible stay where they are.

use super::{Assigning, place, target};
use crate::group::consumer::partitions::Partitions;
use model::Uuid;

/// What a member keeps, and how many more it is to get.
struct Kept {
    partitions: Vec<Place>,
    is_all: bool,
    room: usize,
}

/// A partition, by the places of its topic and its own.
type Place = (usize, usize);

pub(super) fn assign(group: &Assigning<'_>) -> Vec<Option<Partitions>> {
    let mut keeping = Keeping::of(group);
    let kept: Vec<Kept> = (0..group.members.len())
        .map(|at| keeping.keep(at))
        .collect();
    let mut left = keeping.unassigned().into_iter();
    let targets = kept.into_iter().map(|mut kept| {
        let before = kept.partitions.len();
        kept.partitions.extend(left.by_ref().take(kept.room));
        let is_same = kept.is_all && kept.partitions.len() == before;
        (!is_same).then(|| target(group.topics, kept.partitions))
    });
    targets.collect()
}

/// Who keeps what, member by member.
struct Keeping<'a> {
    group: &'a Assigning<'a>,
    places: Vec<(Uuid, usize)>,
    is_subscribed: Vec<bool>,
    is_taken: Vec<Vec<bool>>,
    revoked: Vec<Place>,
    /// How many partitions everybody gets, and how many of the members to come get one more.
    quota: usize,
    extra: usize,
}

impl<'a> Keeping<'a> {
    fn of(group: &'a Assigning<'a>) -> Self {
        let mut is_subscribed = vec![false; group.topics.len()];
        for topic in group.members[0].subscribed {
            is_subscribed[*topic] = true;
        }
        let subscribed = group.topics.iter().zip(&is_subscribed);
        let counts = subscribed.map(|(topic, is_subscribed)| match is_subscribed {
            true => topic.partition_count,
            false => 0,
        });
        let total: usize = counts.sum();
        Self {
            group,
            places: group.places(),
            is_subscribed,
            is_taken: group.per_partition(false),
            revoked: Vec::new(),
            quota: total / group.members.len(),
            extra: total % group.members.len(),
        }
    }

    /// What a member keeps of its target.
    fn keep(&mut self, at: usize) -> Kept {
        let mut has_extra = self.extra > 0;
        let mut kept = Kept {
            partitions: Vec::new(),
            is_all: true,
            room: self.quota + usize::from(has_extra),
        };
        let group = self.group;
        for owned in group.members[at].target.topics() {
            let topic = place(&self.places, owned.topic_id);
            let topic = topic.filter(|topic| self.is_subscribed[*topic]);
            let Some(topic) = topic else {
                kept.is_all = false;
                continue;
            };
            for (index, ()) in &owned.partitions {
                // A damaged log may name partitions that do not exist, or twice.
                let index = usize::try_from(*index).unwrap_or(usize::MAX);
                let taken = self.is_taken[topic].get_mut(index);
                let Some(taken) = taken.filter(|taken| !**taken) else {
                    kept.is_all = false;
                    continue;
                };
                *taken = true;
                if kept.room > 0 {
                    kept.room -= 1;
                    kept.partitions.push((topic, index));
                } else {
                    kept.is_all = false;
                    self.revoked.push((topic, index));
                }
            }
        }
        // The extra partition is rather for one of the members to come that has it already.
        let members_left = group.members.len() - at;
        if has_extra && kept.room > 0 && members_left > self.extra {
            kept.room -= 1;
            has_extra = false;
        }
        self.extra -= usize::from(has_extra);
        kept
    }

    /// The partitions that nobody has, and those that members had to give up.
    fn unassigned(self) -> Vec<Place> {
        let mut unassigned = Vec::new();
        for topic in self.group.members[0].subscribed {
            let taken = self.is_taken[*topic].iter().enumerate();
            let free = taken.filter(|(_, taken)| !**taken);
            unassigned.extend(free.map(|(index, _)| (*topic, index)));
        }
        unassigned.extend(self.revoked);
        unassigned
    }
}
