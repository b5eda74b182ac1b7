//! The way to the controller: requests as values. That of this process answers once this broker serves what was
//! decided; one of another process as soon as it has decided. And what other nodes ask of the metadata log, which waits
//! for one decision at most, however many wait to be made.

use super::metadata_loader::{AnswerWhen, MetadataLoader, Waiting};
use crate::scheduling::clock::monotonic;
use controller::metadata_log::{AppendMetadataError, QuorumDescription};
use controller::{BrokerContacts, ControllerRequest, ControllerResponse, Request};
use model::{BrokerEpoch, BrokerId, ErrorCode, Offset};
use raft::{FetchAnswer, FetchRequest, Replica};
use std::fmt;
use std::fs::File;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use storage::RealDisk;
use tokio::sync::{mpsc, oneshot, watch};

/// Requests that wait for the controller at most, and so many questions.
const QUEUE_LENGTH: usize = 1024;

/// What the controller's thread is asked.
pub(crate) enum Message {
    /// To decide.
    Request(ControllerRequest, Waiting),
    /// To look for questions.
    Questions,
    /// To take note of a snapshot that has been written.
    SnapshotWritten,
    /// To say when this broker serves all that was decided before.
    Settle(oneshot::Sender<()>),
    /// To close the metadata log, the last that it does.
    Close(oneshot::Sender<Result<raft::Closed, AppendMetadataError>>),
    /// Something that no other broker could ask for.
    #[cfg(test)]
    Test(Box<dyn FnOnce(&mut super::controller_thread::ControllerThread) + Send>),
}

/// What the controller's thread is asked of the quorum's log, between two decisions: that takes little time, and nodes
/// that are not answered in time are cut off from the metadata.
pub(super) enum Question {
    /// How the quorum is.
    Describe(oneshot::Sender<QuorumDescription>),
    /// For a part of the metadata log.
    Fetch(FetchRequest, oneshot::Sender<FetchAnswer<File>>),
    /// Something that changes nothing.
    Ask(QuorumQuestion),
}

/// What is made of the quorum's log.
type QuorumQuestion = Box<dyn FnOnce(&Replica<RealDisk>) + Send>;

/// Where the controller is reached.
#[derive(Debug, Clone)]
pub(crate) struct ControllerLink {
    way: Way,
    loader: MetadataLoader,
}

/// Where the controller of this process is reached.
#[derive(Debug, Clone)]
struct LocalController {
    messages: mpsc::Sender<Message>,
    questions: mpsc::Sender<Question>,
    answers: AnswerWhen,
    /// The end of what is committed.
    high_watermark: watch::Receiver<Offset>,
    /// Where heartbeats are noted; known once there is a controller.
    contacts: Arc<OnceLock<BrokerContacts>>,
}

/// What the controller's thread has of its link.
pub(super) struct LinkEnd {
    pub(super) messages: Messages,
    pub(super) questions: mpsc::Receiver<Question>,
    pub(super) high_watermark: watch::Sender<Offset>,
    pub(super) contacts: Arc<OnceLock<BrokerContacts>>,
    /// By which the thread is told of what it has others do; it does not keep the link.
    pub(super) own: mpsc::WeakSender<Message>,
}

#[derive(Debug, Clone)]
enum Way {
    /// To the thread of this process.
    Local(LocalController),
    /// To another process.
    Remote(Arc<dyn RemoteController>),
    /// To nobody who decides.
    Refusing(ErrorCode),
}

/// What will be known later.
pub(crate) type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The controller of another process, for what a broker asks by itself. What clients ask the controller is
/// forwarded to it before.
pub(crate) trait RemoteController: fmt::Debug + Send + Sync {
    /// Lets the controller decide.
    fn request(
        &self,
        request: ControllerRequest,
    ) -> Later<'_, Result<ControllerResponse, ErrorCode>>;

    /// Closes the metadata log of this node.
    fn close(&self) -> Later<'_, Result<Result<raft::Closed, AppendMetadataError>, ErrorCode>>;
}

/// The other end of a [`ControllerLink`].
pub(super) type Messages = mpsc::Receiver<Message>;

