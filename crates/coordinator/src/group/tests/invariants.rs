//! What holds after every command of a script.

use super::super::consumer::MemberState;
use super::super::group::Group;
use super::super::membership::{GroupState, Membership};
use super::super::records;
use super::script::Script;
use crate::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Script {
    pub(super) fn check_invariants(&mut self) {
        let mut waiting = BTreeSet::new();
        let groups = &self.shard.groups;
        self.generations.retain(|id, _| groups.contains_key(id));
        self.epochs.retain(|id, _| groups.contains_key(id));
        for group in groups.values() {
            assert!(!group.is_void(), "a group that exists has something");
            check_membership(&group.membership, &mut waiting);
            check_consumers(group, &mut self.epochs, self.has_crashed);
            if !group.is_classic() {
                self.generations.remove(&group.id);
                continue;
            }
            let generation_id = group.membership.generation_id;
            let before = self
                .generations
                .insert(Arc::clone(&group.id), generation_id);
            assert!(
                before.is_none_or(|before| before <= generation_id),
                "generations go up"
            );
        }
        let parked: BTreeSet<Token> = self.parked.keys().copied().collect();
        assert_eq!(waiting, parked, "what is parked waits in the shard");
        self.check_replay();
    }

    /// A shard that loads the log stands where this one stands.
    fn check_replay(&self) {
        let loaded = self.loaded();
        let groups = self.shard.groups.values();
        let in_log: Vec<&Group> = groups.filter(|group| group.has_records()).collect();
        assert!(
            loaded
                .groups
                .keys()
                .eq(in_log.iter().map(|group| &group.id)),
            "the same groups"
        );
        assert_eq!(loaded.pending_transactions, self.shard.pending_transactions);
        for (loaded, live) in loaded.groups.values().zip(in_log) {
            assert_eq!(loaded.metadata, live.metadata, "{}", live.id);
            assert_eq!(loaded.consumer, live.consumer, "{}", live.id);
            assert_eq!(loaded.modern, live.modern, "{}", live.id);
            assert_eq!(loaded.offsets, live.offsets, "{}", live.id);
            let Some(value) = &live.metadata else {
                continue;
            };
            let value = records::parse_group(value).expect("a sound record");
            let restored = Membership::restored(&value);
            let live_id = Arc::clone(&live.id);
            let live = &live.membership;
            let is_at_rest = matches!(live.state, GroupState::Stable | GroupState::Empty);
            if is_at_rest && !self.unsaved.contains(&*live_id) {
                assert_eq!(view(&restored), view(live), "replay equals live");
            }
        }
    }
}

/// Nobody has what another has, and everybody is on the way to no later epoch than the group's.
fn check_consumers(group: &Group, epochs: &mut BTreeMap<Arc<str>, i32>, has_crashed: bool) {
    let Some(consumer) = &group.consumer else {
        epochs.remove(&group.id);
        return;
    };
    let mut owned = BTreeSet::new();
    for member in consumer.members().values() {
        for (topic_id, index, _) in member
            .assigned
            .iter()
            .chain(member.pending_revocation.iter())
        {
            assert!(owned.insert((topic_id, index)), "a partition has one owner");
            let epoch = consumer.owner_epoch(topic_id, index);
            assert_eq!(
                epoch,
                Some(member.member_epoch),
                "the owner's epoch is known"
            );
        }
        assert!(member.member_epoch <= consumer.epoch);
        assert_eq!(
            member.pending_revocation.is_empty(),
            member.state != MemberState::UnrevokedPartitions || member.member_epoch < 0
        );
    }
    let mut targets = BTreeSet::new();
    // Half of an assignment may be in the log; its epoch is not, so it is made again.
    let is_half = has_crashed && consumer.assignment_epoch < consumer.epoch;
    for target in consumer.targets().values().filter(|_| !is_half) {
        for (topic_id, index, ()) in target.iter() {
            assert!(
                targets.insert((topic_id, index)),
                "a partition is for one member"
            );
        }
    }
    let before = epochs.insert(Arc::clone(&group.id), consumer.epoch);
    assert!(
        before.is_none_or(|before| before <= consumer.epoch),
        "epochs go up"
    );
}

fn check_membership(membership: &Membership, waiting: &mut BTreeSet<Token>) {
    let members = &membership.members;
    let state = membership.state;
    assert_eq!(
        members.is_empty(),
        membership.leader.is_none(),
        "exactly the groups with members have a leader"
    );
    if let Some(leader) = &membership.leader {
        assert!(members.contains_key(leader), "the leader is a member");
    }
    assert!(
        !members.is_empty()
            || !matches!(state, GroupState::Stable | GroupState::CompletingRebalance)
    );
    assert!(members.is_empty() || state != GroupState::Empty);
    assert_eq!(
        state == GroupState::PreparingRebalance,
        membership.join_deadline.is_some()
    );
    for member in members.values() {
        assert!(!membership.pending_joins.contains_key(&member.id));
        assert!(member.join_token.is_none() || state == GroupState::PreparingRebalance);
        assert!(member.sync_token.is_none() || state == GroupState::CompletingRebalance);
        if let Some(instance_id) = &member.group_instance_id {
            assert_eq!(membership.static_member_id(instance_id), Some(&member.id));
        }
        for token in [member.join_token, member.sync_token].into_iter().flatten() {
            assert!(waiting.insert(token), "a token waits in one place");
        }
    }
    let joined = members
        .values()
        .filter(|member| member.join_token.is_some());
    assert_eq!(joined.count(), membership.awaiting_join_count());
    assert!(
        membership
            .pending_syncs
            .iter()
            .all(|id| members.contains_key(id))
    );
}

/// What the log has to preserve of a group that is stable or empty.
fn view(group: &Membership) -> String {
    let members: Vec<_> = group
        .members
        .values()
        .map(|member| {
            (
                &member.id,
                &member.group_instance_id,
                &member.client_id,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                member.metadata_of(group.protocol.as_deref()),
                &member.assignment,
            )
        })
        .collect();
    format!(
        "{:?} {} {:?} {:?} {:?} {members:?}",
        group.state, group.generation_id, group.protocol_type, group.protocol, group.leader
    )
}
