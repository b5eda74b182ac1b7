//! The way to the controller: requests as values. That of this process answers once this broker serves what was
//! decided; one of another process as soon as it has decided.

use super::metadata_loader::{MetadataLoader, Waiting};
use controller::metadata_log::{AppendMetadataError, QuorumDescription};
use controller::{ControllerRequest, ControllerResponse, Request};
use model::ErrorCode;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
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
    way: Way,
    loader: MetadataLoader,
}

#[derive(Debug, Clone)]
enum Way {
    /// To the thread of this process.
    Local(mpsc::Sender<Message>),
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
    fn close(&self) -> Later<'_, Result<Result<(), AppendMetadataError>, ErrorCode>>;
}

/// The other end of a [`ControllerLink`].
pub(super) type Messages = mpsc::Receiver<Message>;

impl ControllerLink {
    /// A link to a controller that has yet to be started.
    pub(super) fn new(loader: MetadataLoader) -> (Self, Messages) {
        let (messages, receiver) = mpsc::channel(QUEUE_LENGTH);
        let way = Way::Local(messages);
        (Self { way, loader }, receiver)
    }

    /// A link to the controller of another process; what that has decided comes by `loader`.
    pub(crate) fn remote(controller: Arc<dyn RemoteController>, loader: MetadataLoader) -> Self {
        let way = Way::Remote(controller);
        Self { way, loader }
    }

    /// A link like another one, by which nothing is decided, for this reason.
    pub(crate) fn refusing(other: &Self, code: ErrorCode) -> Self {
        let (way, loader) = (Way::Refusing(code), other.loader.clone());
        Self { way, loader }
    }

    /// Lets the controller decide, and waits until this broker serves what was decided.
    ///
    /// # Errors
    /// Why nothing was decided: `NotController` when there is no controller any more,
    /// `KafkaStorageError` when its log takes no records.
    pub(crate) async fn request<R: Request>(&self, request: R) -> Result<R::Response, ErrorCode> {
        let response = match &self.way {
            Way::Local(messages) => {
                let (waiting, answered) = oneshot::channel();
                let message = Message::Request(request.into(), waiting);
                let sent = messages.send(message).await;
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
        self.send(Message::DescribeQuorum(answer)).await?;
        answered.await.map_err(|_| ErrorCode::NotController)
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
    pub(crate) async fn close(&self) -> Result<Result<(), AppendMetadataError>, ErrorCode> {
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
        let messages = match &self.way {
            Way::Local(messages) => messages,
            Way::Remote(_) => return Err(ErrorCode::NotController),
            Way::Refusing(code) => return Err(*code),
        };
        let sent = messages.send(message).await;
        sent.map_err(|_| ErrorCode::NotController)
    }

    /// How many messages wait for the one that the thread is at.
    #[cfg(test)]
    pub(crate) fn queued_count(&self) -> usize {
        match &self.way {
            Way::Local(messages) => messages.max_capacity() - messages.capacity(),
            Way::Remote(_) | Way::Refusing(_) => 0,
        }
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
