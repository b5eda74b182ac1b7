//! The errors of a consumer in words that say what to do.

use super::config::ConsumerConfig;
use super::fetcher::PartitionError;
use crate::Error;
use model::{ErrorCode, TopicPartition};

/// What keeps a partition from being read.
pub(super) fn of_partition(name: &TopicPartition, error: PartitionError) -> Error {
    let seek = "seek to where to go on, or set `auto.offset.reset`";
    match error {
        PartitionError::NoOffset => Error::Invalid(format!(
            "no offset is committed for `{name}` and `auto.offset.reset` is `none`: {seek}"
        )),
        PartitionError::OutOfRange(offset) => Error::Refused {
            subject: format!("offset {offset} of `{name}`"),
            code: ErrorCode::OffsetOutOfRange,
            message: Some(format!("`auto.offset.reset` is `none`: {seek}")),
        },
        PartitionError::Truncated(offset, common) => {
            let end = common.map_or_else(
                || "it is not known where".to_owned(),
                |common| format!("it goes on at offset {common}"),
            );
            Error::Invalid(format!(
                "the log of `{name}` was cut before offset {offset}, {end}: {seek}"
            ))
        }
        PartitionError::Corrupt(offset, reason) => Error::Invalid(format!(
            "`{name}` cannot be read at offset {offset}: {reason}; it is read again, unless you seek past it"
        )),
        PartitionError::Refused(code) => Error::Refused {
            subject: format!("partition `{name}`"),
            code,
            message: None,
        },
    }
}

/// Why the coordinator does not take this consumer.
pub(super) fn of_member(
    config: &ConsumerConfig,
    is_of_streams_group: bool,
    code: ErrorCode,
    said: Option<String>,
) -> Error {
    let advice = match code {
        ErrorCode::UnsupportedVersion if is_of_streams_group => {
            Some("the broker has no streams groups; set `group.protocol` = `classic`")
        }
        ErrorCode::GroupMaxSizeReached if is_of_streams_group => {
            Some("the group has as many members as `group.streams.max.size` of the broker allows")
        }
        ErrorCode::StreamsInvalidTopology | ErrorCode::StreamsInvalidTopologyEpoch => {
            Some("the coordinator does not take the topology")
        }
        ErrorCode::StreamsTopologyFenced => Some("the group has a newer topology than this member"),
        ErrorCode::FencedInstanceId => {
            Some("another consumer of the group has the same `group.instance.id`")
        }
        ErrorCode::InconsistentGroupProtocol => Some(
            "the other members have no assignor in common with `partition.assignment.strategy`",
        ),
        ErrorCode::InvalidSessionTimeout => Some(
            "`session.timeout.ms` is not between `group.min.session.timeout.ms` and \
             `group.max.session.timeout.ms` of the broker",
        ),
        ErrorCode::GroupMaxSizeReached => {
            Some("the group has as many members as `group.max.size` of the broker allows")
        }
        ErrorCode::UnsupportedVersion => Some(
            "its coordinator does not serve the consumer protocol, or not patterns in it: set \
             `group.protocol` = `classic`",
        ),
        ErrorCode::UnsupportedAssignor => {
            Some("`group.remote.assignor` is none of the broker's `group.consumer.assignors`")
        }
        ErrorCode::UnreleasedInstanceId => {
            Some("a member that has not left has the same `group.instance.id`")
        }
        ErrorCode::InvalidRegularExpression => {
            Some("the pattern is no regular expression of the broker's (RE2)")
        }
        ErrorCode::GroupIdNotFound => Some(
            "it is a group of another kind: use another `group.id`, or the `group.protocol` of its \
             members",
        ),
        ErrorCode::InvalidGroupId => Some("`group.id` is not valid"),
        ErrorCode::CoordinatorNotAvailable => Some(
            "its topic has no leader or cannot be made; `offsets.topic.replication.factor` of the \
             brokers may exceed their number",
        ),
        _ => None,
    };
    let message = match (advice, said) {
        (Some(advice), Some(said)) if code != ErrorCode::UnsupportedVersion => {
            Some(format!("{said}: {advice}"))
        }
        (Some(advice), _) => Some(advice.to_owned()),
        (None, said) => said,
    };
    Error::Refused {
        subject: format!("group `{}`", config.group_id.as_deref().unwrap_or_default()),
        code,
        message,
    }
}
