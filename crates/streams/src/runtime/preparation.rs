//! The topics of an application, before its tasks begin: one thread looks at its inputs and makes its own, and the
//! others wait for that. Brokers that do not answer are asked again until the instance is to end.

use super::StreamsConfig;
use super::kafka_streams::client_error;
use super::shared::Shared;
use super::topics::{ApplicationTopics, NotMade};
use crate::error::StreamsError;
use riverrun_client::admin::Admin;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// How many partitions topics have.
pub(super) type Counts = BTreeMap<Arc<str>, i32>;

/// The topics of an application, once they are there.
pub(super) struct Preparation {
    topics: Arc<ApplicationTopics>,
    config: Arc<StreamsConfig>,
    shared: Arc<Shared>,
    counts: OnceCell<Counts>,
}

impl Preparation {
    pub(super) fn new(
        topics: &Arc<ApplicationTopics>,
        config: &Arc<StreamsConfig>,
        shared: &Arc<Shared>,
    ) -> Self {
        Self {
            topics: Arc::clone(topics),
            config: Arc::clone(config),
            shared: Arc::clone(shared),
            counts: OnceCell::new(),
        }
    }

    /// As if brokers had told.
    #[cfg(test)]
    pub(super) fn tell(&self, counts: Counts) {
        let _ = self.counts.set(counts);
    }

    /// How many partitions the topics have; nothing before they are there.
    pub(super) fn counts(&self) -> &Counts {
        static NONE: Counts = Counts::new();
        self.counts.get().unwrap_or(&NONE)
    }

    /// Waits until the topics are there. False if the instance is to end before.
    ///
    /// # Errors
    /// An input topic does not exist, or an internal topic cannot be made or has another number of partitions.
    pub(super) async fn wait(&self) -> Result<bool, StreamsError> {
        tokio::select! {
            biased;
            () = self.shared.ending() => Ok(false),
            counts = self.counts.get_or_try_init(|| self.prepare(true)) => counts.map(|_| true),
        }
    }

    /// As `wait`, but brokers that do not answer are an error.
    ///
    /// # Errors
    /// As `wait`, or no broker answers.
    pub(super) async fn attempt(&self) -> Result<(), StreamsError> {
        let counts = self.counts.get_or_try_init(|| self.prepare(false));
        counts.await.map(|_| ())
    }

    async fn prepare(&self, is_patient: bool) -> Result<Counts, StreamsError> {
        let admin = Admin::new(self.config.admin()?).map_err(client_error)?;
        let pause = Duration::from_millis(self.config.client.retry_backoff_ms);
        loop {
            match self.topics.create(&admin, &self.config).await {
                Ok(counts) => return Ok(counts),
                Err(NotMade::Later(error)) if is_patient => {
                    tracing::warn!(%error, "the topics of the application are not there yet");
                    tokio::time::sleep(pause).await;
                }
                Err(NotMade::Later(error)) => return Err(client_error(error)),
                Err(NotMade::Failed(error)) => return Err(error),
            }
        }
    }
}
