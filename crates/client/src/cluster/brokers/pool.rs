//! Connections by address, each made once for all who need one.

use super::super::connection::Peer;
use super::super::{Connection, Deadline, Random};
use crate::Error;
use crate::config::Endpoint;
use connection::{Called, Options};
use model::BrokerId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    options: Options,
    peers: Mutex<BTreeMap<(Endpoint, Lane), Arc<Peer>>>,
    random: Mutex<Random>,
}

impl Pool {
    pub(super) fn new(options: Options, random: Random) -> Self {
        Self {
            options,
            peers: Mutex::default(),
            random: Mutex::new(random),
        }
    }

    /// Some live connection of the lane for everything.
    pub(super) fn any_live(&self) -> Option<Connection> {
        let peers = self.peers.lock();
        let live: Vec<Connection> = peers
            .iter()
            .filter(|((_, lane), _)| *lane == Lane::Main)
            .filter_map(|(_, peer)| peer.live())
            .collect();
        drop(peers);
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
        let peer = {
            let mut peers = self.peers.lock();
            let key = (endpoint.clone(), lane);
            let new = || Arc::new(Peer::new(endpoint.clone()));
            peers.entry(key).or_insert_with(new).clone()
        };
        if let Some(live) = peer.live() {
            return Ok(live);
        }
        let (address, advice) = match id {
            Some(id) => (
                format!("{endpoint} (broker {id})"),
                format!(
                    "broker {id} tells clients to connect to this address: check the \
                     `advertised.listeners` of the broker, and that this machine reaches it"
                ),
            ),
            None => (
                endpoint.to_string(),
                "check `bootstrap.servers`, and that a broker runs there".to_owned(),
            ),
        };
        let called = Called {
            address: &address,
            advice: &advice,
        };
        let random = || self.random.lock().next();
        peer.connect(called, &self.options, deadline, random).await
    }

    /// Closes the connections to addresses that are not among these any more, once nobody uses
    /// them.
    pub(super) fn retain(&self, mut is_kept: impl FnMut(&Endpoint) -> bool) {
        let mut peers = self.peers.lock();
        peers.retain(|(endpoint, lane), _| *lane == Lane::Coordinator || is_kept(endpoint));
    }
}
