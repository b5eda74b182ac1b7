//! A server that runs in the test's process, on ports and in a directory of its own.

use crate::{Client, batch, panics, wait_until};
use broker::{Server, ServerOptions, StartError};
use config::ServerConfig;
use config::sources::{Sources, load};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;
use trials::Directory;

/// The topic of [`TestServer::assert_serves`].
const PROBE_TOPIC: &str = "still-serving";
/// Numbers the servers of this process.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A running server. Dropping it is a crash: see [`TestServer::crash`].
#[derive(Debug)]
pub struct TestServer {
    /// Taken when it stops.
    running: Option<(Runtime, Server)>,
    addresses: Vec<(String, SocketAddr)>,
    directory: PathBuf,
    /// The name of its threads.
    thread_name: String,
    /// Removed with the last server that uses it.
    _temporary: Option<Arc<Directory>>,
}

impl TestServer {
    /// Starts a single node in a new directory, with `keys` beside the development setup.
    #[track_caller]
    pub fn start(keys: &[(&str, &str)]) -> Self {
        let temporary = Arc::new(trials::directory());
        let mut server = Self::start_in(&temporary.path().join("data"), keys).unwrap();
        server._temporary = Some(temporary);
        server
    }

    /// Starts a single node whose `log.dirs` is `directory`, unless `keys` say otherwise.
    ///
    /// # Errors
    /// Why the server does not start.
    #[track_caller]
    pub fn start_in(directory: &Path, keys: &[(&str, &str)]) -> Result<Self, StartError> {
        let config = config(directory, keys);
        panics::watch();
        let thread_name = format!(
            "{}{}",
            panics::SERVER_THREADS,
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let reserve_workers = broker::reserve_workers(&config);
        let options = ServerOptions {
            reserve_workers,
            ..ServerOptions::default()
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2 + reserve_workers)
            .thread_name(&thread_name)
            .enable_all()
            .build()
            .unwrap();
        let started = apart(|| runtime.block_on(Server::start_with(config, options)));
        let server = match started {
            Ok(server) => server,
            Err(error) => {
                apart(|| drop(runtime));
                return Err(error);
            }
        };
        Ok(Self {
            addresses: server.addresses(),
            running: Some((runtime, server)),
            directory: directory.to_owned(),
            thread_name,
            _temporary: None,
        })
    }

    /// The directory of its data.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address_of("PLAINTEXT")
    }

    /// Where the listener of this name is.
    #[track_caller]
    pub fn address_of(&self, listener: &str) -> SocketAddr {
        let found = self.addresses.iter().find(|(name, _)| name == listener);
        found.unwrap_or_else(|| panic!("no listener {listener}")).1
    }

    /// A new connection.
    #[track_caller]
    pub fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// Produces a record over a new connection and fetches it back. No task may have panicked.
    #[track_caller]
    pub fn assert_serves(&self) {
        panics::assert_none(&self.thread_name);
        let mut client = self.connect();
        client.create_topic_if_missing(PROBE_TOPIC);
        let produced = client.produce(PROBE_TOPIC, 0, &batch(&["probe"]));
        produced.assert_accepted();
        let fetched = client.fetch(PROBE_TOPIC, 0, produced.base_offset);
        assert_eq!(fetched.values(), ["probe"], "the server serves no more");
    }

    /// Waits until the server cannot go on, and gives the reason.
    #[track_caller]
    pub fn wait_until_halted(&self) -> String {
        let (runtime, server) = self.running.as_ref().expect("it runs until it is stopped");
        let halted = async { tokio::time::timeout(crate::LIMIT, server.halted()).await };
        let halted = apart(|| runtime.block_on(halted));
        halted.expect("the server goes on")
    }

    /// Whether the server cannot go on.
    pub fn is_halted(&self) -> bool {
        let (runtime, server) = self.running.as_ref().expect("it runs until it is stopped");
        let halted = async { tokio::time::timeout(Duration::ZERO, server.halted()).await };
        apart(|| runtime.block_on(halted)).is_ok()
    }

    /// [`Server::log_counts`].
    pub fn log_counts(&self) -> (usize, usize) {
        let (_, server) = self.running.as_ref().expect("it runs until it is stopped");
        server.log_counts()
    }

    /// Stops in order. No task may have panicked.
    #[track_caller]
    pub fn stop(mut self) {
        let (runtime, server) = self.running.take().expect("it runs until it is stopped");
        apart(|| {
            runtime.block_on(server.stop());
            drop(runtime);
        });
        wait_until_unlocked(&self.directory);
        panics::assert_none(&self.thread_name);
    }

    /// Ends as if the process was killed: nothing is closed, flushed or written down.
    pub fn crash(self) {
        drop(self);
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let Some((runtime, server)) = self.running.take() else {
            return;
        };
        apart(|| {
            drop(server);
            drop(runtime);
        });
        if !std::thread::panicking() {
            wait_until_unlocked(&self.directory);
        }
    }
}

/// Does on a thread of its own what blocks: a test of an asynchronous client runs within a runtime.
fn apart<T: Send>(block: impl FnOnce() -> T + Send) -> T {
    let done = std::thread::scope(|scope| scope.spawn(block).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The last threads of a server end just after it: only then may another one use its directory.
fn wait_until_unlocked(directory: &Path) {
    let Ok(lock) = File::open(directory.join(".lock")) else {
        return;
    };
    wait_until("the server has left its directory", || {
        lock.try_lock().is_ok()
    });
}

/// The configuration that `keys` make.
#[track_caller]
fn config(directory: &Path, keys: &[(&str, &str)]) -> ServerConfig {
    let mut overrides = vec![
        ("listeners".to_owned(), "PLAINTEXT://127.0.0.1:0".to_owned()),
        ("log.dirs".to_owned(), directory.display().to_string()),
        // What tests do not ask for is small: they start many servers.
        ("offsets.topic.num.partitions".to_owned(), "2".to_owned()),
        (
            "num.recovery.threads.per.data.dir".to_owned(),
            "1".to_owned(),
        ),
    ];
    overrides.extend(
        keys.iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
    );
    let sources = Sources {
        overrides: &overrides,
        ..Sources::default()
    };
    let loaded = load(&sources).unwrap_or_else(|errors| panic!("{errors:?}"));
    assert_eq!(loaded.warnings, [], "keys that do nothing");
    ServerConfig::read(&loaded.values).unwrap_or_else(|errors| panic!("{errors:?}"))
}
