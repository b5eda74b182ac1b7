//! Making batches durable before they are acknowledged (`flush.messages`).
//!
//! A sync blocks its thread for as long as the disk takes. Only so many threads do that at a time for
//! each log directory, however many producers wait: the others wait without a thread, and reads from
//! the disk, checkpoints and moves find theirs. Those that wait for the same partition share one sync.

use crate::logs::Logs;
use crate::scheduling::clock::now_ms;
use model::{ErrorCode, Offset};
use replication::{AppendError, Partition};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Threads that sync at a time, shared among the log directories: enough to keep a fast disk busy, and
/// an eighth of those that the runtime has for work that blocks.
const FLUSHES_MAX: usize = 64;
/// What each log directory has of them at least.
const FLUSHES_MIN: usize = 4;

/// The right to block a thread with a sync: of each log directory its own, as one that is stuck keeps
/// what it has.
#[derive(Debug)]
pub(crate) struct Flushes(Vec<Arc<Semaphore>>);

impl Flushes {
    /// For so many log directories.
    pub(crate) fn new(directory_count: usize) -> Self {
        let share = (FLUSHES_MAX / directory_count.max(1)).max(FLUSHES_MIN);
        let semaphores = (0..directory_count).map(|_| Arc::new(Semaphore::new(share)));
        Self(semaphores.collect())
    }

    fn of(&self, partition: &Partition) -> Arc<Semaphore> {
        let directory_index = partition
            .directory_index()
            .min(self.0.len().saturating_sub(1));
        let found = self.0.get(directory_index).cloned();
        found.unwrap_or_else(|| Arc::new(Semaphore::new(FLUSHES_MIN)))
    }
}

#[cfg(test)]
impl Flushes {
    /// Every right to block a thread, until it is dropped.
    pub(crate) async fn take_all(&self) -> Vec<tokio::sync::OwnedSemaphorePermit> {
        let mut taken = Vec::new();
        for permits in &self.0 {
            let all = (FLUSHES_MAX / self.0.len()).max(FLUSHES_MIN);
            let share = permits.clone().acquire_many_owned(all as u32).await;
            taken.push(share.expect("it is never closed"));
        }
        taken
    }
}

impl Logs {
    /// Makes everything of a partition below `end_offset` durable, from now on and whether this is
    /// waited for or not; a failure is reported.
    pub(crate) fn flush(
        &self,
        partition: Arc<Partition>,
        end_offset: Offset,
    ) -> impl Future<Output = Result<(), ErrorCode>> {
        let (permits, flushed) = (self.flushes.of(&partition), partition.clone());
        let flushing = self.node.runtime.spawn(async move {
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

#[cfg(test)]
mod tests {
    use super::*;
    use model::LeaderEpoch;
    use model::{TopicPartition, Uuid};
    use replication::LogHost;
    use storage::{Log, LogOpening, OpenFiles, RealDisk};

    #[test]
    fn each_log_directory_has_its_own_threads_to_sync() {
        let host = Arc::new(LogHost::new(RealDisk, Arc::new(OpenFiles::new(usize::MAX))));
        let roots = [trials::directory(), trials::directory()];
        let [one, two] = roots.each_ref().map(|root| {
            let name = TopicPartition::new("topic", 0);
            let opening = LogOpening::new(RealDisk, root.path().join("topic-0"), name);
            let log = Log::create(opening).unwrap();
            let directory = root.path().display().to_string();
            Partition::lead(&host, log, Uuid::ZERO, directory.into(), LeaderEpoch(0)).unwrap()
        });
        let flushes = Flushes::new(2);
        assert!(!Arc::ptr_eq(&flushes.of(&one), &flushes.of(&two)));
        assert_eq!(flushes.of(&one).available_permits(), FLUSHES_MAX / 2);
    }
}
