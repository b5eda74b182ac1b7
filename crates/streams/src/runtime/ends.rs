//! Where partitions end, asked in a thread of its own: by who may not wait for its own clients.

use super::StreamsConfig;
use super::auxiliary_consumer::auxiliary_config;
use super::failure::client_error;
use crate::error::StreamsError;
use riverrun_client::consumer::{Consumer, IsolationLevel};
use riverrun_client::{Error, TopicPartition};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// An offset of each partition.
pub(super) type Ends = BTreeMap<TopicPartition, i64>;

/// Where `partitions` end, with what is not committed. A consumer of this name asks, for no longer than `timeout`.
///
/// # Errors
/// Brokers do not answer in time, or refuse.
pub(super) fn end_offsets(
    config: &Arc<StreamsConfig>,
    name: String,
    partitions: Vec<TopicPartition>,
    timeout: Duration,
) -> Result<Ends, StreamsError> {
    ask(config, name, timeout, async move |consumer| {
        consumer.end_offsets(&partitions).await
    })
}

/// How far stores can be restored: to the ends of `changelogs`, as `end_offsets` tells them, and to what the
/// application has committed of `inputs` that are changelogs too.
///
/// # Errors
/// As `end_offsets`.
pub(super) fn restored_ends(
    config: &Arc<StreamsConfig>,
    name: String,
    (changelogs, inputs): (Vec<TopicPartition>, Vec<TopicPartition>),
    timeout: Duration,
) -> Result<Ends, StreamsError> {
    ask(config, name, timeout, async move |consumer| {
        let mut ends = consumer.end_offsets(&changelogs).await?;
        if !inputs.is_empty() {
            let committed = consumer.committed(&inputs).await?;
            ends.extend(inputs.into_iter().map(|input| {
                let offset = committed.get(&input).map_or(0, |known| known.offset);
                (input, offset)
            }));
        }
        Ok(ends)
    })
}

fn ask(
    config: &Arc<StreamsConfig>,
    name: String,
    timeout: Duration,
    question: impl AsyncFnOnce(&Consumer) -> Result<Ends, Error> + Send + 'static,
) -> Result<Ends, StreamsError> {
    let config = Arc::clone(config);
    let thread = std::thread::Builder::new().name(name.clone());
    let (answer, answered) = std::sync::mpsc::channel();
    let ask = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StreamsError::Other(format!("cannot start a runtime: {error}")))?;
        runtime.block_on(async {
            let mut asking = auxiliary_config(
                &config,
                &name,
                IsolationLevel::ReadUncommitted,
                &config.overrides.restore_consumer,
            )?;
            // It asks what is committed, and joins nobody.
            asking.group_id = Some(config.application_id.clone());
            let consumer = Consumer::new(asking).map_err(client_error)?;
            let ends = tokio::time::timeout(timeout, question(&consumer)).await;
            if let Ok(ends) = ends {
                // Who asked may wait no longer.
                let _ = answer.send(ends.map_err(client_error));
            }
            if let Err(error) = consumer.close(timeout).await {
                tracing::debug!(%error, "the consumer could not be closed in time");
            }
            Ok::<(), StreamsError>(())
        })
    };
    thread
        .spawn(ask)
        .map_err(|error| StreamsError::Other(format!("cannot start a thread: {error}")))?;
    // Who asks drops the way to answer when it has none.
    answered
        .recv_timeout(timeout)
        .unwrap_or_else(|_| Err(StreamsError::Other("no answer in time".to_owned())))
}
