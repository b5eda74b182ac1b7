//! How members go: of themselves, for a while, or because nothing was heard of them.

use super::draft::{Draft, Refusal};
use super::heartbeat::{ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse};
use super::member::{ConsumerMember, LEFT_STATIC_MEMBER_EPOCH};
use super::partitions::OwnedPartitions;
use super::records;
use super::soft::SoftChange;
use super::subscription::Subscription;
use std::collections::BTreeSet;
use std::sync::Arc;

impl<'a> Draft<'a> {
    /// Decides about the heartbeat of a member that leaves; names it if it goes for good.
    pub(in crate::group) fn leave(
        &mut self,
        request: &ConsumerGroupHeartbeat<'_>,
    ) -> Result<(ConsumerGroupHeartbeatResponse, Option<&'a ConsumerMember>), Refusal> {
        let member_id = match request.instance_id {
            None => request.member_id,
            Some(instance_id) => {
                let before = self.static_member(request.member_id, instance_id)?;
                if request.member_epoch == LEFT_STATIC_MEMBER_EPOCH {
                    let gone = self.leave_for_a_while(&before.member);
                    return Ok((gone, None));
                }
                request.member_id
            }
        };
        let group = self.group;
        let member = group
            .member(member_id)
            .ok_or_else(|| self.unknown_member(member_id))?;
        let response = ConsumerGroupHeartbeatResponse {
            member_id: Arc::clone(&member.id),
            member_epoch: request.member_epoch,
            heartbeat_interval_ms: 0,
            assignment: None,
        };
        Ok((response, Some(member)))
    }

    /// A static member keeps its partitions until its session ends.
    fn leave_for_a_while(&mut self, member: &ConsumerMember) -> ConsumerGroupHeartbeatResponse {
        let left = ConsumerMember {
            member_epoch: LEFT_STATIC_MEMBER_EPOCH,
            pending_revocation: OwnedPartitions::default(),
            ..member.clone()
        };
        self.records.push(records::current(self.group_id, &left));
        ConsumerGroupHeartbeatResponse {
            member_id: Arc::clone(&member.id),
            member_epoch: LEFT_STATIC_MEMBER_EPOCH,
            heartbeat_interval_ms: 0,
            assignment: None,
        }
    }

    /// Removes members for good.
    pub(in crate::group) fn remove(&mut self, members: &[&ConsumerMember]) {
        if members.is_empty() {
            return;
        }
        let group = self.group;
        for member in members {
            let tombstones = records::member_tombstones(self.group_id, &member.id);
            self.records.extend(tombstones);
            self.changes
                .push(SoftChange::Forget(Arc::clone(&member.id)));
        }
        let left = group.subscriptions_after(members, None);
        self.forget_regexes(members, &left);
        self.resolve_nothing_without(&left);
        let hash = self.hash_of(&left);
        self.bump_epoch(hash);
    }

    /// Forgets the regular expressions of members that nobody else subscribes to.
    fn forget_regexes(&mut self, gone: &[&ConsumerMember], left: &BTreeSet<&Subscription>) {
        let regexes = gone.iter().map(|member| &*member.subscription.regex);
        let regexes: BTreeSet<&str> = regexes.filter(|regex| !regex.is_empty()).collect();
        for regex in regexes {
            if left
                .iter()
                .all(|subscription| *subscription.regex != *regex)
            {
                self.records
                    .push(records::regex_tombstone(self.group_id, regex));
            }
        }
    }

    /// Moves the group on to its next epoch.
    pub(super) fn bump_epoch(&mut self, metadata_hash: i64) {
        let record = records::group_epoch(self.group_id, self.group.epoch + 1, metadata_hash);
        self.records.push(record);
    }
}
