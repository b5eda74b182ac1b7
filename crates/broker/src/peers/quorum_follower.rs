//! The thread that follows the quorum: asks it for its log, and hands on what is committed.
//!
//! ```text
//!   ObservedMetadataLog ── request ──> leader, or anyone who may know it ── answer ──┐
//!        ▲     └── change ──> MetadataLoader, once somebody lives by the metadata     │
//!        └───────────────────────────────────────────────────────────────────────────┘
//!   told to others: the leader (`ControllerChannel` asks it), and how far the metadata go
//! ```
//!
//! It has a runtime of its own, of this one thread: nothing that requests do holds it up, and what its disk
//! does holds up no request. It ends when it is closed, or when nobody has its handle any more.

use super::connections::{PeerConnections, Purpose};
use super::endpoints::PeerNode;
use super::quorum_nodes::QuorumNodes;
use super::quorum_requests::{self, Fetcher};
use crate::controller::metadata_loader::MetadataLoader;
use crate::scheduling::clock::{monotonic, now, now_ms};
use crate::scheduling::log_rate_limit::LogRateLimit;
use connection::{Error, Response};
use controller::MetadataChange;
use controller::metadata_log::{AppendMetadataError, ObservedMetadataLog};
use metadata::MetadataImage;
use model::{ErrorCode, Offset};
use raft::{Answer, Recipient, Request};
use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// How far the metadata go that are here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FollowProgress {
    /// The offset of the last record.
    pub(crate) last_offset: Offset,
    /// Whether they are all that the leader had committed when it was last heard of.
    pub(crate) has_caught_up: bool,
    /// Whether the nodes that were asked belong to another cluster.
    pub(crate) is_foreign: bool,
    /// Why the quorum is followed no more.
    pub(crate) failure: Option<String>,
}

/// What a follower is started with.
pub(crate) struct FollowerParts {
    /// The log as it is.
    pub(crate) log: ObservedMetadataLog,
    /// Who asks.
    pub(crate) fetcher: Fetcher,
    /// Who may be asked.
    pub(crate) nodes: QuorumNodes,
    /// The listener by which controllers are reached.
    pub(crate) listener: String,
    /// Connections for this alone.
    pub(crate) connections: PeerConnections,
    /// Where changes go once somebody lives by the metadata.
    pub(crate) loader: MetadataLoader,
}

/// The follower, for others.
#[derive(Debug, Clone)]
pub(crate) struct QuorumFollower {
    messages: mpsc::UnboundedSender<Message>,
    progress: watch::Receiver<FollowProgress>,
    leader: watch::Receiver<Option<PeerNode>>,
}

enum Message {
    /// To give all that is committed as one change from the empty image.
    Begin(oneshot::Sender<MetadataChange>),
    /// To load all changes from then on.
    Live,
    /// To close the log, the last that it does.
    Close(oneshot::Sender<Result<raft::Closed, AppendMetadataError>>),
}

impl QuorumFollower {
    /// Starts the thread.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(parts: FollowerParts) -> io::Result<Self> {
        let (messages, received) = mpsc::unbounded_channel();
        let (progress, progress_seen) = watch::channel(FollowProgress {
            last_offset: parts.log.image().provenance.last_offset,
            ..FollowProgress::default()
        });
        let (leader, leader_seen) = watch::channel(None);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut thread = FollowerThread {
            parts,
            published: Arc::new(MetadataImage::default()),
            is_live: false,
            progress,
            leader,
            unreachable: LogRateLimit::once_a_minute(),
            refused: LogRateLimit::once_a_minute(),
        };
        let work = move || {
            // What a panic has left cannot be trusted.
            let following = AssertUnwindSafe(|| runtime.block_on(thread.follow(received)));
            if std::panic::catch_unwind(following).is_err() {
                thread.fail("the quorum can no longer be followed".to_owned());
            }
            runtime.shutdown_background();
        };
        let builder = std::thread::Builder::new().name("quorum-follower".into());
        builder.spawn(work)?;
        Ok(Self {
            messages,
            progress: progress_seen,
            leader: leader_seen,
        })
    }

    /// How far the metadata go; changes as they do.
    pub(crate) fn progress(&self) -> watch::Receiver<FollowProgress> {
        self.progress.clone()
    }

    /// Who leads the quorum, and is the active controller: as soon as that is known.
    pub(crate) fn leader(&self) -> watch::Receiver<Option<PeerNode>> {
        self.leader.clone()
    }

    /// All that is committed, as one change from the empty image; `None` when the follower has ended.
    pub(crate) async fn begin(&self) -> Option<MetadataChange> {
        let (answer, answered) = oneshot::channel();
        self.messages.send(Message::Begin(answer)).ok()?;
        answered.await.ok()
    }

    /// From now on whatever has changed since [`Self::begin`] goes to the loader.
    pub(crate) fn go_live(&self) {
        let _ = self.messages.send(Message::Live);
    }

    /// Closes the metadata log.
    ///
    /// # Errors
    /// `NotController` when the follower has ended; within, why the log is not shut down cleanly.
    pub(crate) async fn close(
        &self,
    ) -> Result<Result<raft::Closed, AppendMetadataError>, ErrorCode> {
        let (answer, answered) = oneshot::channel();
        let sent = self.messages.send(Message::Close(answer));
        sent.map_err(|_| ErrorCode::NotController)?;
        answered.await.map_err(|_| ErrorCode::NotController)
    }

    /// Waits until the quorum is followed no more, and gives the reason.
    pub(crate) async fn failed(&self) -> String {
        let mut progress = self.progress.clone();
        let failed = progress.wait_for(|progress| progress.failure.is_some());
        match failed.await.map(|progress| progress.failure.clone()) {
            Ok(Some(failure)) => failure,
            // It was closed.
            _ => std::future::pending().await,
        }
    }
}