impl ControllerLink {
    /// A link to a controller that has yet to be started.
    pub(super) fn new(loader: MetadataLoader) -> (Self, LinkEnd) {
        let (messages, receiver) = mpsc::channel(QUEUE_LENGTH);
        let (questions, asked) = mpsc::channel(QUEUE_LENGTH);
        let (progress, high_watermark) = watch::channel(Offset::ZERO);
        let contacts = Arc::new(OnceLock::new());
        let end = LinkEnd {
            messages: receiver,
            questions: asked,
            high_watermark: progress,
            contacts: contacts.clone(),
            own: messages.downgrade(),
        };
        let way = Way::Local(LocalController {
            messages,
            questions,
            answers: AnswerWhen::Served,
            high_watermark,
            contacts,
        });
        (Self { way, loader }, end)
    }

    /// A link to the controller of another process; what that has decided comes by `loader`.
    pub(crate) fn remote(controller: Arc<dyn RemoteController>, loader: MetadataLoader) -> Self {
        let way = Way::Remote(controller);
        Self { way, loader }
    }

    /// Whether the controller is another node.
    pub(crate) const fn is_remote(&self) -> bool {
        matches!(self.way, Way::Remote(_))
    }

    /// A link like another one, by which nothing is decided, for this reason.
    pub(crate) fn refusing(other: &Self, code: ErrorCode) -> Self {
        let (way, loader) = (Way::Refusing(code), other.loader.clone());
        Self { way, loader }
    }

    /// The link for those who do not wait until this broker serves what was decided.
    pub(crate) fn for_others(&self) -> Self {
        let mut link = self.clone();
        if let Way::Local(local) = &mut link.way {
            local.answers = AnswerWhen::Committed;
        }
        link
    }

    /// Lets the controller decide, and waits until this broker serves what was decided.
    ///
    /// # Errors
    /// Why nothing was decided: `NotController` when there is no controller any more,
    /// `KafkaStorageError` when its log takes no records.
    pub(crate) async fn request<R: Request>(&self, request: R) -> Result<R::Response, ErrorCode> {
        let response = match &self.way {
            Way::Local(local) => {
                let (waiting, answered) = Waiting::new(local.answers);
                let message = Message::Request(request.into(), waiting);
                let sent = local.messages.send(message).await;
                sent.map_err(|_| ErrorCode::NotController)?;
                answered.await.map_err(|_| ErrorCode::NotController)??
            }
            Way::Remote(controller) => controller.request(request.into()).await?,
            Way::Refusing(code) => return Err(*code),
        };
        R::response_of(response).ok_or(ErrorCode::UnknownServerError)
    }

    /// [`Self::request`], unless the client gives it no time at all.
    ///
    /// # Errors
    /// The same, and `RequestTimedOut`.
    pub(crate) async fn request_within<R: Request>(
        &self,
        timeout_ms: i32,
        request: R,
    ) -> Result<R::Response, ErrorCode> {
        match timeout_ms {
            ..=0 => Err(ErrorCode::RequestTimedOut),
            _ => self.request(request).await,
        }
    }

    /// The quorum of the metadata log.
    ///
    /// # Errors
    /// `NotController` when there is no controller any more.
    pub(crate) async fn describe_quorum(&self) -> Result<QuorumDescription, ErrorCode> {
        let (answer, answered) = oneshot::channel();
        self.ask(Question::Describe(answer)).await?;
        answered.await.map_err(|_| ErrorCode::NotController)
    }

    /// A part of the metadata log, for another node.
    ///
    /// # Errors
    /// `NotController` when there is no controller here.
    pub(crate) async fn fetch(
        &self,
        request: FetchRequest,
    ) -> Result<FetchAnswer<File>, ErrorCode> {
        let (answer, answered) = oneshot::channel();
        self.ask(Question::Fetch(request, answer)).await?;
        answered.await.map_err(|_| ErrorCode::NotController)
    }

