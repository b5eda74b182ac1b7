//! Consumers without a group, which read changelogs and global topics, and what they read of transactions.

use super::failure::client_error;
use super::{Pairs, ProcessingGuarantee, StreamsConfig};
use crate::error::StreamsError;
use riverrun_client::consumer::{Consumer, ConsumerConfig, IsolationLevel, OffsetReset};

/// What of the records in transactions that are open or aborted is read: nothing under exactly-once.
pub(super) fn isolation(streams: &StreamsConfig) -> IsolationLevel {
    match streams.processing_guarantee {
        ProcessingGuarantee::AtLeastOnce => IsolationLevel::ReadUncommitted,
        ProcessingGuarantee::ExactlyOnceV2 => IsolationLevel::ReadCommitted,
    }
}

/// A consumer without a group: it restores stores.
pub(super) fn auxiliary_consumer(
    streams: &StreamsConfig,
    client_id: &str,
    isolation: IsolationLevel,
    overrides: &Pairs,
) -> Result<Consumer, StreamsError> {
    let config = auxiliary_config(streams, client_id, isolation, overrides)?;
    Consumer::new(config).map_err(client_error)
}

/// What the application wants of all consumers is meant for members of its group as well.
pub(super) fn auxiliary_config(
    streams: &StreamsConfig,
    client_id: &str,
    isolation: IsolationLevel,
    overrides: &Pairs,
) -> Result<ConsumerConfig, StreamsError> {
    let mut config = ConsumerConfig {
        client: streams.client.clone(),
        ..ConsumerConfig::default()
    };
    config
        .client
        .set("client.id", client_id)
        .map_err(client_error)?;
    config.enable_auto_commit = false;
    config.allow_auto_create_topics = false;
    config.max_poll_records = streams.max_poll_records;
    config.isolation_level = isolation;
    streams.override_consumer(&mut config, overrides)?;
    // A position that is cut off has to be seen: rows would be missing, or stay that were deleted.
    config.auto_offset_reset = OffsetReset::None;
    config.group_instance_id = None;
    Ok(config)
}
