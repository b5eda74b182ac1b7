//! What becomes of a decision whose records the log did not take.

use super::group_record::GroupRecord;
use super::membership::{GroupState, Membership};
use super::records;
use super::shard::{GroupShard, Outcome};
use crate::group_response::{JoinGroupResponse, SyncGroupResponse};
use crate::{CoordinatorRecord, Decision, GroupResponse, Token};
use model::{ErrorCode, Now, Offset};
use std::collections::BTreeSet;

impl GroupShard {
    /// Takes back a decision whose records were not appended: of one that was split, the part
    /// that was not. Groups whose assignments are not in the log rebalance. Returns the answers
    /// of the requests that the decision would have released, all refused with `error`; the
    /// request itself is refused by the shell, unless it is parked and goes on waiting.
    pub fn append_failed<R>(
        &mut self,
        decision: Decision<R>,
        error: ErrorCode,
        now: Now,
    ) -> Vec<(Token, GroupResponse)> {
        let mut outcome = Outcome::default();
        for group_id in classic_groups(&decision.records) {
            self.act(group_id, now, &mut outcome, |group, effects| {
                // An empty group stays as it is: its members left, whatever the log says.
                if group.membership.state == GroupState::Stable {
                    group.membership.refuse_syncs(error, effects);
                    group.membership.prepare_rebalance(effects);
                }
            });
        }
        for group_id in groups_of_other_type(&decision.records) {
            self.take_back_conversion(group_id, now, &mut outcome);
        }
        debug_assert!(outcome.records.is_empty(), "a failure asks for no records");
        let released = decision.released.into_iter().chain(outcome.released);
        released
            .map(|(token, response)| (token, refusal(&response, error)))
            .collect()
    }
}

impl GroupShard {
    /// Lets a group be again what the log says that it is, and waits for its members anew.
    fn take_back_conversion(&mut self, group_id: &str, now: Now, outcome: &mut Outcome) {
        self.act(group_id, now, outcome, |group, effects| {
            match &group.metadata {
                None if group.consumer.is_some() => group.membership.dissolve(effects),
                Some(value) if group.membership.is_dissolved => {
                    if let Ok(value) = records::parse_group(value) {
                        // Generations that members saw were perhaps not in the log yet.
                        let generation_id = group.membership.generation_id;
                        *group.membership = Membership::restored(&value);
                        group.membership.generation_id =
                            group.membership.generation_id.max(generation_id);
                        group.membership.resume(effects);
                    }
                }
                _ => {}
            }
        });
        self.resume_consumer_group(group_id, now, outcome);
    }
}

/// The classic groups among the keys of records.
fn classic_groups(records: &[CoordinatorRecord]) -> BTreeSet<&str> {
    records
        .iter()
        .filter_map(
            |record| match GroupRecord::parse(Offset::ZERO, &record.key, None) {
                Ok(GroupRecord::Classic { group_id, .. }) => Some(group_id),
                _ => None,
            },
        )
        .collect()
}

/// The groups that consumer records, or the ends of classic groups, are about.
fn groups_of_other_type(records: &[CoordinatorRecord]) -> BTreeSet<&str> {
    let groups = records.iter().filter_map(|record| {
        let has_value = record.value.is_some();
        match GroupRecord::parse(Offset::ZERO, &record.key, None) {
            Ok(GroupRecord::Consumer { group_id, .. }) => Some(group_id),
            Ok(GroupRecord::Classic { group_id, .. }) if !has_value => Some(group_id),
            _ => None,
        }
    });
    groups.collect()
}

fn refusal(response: &GroupResponse, error: ErrorCode) -> GroupResponse {
    match response {
        GroupResponse::Join(response) => {
            GroupResponse::Join(JoinGroupResponse::error(&response.member_id, error))
        }
        GroupResponse::Sync(_) => GroupResponse::Sync(SyncGroupResponse::error(error)),
    }
}
