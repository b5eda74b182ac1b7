//! A consumer group as the log has it, with what is derived from its members.
//!
//! This is replicated state: it changes when records are replayed and at no other time.

use super::member::ConsumerMember;
use super::partitions::{OwnedPartitions, Partitions};
use super::subscription::{ResolvedRegex, ResolvedRegexes, Subscription};
use model::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The epoch of a group, and of its target assignment, before any record says otherwise.
const INITIAL_EPOCH: i32 = 1;
/// Assignors in the order in which equally many votes are decided.
const ASSIGNORS_BY_PREFERENCE: [&str; 2] = ["uniform", "range"];

/// A consumer group.
///
/// Invariants:
/// - `subscriptions`, `regex_member_count`, `static_members`, `assignor_votes`, `classic_protocols` and
///   `classic_member_count` say of `members` what their names say.
/// - `owner_epochs` has an entry for each partition that a member has or has yet to give up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::group) struct ConsumerGroup {
    pub(in crate::group) epoch: i32,
    pub(in crate::group) metadata_hash: i64,
    pub(in crate::group) assignment_epoch: i32,
    /// When the target assignment was computed; zero when it is not known.
    pub(in crate::group) assignment_timestamp_ms: i64,
    /// Whether the log has the record of the epoch, of the assignment's epoch, and one that
    /// versions before 4.1 wrote of the partitions subscribed to.
    pub(in crate::group) has_metadata: bool,
    pub(in crate::group) has_assignment_metadata: bool,
    pub(in crate::group) has_partition_metadata: bool,
    members: BTreeMap<Arc<str>, ConsumerMember>,
    targets: BTreeMap<Arc<str>, Partitions>,
    resolved: ResolvedRegexes,
    subscriptions: BTreeMap<Arc<Subscription>, usize>,
    /// How many members subscribe to a pattern.
    regex_member_count: usize,
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    assignor_votes: BTreeMap<Arc<str>, usize>,
    classic_protocols: BTreeMap<Arc<str>, usize>,
    classic_member_count: usize,
    owner_epochs: BTreeMap<Uuid, BTreeMap<i32, i32>>,
}

impl Default for ConsumerGroup {
    fn default() -> Self {
        Self {
            epoch: INITIAL_EPOCH,
            metadata_hash: 0,
            assignment_epoch: INITIAL_EPOCH,
            assignment_timestamp_ms: 0,
            has_metadata: false,
            has_assignment_metadata: false,
            has_partition_metadata: false,
            members: BTreeMap::new(),
            targets: BTreeMap::new(),
            resolved: ResolvedRegexes::new(),
            subscriptions: BTreeMap::new(),
            regex_member_count: 0,
            static_members: BTreeMap::new(),
            assignor_votes: BTreeMap::new(),
            classic_protocols: BTreeMap::new(),
            classic_member_count: 0,
            owner_epochs: BTreeMap::new(),
        }
    }
}

impl ConsumerGroup {
    pub(in crate::group) const fn members(&self) -> &BTreeMap<Arc<str>, ConsumerMember> {
        &self.members
    }

    pub(in crate::group) const fn targets(&self) -> &BTreeMap<Arc<str>, Partitions> {
        &self.targets
    }

    pub(in crate::group) const fn resolved(&self) -> &ResolvedRegexes {
        &self.resolved
    }

    /// Whether a member subscribes to a pattern.
    pub(in crate::group) const fn has_regexes(&self) -> bool {
        self.regex_member_count > 0
    }

    /// The subscriptions of members, with how many members have each.
    pub(in crate::group) const fn subscriptions(&self) -> &BTreeMap<Arc<Subscription>, usize> {
        &self.subscriptions
    }

    pub(in crate::group) fn member(&self, member_id: &str) -> Option<&ConsumerMember> {
        self.members.get(member_id)
    }

    /// The member with an instance id.
    pub(in crate::group) fn static_member(&self, instance_id: &str) -> Option<&ConsumerMember> {
        self.member(self.static_members.get(instance_id)?)
    }

