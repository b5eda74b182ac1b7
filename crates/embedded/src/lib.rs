//! A whole broker in the process of a test: on a free port of the loopback interface, in a temporary
//! directory, gone when it is dropped.
//!
//! ```text
//!   test ── EmbeddedBroker::start ──> threads of its own: broker and controller ──> temporary directory
//!     └──── any client of Kafka ── bootstrap_servers ──┘
//! ```
//!
//! It is riverrun itself, so groups, transactions and idempotence work as on a cluster of one broker.
//! It serves asynchronous tests and others alike, as it has a runtime of its own.
//!
//! ```
//! use riverrun_client::blocking::{Consumer, Producer};
//! use riverrun_client::consumer::ConsumerConfig;
//! use riverrun_client::producer::{ProducerConfig, ProducerRecord};
//! use riverrun_embedded::EmbeddedBroker;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let broker = EmbeddedBroker::start()?;
//!
//! let producer = Producer::new(ProducerConfig::with_bootstrap_servers(broker.bootstrap_servers())?)?;
//! producer.send(ProducerRecord::new("orders").value(b"apples"))?.wait()?;
//!
//! let mut config = ConsumerConfig::new(broker.bootstrap_servers(), "billing")?;
//! config.set("auto.offset.reset", "earliest")?;
//! let mut consumer = Consumer::new(config)?;
//! consumer.subscribe(["orders"])?;
//! assert_eq!(consumer.next_record()?.value.as_deref(), Some(&b"apples"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! Invariants:
//! - Brokers share nothing: tests may start as many as they want, side by side.
//! - Nobody but this machine reaches it, unless a key says so.
//! - Nothing is left on the disk after it was dropped, unless [`EmbeddedBrokerBuilder::directory`] said
//!   where.

#![forbid(unsafe_code)]

use broker::{Server, ServerOptions};
use config::ServerConfig;
use config::sources::{IgnoredKey, SourceWarning, Sources, load};
use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// What README shows works.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The listener that clients use.
const LISTENER: &str = "PLAINTEXT";
/// What makes a broker small and quick to join; keys of the test come after.
const DEFAULTS: &[(&str, &str)] = &[
    ("listeners", "PLAINTEXT://127.0.0.1:0"),
    ("offsets.topic.num.partitions", "1"),
    ("transaction.state.log.num.partitions", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("num.recovery.threads.per.data.dir", "1"),
];
/// How long the last threads of a broker may take to leave its directory.
const LEAVING_MAX: Duration = Duration::from_secs(30);

/// Why a broker does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedBrokerError {
    /// A key does not exist, or its value is not allowed.
    #[error("{0}")]
    Configuration(String),
    /// The system lacks something: a directory, a thread, a port.
    #[error("{0}")]
    Start(String),
}

/// A running broker. Dropping it ends it at once, as a crash would; what it had acknowledged is in its
/// directory nevertheless.
#[derive(Debug)]
pub struct EmbeddedBroker {
    /// Taken when it ends.
    running: Option<(Runtime, Server)>,
    bootstrap_servers: String,
    directory: PathBuf,
    /// Removed after the broker has ended.
    _temporary: Option<TempDir>,
}

/// What a broker is started with. Made by [`EmbeddedBroker::builder`].
#[derive(Debug, Clone, Default)]
pub struct EmbeddedBrokerBuilder {
    keys: Vec<(String, String)>,
    directory: Option<PathBuf>,
}

