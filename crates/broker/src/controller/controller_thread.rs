//! The thread of the active controller: decides, appends, and hands on what is committed.
//!
//! ```text
//!   link ── requests that wait ──> decide, one after the other ──> append to __cluster_metadata, one sync
//!     <── answer ── metadata_loader <── change ──────────────────────┘
//!     <── answer to another node ────────────────────────────────────┘
//!   time ── what is due ──> the same way
//!   link ── questions about the metadata log ──> answered before the next decision
//! ```
//!
//! One decision follows the other, so each is made over the image that the one before has left. What waits
//! shares a sync. The thread knows no partition and waits for no log directory but that of the metadata log.

use super::broker_log::log_transition;
use super::link::{ControllerLink, LinkEnd, Message, Messages, Question};
use super::metadata_loader::{self, AnswerWhen, MetadataLoader, MetadataPublisher, Tasks, Waiting};
use super::snapshot_writer::SnapshotWriter;
use crate::scheduling::clock::{now, now_ms, random_bytes};
use crate::scheduling::timed_receive::{Received, receive_until};
use config::ServerConfig;
use controller::metadata_log::AppendMetadataError;
use controller::{Controller, ControllerContext, ControllerRequest, Decided};
use model::{ErrorCode, Offset};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// So many messages share a sync at most, and no longer are those before kept from it.
const GROUP_MAX: usize = 256;
const GROUP_TIME: Duration = Duration::from_millis(5);
/// So many questions are answered before the next decision at most.
const QUESTIONS_AT_ONCE: usize = 64;

/// What the thread owns.
pub(crate) struct ControllerThread {
    /// What decides, and writes the metadata log.
    pub(crate) controller: Controller<Waiting>,
    loader: MetadataLoader,
    config: ServerConfig,
    halt: Halt,
    high_watermark: watch::Sender<Offset>,
    questions: mpsc::Receiver<Question>,
    snapshots: SnapshotWriter,
    /// Whether the metadata log has been closed: what comes afterwards is for another controller.
    is_closed: bool,
    /// After so many requests one is refused as if its records had found no room.
    #[cfg(test)]
    pub(crate) requests_before_refusal: Option<u32>,
}

/// Ends the process, for a reason that is logged.
type Halt = Arc<dyn Fn(String) + Send + Sync>;

/// A controller that is to be started when the rest of the broker is there.
pub(crate) struct Unstarted {
    link: LinkEnd,
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
    let (link, end) = ControllerLink::new(loader.clone());
    let unstarted = Unstarted {
        link: end,
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
        let LinkEnd {
            mut messages,
            questions,
            high_watermark,
            contacts,
            own,
        } = self.link;
        let _ = contacts.set(controller.contacts());
        let mut thread = ControllerThread {
            controller,
            loader: self.loader,
            config,
            halt,
            high_watermark,
            questions,
            snapshots: SnapshotWriter::new(own),
            is_closed: false,
            #[cfg(test)]
            requests_before_refusal: None,
        };
        let work = move || {
            loop {
                // A decision that panics has broken an invariant: nothing it left can be trusted.
                let round = AssertUnwindSafe(|| thread.round(&mut messages));
                match std::panic::catch_unwind(round) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(_) => {
                        let reason = "the controller has failed and decides no more";
                        return (thread.halt)(reason.to_owned());
                    }
                }
            }
        };
        let builder = std::thread::Builder::new().name("controller".into());
        builder.spawn(work).map(drop)
    }
}

impl ControllerThread {
    /// Receives what waits, which shares a flush, and does what is due; returns whether there may be more.
    fn round(&mut self, messages: &mut Messages) -> bool {
        self.tell_progress();
        // The registration of this node's own broker is decided before the thread runs.
        self.log_transitions();
        match receive_until(messages, self.controller.next_tick()) {
            Received::Message(first) => self.receive_group(first, messages),
            Received::Nothing => {}
            Received::End => {
                self.snapshots.finish(&mut self.controller.log);
                return false;
            }
        }
        if self.is_closed {
            return true;
        }
        let context = ControllerContext::new(&self.config);
        if let Some(decided) = self.controller.tick(&context, now()) {
            self.hand_on(decided);
        }
        self.snapshots.begin_if_due(&mut self.controller.log);
        true
    }

