//! How answers of coordinators leave: to a handler that waits, to one that has left, or to nobody.

use crate::coordinators::threads::CoordinatorThreads;
use coordinator::runtime::{Asker, CoordinatorShard, Waiter};
use model::ErrorCode;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// An answer that has been asked for.
#[derive(Debug)]
pub(crate) enum PendingResponse<R> {
    /// It was given at once.
    Answered(Result<R, ErrorCode>),
    /// It comes when it may leave.
    Asked {
        receiver: oneshot::Receiver<Result<R, ErrorCode>>,
        /// Those who answer.
        threads: Arc<CoordinatorThreads>,
    },
}

impl<R> PendingResponse<R> {
    /// The answer, when it may leave.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn answer(self) -> Result<R, ErrorCode> {
        match self {
            Self::Answered(answer) => answer,
            Self::Asked { receiver, threads } => {
                let answer = receiver.await;
                answer.unwrap_or_else(|_| Err(unanswered(&threads)))
            }
        }
    }

    /// The same, off the workers.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn wait(self) -> Result<R, ErrorCode> {
        match self {
            Self::Answered(answer) => answer,
            Self::Asked { receiver, threads } => {
                let answer = receiver.blocking_recv();
                answer.unwrap_or_else(|_| Err(unanswered(&threads)))
            }
        }
    }
}

/// What is said of a question that was dropped: nobody is left to answer when the server stops; before that it
/// was lost by a mistake, and nobody knows what has become of it.
pub(super) fn unanswered(threads: &CoordinatorThreads) -> ErrorCode {
    match threads.have_ended() {
        true => ErrorCode::NotCoordinator,
        false => ErrorCode::UnknownServerError,
    }
}

/// Nothing of the kind is ever parked.
pub(crate) fn unparked<R, P>(_: P) -> Result<R, ErrorCode> {
    Err(ErrorCode::UnknownServerError)
}

/// An answer with what it needs to leave.
pub(crate) struct ReadyResponse {
    leave: Box<dyn FnOnce(Option<ErrorCode>) + Send>,
    /// What is told instead.
    refusal: Option<ErrorCode>,
}

impl ReadyResponse {
    /// One that leaves by this call, which is given the error that is told instead.
    pub(crate) fn new(leave: impl FnOnce(Option<ErrorCode>) + Send + 'static) -> Self {
        Self {
            leave: Box::new(leave),
            refusal: None,
        }
    }

    /// Leaves.
    pub(crate) fn leave(self) {
        (self.leave)(self.refusal);
    }

    /// Leaves with this error instead.
    pub(crate) fn refuse(self, error: ErrorCode) {
        (self.leave)(Some(error));
    }
}

/// Who waits for others.
pub(crate) struct Parked<P>(Box<dyn FnOnce(Result<P, ErrorCode>) -> ReadyResponse + Send>);

impl<S: CoordinatorShard> Waiter<S> for Parked<S::Response> {
    type Answer = ReadyResponse;

    fn released(self, response: S::Response) -> ReadyResponse {
        (self.0)(Ok(response))
    }

    fn abandoned(self, error: ErrorCode) -> ReadyResponse {
        (self.0)(Err(error))
    }

    fn refused(answer: ReadyResponse, error: ErrorCode) -> ReadyResponse {
        ReadyResponse {
            refusal: Some(error),
            ..answer
        }
    }
}

/// A handler that waits, or has left.
pub(crate) struct OneAsker<R, P> {
    sender: oneshot::Sender<Result<R, ErrorCode>>,
    released: fn(P) -> Result<R, ErrorCode>,
    /// What it has brought and will be told takes this much.
    room: Option<OwnedSemaphorePermit>,
}

impl<R: Send + 'static, P> OneAsker<R, P> {
    /// One whose request has taken some room, and what its handler waits for.
    pub(super) fn new(
        released: fn(P) -> Result<R, ErrorCode>,
        room: Option<OwnedSemaphorePermit>,
        threads: Arc<CoordinatorThreads>,
    ) -> (Self, PendingResponse<R>) {
        let (sender, receiver) = oneshot::channel();
        let asker = Self {
            sender,
            released,
            room,
        };
        (asker, PendingResponse::Asked { receiver, threads })
    }

    /// The same without its room, which goes to who is to keep it.
    pub(crate) fn without_room(mut self) -> (Self, Option<OwnedSemaphorePermit>) {
        let room = self.room.take();
        (self, room)
    }

    /// Leaves with this outcome.
    pub(crate) fn with(self, outcome: Result<R, ErrorCode>) -> ReadyResponse {
        let Self { sender, room, .. } = self;
        ReadyResponse::new(move |refusal| {
            drop(room);
            // Nobody listens any more when the connection is gone.
            let _ = sender.send(refusal.map_or(outcome, Err));
        })
    }
}

impl<S, R> Asker<S, R, Parked<S::Response>> for OneAsker<R, S::Response>
where
    S: CoordinatorShard<Response: 'static>,
    R: Send + 'static,
{
    fn answered(self, outcome: Result<(&S, R), ErrorCode>) -> ReadyResponse {
        self.with(outcome.map(|(_, answer)| answer))
    }

    fn parked(self) -> Parked<S::Response> {
        let (sender, released) = (self.sender, self.released);
        Parked(Box::new(move |response| {
            let asker = Self {
                sender,
                released,
                room: None,
            };
            asker.with(response.and_then(released))
        }))
    }
}

/// Nobody waits for what becomes of it.
pub(crate) struct Nobody;

impl<S: CoordinatorShard, R> Asker<S, R, Parked<S::Response>> for Nobody {
    fn answered(self, _: Result<(&S, R), ErrorCode>) -> ReadyResponse {
        ReadyResponse::new(|_| {})
    }

    fn parked(self) -> Parked<S::Response> {
        Parked(Box::new(|_| ReadyResponse::new(|_| {})))
    }
}
