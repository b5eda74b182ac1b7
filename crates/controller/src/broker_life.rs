//! The life of a broker as its controller is told of it: registration, heartbeats, fencing, controlled
//! shutdown (KIP-631, KIP-858, KIP-966, KIP-1066).
//!
//! ```text
//!   Starting ── registered ─> heartbeats ── caught up ─> Recovery ── `ready`, unfenced ─> Running
//!                                                                                            │ begin_shutdown
//!   ShuttingDown <── allowed, nobody has decided for a session, or the deadline ── PendingControlledShutdown
//! ```
//!
//! One request is under way at a time. The caller sends what [`BrokerLife::poll_request`] gives, tells what came of
//! it, and asks again at [`BrokerLife::next_deadline`] or when it has told something new.
//!
//! Invariants:
//! - The broker wants to be fenced until its metadata have its registration and its logs are open.
//! - It takes part under the epoch of its own registration, and none that another process with its id has got.
//! - A failed log directory is told until the controller has taken it.
//! - A broker that is to stop waits no longer than its session for a controller that decides: one that lives has
//!   others lead by then, and without one nobody can. Apache Kafka's broker waits until the deadline.

use crate::brokers::NewRegistration;
use crate::heartbeats::{BrokerHeartbeat, BrokerStanding};
use crate::requests::RegisterBroker;
use model::{BrokerEpoch, BrokerId, ErrorCode, MonotonicTime, Offset, Uuid};
use std::collections::BTreeSet;

/// Between heartbeats until the broker is unfenced.
const STARTING_HEARTBEAT_MS: i64 = 10;
/// Between heartbeats once the controlled shutdown has begun.
const SHUTDOWN_HEARTBEAT_MS: i64 = 50;
/// The longest pause while another run of the broker is alive: its session ends within seconds.
const DUPLICATE_BACKOFF_MS: i64 = 500;
/// The first pause after a failure; it doubles up to the session timeout.
const BACKOFF_MS: i64 = 100;

/// How long a broker waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerLifeSettings {
    /// `broker.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i64,
    /// `broker.session.timeout.ms`: the longest pause after failures, and how long a request may take.
    pub session_timeout_ms: i64,
    /// `initial.broker.registration.timeout.ms`.
    pub registration_timeout_ms: i64,
    /// `log.dir.failure.timeout.ms`.
    pub log_dir_failure_timeout_ms: i64,
}

/// Where a broker is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BrokerState {
    /// It registers, and follows the metadata up to its registration.
    Starting,
    /// The metadata have its registration: it opens its logs.
    Recovery,
    /// It serves.
    Running,
    /// It wants to stop, and gives up its leaderships.
    PendingControlledShutdown,
    /// It may stop.
    ShuttingDown,
}

/// What a broker asks its controller.
#[derive(Debug, Clone)]
pub enum BrokerLifeRequest {
    /// To be registered.
    Register(RegisterBroker),
    /// A sign of life.
    Heartbeat(BrokerHeartbeat),
}

/// Why a broker cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokerLifeError {
    /// The controller does not take the registration, and will not later.
    #[error("the controller refuses the registration of broker {broker_id}: {code:?}{advice}")]
    Refused {
        /// This broker.
        broker_id: BrokerId,
        /// The controller's answer.
        code: ErrorCode,
        /// What to do about it.
        advice: &'static str,
    },
    /// Nobody has registered the broker for `initial.broker.registration.timeout.ms`.
    #[error(
        "broker {broker_id} could not register within {timeout_ms} ms \
         (`initial.broker.registration.timeout.ms`); the last answer was {last}"
    )]
    NotRegistered {
        /// This broker.
        broker_id: BrokerId,
        /// How long it has tried.
        timeout_ms: i64,
        /// What was answered last.
        last: String,
    },
    /// A log directory has failed, and the controller could not be told for `log.dir.failure.timeout.ms`.
    #[error(
        "a log directory has failed, and the controller could not be told within {timeout_ms} ms \
         (`log.dir.failure.timeout.ms`)"
    )]
    FailureNotTold {
        /// How long it has tried.
        timeout_ms: i64,
    },
}

