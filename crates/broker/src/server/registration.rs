//! What a node tells others of itself: where it is reached, and what it can do.

use crate::api::broker::Broker;
use crate::net::{BoundListener, Listeners};
use crate::scheduling::clock::random_uuid;
use controller::brokers::NewRegistration;
use metadata::VoterEndpoint;
use model::BrokerEpoch;

/// What this run of the broker says of itself.
pub(super) fn registration(broker: &Broker, previous_broker_epoch: BrokerEpoch) -> NewRegistration {
    let listeners = broker.sockets.listeners.iter();
    let endpoints = listeners.filter(|one| !one.is_controller).map(|one| {
        let (host, port) = reached_at(one);
        metadata::Endpoint {
            name: one.name.clone(),
            host,
            port,
            security_protocol: 0,
        }
    });
    let directories = broker.logs.directories.iter();
    let usable = directories.filter(|one| one.is_usable());
    NewRegistration {
        broker_id: broker.node.id,
        incarnation_id: random_uuid(),
        endpoints: endpoints.collect(),
        features: controller::broker_features(),
        rack: broker.node.config.rack.clone(),
        directories: usable.map(|one| one.id()).collect(),
        previous_broker_epoch,
        is_migrating_zk_broker: false,
    }
}

/// Where the controller of this node is reached.
pub(super) fn voter_endpoints(listeners: &Listeners) -> Vec<VoterEndpoint> {
    let controllers = listeners.iter().filter(|one| one.is_controller);
    controllers
        .map(|one| {
            let (host, port) = reached_at(one);
            VoterEndpoint {
                listener: one.name.clone(),
                host,
                port,
            }
        })
        .collect()
}

/// Host and port by which others reach a listener: as it is advertised. One that binds every interface is
/// reached by the name of the machine, as Apache Kafka tells it.
fn reached_at(listener: &BoundListener) -> (String, u16) {
    let (host, port) = listener.advertised(listener.address);
    let is_anywhere = listener.advertised_host.is_none() && listener.address.ip().is_unspecified();
    if !is_anywhere {
        return (host, port);
    }
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    match name.is_empty() {
        true => (host, port),
        false => (name, port),
    }
}
