//! Logs that the coordinators could not write: they know no broker that would act on it, and hold
//! a lock which that needs.

use crate::logs::Logs;
use crate::scheduling::log_rate_limit::LogRateLimit;
use replication::{AppendError, Partition};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Takes what could not be written.
#[derive(Debug, Clone)]
pub(crate) struct FailedLogs {
    sender: mpsc::UnboundedSender<FailedLog>,
    /// Lines about logs that are out of service.
    refused_records: Arc<LogRateLimit>,
}

/// A log whose disk has failed, or that had no file descriptor.
#[derive(Debug)]
pub(crate) struct FailedLog {
    partition: Arc<Partition>,
    reason: String,
    is_out_of_files: bool,
}

impl FailedLogs {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<FailedLog>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let failed_logs = Self {
            sender,
            refused_records: Arc::default(),
        };
        (failed_logs, receiver)
    }

    /// Notes why records of a coordinator were not appended.
    pub(crate) fn report(&self, partition: &Arc<Partition>, error: &AppendError) {
        if error.is_log_changed() {
            if let Some(not_logged) = self.refused_records.due() {
                tracing::error!(%partition, %error, not_logged, "the log of a coordinator is out of service");
            }
            return;
        }
        let is_out_of_files = error.is_out_of_files();
        if !error.is_disk_failure() && !is_out_of_files {
            tracing::debug!(%partition, reason = %error, "a coordinator cannot write");
            return;
        }
        let failed = FailedLog {
            partition: partition.clone(),
            reason: error.to_string(),
            is_out_of_files,
        };
        // Nobody listens any more when the server stops.
        let _ = self.sender.send(failed);
    }
}

/// Takes the log directories of failed logs offline, for ever.
pub(crate) async fn act(logs: Arc<Logs>, mut failed: mpsc::UnboundedReceiver<FailedLog>) {
    let mut closing = OneAtATime::default();
    while let Some(failed) = failed.recv().await {
        let FailedLog {
            partition, reason, ..
        } = failed;
        if !failed.is_out_of_files {
            logs.report_storage_error(&partition, &reason);
            continue;
        }
        // To close files may take as long as a disk is stuck.
        let logs = logs.clone();
        closing.run(move || {
            logs.note_shortage("a coordinator cannot write", &partition, &reason);
        });
    }
}

/// Work that blocks, and is done for all who ask for it while it is under way.
#[derive(Debug, Default)]
struct OneAtATime(Option<JoinHandle<()>>);

impl OneAtATime {
    /// Begins `work` unless the last one has not ended.
    fn run(&mut self, work: impl FnOnce() + Send + 'static) {
        if self.0.as_ref().is_none_or(JoinHandle::is_finished) {
            self.0 = Some(tokio::task::spawn_blocking(work));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::LeaderEpoch;
    use model::{TopicPartition, Uuid};
    use replication::LogHost;
    use std::io;
    use std::sync::mpsc as blocking;
    use storage::{Log, LogOpening, OpenFiles, RealDisk, StorageError};

    const EIO: i32 = 5;
    const EMFILE: i32 = 24;

    #[tokio::test]
    async fn what_is_asked_for_meanwhile_is_not_begun() {
        let (release, stuck) = blocking::channel::<()>();
        let mut one = OneAtATime::default();
        one.run(move || {
            let _ = stuck.recv();
        });
        one.run(|| panic!("the first one is under way"));
        drop(release);
        one.0.take().unwrap().await.unwrap();
        let (begun, has_begun) = blocking::channel();
        one.run(move || begun.send(()).unwrap());
        has_begun.recv().unwrap();
    }

    /// What is told of an append that failed: nothing, or whether descriptors lack.
    #[tokio::test]
    async fn what_is_no_fault_of_the_disk_is_not_told() {
        let directory = trials::directory();
        let name = TopicPartition::new("topic", 0);
        let opening = LogOpening::new(RealDisk, directory.path().join("topic-0"), name);
        let log = Log::create(opening).unwrap();
        let place = directory.path().display().to_string();
        let host = Arc::new(LogHost::new(RealDisk, Arc::new(OpenFiles::new(usize::MAX))));
        let partition =
            Partition::lead(&host, log, Uuid::ZERO, place.into(), LeaderEpoch(0)).unwrap();
        let partition = Arc::new(partition);
        let (failed_logs, mut failed) = FailedLogs::new();
        let mut told = |error: AppendError| {
            failed_logs.report(&partition, &error);
            failed.try_recv().ok().map(|one| one.is_out_of_files)
        };
        let of_disk = |number| {
            AppendError::from(StorageError {
                operation: "write",
                file: directory.path().to_owned(),
                source: io::Error::from_raw_os_error(number),
            })
        };
        assert_eq!(told(of_disk(EIO)), Some(false));
        assert_eq!(told(of_disk(EMFILE)), Some(true));
        assert_eq!(told(storage::AppendError::Empty.into()), None);
    }
}