    /// What a member is to have; of a static member, what its instance is to have.
    pub(in crate::group) fn target(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Partitions {
        let id = match instance_id {
            None => Some(member_id),
            Some(instance_id) => self.static_members.get(instance_id).map(|id| &**id),
        };
        let target = id.and_then(|id| self.targets.get(id));
        target.cloned().unwrap_or_default()
    }

    /// Whether no record tells of the group.
    pub(in crate::group) fn is_void(&self) -> bool {
        let Self {
            has_metadata,
            has_assignment_metadata,
            has_partition_metadata,
            ..
        } = *self;
        !(has_metadata || has_assignment_metadata || has_partition_metadata)
            && self.members.is_empty()
            && self.targets.is_empty()
            && self.resolved.is_empty()
    }

    /// Kafka's name of the group's state.
    pub(in crate::group) fn state_name(&self) -> &'static str {
        let mut members = self.members.values();
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.assignment_epoch {
            "Assigning"
        } else if members.all(|member| member.is_reconciled_to(self.assignment_epoch)) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// The epoch in which a partition's owner got it, if anybody has it.
    pub(in crate::group) fn owner_epoch(&self, topic_id: Uuid, index: i32) -> Option<i32> {
        self.owner_epochs.get(&topic_id)?.get(&index).copied()
    }

    /// How many members subscribe to a regular expression.
    pub(in crate::group) fn regex_subscriber_count(&self, regex: &str) -> usize {
        let subscriptions = self.subscriptions.iter();
        let counts = subscriptions.filter(|(subscription, _)| *subscription.regex == *regex);
        counts.map(|(_, count)| count).sum()
    }

    /// Whether a member consumes `topic`.
    pub(in crate::group) fn is_subscribed_to(&self, topic: &str) -> bool {
        let mut subscriptions = self.subscriptions.keys();
        subscriptions.any(|subscription| subscription.covers(topic, &self.resolved))
    }

    /// Whether a member consumes any of these topics.
    pub(in crate::group) fn is_subscribed_to_any(&self, topics: &BTreeSet<Arc<str>>) -> bool {
        let mut subscriptions = self.subscriptions.keys();
        subscriptions.any(|subscription| {
            let own = || subscription.topics(&self.resolved);
            // The few are looked for among the many.
            if own().nth(topics.len()).is_none() {
                own().any(|topic| topics.contains(topic))
            } else {
                let mut topics = topics.iter();
                topics.any(|topic| subscription.covers(topic, &self.resolved))
            }
        })
    }

    /// The subscriptions once members are gone and one has another subscription.
    pub(in crate::group) fn subscriptions_after<'a>(
        &'a self,
        gone: &[&ConsumerMember],
        added: Option<&'a Subscription>,
    ) -> BTreeSet<&'a Subscription> {
        let mut gone_counts = BTreeMap::<&Subscription, usize>::new();
        for member in gone {
            *gone_counts.entry(&member.subscription).or_default() += 1;
        }
        let left = self.subscriptions.iter().filter(|(subscription, count)| {
            gone_counts
                .get(&***subscription)
                .copied()
                .unwrap_or_default()
                < **count
        });
        left.map(|(subscription, _)| &**subscription)
            .chain(added)
            .collect()
    }

    /// The assignor that most members ask for, once `member` is in the group as it is there.
    pub(in crate::group) fn preferred_assignor(
        &self,
        member: Option<&ConsumerMember>,
    ) -> Option<Arc<str>> {
        let mut votes = self.assignor_votes.clone();
        if let Some(member) = member {
            let before = self.members.get(&member.id);
            if let Some(assignor) = before.and_then(|before| before.server_assignor.as_ref()) {
                decrease(&mut votes, assignor);
            }
            if let Some(assignor) = &member.server_assignor {
                *votes.entry(Arc::clone(assignor)).or_default() += 1;
            }
        }
        let place = |name: &str| {
            let mut known = ASSIGNORS_BY_PREFERENCE.iter();
            known.position(|one| *one == name).unwrap_or(usize::MAX)
        };
        let most = votes
            .iter()
            .max_by_key(|(name, count)| (**count, std::cmp::Reverse(place(name))));
        most.map(|(name, _)| Arc::clone(name))
    }

    /// Whether a member that speaks the classic protocol with these assignors can be in the group.
    pub(in crate::group) fn supports_classic(&self, protocol_type: &str, names: &[&str]) -> bool {
        if protocol_type != "consumer" {
            return false;
        }
        if self.members.is_empty() {
            return !names.is_empty();
        }
        let supporters = |name: &&str| {
            self.classic_protocols
                .get(*name)
                .copied()
                .unwrap_or_default()
        };
        names
            .iter()
            .any(|name| supporters(name) == self.classic_member_count)
    }

    /// Whether all members but these speak the classic protocol.
    pub(in crate::group) fn is_classic_but_for(&self, members: &[&ConsumerMember]) -> bool {
        let classic = members
            .iter()
            .filter(|member| member.uses_classic_protocol());
        self.members.len() - members.len() == self.classic_member_count - classic.count()
    }

    /// The subscription as members share it.
    pub(in crate::group) fn share_subscription(
        &self,
        subscription: Subscription,
    ) -> Arc<Subscription> {
        match self.subscriptions.get_key_value(&subscription) {
            Some((shared, _)) => Arc::clone(shared),
            None => Arc::new(subscription),
        }
    }

    /// Puts a member in, in place of what was known of it.
    pub(in crate::group) fn put_member(&mut self, member: ConsumerMember) {
        if let Some(before) = self.members.remove(&member.id) {
            self.forget(&before);
        }
        self.regex_member_count += usize::from(member.subscription.has_regex());
        let subscription = Arc::clone(&member.subscription);
        *self.subscriptions.entry(subscription).or_default() += 1;
        if let Some(instance_id) = &member.instance_id {
            self.static_members
                .insert(Arc::clone(instance_id), Arc::clone(&member.id));
        }
        if let Some(assignor) = &member.server_assignor {
            *self.assignor_votes.entry(Arc::clone(assignor)).or_default() += 1;
        }
        if let Some(classic) = &member.classic {
            self.classic_member_count += 1;
            for (name, _) in &classic.protocols {
                *self.classic_protocols.entry(Arc::clone(name)).or_default() += 1;
            }
        }
        self.own(&member.assigned, member.member_epoch);
        self.own(&member.pending_revocation, member.member_epoch);
        self.members.insert(Arc::clone(&member.id), member);
    }

    pub(in crate::group) fn remove_member(&mut self, member_id: &str) {
        if let Some(member) = self.members.remove(member_id) {
            self.forget(&member);
        }
    }

    pub(in crate::group) fn put_target(&mut self, member_id: &str, target: Partitions) {
        let member_id = match self.members.get_key_value(member_id) {
            Some((id, _)) => Arc::clone(id),
            None => Arc::from(member_id),
        };
        self.targets.insert(member_id, target);
    }

    pub(in crate::group) fn remove_target(&mut self, member_id: &str) {
        self.targets.remove(member_id);
    }

    pub(in crate::group) fn put_regex(&mut self, regex: &str, resolved: ResolvedRegex) {
        self.resolved.insert(Arc::from(regex), resolved);
    }

    pub(in crate::group) fn remove_regex(&mut self, regex: &str) {
        self.resolved.remove(regex);
    }

    /// Takes back what a member has added to what is derived.
    fn forget(&mut self, member: &ConsumerMember) {
        self.regex_member_count -= usize::from(member.subscription.has_regex());
        if let Some(count) = self.subscriptions.get_mut(&member.subscription) {
            *count -= 1;
            if *count == 0 {
                self.subscriptions.remove(&member.subscription);
            }
        }
        if let Some(instance_id) = &member.instance_id
            && self.static_members.get(instance_id) == Some(&member.id)
        {
            self.static_members.remove(instance_id);
        }
        if let Some(assignor) = &member.server_assignor {
            decrease(&mut self.assignor_votes, assignor);
        }
        if let Some(classic) = &member.classic {
            self.classic_member_count -= 1;
            for (name, _) in &classic.protocols {
                decrease(&mut self.classic_protocols, name);
            }
        }
        self.disown(&member.assigned, member.member_epoch);
        self.disown(&member.pending_revocation, member.member_epoch);
    }

    /// Notes the owner's epoch of partitions. A log that was compacted may tell of an earlier
    /// owner after a later one, who counts.
    fn own(&mut self, partitions: &OwnedPartitions, epoch: i32) {
        for topic in partitions.topics() {
            let epochs = self.owner_epochs.entry(topic.topic_id).or_default();
            for (index, _) in &topic.partitions {
                let known = epochs.entry(*index).or_insert(epoch);
                *known = (*known).max(epoch);
            }
        }
    }

    fn disown(&mut self, partitions: &OwnedPartitions, epoch: i32) {
        for topic in partitions.topics() {
            let Some(epochs) = self.owner_epochs.get_mut(&topic.topic_id) else {
                continue;
            };
            for (index, _) in &topic.partitions {
                if epochs.get(index) == Some(&epoch) {
                    epochs.remove(index);
                }
            }
            if epochs.is_empty() {
                self.owner_epochs.remove(&topic.topic_id);
            }
        }
    }
}

fn decrease(counts: &mut BTreeMap<Arc<str>, usize>, key: &str) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
