//! Where partitions end, asked in a thread of its own: by who may not wait for its own clients.

use super::StreamsConfig;
use super::auxiliary_consumer::auxiliary_consumer;
use super::failure::client_error;
use crate::error::StreamsError;
use riverrun_client::TopicPartition;
use riverrun_client::consumer::IsolationLevel;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Where `partitions` end, with what is not committed. A consumer of this name asks, for no longer than `timeout`.
///
/// # Errors
/// Brokers do not answer in time, or refuse.
pub(super) fn end_offsets(
    config: &Arc<StreamsConfig>,
    name: String,
    partitions: Vec<TopicPartition>,
    timeout: Duration,
) -> Result<BTreeMap<TopicPartition, i64>, StreamsError> {
    let config = Arc::clone(config);
    let thread = std::thread::Builder::new().name(name.clone());
    let (answer, answered) = std::sync::mpsc::channel();
    let ask = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StreamsError::Other(format!("cannot start a runtime: {error}")))?;
        runtime.block_on(async {
            let consumer = auxiliary_consumer(
                &config,
                &name,
                IsolationLevel::ReadUncommitted,
                &config.overrides.restore_consumer,
            )?;
            let ends = tokio::time::timeout(timeout, consumer.end_offsets(&partitions)).await;
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
