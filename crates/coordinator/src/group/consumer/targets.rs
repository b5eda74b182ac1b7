//! The target assignment of a group: what the assignor is told, and what it says that is new.

use super::assignor::{AssignableMember, AssignableTopic, Assigning, Assignor};
use super::draft::{Before, Draft};
use super::member::ConsumerMember;
use super::partitions::Partitions;
use super::records;
use super::subscription::Subscription;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Draft<'_> {
    /// The target assignment of a member and its epoch, computed anew if the group has moved on
    /// and the last one is old enough.
    pub(super) fn update_target(
        &mut self,
        before: &Before,
        updated: &ConsumerMember,
        group_epoch: i32,
    ) -> (i32, Partitions) {
        let group = self.group;
        if !self.is_assignment_due(group_epoch) {
            let target = group.target(&updated.id, updated.instance_id.as_deref());
            return (group.assignment_epoch, target);
        }
        let replaced = before.replaced.as_deref();
        let target = compute(self, updated, replaced);
        let record = records::assignment_epoch(self.group_id, group_epoch, self.now.wall_ms);
        self.records.push(record);
        (group_epoch, target)
    }
}

/// Computes the target of every member, with `updated` as it is now and without the member whose
/// place it takes. Writes the targets that are new; returns that of `updated`.
fn compute(draft: &mut Draft<'_>, updated: &ConsumerMember, replaced: Option<&str>) -> Partitions {
    let group = draft.group;
    let mut members: Vec<&ConsumerMember> = Vec::with_capacity(group.members().len() + 1);
    let others = group.members().values();
    let others = others.filter(|member| member.id != updated.id && Some(&*member.id) != replaced);
    members.extend(others);
    let place = members.partition_point(|member| member.id < updated.id);
    members.insert(place, updated);

    let mut list = TopicList::default();
    let mut places_of = BTreeMap::<&Subscription, Arc<[usize]>>::new();
    for member in &members {
        let subscription = &*member.subscription;
        if !places_of.contains_key(subscription) {
            let places = list.places(subscription, draft);
            places_of.insert(subscription, places);
        }
    }
    let target_of = |member: &ConsumerMember| {
        if member.id == updated.id {
            group.target(&updated.id, replaced.and(updated.instance_id.as_deref()))
        } else {
            group.target(&member.id, None)
        }
    };
    let assignable: Vec<AssignableMember<'_>> = members
        .iter()
        .map(|member| AssignableMember {
            id: &member.id,
            instance_id: member.instance_id.as_deref(),
            subscribed: places_of
                .get(&*member.subscription)
                .map_or(&[], |places| &**places),
            target: target_of(member),
        })
        .collect();
    let preferred = group.preferred_assignor(Some(updated));
    let preferred = preferred.and_then(|name| Assignor::from_name(&name));
    let assignor = preferred.unwrap_or_else(|| draft.config.default_assignor());
    let targets = assignor.assign(&Assigning {
        topics: &list.topics,
        members: &assignable,
        is_homogeneous: places_of.len() == 1,
    });
    let mut own = assignable[place].target.clone();
    for (at, target) in targets.into_iter().enumerate() {
        let Some(target) = target else { continue };
        let record = records::target(draft.group_id, assignable[at].id, &target);
        draft.records.push(record);
        if at == place {
            own = target;
        }
    }
    own
}

/// The topics that members subscribe to, each in one place.
#[derive(Debug, Default)]
struct TopicList {
    topics: Vec<AssignableTopic>,
    places: BTreeMap<model::Uuid, usize>,
}

impl TopicList {
    /// Where the topics of a subscription are, those that exist.
    fn places(&mut self, subscription: &Subscription, draft: &Draft<'_>) -> Arc<[usize]> {
        let mut places = Vec::new();
        for name in subscription.topics(draft.group.resolved()) {
            let Some(topic) = draft.topics.by_name(name) else {
                continue;
            };
            let next = self.topics.len();
            let place = *self.places.entry(topic.id).or_insert(next);
            if place == next {
                self.topics.push(AssignableTopic {
                    id: topic.id,
                    partition_count: topic.partition_count(),
                });
            }
            places.push(place);
        }
        places.sort_unstable();
        places.dedup();
        places.into()
    }
}
