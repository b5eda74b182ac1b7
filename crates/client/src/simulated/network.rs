//! Pipes in memory instead of sockets.

use super::Cluster;
use crate::config::Endpoint;
use std::cell::RefCell;
use std::io;
use tokio::io::DuplexStream;

/// The name of every simulated host; the port is the node.
pub(super) const HOST: &str = "simulated";
/// What a pipe holds.
const PIPE_BYTES: usize = 1 << 20;

thread_local! {
    static WORLD: RefCell<Option<(Cluster, u64)>> = const { RefCell::new(None) };
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(super) input: DuplexStream,
    pub(super) output: DuplexStream,
}

impl Pipe {
    /// Both directions apart.
    pub(crate) const fn split(&mut self) -> (&mut DuplexStream, &mut DuplexStream) {
        (&mut self.input, &mut self.output)
    }
}

/// Makes this thread's clients meet `cluster`.
pub(super) fn enter(cluster: &Cluster, seed: u64) {
    WORLD.with(|world| *world.borrow_mut() = Some((cluster.clone(), seed)));
}

/// Connects to a simulated node; `None` for any other address.
pub(crate) fn dial(endpoint: &Endpoint) -> Option<io::Result<Pipe>> {
    if &*endpoint.host != HOST {
        return None;
    }
    let cluster = WORLD.with(|world| world.borrow().as_ref().map(|(one, _)| one.clone()))?;
    let (there, here) = tokio::io::duplex(PIPE_BYTES);
    let (back, answer) = tokio::io::duplex(PIPE_BYTES);
    let pipe = Pipe {
        input: answer,
        output: there,
    };
    let peer = Pipe {
        input: here,
        output: back,
    };
    let accepted = cluster.accept(i32::from(endpoint.port), peer);
    Some(accepted.map(|()| pipe))
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
