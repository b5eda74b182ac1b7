//! The life of this broker towards its controller: BrokerRegistration v0–4 and BrokerHeartbeat v0–2, as
//! [`BrokerLife`] asks for them, on a thread of its own, so that nothing that requests do lets a heartbeat be late.
//!
//! - A registration tells the epoch of the one before where the broker was shut down cleanly (version 3).
//! - A controller that knows nothing of cordoned directories (below version 2) is not told of them.

use super::connections::Purpose;
use super::controller_channel::ControllerChannel;
use crate::scheduling::clock::monotonic;
use crate::scheduling::log_rate_limit::LogRateLimit;
use connection::{Deadline, Error, Response};
use controller::brokers::NewRegistration;
use controller::heartbeats::{BrokerHeartbeat, BrokerStanding};
use controller::{BrokerLife, BrokerLifeError, BrokerLifeRequest, BrokerLifeSettings, BrokerState};
use model::{BrokerEpoch, BrokerId, ErrorCode, MonotonicTime, Offset, Uuid};
use std::io;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use wire::messages::broker_registration_request::{Feature, Listener};
use wire::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest,
    BrokerRegistrationResponse,
};

/// Where a broker is in its life, for whoever waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LifecycleStatus {
    pub(crate) state: BrokerState,
    /// The epoch of its registration; `None` before.
    pub(crate) broker_epoch: Option<BrokerEpoch>,
    /// Why it cannot go on.
    pub(crate) failure: Option<BrokerLifeError>,
}

enum Command {
    Ready,
    /// Until then the controller is waited for.
    ShutDown(Duration),
    Directories {
        offline: Vec<Uuid>,
        cordoned: Option<Vec<Uuid>>,
        told: oneshot::Sender<()>,
    },
}

/// The life of this broker, for others.
#[derive(Debug, Clone)]
pub(crate) struct BrokerLifecycle {
    commands: mpsc::UnboundedSender<Command>,
    status: watch::Receiver<LifecycleStatus>,
}

/// A life that has yet to begin.
#[derive(Debug)]
pub(crate) struct UnstartedLifecycle {
    commands: mpsc::UnboundedReceiver<Command>,
    status: watch::Sender<LifecycleStatus>,
}

/// What a life begins with.
pub(crate) struct LifecycleParts {
    /// Connections for this alone.
    pub(crate) channel: ControllerChannel,
    pub(crate) cluster_id: String,
    /// What this run of the broker says of itself.
    pub(crate) registration: NewRegistration,
    pub(crate) settings: BrokerLifeSettings,
    /// The offset of the last metadata record that the broker lives by.
    pub(crate) metadata_offset: Box<dyn Fn() -> Offset + Send>,
}

impl BrokerLifecycle {
    /// A life that is about to begin.
    pub(crate) fn new() -> (Self, UnstartedLifecycle) {
        let (commands, received) = mpsc::unbounded_channel();
        let (status, seen) = watch::channel(LifecycleStatus {
            state: BrokerState::Starting,
            broker_epoch: None,
            failure: None,
        });
        let handle = Self {
            commands,
            status: seen,
        };
        let unstarted = UnstartedLifecycle {
            commands: received,
            status,
        };
        (handle, unstarted)
    }

