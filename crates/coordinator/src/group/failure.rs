//! What becomes of a decision whose records the log did not take.

use super::membership::GroupState;
use super::records::{self, GroupRecord};
use super::request::{JoinGroupResponse, SyncGroupResponse};
use super::shard::{GroupShard, Outcome};
use crate::{CoordinatorRecord, Decision, GroupResponse, Token};
use model::ErrorCode;
use std::collections::BTreeSet;

/// The code that tells a client why records could not be appended: clients know the errors of
/// coordinators, not those of logs.
pub const fn append_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::NetworkException => ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::MessageTooLarge
        | ErrorCode::RecordListTooLarge
        | ErrorCode::InvalidFetchSize => ErrorCode::UnknownServerError,
        other => other,
    }
}

impl GroupShard {
    /// Takes back a decision whose records were not appended: of one that was split, the part
    /// that was not. Groups whose assignments are not in the log rebalance. Returns the answers
    /// of the requests that the decision would have released, all refused with `error`; the
    /// request itself is refused by the shell, unless it is parked and goes on waiting.
    pub fn append_failed<R>(
        &mut self,
        decision: Decision<R>,
        error: ErrorCode,
        now_ms: i64,
    ) -> Vec<(Token, GroupResponse)> {
        let mut outcome = Outcome::default();
        for group_id in classic_groups(&decision.records) {
            self.act(group_id, now_ms, &mut outcome, |group, effects| {
                // An empty group stays as it is: its members left, whatever the log says.
                if group.membership.state == GroupState::Stable {
                    group.membership.refuse_syncs(error, effects);
                    group.membership.prepare_rebalance(effects);
                }
            });
        }
        debug_assert!(outcome.records.is_empty(), "a failure asks for no records");
        let released = decision.released.into_iter().chain(outcome.released);
        released
            .map(|(token, response)| (token, refusal(&response, error)))
            .collect()
    }
}

/// The classic groups among the keys of records.
fn classic_groups(records: &[CoordinatorRecord]) -> BTreeSet<&str> {
    records
        .iter()
        .filter_map(|record| match records::parse(0, &record.key, None) {
            Ok(GroupRecord::Classic { group_id, .. }) => Some(group_id),
            _ => None,
        })
        .collect()
}

fn refusal(response: &GroupResponse, error: ErrorCode) -> GroupResponse {
    match response {
        GroupResponse::Join(response) => {
            GroupResponse::Join(JoinGroupResponse::error(&response.member_id, error))
        }
        GroupResponse::Sync(_) => GroupResponse::Sync(SyncGroupResponse::error(error)),
    }
}