/// The life of one run of a broker.
#[derive(Debug)]
pub struct BrokerLife {
    settings: BrokerLifeSettings,
    registration: NewRegistration,
    begun_at: MonotonicTime,
    state: BrokerState,
    broker_epoch: Option<BrokerEpoch>,
    /// The offset of the last metadata record that is followed.
    metadata_offset: Offset,
    is_ready: bool,
    is_fenced: bool,
    /// Failed log directories, and since when the controller is to be told of more than it knows.
    offline: BTreeSet<Uuid>,
    told_offline: BTreeSet<Uuid>,
    untold_since: Option<MonotonicTime>,
    cordoned: Option<Vec<Uuid>>,
    told_cordoned: Option<Vec<Uuid>>,
    /// What the request under way tells of directories.
    sent_offline: BTreeSet<Uuid>,
    sent_cordoned: Option<Vec<Uuid>>,
    is_under_way: bool,
    next_at: MonotonicTime,
    failures: u32,
    last_answer: String,
    shutdown_deadline: Option<MonotonicTime>,
    /// Since when no controller has decided about a heartbeat in the controlled shutdown.
    silent_since: MonotonicTime,
    is_let_go: bool,
}

impl BrokerLife {
    /// A life that begins with this registration.
    pub const fn new(
        settings: BrokerLifeSettings,
        registration: NewRegistration,
        now: MonotonicTime,
    ) -> Self {
        Self {
            settings,
            registration,
            begun_at: now,
            state: BrokerState::Starting,
            broker_epoch: None,
            metadata_offset: Offset::NONE,
            is_ready: false,
            is_fenced: true,
            offline: BTreeSet::new(),
            told_offline: BTreeSet::new(),
            untold_since: None,
            cordoned: None,
            told_cordoned: None,
            sent_offline: BTreeSet::new(),
            sent_cordoned: None,
            is_under_way: false,
            next_at: now,
            failures: 0,
            last_answer: String::new(),
            shutdown_deadline: None,
            silent_since: now,
            is_let_go: false,
        }
    }

    /// Where the broker is in its life.
    pub const fn state(&self) -> BrokerState {
        self.state
    }

    /// The epoch of its registration, once there is one.
    pub const fn broker_epoch(&self) -> Option<BrokerEpoch> {
        self.broker_epoch
    }

    /// Whether the controller had it fenced when it answered last.
    pub const fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// Whether the controller has let the broker stop.
    pub const fn is_let_go(&self) -> bool {
        self.is_let_go
    }

    /// Whether the controller knows which log directories have failed, and which are cordoned.
    pub fn is_known(&self) -> bool {
        self.offline.is_subset(&self.told_offline) && self.cordoned == self.told_cordoned
    }

    /// The metadata are followed up to the record of this offset.
    pub fn note_metadata(&mut self, offset: Offset) {
        self.metadata_offset = self.metadata_offset.max(offset);
    }

    /// The logs are open: the broker may serve.
    pub fn ready(&mut self, now: MonotonicTime) {
        if !std::mem::replace(&mut self.is_ready, true) {
            self.hurry(now);
        }
    }

    /// A log directory has failed.
    pub fn directory_failed(&mut self, id: Uuid, now: MonotonicTime) {
        if self.offline.insert(id) {
            self.untold_since.get_or_insert(now);
            self.hurry(now);
        }
    }

    /// Log directories that take no new partitions from here on.
    pub fn set_cordoned(&mut self, directories: Vec<Uuid>, now: MonotonicTime) {
        if self.cordoned.as_ref() != Some(&directories) {
            self.cordoned = Some(directories);
            self.hurry(now);
        }
    }

    /// The broker is to stop, and waits for its controller until `deadline`. One that never served stops at once.
    pub fn begin_shutdown(&mut self, deadline: MonotonicTime, now: MonotonicTime) {
        match self.state {
            BrokerState::Running => {
                self.state = BrokerState::PendingControlledShutdown;
                self.shutdown_deadline = Some(deadline);
                self.silent_since = now;
                self.hurry(now);
            }
            BrokerState::Starting | BrokerState::Recovery => self.state = BrokerState::ShuttingDown,
            BrokerState::PendingControlledShutdown | BrokerState::ShuttingDown => {}
        }
    }

