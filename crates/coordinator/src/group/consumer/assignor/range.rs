//! The assignor `range`: members in order get ranges of each topic, so that partitions of the same
//! index of several topics go to the same member. What members had before does not matter.

use super::{AssignableMember, Assigning, target};
use crate::group::consumer::partitions::Partitions;

/// How far a topic has been given out.
struct Progress {
    next: usize,
    quota: usize,
    /// How many of the members to come get one more.
    extra: usize,
}

pub(super) fn assign(group: &Assigning<'_>) -> Vec<Option<Partitions>> {
    let mut subscriber_counts = vec![0usize; group.topics.len()];
    for member in group.members {
        for topic in member.subscribed {
            subscriber_counts[*topic] += 1;
        }
    }
    let counts = group.topics.iter().zip(&subscriber_counts);
    let mut progress: Vec<Progress> = counts
        .map(|(topic, subscribers)| Progress {
            next: 0,
            quota: topic.partition_count / (*subscribers).max(1),
            extra: topic.partition_count % (*subscribers).max(1),
        })
        .collect();
    let mut order: Vec<usize> = (0..group.members.len()).collect();
    order.sort_by(|one, other| compare(&group.members[*one], &group.members[*other]));
    let mut targets = vec![None; group.members.len()];
    for at in order {
        let member = &group.members[at];
        let mut assigned = Vec::new();
        for topic in member.subscribed {
            let progress = &mut progress[*topic];
            let count = progress.quota + usize::from(progress.extra > 0);
            progress.extra = progress.extra.saturating_sub(1);
            assigned.extend((progress.next..progress.next + count).map(|index| (*topic, index)));
            progress.next += count;
        }
        let new = target(group.topics, assigned);
        targets[at] = (new != member.target).then_some(new);
    }
    targets
}

/// Static members first, by instance id; then the others by id. Restarted members keep their
/// place that way.
fn compare(one: &AssignableMember<'_>, other: &AssignableMember<'_>) -> std::cmp::Ordering {
    let key = |member: &AssignableMember<'_>| {
        let id = member.instance_id.unwrap_or(member.id);
        (member.instance_id.is_none(), utf16(id))
    };
    key(one).cmp(&key(other))
}

/// Java compares strings by their UTF-16 units.
fn utf16(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}
