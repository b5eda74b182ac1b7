//! The product's own clients, on a clock and a network that somebody else drives.
//!
//! ```text
//!   Clients::command ──> applications: producer, transactional, member ──> riverrun-client
//!                                        │                                      │ Transport
//!                                        └── Report ──> outputs <── whole frames ─┘
//!   Clients::run_until(time) ──> outputs, or the time has come     deliver, cut <── the driver
//! ```
//!
//! Invariants:
//! - One thread, and tokio's clock that stands still: tasks run within [`Clients::run_until`] alone, in
//!   the order in which they were woken, and time goes on when none can run. A timer fires at a whole
//!   millisecond, and timers of one millisecond in the order in which they were set.
//! - Nothing else is asked: no socket, no clock of the system, no random number but those that follow
//!   from the seed of a client. So what comes out is a function of what goes in, and of when.
//! - Outputs are in the order in which they were made: what an application says before it sends
//!   something is before it.
//!
//! Reading order: `lib`, `report`, `network`, `reporter`, then the applications.

#![forbid(unsafe_code)]

mod member;
mod network;
mod producer;
mod report;
mod reporter;
mod transactional;

pub use report::{Command, Mistake, Offset, Output, Report, Role, Sent, Settings, TransactionEnd};

use network::{Gate, Network};
use reporter::Reporter;
use riverrun_client::config::{ClientConfig, Endpoint, Seed};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Where the clients look for their first broker, which is the only one.
pub const HOST: &str = "node";
/// Its port.
pub const PORT: u16 = 9092;

/// Clients with their applications, and the time as they have it.
#[derive(Debug)]
pub struct Clients {
    runtime: Runtime,
    started: Instant,
    network: Arc<Network>,
    commands: Vec<mpsc::UnboundedSender<Command>>,
}

impl Clients {
    /// Clients that begin at time zero; each is called by its place here.
    ///
    /// # Panics
    /// When the system gives no thread's own timers.
    pub fn new(settings: Vec<Settings>) -> Self {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime of one thread takes nothing from the system");
        let network = Arc::new(Network::default());
        let started = runtime.block_on(async { Instant::now() });
        let mut commands = Vec::new();
        for (client, settings) in settings.into_iter().enumerate() {
            let (sender, receiver) = mpsc::unbounded_channel();
            let reporter = Reporter::new(client, network.clone());
            match settings.role {
                Role::Producer => drop(runtime.spawn(producer::live(reporter, settings, receiver))),
                Role::Transactional => {
                    drop(runtime.spawn(transactional::live(reporter, settings, receiver)));
                }
                Role::Member { .. } => {
                    drop(runtime.spawn(member::live(reporter, settings, receiver)));
                }
            }
            commands.push(sender);
        }
        Self {
            runtime,
            started,
            network,
            commands,
        }
    }

    /// Asks an application for something.
    pub fn command(&self, client: usize, command: Command) {
        // One that has ended has said why.
        let _ = self.commands[client].send(command);
    }

    /// Lets everything run until a time in milliseconds, or until there are outputs; gives the time then.
    pub fn run_until(&self, at_ms: i64) -> i64 {
        let at = self.started + Duration::from_millis(at_ms.max(0).unsigned_abs());
        let now = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.network.has_outputs() => {}
                () = tokio::time::sleep_until(at) => {}
            }
            Instant::now()
        });
        let elapsed_ms = now.duration_since(self.started).as_millis();
        i64::try_from(elapsed_ms).unwrap_or(i64::MAX)
    }

    /// What has come of it.
    pub fn take_outputs(&self) -> Vec<Output> {
        self.network.take_outputs()
    }

    /// Whether connections can be made.
    pub fn set_reachable(&self, is_reachable: bool) {
        self.network.set_reachable(is_reachable);
    }

    /// Bytes arrive at a client.
    pub fn deliver(&self, connection: u64, bytes: &[u8]) {
        self.network.deliver(connection, bytes);
    }

    /// A connection ends for its client.
    pub fn cut(&self, connection: u64) {
        self.network.cut(connection);
    }

    /// All connections end.
    pub fn cut_all(&self) {
        self.network.cut_all();
    }
}

/// What the clients of an application have in common; `life` counts them.
fn client_config(settings: &Settings, reporter: &Reporter, life: u64) -> ClientConfig {
    let mut config = ClientConfig {
        bootstrap_servers: vec![Endpoint::new(HOST, PORT)],
        client_id: format!("client{}", reporter.client()),
        seed: Seed(Some(settings.seed.wrapping_add(life))),
        ..ClientConfig::default()
    };
    config.connector.transport = Some(Arc::new(Gate(reporter.network().clone())));
    config
}
