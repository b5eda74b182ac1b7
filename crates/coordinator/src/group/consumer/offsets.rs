//! Which offsets a member of a consumer group may store and read.

use super::group::ConsumerGroup;
use super::member::ConsumerMember;
use crate::group::request::OffsetCommitTopic;
use model::ErrorCode;

/// Who stores offsets, as the request says.
#[derive(Debug, Clone, Copy)]
pub(in crate::group) struct MemberCommit<'a> {
    pub(in crate::group) member_id: &'a str,
    pub(in crate::group) group_instance_id: Option<&'a str>,
    pub(in crate::group) member_epoch: i32,
    pub(in crate::group) is_transactional: bool,
    /// Whether the version of the request knows of member epochs.
    pub(in crate::group) knows_member_epochs: bool,
    pub(in crate::group) topics: &'a [OffsetCommitTopic<'a>],
}

impl ConsumerGroup {
    /// Whether these offsets may be stored. A member that is an epoch or more behind may store
    /// those of partitions that it has had since then (KIP-1251).
    pub(in crate::group) fn validate_commit(
        &self,
        commit: &MemberCommit<'_>,
    ) -> Result<(), ErrorCode> {
        let epoch = commit.member_epoch;
        if epoch < 0 && self.members().is_empty() {
            return Ok(());
        }
        let names_nobody =
            epoch == -1 && commit.member_id.is_empty() && commit.group_instance_id.is_none();
        if commit.is_transactional && names_nobody {
            return Ok(());
        }
        let member = self
            .member(commit.member_id)
            .ok_or(ErrorCode::UnknownMemberId)?;
        let is_new = !member.uses_classic_protocol();
        if is_new && !commit.is_transactional && !commit.knows_member_epochs {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if epoch == member.member_epoch {
            return Ok(());
        }
        // Producers are refused by any epoch that is not the member's.
        let is_covered = !commit.is_transactional
            && epoch < member.member_epoch
            && commit.topics.iter().all(|topic| {
                let mut indexes = topic.partitions.iter().map(|partition| partition.index);
                indexes.all(|index| {
                    let assigned = member.assigned.get(topic.topic_id, index);
                    let pending = || member.pending_revocation.get(topic.topic_id, index);
                    assigned
                        .or_else(pending)
                        .is_some_and(|since| epoch >= *since)
                })
            });
        if is_covered {
            Ok(())
        } else {
            Err(stale(member))
        }
    }

    /// Whether a member may read offsets; administrators name none.
    pub(in crate::group) fn validate_fetch(
        &self,
        member_id: Option<&str>,
        member_epoch: i32,
    ) -> Result<(), ErrorCode> {
        if member_id.is_none() && member_epoch < 0 {
            return Ok(());
        }
        let member = member_id.and_then(|id| self.member(id));
        let member = member.ok_or(ErrorCode::UnknownMemberId)?;
        if member.member_epoch == member_epoch {
            Ok(())
        } else {
            Err(stale(member))
        }
    }
}

fn stale(member: &ConsumerMember) -> ErrorCode {
    if member.uses_classic_protocol() {
        ErrorCode::IllegalGeneration
    } else {
        ErrorCode::StaleMemberEpoch
    }
}
