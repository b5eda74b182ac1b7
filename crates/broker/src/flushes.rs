//! Making batches durable before they are acknowledged (`flush.messages`).
//!
//! A sync blocks its thread for as long as the disk takes. Only so many threads do that at a time,
//! however many producers wait: the others wait without a thread, and reads from the disk,
//! checkpoints and moves find theirs. Those that wait for the same partition share one sync.

use crate::Broker;
use crate::clock::now_ms;
use model::ErrorCode;
use replication::{AppendError, Partition};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Threads that sync at a time: enough to keep a fast disk busy, and an eighth of those that the
/// runtime has for work that blocks.
const FLUSHES_MAX: usize = 64;

/// The right to block a thread with a sync.
#[derive(Debug)]
pub(crate) struct Flushes(Arc<Semaphore>);

impl Default for Flushes {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(FLUSHES_MAX)))
    }
}

#[cfg(test)]
impl Flushes {
    /// Every right to block a thread, until it is dropped.
    pub(crate) async fn take_all(&self) -> tokio::sync::SemaphorePermit<'_> {
        let taken = self.0.acquire_many(FLUSHES_MAX as u32).await;
        taken.expect("it is never closed")
    }
}

impl Broker {
    /// Makes everything of a partition below `end_offset` durable, from now on and whether this is
    /// waited for or not; a failure is reported.
    pub(crate) fn flush(
        &self,
        partition: Arc<Partition>,
        end_offset: i64,
    ) -> impl Future<Output = Result<(), ErrorCode>> {
        let (permits, flushed) = (self.flushes.0.clone(), partition.clone());
        let flushing = self.runtime.spawn(async move {
            let permit = permits.acquire_owned().await;
            if flushed.flushed_end_offset() >= end_offset {
                return Ok(Ok(()));
            }
            let flush = move || {
                let _permit = permit;
                flushed.flush_up_to(end_offset, now_ms())
            };
            tokio::task::spawn_blocking(flush).await
        });
        async move {
            match flushing.await {
                Ok(Ok(Ok(()))) => Ok(()),
                Ok(Ok(Err(error))) => {
                    let error = AppendError::from(error);
                    self.report_append_error(&partition, &error);
                    Err(error.code())
                }
                // The server stops before the flush has begun.
                Ok(Err(_)) | Err(_) => Err(ErrorCode::KafkaStorageError),
            }
        }
    }
}
