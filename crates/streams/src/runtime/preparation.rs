//! The topics of an application, before its tasks begin: one thread looks at its inputs and makes its own, and the
//! others wait for that. Brokers that do not answer are asked again until the instance is to end.

use super::StreamsConfig;
use super::failure::client_error;
use super::shared::Shared;
use super::topics::{ApplicationTopics, Counts, NotMade};
use crate::error::StreamsError;
use parking_lot::RwLock;
use riverrun_client::TopicPartition;
use riverrun_client::admin::Admin;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// The topics of an application, once they are there.
pub(super) struct Preparation {
    topics: Arc<ApplicationTopics>,
    config: Arc<StreamsConfig>,
    shared: Arc<Shared>,
    is_prepared: OnceCell<()>,
    counts: RwLock<Arc<Counts>>,
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
            is_prepared: OnceCell::new(),
            counts: RwLock::default(),
        }
    }

    /// As if brokers had told.
    #[cfg(test)]
    pub(super) fn tell(&self, counts: Counts) {
        *self.counts.write() = Arc::new(counts);
    }

    /// How many partitions the topics have; nothing before they are there.
    pub(super) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts.read())
    }

    /// The group reads these partitions: input topics may have more than they had, and others may match a pattern now.
    pub(super) fn note<'a>(&self, partitions: impl IntoIterator<Item = &'a TopicPartition>) {
        let counts = self.counts();
        if counts.is_empty() {
            return;
        }
        let mut grown: BTreeMap<&str, i32> = BTreeMap::new();
        for TopicPartition { topic, partition } in partitions {
            if counts
                .get(topic.as_str())
                .is_none_or(|count| count <= partition)
            {
                let count = grown.entry(topic).or_default();
                *count = partition.saturating_add(1).max(*count);
            }
        }
        grown.retain(|topic, _| self.topics.subtopology_of(topic).is_some());
        if grown.is_empty() {
            return;
        }
        let mut known = self.counts.write();
        // Another thread may have noted more meanwhile.
        let counts = Arc::make_mut(&mut known);
        for (topic, count) in grown {
            let known = counts.entry(Arc::from(topic)).or_default();
            *known = count.max(*known);
        }
    }

    /// Waits until the topics are there. False if the stream thread that waits is to end before.
    ///
    /// # Errors
    /// An input topic does not exist, or an internal topic cannot be made or has another number of partitions.
    pub(super) async fn wait(&self, thread: usize) -> Result<bool, StreamsError> {
        tokio::select! {
            biased;
            () = self.shared.thread_ending(thread) => Ok(false),
            prepared = self.is_prepared.get_or_try_init(|| self.prepare(true)) => prepared.map(|()| true),
        }
    }

    /// As `wait`, but brokers that do not answer are an error.
    ///
    /// # Errors
    /// As `wait`, or no broker answers.
    pub(super) async fn attempt(&self) -> Result<(), StreamsError> {
        let prepared = self.is_prepared.get_or_try_init(|| self.prepare(false));
        prepared.await.copied()
    }

    async fn prepare(&self, is_patient: bool) -> Result<(), StreamsError> {
        let admin = Admin::new(self.config.admin()?).map_err(client_error)?;
        let pause = Duration::from_millis(self.config.client.retry_backoff_ms);
        let servers = self.config.client.bootstrap_servers.iter();
        let servers: Vec<String> = servers.map(ToString::to_string).collect();
        let tell = || {
            tracing::warn!(
                servers = servers.join(","),
                "brokers have not answered yet; the application waits"
            )
        };
        loop {
            match patiently(self.topics.create(&admin, &self.config), NOTICE, tell).await {
                Ok(counts) => {
                    *self.counts.write() = Arc::new(counts);
                    return Ok(());
                }
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

/// How long a wait is not told.
const NOTICE: Duration = Duration::from_secs(3);

/// What `answer` comes to; calls `tell` as often as `period` passes until then.
async fn patiently<T>(
    answer: impl Future<Output = T>,
    period: Duration,
    mut tell: impl FnMut(),
) -> T {
    let mut answer = pin!(answer);
    loop {
        match tokio::time::timeout(period, &mut answer).await {
            Ok(answer) => return answer,
            Err(_) => tell(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    #[test]
    fn a_wait_is_told_again_and_again() -> Result<(), Box<dyn std::error::Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build()?;
        let (answer, mut answered) = mpsc::unbounded_channel();
        let mut told_count = 0;
        let tell = || {
            told_count += 1;
            if told_count == 3 {
                answer.send("brokers").expect("it is waited for");
            }
        };
        let waited = patiently(answered.recv(), Duration::from_millis(1), tell);
        assert_eq!(runtime.block_on(waited), Some("brokers"));
        assert_eq!(told_count, 3);
        Ok(())
    }
}