    /// Waits until the broker is at least so far.
    ///
    /// # Errors
    /// Why it cannot go on.
    pub(crate) async fn reach(
        &self,
        state: BrokerState,
    ) -> Result<LifecycleStatus, BrokerLifeError> {
        let mut status = self.status.clone();
        let is_there = |status: &LifecycleStatus| status.failure.is_some() || status.state >= state;
        let reached = status.wait_for(is_there).await;
        match reached.map(|status| status.clone()) {
            Ok(LifecycleStatus {
                failure: Some(failure),
                ..
            }) => Err(failure),
            Ok(status) => Ok(status),
            // The thread has ended, as it does when nobody lives any more.
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until it cannot go on, and gives the reason.
    pub(crate) async fn failed(&self) -> BrokerLifeError {
        let mut status = self.status.clone();
        let failed = status.wait_for(|status| status.failure.is_some());
        match failed.await.map(|status| status.failure.clone()) {
            Ok(Some(failure)) => failure,
            _ => std::future::pending().await,
        }
    }

    /// The logs are open: the broker wants to serve.
    pub(crate) fn set_ready(&self) {
        let _ = self.commands.send(Command::Ready);
    }

    /// The broker is to stop, and waits so long for the controller; [`BrokerState::ShuttingDown`] is when it may.
    pub(crate) fn begin_shutdown(&self, patience: Duration) {
        let _ = self.commands.send(Command::ShutDown(patience));
    }

    /// Tells of log directories, and waits until the controller knows.
    ///
    /// # Errors
    /// `NotController` when the life has ended before.
    pub(crate) async fn tell_directories(
        &self,
        offline: Vec<Uuid>,
        cordoned: Option<Vec<Uuid>>,
    ) -> Result<(), ErrorCode> {
        let (told, is_told) = oneshot::channel();
        let command = Command::Directories {
            offline,
            cordoned,
            told,
        };
        let sent = self.commands.send(command);
        sent.map_err(|_| ErrorCode::NotController)?;
        is_told.await.map_err(|_| ErrorCode::NotController)
    }
}

impl UnstartedLifecycle {
    /// Begins to live.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(self, parts: LifecycleParts) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let broker_id = parts.registration.broker_id;
        let work = move || {
            let mut life = Life {
                core: BrokerLife::new(parts.settings, parts.registration, monotonic()),
                channel: parts.channel,
                cluster_id: parts.cluster_id,
                session_timeout_ms: parts.settings.session_timeout_ms,
                metadata_offset: parts.metadata_offset,
                broker_id,
                status: self.status,
                untold: Vec::new(),
                refusals: LogRateLimit::once_a_minute(),
            };
            let living = AssertUnwindSafe(|| runtime.block_on(life.live(self.commands)));
            if std::panic::catch_unwind(living).is_err() {
                tracing::error!(
                    "the thread that sends heartbeats has failed, and the controller fences this broker; start it again"
                );
            }
            runtime.shutdown_background();
        };
        let builder = std::thread::Builder::new().name("broker-lifecycle".into());
        builder.spawn(work).map(drop)
    }
}

struct Life {
    core: BrokerLife,
    channel: ControllerChannel,
    cluster_id: String,
    session_timeout_ms: i64,
    metadata_offset: Box<dyn Fn() -> Offset + Send>,
    broker_id: BrokerId,
    status: watch::Sender<LifecycleStatus>,
    /// Whoever waits until the controller knows of all directories.
    untold: Vec<oneshot::Sender<()>>,
    refusals: LogRateLimit,
}

impl Life {
    async fn live(&mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            self.core.note_metadata((self.metadata_offset)());
            let polled = self.core.poll_request(monotonic());
            self.tell_status(polled.as_ref().err());
            match polled {
                Ok(Some(request)) => {
                    let lived = self.ask(&request).await;
                    self.tell_status(lived.as_ref().err());
                    if lived.is_ok() {
                        continue;
                    }
                    return;
                }
                Ok(None) if self.core.state() == BrokerState::ShuttingDown => {
                    return self.log_shutdown();
                }
                Ok(None) => {}
                Err(_) => return,
            }
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => self.handle(command),
                    None => return,
                },
                () = tokio::time::sleep(self.wait()) => {}
            }
        }
    }

    fn wait(&self) -> Duration {
        let deadline = self.core.next_deadline();
        let wait_ms = deadline.map_or(0, |at: MonotonicTime| at.ms_since(monotonic()));
        Duration::from_millis(wait_ms.max(1).unsigned_abs())
    }

    fn handle(&mut self, command: Command) {
        let (core, now) = (&mut self.core, monotonic());
        match command {
            Command::Ready => core.ready(now),
            Command::ShutDown(patience) => {
                let patience_ms = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
                core.begin_shutdown(now.plus_ms(patience_ms), now);
            }
            Command::Directories {
                offline,
                cordoned,
                told,
            } => {
                for id in offline {
                    core.directory_failed(id, now);
                }
                if let Some(cordoned) = cordoned {
                    core.set_cordoned(cordoned, now);
                }
                self.untold.push(told);
            }
        }
    }

    fn tell_status(&mut self, failure: Option<&BrokerLifeError>) {
        let core = &self.core;
        if core.is_known() {
            for told in self.untold.drain(..) {
                let _ = told.send(());
            }
        }
        let news = LifecycleStatus {
            state: core.state(),
            broker_epoch: core.broker_epoch(),
            failure: failure.cloned(),
        };
        self.status.send_if_modified(|status| {
            if status.state != news.state {
                tracing::info!(state = ?news.state, "the broker's state has changed");
            }
            let is_news = *status != news;
            *status = news;
            is_news
        });
    }

    /// How long a request may take: a session must not run out for it.
    fn deadline(&self) -> Deadline {
        let half_ms = self.session_timeout_ms / 2;
        Deadline::after_ms(half_ms.max(1).unsigned_abs(), "broker.session.timeout.ms")
    }

    async fn ask(&mut self, request: &BrokerLifeRequest) -> Result<(), BrokerLifeError> {
        match request {
            BrokerLifeRequest::Register(request) => {
                let answer = self.register(&request.registration).await;
                if let Err(refusal) = &answer {
                    self.log_refused_registration(refusal);
                }
                match answer {
                    Ok(epoch) => {
                        tracing::info!(epoch = epoch.0, "the broker is registered");
                        self.core.handle_registered(Ok(epoch), monotonic())
                    }
                    Err(Refusal::Code(code)) => self.core.handle_registered(Err(code), monotonic()),
                    Err(Refusal::NoAnswer(_)) => {
                        self.core.handle_failure(monotonic());
                        Ok(())
                    }
                }
            }
            BrokerLifeRequest::Heartbeat(heartbeat) => {
                let answer = self.heartbeat(heartbeat).await;
                if let Err(refusal) = &answer {
                    self.log_refused_heartbeat(refusal);
                }
                match answer {
                    Ok(standing) => self.core.handle_heartbeat(Ok(standing), monotonic()),
                    Err(Refusal::Code(code)) => self.core.handle_heartbeat(Err(code), monotonic()),
                    Err(Refusal::NoAnswer(_)) => self.core.handle_failure(monotonic()),
                }
                Ok(())
            }
        }
    }

    async fn register(&self, registration: &NewRegistration) -> Result<BrokerEpoch, Refusal> {
        let listeners = registration.endpoints.iter().map(|endpoint| Listener {
            name: &endpoint.name,
            host: &endpoint.host,
            port: endpoint.port,
            security_protocol: endpoint.security_protocol,
        });
        let features = registration.features.iter();
        let features = features.map(|(name, versions)| Feature {
            name,
            min_supported_version: versions.min,
            max_supported_version: versions.max,
        });
        let message = BrokerRegistrationRequest {
            broker_id: registration.broker_id,
            cluster_id: &self.cluster_id,
            incarnation_id: registration.incarnation_id,
            listeners: listeners.collect(),
            features: features.collect(),
            rack: registration.rack.as_deref(),
            is_migrating_zk_broker: false,
            log_dirs: (&registration.directories).into(),
            previous_broker_epoch: registration.previous_broker_epoch,
        };
        let code_of = |response: &Response| {
            let read: BrokerRegistrationResponse = response.read()?;
            Ok(ErrorCode::from_code(read.error_code))
        };
        let response = self
            .channel
            .call(Purpose::Lifecycle, &message, code_of, self.deadline());
        let response = response.await?;
        let read: BrokerRegistrationResponse = response.read()?;
        match ErrorCode::from_code(read.error_code) {
            ErrorCode::None => Ok(read.broker_epoch),
            code => Err(Refusal::Code(code)),
        }
    }

    async fn heartbeat(&self, heartbeat: &BrokerHeartbeat) -> Result<BrokerStanding, Refusal> {
        let cordoned = heartbeat.cordoned_directories.as_ref();
        let message = BrokerHeartbeatRequest {
            broker_id: heartbeat.broker_id,
            broker_epoch: heartbeat.broker_epoch,
            current_metadata_offset: heartbeat.metadata_offset.0,
            want_fence: heartbeat.wants_fence,
            want_shut_down: heartbeat.wants_shut_down,
            offline_log_dirs: (&heartbeat.offline_directories).into(),
            cordoned_log_dirs: cordoned.map(Into::into),
        };
        let code_of = |response: &Response| {
            let read: BrokerHeartbeatResponse = response.read()?;
            Ok(ErrorCode::from_code(read.error_code))
        };
        let response = self
            .channel
            .call(Purpose::Lifecycle, &message, code_of, self.deadline());
        let response = response.await?;
        let read: BrokerHeartbeatResponse = response.read()?;
        match ErrorCode::from_code(read.error_code) {
            ErrorCode::None => Ok(BrokerStanding {
                is_caught_up: read.is_caught_up,
                is_fenced: read.is_fenced,
                is_shutting_down: heartbeat.wants_shut_down && !read.should_shut_down,
                should_shut_down: read.should_shut_down,
            }),
            code => Err(Refusal::Code(code)),
        }
    }

    fn log_shutdown(&self) {
        match self.core.is_let_go() {
            true => tracing::info!("the controller lets the broker stop"),
            false => tracing::warn!(
                "the broker stops without its controller: others lead what it has led once its session has run out, \
                 or there is a controller again"
            ),
        }
    }

    fn log_refused_registration(&self, refusal: &Refusal) {
        let (Some(not_logged), id) = (self.refusals.due(), self.broker_id) else {
            return;
        };
        match refusal {
            Refusal::Code(ErrorCode::DuplicateBrokerRegistration) => tracing::warn!(
                not_logged,
                "the controller has heard of another run of broker {id} within `broker.session.timeout.ms`: \
                 if that has ended, this one is registered in a moment; if another process runs with \
                 `node.id={id}`, stop one of the two"
            ),
            refusal => tracing::warn!(%refusal, not_logged, "the broker is not registered yet"),
        }
    }

    fn log_refused_heartbeat(&self, refusal: &Refusal) {
        let (Some(not_logged), id) = (self.refusals.due(), self.broker_id) else {
            return;
        };
        match refusal {
            Refusal::Code(ErrorCode::StaleBrokerEpoch) => tracing::error!(
                not_logged,
                "the controller does not know this run of broker {id} any more: it was unregistered, or \
                 another process has registered with `node.id={id}`; stop this one, or start it again"
            ),
            refusal => {
                tracing::warn!(%refusal, not_logged, "the controller has not taken a heartbeat");
            }
        }
    }
}

/// Why it has not.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("{0}")]
    Code(ErrorCode),
    #[error(transparent)]
    NoAnswer(#[from] Error),
}
