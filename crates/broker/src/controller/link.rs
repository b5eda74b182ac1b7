//! The way to the controller: requests as values, answered once this broker serves what was decided.

use super::metadata_loader::{MetadataLoader, Waiting};
use controller::metadata_log::{AppendMetadataError, QuorumDescription};
use controller::{ControllerRequest, Request};
use model::ErrorCode;
use tokio::sync::{mpsc, oneshot};

/// Requests that wait for the controller at most.
const QUEUE_LENGTH: usize = 1024;

/// What the controller's thread is asked.
pub(crate) enum Message {
    /// To decide.
    Request(ControllerRequest, Waiting),
    /// How the quorum is.
    DescribeQuorum(oneshot::Sender<QuorumDescription>),
    /// To say when this broker serves all that was decided before.
    Settle(oneshot::Sender<()>),
    /// To close the metadata log, the last that it does.
    Close(oneshot::Sender<Result<(), AppendMetadataError>>),
    /// Something that no other broker could ask for.
    #[cfg(test)]
    Test(Box<dyn FnOnce(&mut super::controller_thread::ControllerThread) + Send>),
}

/// Where the controller is reached.
#[derive(Debug, Clone)]
pub(crate) struct ControllerLink {
    messages: mpsc::Sender<Message>,
    loader: MetadataLoader,
}

/// The other end of a [`ControllerLink`].
pub(super) type Messages = mpsc::Receiver<Message>;

impl ControllerLink {
    /// A link to a controller that has yet to be started.
    pub(super) fn new(loader: MetadataLoader) -> (Self, Messages) {
        let (messages, receiver) = mpsc::channel(QUEUE_LENGTH);
        (Self { messages, loader }, receiver)
    }

    /// Lets the controller decide, and waits until this broker serves what was decided.
    ///
    /// # Errors
    /// Why nothing was decided: `NotController` when there is no controller any more,
    /// `KafkaStorageError` when its log takes no records.
    pub(crate) async fn request<R: Request>(&self, request: R) -> Result<R::Response, ErrorCode> {
        let (waiting, answered) = oneshot::channel();
        self.send(Message::Request(request.into(), waiting)).await?;
        let response = answered.await.map_err(|_| ErrorCode::NotController)??;
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
        self.send(Message::DescribeQuorum(answer)).await?;
        answered.await.map_err(|_| ErrorCode::NotController)
    }

    /// Waits until this broker serves all that was asked before, whoever has asked.
    ///
    /// # Errors
    /// `NotController` when there is no controller any more.
    pub(crate) async fn settle(&self) -> Result<(), ErrorCode> {
        let (answer, answered) = oneshot::channel();
        self.send(Message::Settle(answer)).await?;
        answered.await.map_err(|_| ErrorCode::NotController)
    }

    /// Closes the metadata log, when all that was asked before is decided.
    ///
    /// # Errors
    /// `NotController` when there is no controller any more; within, why the log is not shut down
    /// cleanly.
    pub(crate) async fn close(&self) -> Result<Result<(), AppendMetadataError>, ErrorCode> {
        let (answer, answered) = oneshot::channel();
        self.send(Message::Close(answer)).await?;
        answered.await.map_err(|_| ErrorCode::NotController)
    }

    /// Lets every publisher try again what it could not do, after all that is published before.
    pub(crate) fn revisit(&self) {
        self.loader.revisit();
    }

    async fn send(&self, message: Message) -> Result<(), ErrorCode> {
        let sent = self.messages.send(message).await;
        sent.map_err(|_| ErrorCode::NotController)
    }

    /// How many messages wait for the one that the thread is at.
    #[cfg(test)]
    pub(crate) fn queued_count(&self) -> usize {
        self.messages.max_capacity() - self.messages.capacity()
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
