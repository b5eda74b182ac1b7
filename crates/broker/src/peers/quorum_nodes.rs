//! The nodes of the quorum, and where they are reached: by configuration, by what answers tell, and by the
//! voters that the metadata log names. Pure.

use super::endpoints::PeerNode;
use config::server::QuorumConfig;
use connection::Endpoint;
use metadata::Voter;
use model::BrokerId;
use std::collections::BTreeMap;

/// What is known of the nodes of the quorum.
#[derive(Debug)]
pub(crate) struct QuorumNodes {
    /// `controller.quorum.voters`, or `controller.quorum.bootstrap.servers`, whose ids nobody knows.
    configured: Vec<PeerNode>,
    /// What answers and records have told.
    learnt: BTreeMap<BrokerId, Endpoint>,
    /// Whose turn it is among those that may be asked.
    turn: usize,
}

impl QuorumNodes {
    /// The nodes that configuration names.
    pub(crate) fn new(config: &QuorumConfig) -> Self {
        let voters = config.voters.iter().map(|voter| PeerNode {
            id: voter.id,
            endpoint: Endpoint::new(&voter.host, voter.port),
        });
        // Ids of their own, so that each has a connection of its own.
        let ids = (i32::MIN..).map(BrokerId);
        let servers = ids
            .zip(&config.bootstrap_servers)
            .map(|(id, (host, port))| PeerNode {
                id,
                endpoint: Endpoint::new(host, *port),
            });
        let configured = match config.voters.is_empty() {
            true => servers.collect(),
            false => voters.collect(),
        };
        Self {
            configured,
            learnt: BTreeMap::new(),
            turn: 0,
        }
    }

    /// Takes note of where a node is reached.
    pub(crate) fn learn(&mut self, id: BrokerId, endpoint: Endpoint) {
        if id.0 >= 0 && !endpoint.host.is_empty() && endpoint.port > 0 {
            self.learnt.insert(id, endpoint);
        }
    }

    /// Takes note of where voters are reached by the listener of controllers.
    pub(crate) fn learn_voters(&mut self, voters: &[Voter], listener: &str) {
        for voter in voters {
            let mut endpoints = voter.endpoints.iter();
            if let Some(found) = endpoints.find(|one| one.listener == listener) {
                self.learn(voter.id, Endpoint::new(&found.host, found.port));
            }
        }
    }

    /// The node of this id: where configuration says, or else where others have told.
    pub(crate) fn node(&self, id: BrokerId) -> Option<PeerNode> {
        let configured = self.configured.iter().find(|node| node.id == id);
        let learnt = || {
            let endpoint = self.learnt.get(&id)?.clone();
            Some(PeerNode { id, endpoint })
        };
        configured.cloned().or_else(learnt)
    }

    /// A node that may know who leads: another one each time.
    pub(crate) fn next(&mut self) -> Option<PeerNode> {
        let is_new = |endpoint: &Endpoint| {
            let mut configured = self.configured.iter();
            !configured.any(|node| node.endpoint == *endpoint)
        };
        let learnt = self.learnt.iter();
        let learnt = learnt.filter(|(_, endpoint)| is_new(endpoint));
        let learnt = learnt.map(|(id, endpoint)| PeerNode {
            id: *id,
            endpoint: endpoint.clone(),
        });
        let all: Vec<PeerNode> = self.configured.iter().cloned().chain(learnt).collect();
        let next = all.get(self.turn % all.len().max(1)).cloned();
        self.turn = self.turn.wrapping_add(1);
        next
    }

    /// The addresses that configuration names, for an operator.
    pub(crate) fn configured(&self) -> String {
        let named = self.configured.iter().map(|node| node.endpoint.to_string());
        named.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::server::QuorumVoter;

    fn nodes(voters: &[(i32, u16)], servers: &[u16]) -> QuorumNodes {
        let voters = voters.iter().map(|(id, port)| QuorumVoter {
            id: BrokerId(*id),
            host: "h".to_owned(),
            port: *port,
        });
        QuorumNodes::new(&QuorumConfig {
            voters: voters.collect(),
            bootstrap_servers: servers.iter().map(|port| ("h".to_owned(), *port)).collect(),
            request_timeout_ms: 0,
            fetch_timeout_ms: 0,
            retry_backoff_ms: 0,
            fetch_max_bytes: 0,
            fetch_snapshot_max_bytes: 0,
        })
    }

    fn turns(nodes: &mut QuorumNodes, count: usize) -> Vec<u16> {
        let next = |_| nodes.next().expect("there is one").endpoint.port;
        (0..count).map(next).collect()
    }

    fn port(nodes: &QuorumNodes, id: i32) -> Option<u16> {
        nodes.node(BrokerId(id)).map(|node| node.endpoint.port)
    }

    #[test]
    fn all_are_asked_in_turn() {
        let mut nodes = nodes(&[], &[1, 2]);
        assert_eq!(turns(&mut nodes, 3), [1, 2, 1]);
        nodes.learn(BrokerId(7), Endpoint::new("h", 3));
        // It is one of those that are configured.
        nodes.learn(BrokerId(8), Endpoint::new("h", 2));
        assert_eq!(turns(&mut nodes, 4), [1, 2, 3, 1]);
        assert_eq!((port(&nodes, 7), port(&nodes, 8)), (Some(3), Some(2)));
        assert_eq!(port(&nodes, 9), None);
    }

    #[test]
    fn voters_are_where_configuration_says() {
        let mut nodes = nodes(&[(7, 1), (8, 2)], &[9]);
        nodes.learn(BrokerId(8), Endpoint::new("h", 3));
        nodes.learn(BrokerId(9), Endpoint::new("", 4));
        nodes.learn(BrokerId(-1), Endpoint::new("h", 4));
        assert_eq!((port(&nodes, 7), port(&nodes, 8)), (Some(1), Some(2)));
        assert_eq!(port(&nodes, 9), None);
        assert_eq!(nodes.configured(), "h:1, h:2");
    }

    #[test]
    fn nobody_is_asked_where_nobody_is_known() {
        assert_eq!(nodes(&[], &[]).next(), None);
    }
}
