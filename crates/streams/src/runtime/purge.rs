//! Purging: records of repartition topics are deleted once what came of them is committed. These topics keep everything
//! otherwise.

use super::StreamsConfig;
use super::failure::client_error;
use crate::error::StreamsError;
use riverrun_client::TopicPartition;
use riverrun_client::admin::Admin;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Deletes records of repartition topics, one request at a time, beside the work of the thread.
pub(super) struct Purge {
    config: Arc<StreamsConfig>,
    /// Made with the first request.
    admin: Option<Arc<Admin>>,
    interval: Duration,
    last: Instant,
    under_way: Option<JoinHandle<()>>,
}

impl Purge {
    pub(super) fn new(config: &Arc<StreamsConfig>) -> Self {
        Self {
            config: Arc::clone(config),
            admin: None,
            interval: Duration::from_millis(config.repartition_purge_interval_ms),
            last: Instant::now(),
            under_way: None,
        }
    }

    /// Whether it is time for the next request, and the last one is answered.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let is_idle = self.under_way.as_ref().is_none_or(JoinHandle::is_finished);
        is_idle && now.saturating_duration_since(self.last) >= self.interval
    }

    /// Deletes the records before these offsets. What cannot be deleted now is deleted by a later request.
    pub(super) fn start(
        &mut self,
        before: BTreeMap<TopicPartition, i64>,
    ) -> Result<(), StreamsError> {
        self.last = Instant::now();
        if before.is_empty() {
            return Ok(());
        }
        let admin = match &self.admin {
            Some(admin) => Arc::clone(admin),
            None => {
                let config = self.config.admin()?;
                let admin = Arc::new(Admin::new(config).map_err(client_error)?);
                self.admin = Some(Arc::clone(&admin));
                admin
            }
        };
        self.under_way = Some(tokio::spawn(async move {
            for (partition, deleted) in admin.delete_records(&before).await {
                match deleted {
                    Ok(begin_offset) => tracing::debug!(%partition, begin_offset, "purged"),
                    Err(error) => {
                        tracing::info!(%partition, %error, "a repartition topic cannot be purged for now")
                    }
                }
            }
        }));
        Ok(())
    }
}

impl Drop for Purge {
    /// Nobody waits for what is under way.
    fn drop(&mut self) {
        if let Some(under_way) = &self.under_way {
            under_way.abort();
        }
    }
}
