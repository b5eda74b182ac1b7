//! The nodes of the quorum, and where they are reached: by configuration, by what answers tell, and by the
//! voters that the metadata log names. Pure.

use super::endpoints::PeerNode;
use config::server::QuorumConfig;
use connection::Endpoint;
use metadata::Voter;
use model::BrokerId;

/// What is known of the nodes of the quorum: as much as configuration and the log name, and one node more, whatever
/// answers say.
#[derive(Debug)]
pub(crate) struct QuorumNodes {
    /// `controller.quorum.voters`, or `controller.quorum.bootstrap.servers`, whose ids nobody knows.
    configured: Vec<PeerNode>,
    /// The voters that the log names last.
    voters: Vec<PeerNode>,
    /// The last leader, where an answer has told where it is.
    leader: Option<PeerNode>,
    /// How many turns those of each source have had: so the many of one hold up nobody of another.
    turns: [usize; SOURCES],
    /// Whose turn it is.
    next_source: usize,
}

/// Configuration, the log, and answers.
const SOURCES: usize = 3;

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
            voters: Vec::new(),
            leader: None,
            turns: [0; SOURCES],
            next_source: 0,
        }
    }

    /// Takes note of where the leader is reached that is followed. Returns the leader before it if nobody else
    /// names that one.
    pub(crate) fn learn_leader(&mut self, leader: PeerNode) -> Option<BrokerId> {
        if !is_reachable(&leader) || self.leader.as_ref() == Some(&leader) {
            return None;
        }
        let before = self.leader.replace(leader)?.id;
        self.node(before).is_none().then_some(before)
    }

    /// Takes note of where voters are reached by the listener of controllers, in place of those that were voters
    /// before.
    pub(crate) fn learn_voters(&mut self, voters: &[Voter], listener: &str) {
        let named = voters.iter().filter_map(|voter| {
            let mut endpoints = voter.endpoints.iter();
            let found = endpoints.find(|one| one.listener == listener)?;
            Some(PeerNode {
                id: voter.id,
                endpoint: Endpoint::new(&found.host, found.port),
            })
        });
        self.voters = named.filter(is_reachable).collect();
    }

    /// The node of this id: where configuration says, or else where others have told.
    pub(crate) fn node(&self, id: BrokerId) -> Option<PeerNode> {
        let told = self.configured.iter().chain(&self.leader);
        let mut all = told.chain(&self.voters);
        all.find(|node| node.id == id).cloned()
    }

    /// A node that may know who leads: another one each time, of each source in turn.
    pub(crate) fn next(&mut self) -> Option<PeerNode> {
        for _ in 0..SOURCES {
            let source = self.next_source;
            self.next_source = (source + 1) % SOURCES;
            let nodes = match source {
                0 => &*self.configured,
                1 => &*self.voters,
                _ => self.leader.as_slice(),
            };
            let known = [&*self.configured, &*self.voters];
            let is_new = |node: &&PeerNode| {
                let mut known = known[..source].iter().copied().flatten();
                !known.any(|one| one.endpoint == node.endpoint)
            };
            let begin = self.turns[source] % nodes.len().max(1);
            let mut in_turn = (begin..nodes.len()).chain(0..begin);
            let found = in_turn.find_map(|at| Some(at).zip(Some(&nodes[at]).filter(is_new)));
            if let Some((at, node)) = found {
                self.turns[source] = at + 1;
                return Some(node.clone());
            }
        }
        None
    }

    /// The addresses that configuration names, for an operator.
    pub(crate) fn configured(&self) -> String {
        let named = self.configured.iter().map(|node| node.endpoint.to_string());
        named.collect::<Vec<_>>().join(", ")
    }
}