    /// The next request, if it is time for one.
    ///
    /// # Errors
    /// Why the broker cannot go on: its process is to end.
    pub fn poll_request(
        &mut self,
        now: MonotonicTime,
    ) -> Result<Option<BrokerLifeRequest>, BrokerLifeError> {
        self.pass_time(now)?;
        if self.is_under_way || now < self.next_at || self.state == BrokerState::ShuttingDown {
            return Ok(None);
        }
        self.is_under_way = true;
        let Some(broker_epoch) = self.broker_epoch else {
            return Ok(Some(BrokerLifeRequest::Register(RegisterBroker {
                registration: self.registration.clone(),
                detects_clean_shutdown: true,
            })));
        };
        self.sent_offline = self.offline.clone();
        self.sent_cordoned.clone_from(&self.cordoned);
        Ok(Some(BrokerLifeRequest::Heartbeat(BrokerHeartbeat {
            broker_id: self.registration.broker_id,
            broker_epoch,
            metadata_offset: self.metadata_offset,
            wants_fence: !self.is_ready,
            wants_shut_down: self.state == BrokerState::PendingControlledShutdown,
            offline_directories: self.offline.iter().copied().collect(),
            cordoned_directories: self.cordoned.clone(),
            deadline: now.plus_ms(self.settings.session_timeout_ms),
        })))
    }