impl EmbeddedBrokerBuilder {
    /// With this key of Kafka's `server.properties`, such as `num.partitions`. A later value of a key
    /// replaces an earlier one.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.keys.push((key.into(), value.into()));
        self
    }

    /// With its data in this directory, which stays. A broker that is started there again has the topics
    /// of the one before, which must have ended.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Starts it, and waits until it serves.
    ///
    /// # Errors
    /// [`EmbeddedBrokerError::Configuration`] for a key or value that is not allowed,
    /// [`EmbeddedBrokerError::Start`] for what the system lacks.
    pub fn start(self) -> Result<EmbeddedBroker, EmbeddedBrokerError> {
        let start = |error: &dyn Display| EmbeddedBrokerError::Start(error.to_string());
        let (directory, temporary) = match self.directory {
            Some(directory) => (directory, None),
            None => {
                let temporary = tempfile::tempdir().map_err(|error| start(&error))?;
                (temporary.path().join("data"), Some(temporary))
            }
        };
        let config = configuration(&directory, self.keys)?;
        let reserve_workers = broker::reserve_workers(&config);
        let runtime = Builder::new_multi_thread()
            .worker_threads(2 + reserve_workers)
            .thread_name("riverrun-embedded")
            .enable_all()
            .build()
            .map_err(|error| start(&error))?;
        let (runtime, started) = apart(|| {
            let options = ServerOptions {
                reserve_workers,
                ..ServerOptions::default()
            };
            let started = runtime.block_on(Server::start_with(config, options));
            let started = started.map_err(|error| error.to_string());
            match started {
                Ok(server) => (Some(runtime), Ok(server)),
                // Dropped here, where it may be waited for.
                Err(reason) => (None, Err(reason)),
            }
        });
        let server = started.map_err(EmbeddedBrokerError::Start)?;
        let addresses = server.addresses();
        let named = addresses.iter().find(|(name, _)| name == LISTENER);
        let (_, address) = named.or(addresses.first()).ok_or_else(|| {
            EmbeddedBrokerError::Configuration("`listeners` names none for clients".to_owned())
        })?;
        Ok(EmbeddedBroker {
            bootstrap_servers: address.to_string(),
            running: runtime.map(|runtime| (runtime, server)),
            directory,
            _temporary: temporary,
        })
    }
}

impl EmbeddedBroker {
    /// Starts a broker with Kafka's defaults, but for what keeps it small.
    ///
    /// # Errors
    /// [`EmbeddedBrokerError::Start`] for what the system lacks.
    pub fn start() -> Result<Self, EmbeddedBrokerError> {
        Self::builder().start()
    }

    /// A broker with settings of the test's own.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let broker = riverrun_embedded::EmbeddedBroker::builder()
    ///     .set("num.partitions", "3")
    ///     .set("auto.create.topics.enable", "false")
    ///     .start()?;
    /// # drop(broker);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> EmbeddedBrokerBuilder {
        EmbeddedBrokerBuilder::default()
    }

    /// Where it listens, as clients want it for `bootstrap.servers`.
    pub fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    /// Where its data is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Ends it in order: its logs are flushed and closed.
    pub fn stop(mut self) {
        if let Some((runtime, server)) = self.running.take() {
            apart(|| {
                runtime.block_on(server.stop());
                drop(runtime);
            });
            wait_until_left(&self.directory);
        }
    }
}

impl Drop for EmbeddedBroker {
    fn drop(&mut self) {
        if let Some((runtime, server)) = self.running.take() {
            apart(|| {
                drop(server);
                drop(runtime);
            });
            wait_until_left(&self.directory);
        }
    }
}

/// Does on a thread of its own what blocks: an asynchronous test runs within a runtime.
fn apart<T: Send>(block: impl FnOnce() -> T + Send) -> T {
    let done = std::thread::scope(|scope| scope.spawn(block).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The last threads of a broker end just after it; until then nobody may use or remove its directory.
fn wait_until_left(directory: &Path) {
    let Ok(lock) = File::open(directory.join(".lock")) else {
        return;
    };
    let end = Instant::now() + LEAVING_MAX;
    while lock.try_lock().is_err() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn configuration(
    directory: &Path,
    keys: Vec<(String, String)>,
) -> Result<ServerConfig, EmbeddedBrokerError> {
    let defaults = DEFAULTS
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let place = ("log.dirs".to_owned(), directory.display().to_string());
    let overrides: Vec<_> = defaults.chain([place]).chain(keys).collect();
    let sources = Sources {
        overrides: &overrides,
        ..Sources::default()
    };
    let loaded = load(&sources).map_err(refused)?;
    if !loaded.warnings.is_empty() {
        return Err(refused(loaded.warnings.iter().map(no_such_key).collect()));
    }
    ServerConfig::read(&loaded.values).map_err(refused)
}

fn no_such_key(warning: &SourceWarning) -> String {
    let key = &warning.key;
    match &warning.reason {
        IgnoredKey::Unknown {
            nearest: Some(nearest),
        } => format!("`{key}` does not exist; did you mean `{nearest}`?"),
        IgnoredKey::Unknown { nearest: None } => format!("`{key}` does not exist"),
        reason @ IgnoredKey::Removed { .. } => format!("`{key}` {reason}"),
    }
}

fn refused<E: Display>(reasons: Vec<E>) -> EmbeddedBrokerError {
    let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    EmbeddedBrokerError::Configuration(reasons.join("; "))
}
