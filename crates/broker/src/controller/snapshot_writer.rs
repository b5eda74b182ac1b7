//! Snapshots of the metadata, written on a thread of their own: that takes as long as the cluster is big, and
//! the controller decides on meanwhile.

use super::link::Message;
use crate::scheduling::clock::now_ms;
use controller::metadata_log::{MetadataLog, WrittenSnapshot};
use std::sync::mpsc::{Receiver, channel};
use storage::StorageError;
use tokio::sync::mpsc::WeakSender;

/// Writes one snapshot at a time.
pub(super) struct SnapshotWriter {
    /// Where the controller is told that a snapshot is written.
    controller: WeakSender<Message>,
    /// What comes of the one that is being written, for who waits for it.
    being_written: Option<Receiver<Result<WrittenSnapshot, StorageError>>>,
}

impl SnapshotWriter {
    /// A writer that tells the controller by `controller`.
    pub(super) const fn new(controller: WeakSender<Message>) -> Self {
        Self {
            controller,
            being_written: None,
        }
    }

    /// Begins a snapshot when enough has been appended, or long enough ago.
    pub(super) fn begin_if_due(&mut self, log: &mut MetadataLog) {
        let Some(job) = log.snapshot_due(now_ms()) else {
            return;
        };
        let (outcome, waiting) = channel();
        let controller = self.controller.clone();
        let write = move || {
            let written = job.run(now_ms());
            let _ = outcome.send(written);
            if let Some(controller) = controller.upgrade() {
                let _ = controller.blocking_send(Message::SnapshotWritten);
            }
        };
        let thread = std::thread::Builder::new().name("metadata-snapshot".into());
        match thread.spawn(write) {
            Ok(_) => self.being_written = Some(waiting),
            Err(source) => complete(log, Err(no_thread(source))),
        }
    }

    /// Takes note of the snapshot that is being written, once it is: the caller waits for that.
    pub(super) fn finish(&mut self, log: &mut MetadataLog) {
        let Some(waiting) = self.being_written.take() else {
            return;
        };
        let written = waiting.recv();
        let ended = |_| Err(no_thread(std::io::ErrorKind::BrokenPipe.into()));
        complete(log, written.unwrap_or_else(ended));
    }
}

fn no_thread(source: std::io::Error) -> StorageError {
    StorageError {
        operation: "write a snapshot of",
        file: "__cluster_metadata-0".into(),
        source,
    }
}

fn complete(log: &mut MetadataLog, written: Result<WrittenSnapshot, StorageError>) {
    if let Err(error) = log.complete_snapshot(written, now_ms()) {
        tracing::warn!(%error, "a snapshot of the metadata cannot be written");
    }
}