    fn receive_group(&mut self, first: Message, messages: &mut Messages) {
        let since = Instant::now();
        self.receive(first);
        for _ in 1..GROUP_MAX {
            if since.elapsed() >= GROUP_TIME {
                break;
            }
            let Ok(message) = messages.try_recv() else {
                break;
            };
            self.receive(message);
        }
        self.flush();
    }

    fn receive(&mut self, message: Message) {
        self.answer_questions();
        match message {
            Message::Request(request, waiting) => self.stage(&request, waiting),
            Message::Questions => {}
            Message::SnapshotWritten => self.snapshots.finish(&mut self.controller.log),
            Message::Settle(answer) => {
                self.flush();
                self.loader.run(move || {
                    let _ = answer.send(());
                });
            }
            Message::Close(answer) => {
                self.flush();
                self.snapshots.finish(&mut self.controller.log);
                self.is_closed = true;
                let _ = answer.send(self.controller.log.close(now_ms()));
            }
            #[cfg(test)]
            Message::Test(test) => {
                self.flush();
                test(self);
                self.controller.follow_log();
            }
        }
    }

    fn answer_questions(&mut self) {
        let log = &mut self.controller.log;
        for _ in 0..QUESTIONS_AT_ONCE {
            match self.questions.try_recv() {
                Ok(Question::Describe(answer)) => {
                    let _ = answer.send(log.describe_quorum(now()));
                }
                Ok(Question::Fetch(request, answer)) => {
                    let _ = answer.send(log.handle_fetch(&request, now()));
                }
                Ok(Question::Ask(ask)) => ask(log.replica()),
                Err(_) => return,
            }
        }
    }

    /// Decides; what is decided takes effect with the next flush.
    fn stage(&mut self, request: &ControllerRequest, waiting: Waiting) {
        if self.is_closed {
            waiting.answer(Err(ErrorCode::NotController));
            return;
        }
        #[cfg(test)]
        if self.is_refused() {
            waiting.answer(Err(ErrorCode::KafkaStorageError));
            return;
        }
        let context = ControllerContext::new(&self.config);
        let controller = &mut self.controller;
        controller.stage(request, waiting, &context, now(), &mut random_bytes);
    }

    fn flush(&mut self) {
        let decided = self.controller.flush(now());
        self.hand_on(decided);
    }

    /// Tells everybody what is committed, and whoever has asked what has come of it.
    fn hand_on(&mut self, decided: Decided<Waiting>) {
        self.tell_progress();
        self.log_transitions();
        let mut answers = Vec::with_capacity(decided.answers.len());
        for (waiting, response) in decided.answers {
            match waiting.when {
                AnswerWhen::Committed => waiting.answer(Ok(response)),
                AnswerWhen::Served => answers.push((waiting, response)),
            }
        }
        match decided.change {
            Some(change) => self.loader.load(change, answers),
            None => self.loader.answer(answers),
        }
        for refused in decided.refused {
            let code = self.refused(&refused.error);
            let askers = refused.askers.into_iter();
            askers.for_each(|waiting| waiting.answer(Err(code)));
        }
    }

    /// Logs what brokers have gone through since the last time.
    fn log_transitions(&mut self) {
        let session_timeout_ms = self.config.controller.tasks.broker_session_timeout_ms;
        for transition in self.controller.take_transitions() {
            log_transition(&transition, session_timeout_ms);
        }
    }

    /// Wakes those who wait for the metadata log to go on.
    fn tell_progress(&self) {
        let high_watermark = self.controller.log.replica().high_watermark();
        let is_news = |told: &mut Offset| {
            let is_news = *told != high_watermark;
            *told = high_watermark;
            is_news
        };
        self.high_watermark.send_if_modified(is_news);
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
        if let AppendMetadataError::TooLarge { .. } = error {
            tracing::warn!(%error, "a request is refused");
            return ErrorCode::RecordListTooLarge;
        }
        tracing::error!(%error, "the metadata log takes no records");
        if self.controller.log.has_failed() {
            (self.halt)("the metadata log has failed".to_owned());
        }
        ErrorCode::KafkaStorageError
    }
}
