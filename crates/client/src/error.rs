//! What can go wrong, as the application sees it.

use model::{ErrorCode, TopicPartition};

/// An error of a producer, consumer or admin call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting has a value that is not allowed, or two settings contradict each other.
    #[error("`{key}` = `{value}`: {reason}")]
    Configuration {
        /// The setting, by Kafka's name.
        key: String,
        /// The value it was given.
        value: String,
        /// What is allowed.
        reason: String,
    },
    /// No broker could be reached in time.
    #[error("no broker answers at {address} within {waited_ms} ms: {reason}")]
    Unreachable {
        /// The address, or the bootstrap addresses, that were tried.
        address: String,
        /// How long it was tried.
        waited_ms: u64,
        /// What the last attempt met, and which setting to look at.
        reason: String,
    },
    /// A broker took longer than the deadline of the call.
    #[error("{operation}: no answer from {address} within {waited_ms} ms (`{setting}`)")]
    TimedOut {
        /// What was asked for.
        operation: String,
        /// The broker, or "the cluster" when none was chosen yet.
        address: String,
        /// How long the call waited.
        waited_ms: u64,
        /// The setting that bounds it.
        setting: &'static str,
    },
    /// Records were not acknowledged within `delivery.timeout.ms`, from the call that sent the first of
    /// them.
    #[error(
        "{record_count} {} for `{partition}` expired after {waited_ms} ms (`delivery.timeout.ms` = \
         {timeout_ms}): {reason}",
        if *record_count == 1 { "record" } else { "records" }
    )]
    DeliveryTimedOut {
        /// Where they were to be written.
        partition: TopicPartition,
        /// How many they are: those of one batch.
        record_count: u32,
        /// How long the first of them waited.
        waited_ms: u64,
        /// The setting.
        timeout_ms: u64,
        /// How often they were sent. If never, they are not written; otherwise they may be.
        attempts: u32,
        /// What they waited for, what was met, and what to do about it.
        reason: String,
    },
    /// The connection ended while an answer was awaited.
    #[error("{address} closed the connection: {reason}")]
    Disconnected {
        /// The broker.
        address: String,
        /// What the connection met.
        reason: String,
    },
    /// What answered does not speak Kafka's protocol, or not as it should.
    #[error("{address} sent what is no answer of Kafka's protocol: {reason}")]
    Malformed {
        /// The broker.
        address: String,
        /// What was wrong with it.
        reason: String,
    },
    /// The broker does not serve a version of the API that this client can use.
    #[error("{address} does not support {api}{detail}")]
    Unsupported {
        /// The broker.
        address: String,
        /// The API.
        api: &'static str,
        /// The versions on both sides, or the feature that misses.
        detail: String,
    },
    /// The broker refused, with an error of the protocol.
    #[error("{subject}: {code}{}", message.as_deref().map(|text| format!(": {text}")).unwrap_or_default())]
    Refused {
        /// The topic, partition, group or broker that it is about.
        subject: String,
        /// The protocol's error.
        code: ErrorCode,
        /// The broker's own words, where it sent some.
        message: Option<String>,
    },
    /// The producer holds as much as it may, and the brokers did not take enough of it in time.
    #[error(
        "no {needed_bytes} bytes of `buffer.memory` = {memory_bytes} became free within {waited_ms} ms \
         (`max.block.ms`): records come faster than the brokers take them"
    )]
    BufferFull {
        /// What the record's batch needs.
        needed_bytes: usize,
        /// All there is.
        memory_bytes: usize,
        /// How long the call waited.
        waited_ms: u64,
    },
    /// A key or value has no bytes, or its bytes are not of the type that was asked for.
    #[error("{subject}: {reason}")]
    Serialization {
        /// The key or value.
        subject: String,
        /// What its format says.
        reason: String,
    },
    /// The call itself cannot be carried out, whatever the broker says.
    #[error("{0}")]
    Invalid(String),
    /// Something of the transaction is lost: it can only be aborted, and another one begun.
    #[error("the transaction can only be aborted: {0}")]
    TransactionFailed(Box<Self>),
    /// The record was part of a transaction that was aborted before it was sent.
    #[error("the transaction was aborted before the record was sent")]
    TransactionAborted,
    /// The producer can do no more transactions, as when another one has its `transactional.id`: it
    /// can only be closed.
    #[error("the producer can only be closed: {0}")]
    ProducerFailed(Box<Self>),
    /// The client was closed.
    #[error("the {0} is closed")]
    Closed(&'static str),
}

impl Error {
    /// What went wrong with a connection. Not `From`, which would be public.
    pub(crate) fn of(error: connection::Error) -> Self {
        use connection::Error as Of;
        match error {
            Of::Unreachable {
                address,
                waited_ms,
                reason,
            } => Self::Unreachable {
                address,
                waited_ms,
                reason,
            },
            Of::TimedOut {
                operation,
                address,
                waited_ms,
                setting,
            } => Self::TimedOut {
                operation,
                address,
                waited_ms,
                setting,
            },
            Of::Disconnected { address, reason } => Self::Disconnected { address, reason },
            Of::Malformed { address, reason } => Self::Malformed { address, reason },
            Of::Unsupported {
                address,
                api,
                detail,
            } => Self::Unsupported {
                address,
                api,
                detail,
            },
            Of::Refused {
                subject,
                code,
                message,
            } => Self::Refused {
                subject,
                code,
                message,
            },
        }
    }

    /// For a partition that the topic, which has `partition_count` of them, does not have.
    pub(crate) fn no_partition(topic: &str, partition: i32, partition_count: usize) -> Self {
        let noun = if partition_count == 1 {
            "partition"
        } else {
            "partitions"
        };
        Self::Refused {
            subject: format!("partition `{topic}-{partition}`"),
            code: ErrorCode::UnknownTopicOrPartition,
            message: Some(format!("the topic has {partition_count} {noun}")),
        }
    }

    /// Whether the same call may succeed later, without a change by the caller.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::DeliveryTimedOut { .. }
            | Self::Disconnected { .. }
            | Self::BufferFull { .. } => true,
            Self::Refused { code, .. } => code.is_retriable(),
            Self::Configuration { .. }
            | Self::Malformed { .. }
            | Self::Unsupported { .. }
            | Self::Serialization { .. }
            | Self::Invalid(_)
            | Self::TransactionFailed(_)
            | Self::TransactionAborted
            | Self::ProducerFailed(_)
            | Self::Closed(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_a_topic_does_not_have() {
        for (count, expected) in [
            (0, "the topic has 0 partitions"),
            (1, "the topic has 1 partition"),
            (2, "the topic has 2 partitions"),
        ] {
            let error = Error::no_partition("topic", 9, count);
            let Error::Refused {
                subject, message, ..
            } = error
            else {
                panic!("{error:?}");
            };
            assert_eq!(subject, "partition `topic-9`");
            assert_eq!(message.as_deref(), Some(expected));
        }
    }
}