    /// What `ask` makes of the quorum's log.
    ///
    /// # Errors
    /// `NotController` when there is no controller here.
    pub(crate) async fn ask_quorum<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&Replica<RealDisk>) -> R + Send + 'static,
    ) -> Result<R, ErrorCode> {
        let (answer, answered) = oneshot::channel();
        let ask = move |replica: &Replica<RealDisk>| {
            let _ = answer.send(ask(replica));
        };
        self.ask(Question::Ask(Box::new(ask))).await?;
        answered.await.map_err(|_| ErrorCode::NotController)
    }

    /// The end of what is committed of the metadata log, as it grows.
    ///
    /// # Errors
    /// `NotController` when there is no controller here.
    pub(crate) fn high_watermark(&self) -> Result<watch::Receiver<Offset>, ErrorCode> {
        match &self.way {
            Way::Local(local) => Ok(local.high_watermark.clone()),
            Way::Remote(_) | Way::Refusing(_) => Err(ErrorCode::NotController),
        }
    }

    /// Notes that a broker is heard of, before its heartbeat waits for its turn.
    pub(crate) fn note_contact(&self, broker_id: BrokerId, broker_epoch: BrokerEpoch) {
        if let Way::Local(local) = &self.way
            && let Some(contacts) = local.contacts.get()
        {
            contacts.note(broker_id, broker_epoch, monotonic());
        }
    }

    /// Waits until this broker serves all that was asked before, whoever has asked.
    ///
    /// # Errors
    /// `NotController` when there is no controller any more.
    pub(crate) async fn settle(&self) -> Result<(), ErrorCode> {
        let (answer, answered) = oneshot::channel();
        match &self.way {
            Way::Local(_) => self.send(Message::Settle(answer)).await?,
            Way::Remote(_) | Way::Refusing(_) => self.loader.run(move || {
                let _ = answer.send(());
            }),
        }
        answered.await.map_err(|_| ErrorCode::NotController)
    }

    /// Closes the metadata log, when all that was asked before is decided.
    ///
    /// # Errors
    /// `NotController` when there is no controller any more; within, why the log is not shut down
    /// cleanly.
    pub(crate) async fn close(
        &self,
    ) -> Result<Result<raft::Closed, AppendMetadataError>, ErrorCode> {
        if let Way::Remote(controller) = &self.way {
            return controller.close().await;
        }
        let (answer, answered) = oneshot::channel();
        self.send(Message::Close(answer)).await?;
        answered.await.map_err(|_| ErrorCode::NotController)
    }

    /// Lets every publisher try again what it could not do, after all that is published before.
    pub(crate) fn revisit(&self) {
        self.loader.revisit();
    }

    async fn send(&self, message: Message) -> Result<(), ErrorCode> {
        let sent = self.local()?.messages.send(message).await;
        sent.map_err(|_| ErrorCode::NotController)
    }

    async fn ask(&self, question: Question) -> Result<(), ErrorCode> {
        let local = self.local()?;
        let sent = local.questions.send(question).await;
        sent.map_err(|_| ErrorCode::NotController)?;
        // Where there is no room, the thread has messages before which it looks for questions.
        let _ = local.messages.try_send(Message::Questions);
        Ok(())
    }

    fn local(&self) -> Result<&LocalController, ErrorCode> {
        match &self.way {
            Way::Local(local) => Ok(local),
            Way::Remote(_) => Err(ErrorCode::NotController),
            Way::Refusing(code) => Err(*code),
        }
    }

    /// How many messages wait for the one that the thread is at.
    #[cfg(test)]
    pub(crate) fn queued_count(&self) -> usize {
        match &self.way {
            Way::Local(local) => local.messages.max_capacity() - local.messages.capacity(),
            Way::Remote(_) | Way::Refusing(_) => 0,
        }
    }

    /// How many tasks wait for the one that the metadata loader is at.
    #[cfg(test)]
    pub(crate) fn loading_count(&self) -> usize {
        self.loader.queued_count()
    }

    /// Runs `call` on the thread of the metadata loader.
    #[cfg(test)]
    pub(crate) fn run_in_loader(&self, call: impl FnOnce() + Send + 'static) {
        self.loader.run(call);
    }

    /// Runs `call` on the controller's thread.
    #[cfg(test)]
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut super::controller_thread::ControllerThread) -> R + Send + 'static,
    ) -> Result<R, ErrorCode> {
        let (answer, answered) = oneshot::channel();
        let test = move |thread: &mut super::controller_thread::ControllerThread| {
            let _ = answer.send(call(thread));
        };
        self.send(Message::Test(Box::new(test))).await?;
        answered.await.map_err(|_| ErrorCode::NotController)
    }
}
