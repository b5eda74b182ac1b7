//! Connections by address: made once for all who need one, with backoff between failures.

use super::super::connection::ConnectionSettings;
use super::super::{Backoff, Connection, Deadline, Random};
use crate::Error;
use crate::config::{ClientConfig, Endpoint};
use model::BrokerId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Which of the connections to a broker: requests that wait at the broker hold up those behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Records, metadata and whatever is answered soon.
    Main,
    /// Fetches, which wait at the broker for records.
    Fetch,
    /// What a member of a group says to its coordinator, and a transaction to its own.
    Coordinator,
}

/// Connections to the brokers of one cluster.
#[derive(Debug)]
pub(super) struct Pool {
    settings: ConnectionSettings,
    reconnect: Backoff,
    setup: Backoff,
    slots: Mutex<BTreeMap<(Endpoint, Lane), Arc<Slot>>>,
    random: Mutex<Random>,
}

/// The connection to one address, and the failures to make it.
#[derive(Debug, Default)]
struct Slot {
    live: Mutex<Option<Connection>>,
    /// Why the last attempt failed, for those whose deadline comes before another one ends.
    last_error: Mutex<Option<Error>>,
    /// Held while a connection is made, so that it is made once.
    attempts: tokio::sync::Mutex<Attempts>,
}

#[derive(Debug, Default)]
struct Attempts {
    /// In a row.
    failures: u32,
    /// Not before then.
    retry_at: Option<Instant>,
}

impl Pool {
    pub(super) fn new(settings: ConnectionSettings, config: &ClientConfig) -> Self {
        Self {
            settings,
            reconnect: Backoff {
                base_ms: config.reconnect_backoff_ms,
                max_ms: config.reconnect_backoff_max_ms,
            },
            setup: Backoff {
                base_ms: config.connection_setup_timeout_ms,
                max_ms: config.connection_setup_timeout_max_ms,
            },
            slots: Mutex::default(),
            random: Mutex::new(Random::from_system()),
        }
    }

    /// Some live connection of the lane for everything.
    pub(super) fn any_live(&self) -> Option<Connection> {
        let slots = self.slots.lock();
        let live: Vec<Connection> = slots
            .iter()
            .filter(|((_, lane), _)| *lane == Lane::Main)
            .filter_map(|(_, slot)| slot.live())
            .collect();
        drop(slots);
        let chosen = self.random.lock().below(live.len().max(1));
        live.into_iter().nth(chosen)
    }

    /// The live connection to an address, or one attempt to make it once the backoff is over. It is
    /// the address of the broker `id`, or one of the bootstrap addresses.
    pub(super) async fn connect(
        &self,
        endpoint: &Endpoint,
        id: Option<BrokerId>,
        lane: Lane,
        deadline: Deadline,
    ) -> Result<Connection, Error> {
        let slot = {
            let mut slots = self.slots.lock();
            slots.entry((endpoint.clone(), lane)).or_default().clone()
        };
        if let Some(live) = slot.live() {
            return Ok(live);
        }
        let address = match id {
            Some(id) => format!("{endpoint} (broker {id})"),
            None => endpoint.to_string(),
        };
        match deadline
            .bound(self.attempt(&slot, endpoint, &address, id))
            .await
        {
            Some(connected) => connected,
            None => Err(slot.error_at(deadline, address)),
        }
    }

    async fn attempt(
        &self,
        slot: &Slot,
        endpoint: &Endpoint,
        address: &str,
        id: Option<BrokerId>,
    ) -> Result<Connection, Error> {
        let mut attempts = slot.attempts.lock().await;
        if let Some(live) = slot.live() {
            return Ok(live);
        }
        if let Some(retry_at) = attempts.retry_at {
            tokio::time::sleep_until(retry_at).await;
        }
        let mut settings = self.settings.clone();
        if attempts.failures > 0 {
            let random = self.random.lock().next();
            settings.setup_timeout_ms = self.setup.delay_ms(attempts.failures + 1, random);
        }
        match Connection::open(endpoint, address, &settings).await {
            Ok(connection) => {
                *attempts = Attempts::default();
                *slot.last_error.lock() = None;
                *slot.live.lock() = Some(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                let error = with_hint(error, id);
                tracing::debug!(%error, "not connected");
                attempts.failures += 1;
                let random = self.random.lock().next();
                let delay_ms = self.reconnect.delay_ms(attempts.failures, random);
                attempts.retry_at = Some(Instant::now() + Duration::from_millis(delay_ms));
                *slot.last_error.lock() = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Closes the connections to addresses that are not among these any more, once nobody uses
    /// them.
    pub(super) fn retain(&self, mut is_kept: impl FnMut(&Endpoint) -> bool) {
        let mut slots = self.slots.lock();
        slots.retain(|(endpoint, lane), _| *lane == Lane::Coordinator || is_kept(endpoint));
    }
}

impl Slot {
    fn live(&self) -> Option<Connection> {
        let mut live = self.live.lock();
        if live.as_ref().is_some_and(Connection::is_closed) {
            *live = None;
        }
        live.clone()
    }

    /// The error at a deadline: why the last attempt failed, if there was one.
    fn error_at(&self, deadline: Deadline, address: String) -> Error {
        match self.last_error.lock().clone() {
            Some(Error::Unreachable {
                address, reason, ..
            }) => Error::Unreachable {
                address,
                waited_ms: deadline.waited_ms(),
                reason,
            },
            Some(error) => error,
            None => deadline.error("connect", address),
        }
    }
}

/// Adds to an error what to look at: an address comes from a setting of the client, or from one of
/// the broker.
fn with_hint(error: Error, id: Option<BrokerId>) -> Error {
    match error {
        Error::Unreachable {
            address,
            waited_ms,
            reason,
        } => {
            let hint = match id {
                Some(id) => format!(
                    "broker {id} tells clients to connect to this address: check the \
                     `advertised.listeners` of the broker, and that this machine reaches it"
                ),
                None => "check `bootstrap.servers`, and that a broker runs there".to_owned(),
            };
            Error::Unreachable {
                address,
                waited_ms,
                reason: format!("{reason}; {hint}"),
            }
        }
        other => other,
    }
}
