//! Where other nodes are reached.

use config::listeners::ListenerName;
use connection::Endpoint;
use metadata::MetadataImage;
use model::BrokerId;

/// Another node, and where it is reached. A server of the quorum whose id nobody knows yet has a negative
/// one, as those of bootstrap servers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerNode {
    /// The node.
    pub(crate) id: BrokerId,
    /// Where it listens.
    pub(crate) endpoint: Endpoint,
}

/// The broker of this id at `listener`, the one between brokers; `None` when none is registered with one.
pub(crate) fn broker_node(
    image: &MetadataImage,
    id: BrokerId,
    listener: &ListenerName,
) -> Option<PeerNode> {
    let registered = image.cluster.broker(id)?;
    let found = registered.endpoint(listener.as_str())?;
    Some(PeerNode {
        id,
        endpoint: Endpoint::new(&found.host, found.port),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadata::{BrokerRegistration, Endpoint as RegisteredEndpoint, MetadataRecord};
    use model::{BrokerEpoch, Uuid};

    #[test]
    fn a_broker_is_reached_at_its_listener_between_brokers() {
        let endpoint = |name: &str, port| RegisteredEndpoint {
            name: name.to_owned(),
            host: "one".to_owned(),
            port,
            security_protocol: 0,
        };
        let mut image = MetadataImage::default();
        let registration = BrokerRegistration {
            id: BrokerId(1),
            epoch: BrokerEpoch(7),
            incarnation_id: Uuid::ZERO,
            endpoints: vec![endpoint("CLIENTS", 9092), endpoint("BROKERS", 9094)],
            features: Default::default(),
            rack: None,
            is_fenced: true,
            is_in_controlled_shutdown: false,
            is_migrating_zk_broker: false,
            directories: Vec::new(),
            cordoned_directories: None,
        };
        let replayed = image.replay(&MetadataRecord::RegisterBroker(registration));
        replayed.expect("it fits");
        let check = |id: i32, listener: &str, expect: Option<u16>| {
            let found = broker_node(&image, BrokerId(id), &ListenerName::new(listener));
            assert_eq!(found.map(|node| node.endpoint.port), expect);
        };
        check(1, "brokers", Some(9094));
        check(1, "OTHERS", None);
        check(2, "BROKERS", None);
    }
}