/// Whether this can be the address of a node.
fn is_reachable(node: &PeerNode) -> bool {
    node.id.0 >= 0 && !node.endpoint.host.is_empty() && node.endpoint.port > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::server::QuorumVoter;
    use metadata::{VersionRange, VoterEndpoint};
    use model::Uuid;

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

    fn leader(id: i32, host: &str, port: u16) -> PeerNode {
        PeerNode {
            id: BrokerId(id),
            endpoint: Endpoint::new(host, port),
        }
    }

    /// Voters with a listener each.
    fn voters(all: impl IntoIterator<Item = (i32, u16)>) -> Vec<Voter> {
        let voter = |(id, port)| Voter {
            id: BrokerId(id),
            directory_id: Uuid::ZERO,
            endpoints: vec![VoterEndpoint {
                listener: "CONTROLLER".to_owned(),
                host: "h".to_owned(),
                port,
            }],
            kraft_version: VersionRange { min: 0, max: 1 },
        };
        all.into_iter().map(voter).collect()
    }

    #[test]
    fn all_are_asked_in_turn() {
        let mut nodes = nodes(&[], &[1, 2]);
        assert_eq!(turns(&mut nodes, 3), [1, 2, 1]);
        // The first of them is one of those that are configured.
        nodes.learn_voters(&voters([(7, 2), (8, 3), (9, 4)]), "CONTROLLER");
        assert_eq!(turns(&mut nodes, 5), [3, 2, 4, 1, 3]);
        nodes.learn_leader(leader(6, "h", 5));
        assert_eq!(turns(&mut nodes, 5), [5, 2, 4, 5, 1]);
        assert_eq!((port(&nodes, 6), port(&nodes, 7)), (Some(5), Some(2)));
        assert_eq!(port(&nodes, 5), None);
        // The leader is asked as the voter that it is.
        nodes.learn_leader(leader(9, "h", 4));
        assert_eq!(turns(&mut nodes, 4), [3, 2, 4, 1]);
    }

    #[test]
    fn whatever_others_tell_those_that_are_configured_have_their_turn() {
        let mut nodes = nodes(&[], &[1]);
        for id in 0..3_000 {
            nodes.learn_leader(leader(id, "dead", 9));
        }
        nodes.learn_voters(&voters((0..3_000).map(|id| (id, 10))), "CONTROLLER");
        let turns = turns(&mut nodes, 30);
        assert!(turns.chunks(3).all(|three| three.contains(&1)), "{turns:?}");
    }

    #[test]
    fn who_leads_no_more_and_votes_no_more_is_forgotten() {
        let mut nodes = nodes(&[(1, 1)], &[]);
        nodes.learn_voters(&voters([(2, 2), (3, 3)]), "CONTROLLER");
        let mut learn = |id| nodes.learn_leader(leader(id, "h", 40));
        let forgotten = [4, 4, 5, 2, 1, 6].map(&mut learn);
        let expect = [None, None, Some(4), Some(5), None, None];
        assert_eq!(forgotten, expect.map(|id| id.map(BrokerId)));
        assert_eq!(port(&nodes, 4), None);
        assert_eq!(port(&nodes, 2), Some(2));
        nodes.learn_voters(&voters([(3, 3)]), "CONTROLLER");
        assert_eq!(port(&nodes, 2), None);
        // By another listener nobody is reached.
        nodes.learn_voters(&voters([(3, 3)]), "OTHER");
        assert_eq!(port(&nodes, 3), None);
    }

    #[test]
    fn nodes_are_where_configuration_says() {
        let mut nodes = nodes(&[(7, 1), (8, 2)], &[9]);
        nodes.learn_leader(leader(8, "h", 3));
        nodes.learn_leader(leader(9, "", 4));
        nodes.learn_leader(leader(9, "h", 0));
        nodes.learn_leader(leader(-1, "h", 4));
        assert_eq!((port(&nodes, 7), port(&nodes, 8)), (Some(1), Some(2)));
        assert_eq!((port(&nodes, 9), port(&nodes, -1)), (None, None));
        assert_eq!(nodes.configured(), "h:1, h:2");
    }

    #[test]
    fn nobody_is_asked_where_nobody_is_known() {
        assert_eq!(nodes(&[], &[]).next(), None);
    }
}