/// A request that is on its way.
type Asking = Pin<Box<dyn Future<Output = (Request, Result<Response, Error>)> + Send>>;

struct FollowerThread {
    parts: FollowerParts,
    /// The image that everybody has who lives by the metadata.
    published: Arc<MetadataImage>,
    is_live: bool,
    progress: watch::Sender<FollowProgress>,
    leader: watch::Sender<Option<PeerNode>>,
    unreachable: LogRateLimit,
    refused: LogRateLimit,
}

impl FollowerThread {
    async fn follow(&mut self, mut messages: mpsc::UnboundedReceiver<Message>) {
        self.tell_leader();
        let mut asking: Option<Asking> = None;
        loop {
            if self.progress.borrow().failure.is_none()
                && let Some(request) = self.parts.log.poll_request(now())
            {
                // An answer to the one before would be of no use any more.
                asking = self.begin_asking(request);
            }
            let wait = self.wait();
            tokio::select! {
                biased;
                message = messages.recv() => match message.map(|message| self.handle(message)) {
                    Some(ControlFlow::Continue(())) => {}
                    Some(ControlFlow::Break(())) | None => return,
                },
                (request, outcome) = answered(&mut asking) => {
                    asking = None;
                    self.take_outcome(&request, outcome);
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// How long nothing is to be done but what others ask for.
    fn wait(&self) -> Duration {
        /// Whoever has failed waits for its end.
        const LONG_MS: i64 = 60_000;
        let deadline = self.parts.log.next_deadline();
        let deadline = deadline.filter(|_| self.progress.borrow().failure.is_none());
        let wait_ms = deadline.map_or(LONG_MS, |deadline| deadline.ms_since(monotonic()));
        Duration::from_millis(wait_ms.max(1).unsigned_abs())
    }

    fn handle(&mut self, message: Message) -> ControlFlow<()> {
        match message {
            Message::Begin(answer) => {
                let before = Arc::new(MetadataImage::default());
                let change = self.parts.log.change_since(before);
                self.published = change.delta.after.clone();
                let _ = answer.send(change);
            }
            Message::Live => {
                self.is_live = true;
                self.publish();
            }
            Message::Close(answer) => {
                let _ = answer.send(self.parts.log.close(now_ms()));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn begin_asking(&mut self, request: Request) -> Option<Asking> {
        let nodes = &mut self.parts.nodes;
        let node = match request.to {
            Recipient::Leader(id) => nodes.node(id),
            Recipient::Anyone => nodes.next(),
        };
        let Some(node) = node else {
            self.take_nothing(&request);
            return None;
        };
        let connections = self.parts.connections.clone();
        let fetcher = self.parts.fetcher.clone();
        Some(Box::pin(async move {
            let deadline = connections.deadline(Purpose::Quorum);
            let connected = connections.connection(&node, Purpose::Quorum, deadline);
            let outcome = match connected.await {
                Ok(connection) => fetcher.ask(&connection, &request, deadline).await,
                Err(error) => Err(error),
            };
            (request, outcome)
        }))
    }

    fn take_outcome(&mut self, request: &Request, outcome: Result<Response, Error>) {
        let read = outcome
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|response| quorum_requests::read(response, &request.wanted));
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                if let Some(not_logged) = self.unreachable.due() {
                    tracing::warn!(%error, not_logged, "the quorum cannot be followed for now");
                }
                return self.take_nothing(request);
            }
        };
        self.note_error(read.error, outcome.as_ref().ok());
        self.take(request, read.answer, read.leader);
    }

    fn take_nothing(&mut self, request: &Request) {
        self.take(request, Answer::Nothing, None);
    }

    /// Hands an answer to the log, and on what it brings. It may have told where the `leader` is reached.
    fn take(&mut self, request: &Request, answer: Answer<'_>, leader: Option<PeerNode>) {
        let parts = &mut self.parts;
        let taken = parts.log.handle_answer(request.number, answer, now());
        match taken {
            Ok(None) => {}
            Ok(Some(_)) => {
                self.publish();
                self.snapshot_if_due();
            }
            Err(error) if error.is_final() || self.parts.log.has_failed() => {
                self.fail(format!(
                    "the metadata of the quorum cannot be followed: {error}"
                ));
            }
            Err(error) => {
                if let Some(not_logged) = self.refused.due() {
                    tracing::error!(%error, not_logged, "an answer of the quorum is not valid; it is asked again");
                }
            }
        }
        self.learn_nodes(leader);
        self.tell_leader();
        self.tell_progress();
    }

    /// Takes note of where the leader is reached, if it is the one that is followed, and of where the voters are.
    fn learn_nodes(&mut self, leader: Option<PeerNode>) {
        let parts = &mut self.parts;
        let nodes = &mut parts.nodes;
        nodes.learn_voters(parts.log.voters(), &parts.listener);
        let followed = parts.log.leader().leader_id;
        let leader = leader.filter(|leader| Some(leader.id) == followed);
        if let Some(gone) = leader.and_then(|leader| nodes.learn_leader(leader)) {
            parts.connections.forget(gone);
        }
    }

    /// Lets everybody who lives by the metadata have what is new.
    fn publish(&mut self) {
        if !self.is_live {
            return;
        }
        let log = &self.parts.log;
        if !Arc::ptr_eq(&self.published, log.image()) {
            let change = log.change_since(self.published.clone());
            self.published = change.delta.after.clone();
            self.parts.loader.load(change, Vec::new());
        }
    }

    /// Writes a snapshot when enough has been appended, or long enough ago.
    fn snapshot_if_due(&mut self) {
        let log = &mut self.parts.log;
        let Some(job) = log.snapshot_due(now_ms()) else {
            return;
        };
        let written = job.run(now_ms());
        if let Err(error) = log.complete_snapshot(written, now_ms()) {
            tracing::warn!(%error, "a snapshot of the metadata cannot be written");
        }
    }

    fn note_error(&mut self, error: ErrorCode, response: Option<&Response>) {
        let is_foreign = error == ErrorCode::InconsistentClusterId;
        self.progress.send_if_modified(|progress| {
            let is_news = progress.is_foreign != is_foreign;
            progress.is_foreign = is_foreign;
            is_news
        });
        // Whoever does not lead says who does; the others are asked again.
        let is_usual = matches!(
            error,
            ErrorCode::None
                | ErrorCode::NotLeaderOrFollower
                | ErrorCode::FencedLeaderEpoch
                | ErrorCode::UnknownLeaderEpoch
                | ErrorCode::BrokerNotAvailable
                | ErrorCode::SnapshotNotFound
        );
        if !is_usual && let Some(not_logged) = self.refused.due() {
            let node = response
                .map(|response| &**response.address())
                .unwrap_or_default();
            tracing::error!(
                node,
                %error,
                not_logged,
                "a node of the quorum refuses to be followed; do `controller.quorum.voters` and \
                 `controller.quorum.bootstrap.servers` name the listeners of this cluster's controllers?"
            );
        }
    }

    fn tell_leader(&self) {
        let leader = self.parts.log.leader().leader_id;
        let node = leader.and_then(|id| self.parts.nodes.node(id));
        let is_news = |known: &mut Option<PeerNode>| {
            let is_news = *known != node;
            if is_news && let Some(node) = &node {
                tracing::info!(node = %node.id, endpoint = %node.endpoint, "follows the active controller");
            }
            known.clone_from(&node);
            is_news
        };
        self.leader.send_if_modified(is_news);
    }

    fn tell_progress(&self) {
        let log = &self.parts.log;
        let (last_offset, has_caught_up) =
            (log.image().provenance.last_offset, log.has_caught_up());
        self.progress.send_if_modified(|progress| {
            let is_news =
                (progress.last_offset, progress.has_caught_up) != (last_offset, has_caught_up);
            (progress.last_offset, progress.has_caught_up) = (last_offset, has_caught_up);
            is_news
        });
    }

    fn fail(&self, reason: String) {
        self.progress.send_if_modified(|progress| {
            let is_news = progress.failure.is_none();
            progress.failure.get_or_insert(reason);
            is_news
        });
    }
}

/// The outcome of what is asked, if anything is.
async fn answered(asking: &mut Option<Asking>) -> (Request, Result<Response, Error>) {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}