    /// When to ask for a request again, if nothing else happens.
    pub fn next_deadline(&self) -> Option<MonotonicTime> {
        if self.state == BrokerState::ShuttingDown {
            return None;
        }
        let request = (!self.is_under_way).then_some(self.next_at);
        let timeout_ms = self.settings.registration_timeout_ms;
        let registered = self.broker_epoch.is_none();
        let registration = registered.then(|| self.begun_at.plus_ms(timeout_ms));
        let timeout_ms = self.settings.log_dir_failure_timeout_ms;
        let told = self.untold_since.map(|since| since.plus_ms(timeout_ms));
        let deadlines = [request, registration, told, self.shutdown_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// The registration was answered.
    ///
    /// # Errors
    /// Why it will not be taken later either.
    pub fn handle_registered(
        &mut self,
        answer: Result<BrokerEpoch, ErrorCode>,
        now: MonotonicTime,
    ) -> Result<(), BrokerLifeError> {
        match answer {
            Ok(broker_epoch) => {
                self.broker_epoch = Some(broker_epoch);
                self.succeeded(now);
                Ok(())
            }
            Err(code) => {
                let advice = match code {
                    ErrorCode::InconsistentClusterId => {
                        "; this directory belongs to another cluster than the controllers"
                    }
                    ErrorCode::UnsupportedVersion => {
                        "; the cluster uses features that this version does not know"
                    }
                    ErrorCode::InvalidRegistration => {
                        "; look whether another node has this `node.id`, or another broker the same log directories"
                    }
                    ErrorCode::ClusterAuthorizationFailed => {
                        "; this node may not register as a broker"
                    }
                    _ => {
                        self.failed(&format!("{code:?}"), now);
                        if code == ErrorCode::DuplicateBrokerRegistration {
                            let soon = now.plus_ms(DUPLICATE_BACKOFF_MS);
                            self.next_at = self.next_at.min(soon);
                        }
                        return Ok(());
                    }
                };
                self.is_under_way = false;
                let broker_id = self.registration.broker_id;
                Err(BrokerLifeError::Refused {
                    broker_id,
                    code,
                    advice,
                })
            }
        }
    }

    /// A heartbeat was answered.
    pub fn handle_heartbeat(
        &mut self,
        answer: Result<BrokerStanding, ErrorCode>,
        now: MonotonicTime,
    ) {
        let standing = match answer {
            Ok(standing) => standing,
            // Another run has the broker's id, or nobody: there is nothing to hand over.
            Err(ErrorCode::StaleBrokerEpoch)
                if self.state == BrokerState::PendingControlledShutdown =>
            {
                self.is_under_way = false;
                self.state = BrokerState::ShuttingDown;
                return;
            }
            // Nobody has decided: a node that is up and leads nothing answers, too, and so does a controller whose log
            // takes no records.
            Err(code) => return self.failed(&format!("{code:?}"), now),
        };
        self.silent_since = now;
        self.told_offline.append(&mut self.sent_offline);
        self.told_cordoned = self.sent_cordoned.take();
        if self.offline.is_subset(&self.told_offline) {
            self.untold_since = None;
        }
        self.is_fenced = standing.is_fenced;
        let was = self.state;
        match was {
            BrokerState::Starting if standing.is_caught_up => self.state = BrokerState::Recovery,
            BrokerState::Recovery if self.is_ready && !standing.is_fenced => {
                self.state = BrokerState::Running;
            }
            BrokerState::PendingControlledShutdown if standing.should_shut_down => {
                self.is_let_go = true;
                self.state = BrokerState::ShuttingDown;
            }
            _ => {}
        }
        self.succeeded(now);
        if was == BrokerState::Recovery && self.state == was && !self.is_ready {
            // Nothing to hurry for: `ready` does.
            self.next_at = now.plus_ms(self.settings.heartbeat_interval_ms);
        }
    }

    /// There was no answer.
    pub fn handle_failure(&mut self, now: MonotonicTime) {
        self.failed("none", now);
    }

    /// When the broker stops without its controller.
    fn shutdown_deadline(&self) -> Option<MonotonicTime> {
        let silent_until = self.silent_since.plus_ms(self.settings.session_timeout_ms);
        Some(self.shutdown_deadline?.min(silent_until))
    }

    fn pass_time(&mut self, now: MonotonicTime) -> Result<(), BrokerLifeError> {
        if self.shutdown_deadline().is_some_and(|at| at <= now) {
            self.state = BrokerState::ShuttingDown;
        }
        let timeout_ms = self.settings.registration_timeout_ms;
        if self.broker_epoch.is_none()
            && self.state < BrokerState::ShuttingDown
            && self.begun_at.plus_ms(timeout_ms) <= now
        {
            let last = match &*self.last_answer {
                "" => "none".to_owned(),
                last => last.to_owned(),
            };
            let broker_id = self.registration.broker_id;
            return Err(BrokerLifeError::NotRegistered {
                broker_id,
                timeout_ms,
                last,
            });
        }
        let timeout_ms = self.settings.log_dir_failure_timeout_ms;
        if self
            .untold_since
            .is_some_and(|since| since.plus_ms(timeout_ms) <= now)
        {
            return Err(BrokerLifeError::FailureNotTold { timeout_ms });
        }
        Ok(())
    }

    fn succeeded(&mut self, now: MonotonicTime) {
        self.is_under_way = false;
        self.failures = 0;
        let pause_ms = match self.state {
            BrokerState::Starting | BrokerState::Recovery => STARTING_HEARTBEAT_MS,
            BrokerState::Running => self.settings.heartbeat_interval_ms,
            BrokerState::PendingControlledShutdown | BrokerState::ShuttingDown => {
                SHUTDOWN_HEARTBEAT_MS.min(self.settings.heartbeat_interval_ms)
            }
        };
        self.next_at = match self.is_known() {
            false => now,
            true => now.plus_ms(pause_ms),
        };
    }

    fn failed(&mut self, answer: &str, now: MonotonicTime) {
        self.is_under_way = false;
        answer.clone_into(&mut self.last_answer);
        let longest = self.settings.session_timeout_ms.max(BACKOFF_MS);
        let backoff_ms = BACKOFF_MS << self.failures.min(20);
        self.failures = self.failures.saturating_add(1);
        self.next_at = now.plus_ms(backoff_ms.min(longest));
    }

    /// There is something new to tell, unless the controller is left alone for a while.
    fn hurry(&mut self, now: MonotonicTime) {
        if self.failures == 0 {
            self.next_at = self.next_at.min(now);
        }
    }
}

#[cfg(test)]
mod tests;
