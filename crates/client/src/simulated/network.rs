//! Pipes in memory instead of sockets.

use super::Cluster;
use crate::config::{ClientConfig, Endpoint};
use crate::transport::{BoxFuture, ByteStream, Connector, Transport};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;

/// The name of every simulated host; the port is the node.
pub(super) const HOST: &str = "simulated";
/// What a pipe holds.
const PIPE_BYTES: usize = 1 << 20;

thread_local! {
    static WORLD: RefCell<Option<(Cluster, u64)>> = const { RefCell::new(None) };
}

/// Makes this thread's clients meet `cluster`.
pub(super) fn enter(cluster: &Cluster, seed: u64) {
    WORLD.with(|world| *world.borrow_mut() = Some((cluster.clone(), seed)));
}

/// What meets the simulated nodes.
#[derive(Debug)]
struct Pipes(Cluster);

impl Transport for Pipes {
    fn connect<'a>(
        &'a self,
        endpoint: &'a Endpoint,
    ) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        let (here, there) = tokio::io::duplex(PIPE_BYTES);
        let accepted = self.0.accept(i32::from(endpoint.port), there);
        let connected = accepted.map(|()| Box::new(here) as Box<dyn ByteStream>);
        Box::pin(std::future::ready(connected))
    }
}

/// The hooks of a client of `config`: of one that starts from a simulated node, pipes to this thread's
/// cluster.
pub(crate) fn connector_of(config: &ClientConfig) -> Connector {
    let mut connector = config.connector.clone();
    if config
        .bootstrap_servers
        .iter()
        .any(|one| &*one.host == HOST)
    {
        let cluster = WORLD.with(|world| world.borrow().as_ref().map(|(one, _)| one.clone()));
        let cluster = cluster.expect("a simulated address is of a simulation");
        connector.transport = Some(Arc::new(Pipes(cluster)));
    }
    connector
}

/// The next seed of this thread's simulation, if it is one.
pub(crate) fn seed() -> Option<u64> {
    WORLD.with(|world| {
        let mut world = world.borrow_mut();
        let (_, seed) = world.as_mut()?;
        let mut random = crate::cluster::Random::from_seed(*seed);
        *seed = random.next();
        Some(*seed)
    })
}
