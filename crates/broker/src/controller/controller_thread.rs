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
use super::metadata_loader::{self, MetadataLoader, MetadataPublisher, Tasks, Waiting};
use crate::scheduling::clock::{now, now_ms, random_bytes};
use config::ServerConfig;
use controller::metadata_log::AppendMetadataError;
use controller::{Controller, ControllerContext, ControllerRequest};
use model::ErrorCode;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// What the thread owns.
pub(crate) struct ControllerThread {
    /// What decides, and writes the metadata log.
    pub(crate) controller: Controller<Waiting>,
    loader: MetadataLoader,
    config: ServerConfig,
    halt: Halt,
    /// After so many requests one is refused as if its records had found no room.
    #[cfg(test)]
    pub(crate) requests_before_refusal: Option<u32>,
}

/// Ends the process, for a reason that is logged.
type Halt = Arc<dyn Fn(String) + Send + Sync>;

/// A controller that is to be started when the rest of the broker is there.
pub(crate) struct Unstarted {
    messages: Messages,
    tasks: Tasks,
    loader: MetadataLoader,
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
    let (loader, tasks) = MetadataLoader::new();
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
    pub(crate) fn start(
        self,
        controller: Controller<Waiting>,
        with: ControllerParts,
    ) -> std::io::Result<()> {
        let ControllerParts {
            config,
            publishers,
            halt,
        } = with;
        let image = controller.log.image().clone();
        let halt_loader = halt.clone();
        let halt_loader = move |reason| halt_loader(reason);
        metadata_loader::start(self.tasks, image, publishers, halt_loader)?;
        let mut thread = ControllerThread {
            controller,
            loader: self.loader,
            config,
            halt,
            #[cfg(test)]
            requests_before_refusal: None,
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

impl ControllerThread {
    fn receive(&mut self, message: Message) {
        match message {
            Message::Request(request, waiting) => self.decide(&request, waiting),
            Message::DescribeQuorum(answer) => {
                let _ = answer.send(self.controller.log.describe_quorum(now()));
            }
            Message::Settle(answer) => self.loader.run(move || {
                let _ = answer.send(());
            }),
            Message::Close(answer) => {
                let _ = answer.send(self.controller.log.close(now_ms()));
            }
            #[cfg(test)]
            Message::Test(test) => {
                test(self);
                self.controller.follow_log();
            }
        }
    }

    fn decide(&mut self, request: &ControllerRequest, waiting: Waiting) {
        #[cfg(test)]
        if self.is_refused() {
            let _ = waiting.send(Err(ErrorCode::KafkaStorageError));
            return;
        }
        let context = ControllerContext::new(&self.config);
        let random = &mut random_bytes;
        let controller = &mut self.controller;
        let decided = controller.decide(request, waiting, &context, now(), random);
        match decided.change {
            Some(change) => self.loader.load(change, decided.answers),
            None => self.loader.answer(decided.answers),
        }
        match decided.refused {
            Some((waiting, error)) => {
                let code = self.refused(&error);
                if let Some(waiting) = waiting {
                    drop(waiting.send(Err(code)));
                }
            }
            None => self.snapshot_if_due(),
        }
    }

    /// Whether a test wants this request refused.
    #[cfg(test)]
    fn is_refused(&mut self) -> bool {
        let left = self.requests_before_refusal;
        self.requests_before_refusal = left.and_then(|left| left.checked_sub(1));
        left == Some(0)
    }

    /// The answer to what the metadata log does not take.
    fn refused(&self, error: &AppendMetadataError) -> ErrorCode {
        tracing::error!(%error, "the metadata log takes no records");
        if self.controller.log.has_failed() {
            (self.halt)("the metadata log has failed".to_owned());
        }
        ErrorCode::KafkaStorageError
    }

    /// Writes a snapshot when enough has been appended, or long enough ago.
    fn snapshot_if_due(&mut self) {
        let log = &mut self.controller.log;
        let Some(job) = log.snapshot_due(now_ms()) else {
            return;
        };
        let written = job.run(now_ms());
        let done = log.complete_snapshot(written, now_ms());
        if let Err(error) = done {
            tracing::warn!(%error, "a snapshot of the metadata cannot be written");
        }
    }
}
