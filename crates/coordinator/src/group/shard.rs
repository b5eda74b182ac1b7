//! One partition of `__consumer_offsets` as a replicated state machine.
//!
//! ```text
//!   records of the log ─> replay … start ┐
//!   request, now ─> join_group, commit_offsets … ─> Decision ─> append ─> replay ─> answer
//!   next_deadline ─> expire(now) ────────────────> Decision ─> append ─> replay ─> answer
//!   not the leader any more, or an append failed ─> unload ─> answers of all parked requests
//! ```

use super::{
    DeletedTopic, DescribedGroup, FetchedTopic, GroupConfig, Heartbeat, JoinGroup,
    JoinGroupResponse, LeaveGroup, ListGroups, ListedGroup, OffsetCommit, OffsetDelete,
    OffsetFetch, PartitionErrors, SyncGroup, SyncGroupResponse, TxnOffsetCommit,
};
use crate::{Decision, GroupResponse, Token};
use model::{DecodeError, ErrorCode};

/// Where a record stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordOrigin {
    /// The record's offset.
    pub offset: i64,
    /// The producer of a transactional batch; -1 for any other batch.
    pub producer_id: i64,
}

/// A record is damaged; it changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The key is not one of its type.
    #[error("the key of a group record is damaged: {0}")]
    Key(DecodeError),
    /// The value is not one of its key's type.
    #[error("the value of a group record is damaged: {0}")]
    Value(DecodeError),
}

/// The groups and offsets of one partition of `__consumer_offsets`.
///
/// Life: [`GroupShard::new`], [`GroupShard::replay`] of the whole log, [`GroupShard::start`]; then
/// requests and [`GroupShard::expire`]; at last [`GroupShard::unload`].
///
/// The contract with the shell:
/// - The records of a decision are appended and replayed before the next call.
/// - The reply and the released answers of a decision are sent when the high watermark has passed
///   all that was appended up to the decision, its own records included. Heartbeats and refusals
///   need not wait.
/// - When an append fails, the shell answers the request with an error, unloads the shard,
///   answers what unloading releases, and loads a new one from the log. The answers of the failed
///   decision are not sent; the tokens that it releases get `NotCoordinator`.
/// - Dropping the connection of a parked request changes nothing here; its answer is dropped.
#[derive(Debug)]
pub struct GroupShard {
    config: GroupConfig,
}

impl GroupShard {
    /// A shard that has yet to replay its log.
    pub fn new(config: GroupConfig) -> Self {
        Self { config }
    }

    /// Obeys other settings from the next decision on.
    pub fn set_config(&mut self, config: GroupConfig) {
        self.config = config;
    }

    /// Applies a record of the log: while loading, and after a decision's records were appended.
    /// Types it does not know are skipped.
    ///
    /// # Errors
    /// A [`ReplayError`] when the record is damaged. While loading it may be skipped.
    pub fn replay(
        &mut self,
        _origin: RecordOrigin,
        _key: &[u8],
        _value: Option<&[u8]>,
    ) -> Result<(), ReplayError> {
        Ok(())
    }

    /// Applies the end of a transaction: a control batch of the log.
    pub fn replay_transaction_end(&mut self, _producer_id: i64, _is_commit: bool) {}

    /// Ends loading: the sessions of all members start anew.
    pub fn start(&mut self, _now_ms: i64) {}

    /// Ends the shard's life with the answers of all requests that are parked.
    pub fn unload(self) -> Vec<(Token, GroupResponse)> {
        Vec::new()
    }

    /// A member joins or rejoins its group.
    pub fn join_group(
        &mut self,
        _request: &JoinGroup<'_>,
        _now_ms: i64,
    ) -> Decision<JoinGroupResponse> {
        Decision::reply(JoinGroupResponse::error(
            "",
            ErrorCode::CoordinatorNotAvailable,
        ))
    }

    /// A member asks for its assignment.
    pub fn sync_group(
        &mut self,
        _request: &SyncGroup<'_>,
        _now_ms: i64,
    ) -> Decision<SyncGroupResponse> {
        Decision::reply(SyncGroupResponse::error(ErrorCode::CoordinatorNotAvailable))
    }

    /// A member says that it lives. May be answered at once.
    ///
    /// # Errors
    /// The code of the response.
    pub fn heartbeat(&mut self, _request: &Heartbeat<'_>, _now_ms: i64) -> Result<(), ErrorCode> {
        Err(ErrorCode::CoordinatorNotAvailable)
    }

    /// Members leave; the reply has a code for each, in the order of the request.
    pub fn leave_group(
        &mut self,
        _request: &LeaveGroup<'_>,
        _now_ms: i64,
    ) -> Decision<Result<Vec<ErrorCode>, ErrorCode>> {
        Decision::reply(Err(ErrorCode::CoordinatorNotAvailable))
    }

    /// Stores offsets. An outer error holds for every partition.
    pub fn commit_offsets(
        &mut self,
        _request: &OffsetCommit<'_>,
        _now_ms: i64,
    ) -> Decision<Result<PartitionErrors, ErrorCode>> {
        Decision::reply(Err(ErrorCode::CoordinatorNotAvailable))
    }

    /// Stores offsets as part of a transaction: the shell appends the records in a transactional
    /// batch of the producer. An outer error holds for every partition.
    pub fn commit_transactional_offsets(
        &mut self,
        _request: &TxnOffsetCommit<'_>,
        _now_ms: i64,
    ) -> Decision<Result<PartitionErrors, ErrorCode>> {
        Decision::reply(Err(ErrorCode::CoordinatorNotAvailable))
    }

    /// Reads offsets. A group that does not exist has none.
    ///
    /// # Errors
    /// The code of the whole group.
    pub fn fetch_offsets(
        &self,
        _request: &OffsetFetch<'_>,
    ) -> Result<Vec<FetchedTopic>, ErrorCode> {
        Err(ErrorCode::CoordinatorNotAvailable)
    }

    /// Deletes offsets that no member is subscribed to. An outer error is that of the response.
    pub fn delete_offsets(
        &mut self,
        _request: &OffsetDelete<'_>,
    ) -> Decision<Result<PartitionErrors, ErrorCode>> {
        Decision::reply(Err(ErrorCode::CoordinatorNotAvailable))
    }

    /// Deletes empty groups with their offsets; the reply has a code for each.
    pub fn delete_groups(&mut self, group_ids: &[&str]) -> Decision<Vec<ErrorCode>> {
        Decision::reply(vec![ErrorCode::CoordinatorNotAvailable; group_ids.len()])
    }

    /// Deletes the offsets of topics that the cluster deleted.
    pub fn delete_topic_offsets(&mut self, _topics: &[DeletedTopic<'_>]) -> Decision<()> {
        Decision::reply(())
    }

    /// The groups that pass the filters.
    pub fn list_groups(&self, _request: &ListGroups<'_>) -> Vec<ListedGroup> {
        Vec::new()
    }

    /// A classic group with its members.
    ///
    /// # Errors
    /// Why there is no such classic group: the message of `GroupIdNotFound` in versions from 6;
    /// older versions show [`DescribedGroup::dead`] without an error.
    pub fn describe_group(&self, group_id: &str) -> Result<DescribedGroup, String> {
        Err(format!("Group {group_id} not found."))
    }

    /// Acts on what is due at `now_ms`: sessions, rebalances, retention of offsets.
    pub fn expire(&mut self, _now_ms: i64) -> Decision<()> {
        Decision::reply(())
    }

    /// When to call [`GroupShard::expire`] next. It may turn out that nothing is due then.
    pub fn next_deadline(&self) -> Option<i64> {
        None
    }
}
