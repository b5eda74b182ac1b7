//! The server under test, with the shim in it.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use testkit::Client;

/// Time for a start or a stop, which take some dozens of milliseconds.
const LIMIT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Lines of the server's log that a failure shows.
const LOG_LINES: usize = 12;

/// The names of the log directories; the metadata are in the first one.
pub(crate) const LOG_DIRS: [&str; 2] = ["d1", "d2"];

/// What every server is started with.
const PROPERTIES: &[(&str, &str)] = &[
    ("offsets.topic.num.partitions", "2"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.num.partitions", "2"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("auto.create.topics.enable", "false"),
    ("log.cleaner.backoff.ms", "50"),
    ("log.retention.check.interval.ms", "500"),
    ("log.segment.delete.delay.ms", "200"),
    ("log.flush.scheduler.interval.ms", "300"),
    ("metadata.log.max.record.bytes.between.snapshots", "4000"),
];

/// How to start the server on some directory.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) binary: PathBuf,
    pub(crate) shim: PathBuf,
    /// Holds the log directories.
    pub(crate) root: PathBuf,
    pub(crate) port: u16,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) control: Option<PathBuf>,
    pub(crate) log: PathBuf,
    pub(crate) properties: Vec<(String, String)>,
}

/// A running server; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Plan {
    /// Starts the server and waits until it answers.
    pub(crate) fn start(&self) -> Result<Server> {
        let mut server = self.spawn()?;
        server.await_ready().with_context(|| tail(&self.log))?;
        Ok(server)
    }

    fn spawn(&self) -> Result<Server> {
        let dirs = LOG_DIRS.map(|name| self.root.join(name).display().to_string());
        let place = [
            (
                "listeners".to_owned(),
                format!("PLAINTEXT://127.0.0.1:{}", self.port),
            ),
            ("log.dirs".to_owned(), dirs.join(",")),
        ];
        let usual = PROPERTIES
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut command = Command::new(&self.binary);
        command
            .arg("server")
            .current_dir(self.root.parent().context("a root in a folder")?);
        for (name, value) in place
            .into_iter()
            .chain(usual)
            .chain(self.properties.clone())
        {
            command.arg("--set").arg(format!("{name}={value}"));
        }
        command
            .env("LD_PRELOAD", &self.shim)
            .env("CRASH_ROOT", &self.root);
        if let Some(journal) = &self.journal {
            command.env("CRASH_JOURNAL", journal);
        }
        if let Some(control) = &self.control {
            command.env("CRASH_CONTROL", control);
        }
        let log = File::create(&self.log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run {}", self.binary.display()))?;
        Ok(Server {
            child,
            port: self.port,
            log: self.log.clone(),
        })
    }
}

impl Server {
    /// A new connection.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    fn await_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while std::net::TcpStream::connect(self.address()).is_err() {
            self.ensure_runs()?;
            ensure!(
                Instant::now() < deadline,
                "the server is not there after {LIMIT:?}"
            );
            std::thread::sleep(POLL_INTERVAL);
        }
        // The answer to a request comes only when the server is ready, or never.
        let connected =
            std::panic::catch_unwind(|| Client::connect(self.address()).brokers().len());
        if connected.is_err() {
            std::thread::sleep(10 * POLL_INTERVAL);
            self.ensure_runs()?;
            bail!("the server does not answer");
        }
        Ok(())
    }

    /// Fails if the server has ended by itself.
    pub(crate) fn ensure_runs(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("the server ended with {status}"),
            None => Ok(()),
        }
    }

    /// Stops it by SIGTERM and waits for its end.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.ensure_runs().with_context(|| tail(&self.log))?;
        let id = Pid::from_raw(i32::try_from(self.child.id())?).context("a process has an id")?;
        kill_process(id, Signal::TERM)?;
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                ensure!(
                    status.success(),
                    "the server stopped with {status}\n{}",
                    tail(&self.log)
                );
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the server still runs {LIMIT:?} after SIGTERM"
            );
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Ends it by SIGKILL.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// The end of its log.
    pub(crate) fn log_tail(&self) -> String {
        tail(&self.log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last lines of a log that say more than that all is well.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains(" INFO "))
        .collect();
    match lines.is_empty() {
        true => "(no warning in the server's log)".to_owned(),
        false => lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"),
    }
}

/// The first of `count` ports that are free now, below those that the kernel gives to clients.
pub(crate) fn free_ports(count: u16) -> Result<u16> {
    let start = std::process::id() % 10_000;
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    for step in 0..10_000 {
        let port = u16::try_from(20_000 + (start + step * 7) % 12_000)?;
        if (port..port + count).all(is_free) {
            return Ok(port);
        }
    }
    bail!("no free ports")
}
