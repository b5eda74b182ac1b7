//! Logs that the coordinators could not write: they know no broker that would act on it, and hold
//! a lock which that needs.

use crate::Broker;
use crate::seldom::Seldom;
use replication::{AppendError, Partition};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Takes what could not be written.
#[derive(Debug, Clone)]
pub(crate) struct FailedLogs {
    sender: mpsc::UnboundedSender<FailedLog>,
    /// Lines about logs that are out of service.
    refused_records: Arc<Seldom>,
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
pub(crate) async fn act(broker: Arc<Broker>, mut failed: mpsc::UnboundedReceiver<FailedLog>) {
    while let Some(failed) = failed.recv().await {
        let broker = broker.clone();
        let act = move || {
            let (partition, reason) = (&failed.partition, &failed.reason);
            match failed.is_out_of_files {
                true => broker.note_shortage("a coordinator cannot write", partition, reason),
                false => broker.report_storage_error(partition, reason),
            }
        };
        // Not waited for: the lock of a log may be held for as long as another disk is stuck.
        drop(tokio::task::spawn_blocking(act));
    }
}
