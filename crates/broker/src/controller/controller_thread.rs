//! The thread of the active controller: decides, appends, and hands on what is committed.
//!
//! ```text
//!   link ── request ──> decide over the newest image ──> append to __cluster_metadata, synced
//!     <── answer ── metadata_loader <── change ─────────────┘
//! ```
//!
//! One decision follows the other, so each is made over the image that the one before has left. The
//! thread knows no partition and waits for no log directory but that of the metadata log.

use super::link::{ControllerLink, Message, Messages};
use super::metadata_loader::{self, Loader, MetadataChange, MetadataPublisher, Tasks, Waiting};
use super::metadata_log::{AppendMetadataError, MetadataLog};
use crate::runtime::clock::{now_ms, random_bytes};
use config::ServerConfig;
use controller::{ActiveController, ControllerContext, ControllerRequest, Proposal};
use metadata::{MetadataDelta, MetadataImage};
use model::ErrorCode;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// What the thread owns.
pub(crate) struct ControllerThread {
    /// The metadata log and the image that it adds up to.
    pub(crate) log: MetadataLog,
    active: ActiveController<Waiting>,
    loader: Loader,
    config: ServerConfig,
    halt: Halt,
}

/// Ends the process, for a reason that is logged.
type Halt = Arc<dyn Fn(String) + Send + Sync>;

/// A controller that is to be started when the rest of the broker is there.
pub(crate) struct Unstarted {
    messages: Messages,
    tasks: Tasks,
    loader: Loader,
}

/// What the controller has to know of the rest.
pub(crate) struct ControllerParts {
    /// As the process was started with.
    pub(crate) config: ServerConfig,
    /// Whoever lives by the metadata, in the order in which they learn of a change.
    pub(crate) publishers: Vec<Box<dyn MetadataPublisher>>,
    /// Ends the process, for a reason that is logged.
    pub(crate) halt: Halt,
}

/// A link to a controller that has yet to be started.
pub(crate) fn new() -> (ControllerLink, Unstarted) {
    let (loader, tasks) = Loader::new();
    let (link, messages) = ControllerLink::new(loader.clone());
    let unstarted = Unstarted {
        messages,
        tasks,
        loader,
    };
    (link, unstarted)
}

impl Unstarted {
    /// Starts the controller and the metadata loader. They end when the link is dropped.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(self, log: MetadataLog, with: ControllerParts) -> std::io::Result<()> {
        let ControllerParts {
            config,
            publishers,
            halt,
        } = with;
        let image = log.image().clone();
        let halt_loader = halt.clone();
        let halt_loader = move |reason| halt_loader(reason);
        metadata_loader::start(self.tasks, image.clone(), publishers, halt_loader)?;
        let kraft_version = log.describe_quorum(now_ms()).kraft_version;
        let mut thread = ControllerThread {
            active: ActiveController::new(image.clone(), kraft_version, end_offset(&image)),
            log,
            loader: self.loader,
            config,
            halt,
        };
        let mut messages = self.messages;
        let work = move || {
            while let Some(message) = messages.blocking_recv() {
                // A decision that panics has broken an invariant: nothing it left can be trusted.
                let done = AssertUnwindSafe(|| thread.receive(message));
                if std::panic::catch_unwind(done).is_err() {
                    let reason = "the controller has failed and decides no more";
                    return (thread.halt)(reason.to_owned());
                }
            }
        };
        let builder = std::thread::Builder::new().name("controller".into());
        builder.spawn(work).map(drop)
    }
}

/// The end of what an image has: the log may have more that nobody acknowledges.
fn end_offset(image: &MetadataImage) -> i64 {
    image.provenance.last_offset + 1
}

impl ControllerThread {
    fn receive(&mut self, message: Message) {
        match message {
            Message::Request(request, waiting) => self.decide(&request, waiting),
            Message::DescribeQuorum(answer) => {
                let _ = answer.send(self.log.describe_quorum(now_ms()));
            }
            Message::Settle(answer) => self.loader.run(move || {
                let _ = answer.send(());
            }),
            Message::Close(answer) => {
                let _ = answer.send(self.log.close(now_ms()));
            }
            #[cfg(test)]
            Message::Test(test) => {
                test(self);
                self.follow_log();
            }
        }
    }

    fn decide(&mut self, request: &ControllerRequest, waiting: Waiting) {
        let context = ControllerContext::new(&self.config);
        let proposal = self
            .active
            .propose(request, waiting, &context, &mut random_bytes);
        if proposal.is_empty() {
            let answers = self.active.committed(end_offset(self.log.image()));
            return self.loader.answer(answers);
        }
        let before = self.log.image().clone();
        let appended = self.append(&proposal);
        let change = self.change_since(before);
        match appended {
            Ok(()) => {
                self.active.accepted();
                let answers = self.active.committed(end_offset(self.log.image()));
                self.loader.load(change, answers);
                self.snapshot_if_due();
            }
            Err(error) => {
                // The quorum's own part may be there.
                if !Arc::ptr_eq(&change.delta.before, &change.delta.after) {
                    self.loader.load(change, Vec::new());
                }
                let _ = self.active.refused().send(Err(self.refused(&error)));
            }
        }
    }

    /// Appends what is proposed, committed on return.
    fn append(&mut self, proposal: &Proposal) -> Result<(), AppendMetadataError> {
        if let Some(level) = proposal.kraft_version {
            self.log.raise_kraft_version(level, now_ms())?;
            self.follow_log();
        }
        if !proposal.records.is_empty() {
            self.log.append(&proposal.records, now_ms())?;
            self.follow_log();
        }
        Ok(())
    }

    fn follow_log(&mut self) {
        let image = self.log.image().clone();
        let end_offset = end_offset(&image);
        let kraft_version = self.kraft_version();
        self.active.appended(image, kraft_version, end_offset);
    }

    fn change_since(&self, before: Arc<MetadataImage>) -> MetadataChange {
        MetadataChange {
            delta: MetadataDelta::new(before, self.log.image().clone()),
            kraft_version: self.kraft_version(),
        }
    }

    fn kraft_version(&self) -> i16 {
        self.log.describe_quorum(now_ms()).kraft_version
    }

    /// The answer to what the metadata log does not take.
    fn refused(&self, error: &AppendMetadataError) -> ErrorCode {
        tracing::error!(%error, "the metadata log takes no records");
        if self.log.has_failed() {
            (self.halt)("the metadata log has failed".to_owned());
        }
        ErrorCode::KafkaStorageError
    }

    /// Writes a snapshot when enough has been appended, or long enough ago.
    fn snapshot_if_due(&mut self) {
        let Some(job) = self.log.snapshot_due(now_ms()) else {
            return;
        };
        let written = job.run(now_ms());
        let done = self.log.complete_snapshot(written, now_ms());
        if let Err(error) = done {
            tracing::warn!(%error, "a snapshot of the metadata cannot be written");
        }
    }
}
