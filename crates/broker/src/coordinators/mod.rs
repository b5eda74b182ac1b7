//! Groups and transactions: replicated state, kept in partitions of internal topics.

pub(crate) mod coordinator_topics;
pub(crate) mod group_settings;
pub(crate) mod groups;
pub(crate) mod producer_ids;
pub(crate) mod runtime;
pub(crate) mod threads;
pub(crate) mod transaction_markers;
pub(crate) mod transaction_peers;
pub(crate) mod transaction_verification;
pub(crate) mod transactions;

use crate::logs::Logs;
use crate::settings::node::Node;
use coordinator_topics::UnmadeTopics;
use groups::Groups;
use producer_ids::ProducerIds;
use std::sync::{Arc, OnceLock};
use threads::CoordinatorThreads;
use transaction_peers::{NoPeers, TransactionPeers};
use transactions::Transactions;

/// The coordinators of this broker.
#[derive(Debug)]
pub(crate) struct Coordinators {
    /// The node that they are of.
    pub(crate) node: Arc<Node>,
    /// Where their state is, and the partitions of transactions.
    pub(crate) logs: Arc<Logs>,
    /// The group coordinator.
    pub(crate) groups: Arc<Groups>,
    /// The transaction coordinator.
    pub(crate) transactions: Transactions,
    /// Lines about topics of coordinators that cannot be made.
    unmade_topics: UnmadeTopics,
    /// Producer ids that the controller has given to this broker.
    producer_ids: Arc<ProducerIds>,
    threads: Arc<CoordinatorThreads>,
    /// Other brokers, for the sake of transactions.
    peers: OnceLock<Arc<dyn TransactionPeers>>,
}

impl Coordinators {
    /// Coordinators that have loaded nothing yet.
    pub(crate) fn new(
        node: Arc<Node>,
        logs: Arc<Logs>,
        groups: Groups,
        transactions: Transactions,
        threads: Arc<CoordinatorThreads>,
    ) -> Arc<Self> {
        let coordinators = Arc::new(Self {
            node,
            logs,
            groups: Arc::new(groups),
            transactions,
            unmade_topics: UnmadeTopics::default(),
            producer_ids: Arc::default(),
            threads,
            peers: OnceLock::new(),
        });
        let weak = Arc::downgrade(&coordinators);
        coordinators.transactions.set_coordinators(weak);
        coordinators
    }

    /// Says who asks other brokers.
    pub(crate) fn set_peers(&self, peers: Arc<dyn TransactionPeers>) {
        let _ = self.peers.set(peers);
    }

    fn peers(&self) -> &dyn TransactionPeers {
        self.peers.get().map_or(&NoPeers, |peers| &**peers)
    }

    /// Nothing is decided any more.
    pub(crate) fn end(&self) {
        self.threads.end();
    }
}
