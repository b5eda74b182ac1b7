//! One node of a cluster: riverrun or Apache Kafka over one directory, started, ended, held and swapped.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use harness::process::LogMark;

use super::lab::Lab;
use super::layout::Layout;
use super::network::Network;
use crate::server::Against;

/// Time for a clean shutdown, which may wait for other brokers.
const STOP_LIMIT: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// A JVM for a cluster of a few topics, which starts fast.
const KAFKA_FLAGS: [&str; 6] = [
    "-Xms96m",
    "-Xmx256m",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.log.state.change.logger=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
];

/// What a node is in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Controller,
    Broker,
    Both,
}

impl Role {
    pub(crate) fn is_broker(self) -> bool {
        self != Self::Controller
    }

    pub(crate) fn is_controller(self) -> bool {
        self != Self::Broker
    }

    fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Broker => "broker",
            Self::Both => "broker,controller",
        }
    }
}

/// The ports of one listener: its own, and the one where others connect, which is that of its relay if it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listener {
    port: u16,
    advertised_port: u16,
}

impl Listener {
    fn new(network: &Network, owner: i32, has_relay: bool) -> Result<Self> {
        let port = harness::free_port(0)?;
        let advertised_port = match has_relay {
            true => network.relay(owner, port)?,
            false => port,
        };
        Ok(Self {
            port,
            advertised_port,
        })
    }

    /// Where others connect.
    pub(crate) fn address(self) -> String {
        format!("127.0.0.1:{}", self.advertised_port)
    }
}

/// A node; dropping it kills its process.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: i32,
    pub(crate) role: Role,
    /// What runs, or what runs next.
    pub(crate) program: Against,
    dir: PathBuf,
    log_dir_count: usize,
    client_listener: Option<Listener>,
    controller_listener: Option<Listener>,
    child: Option<Child>,
    is_held: bool,
    log_mark: LogMark,
}

impl Node {
    /// Plans a node with a directory of its own below `dir`, and starts its relays if the layout has them.
    pub(crate) fn new(
        (id, role): (i32, Role),
        program: Against,
        layout: &Layout,
        dir: &Path,
        network: &Network,
    ) -> Result<Self> {
        let dir = dir.join(format!("node-{id}"));
        fs::create_dir_all(&dir)?;
        let listener = |is_there: bool| {
            let listener = || Listener::new(network, id, layout.has_relays);
            is_there.then(listener).transpose()
        };
        Ok(Self {
            id,
            role,
            program,
            log_dir_count: layout.log_dir_count,
            client_listener: listener(role.is_broker())?,
            controller_listener: listener(role.is_controller())?,
            child: None,
            is_held: false,
            log_mark: LogMark::at_end_of(&dir.join("server.log")),
            dir,
        })
    }

    /// Where clients and other brokers connect.
    pub(crate) fn address(&self) -> Option<String> {
        self.client_listener.map(Listener::address)
    }

    /// Where brokers and other controllers connect to this controller.
    pub(crate) fn controller_address(&self) -> Option<String> {
        self.controller_listener.map(Listener::address)
    }

    /// Its log directories.
    pub(crate) fn log_dirs(&self) -> Vec<PathBuf> {
        let dirs = 0..self.log_dir_count;
        dirs.map(|index| self.dir.join(format!("data-{index}")))
            .collect()
    }

    /// The properties file.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    /// Writes the properties file, with what the cluster gives to all.
    pub(crate) fn write_properties(&self, given: &str) -> Result<()> {
        let mut text = format!(
            "process.roles={}\nnode.id={}\ncontroller.listener.names=CONTROLLER\n",
            self.role.name(),
            self.id
        );
        let mut listeners = Vec::new();
        let mut advertised = Vec::new();
        let places = [
            ("PLAINTEXT", self.client_listener),
            ("CONTROLLER", self.controller_listener),
        ];
        for (name, listener) in places {
            if let Some(listener) = listener {
                listeners.push(format!("{name}://127.0.0.1:{}", listener.port));
                advertised.push(format!("{name}://{}", listener.address()));
            }
        }
        let dirs: Vec<String> = self
            .log_dirs()
            .iter()
            .map(|dir| dir.display().to_string())
            .collect();
        writeln!(text, "listeners={}", listeners.join(","))?;
        writeln!(text, "advertised.listeners={}", advertised.join(","))?;
        writeln!(text, "log.dirs={}", dirs.join(","))?;
        if self.log_dir_count > 1 {
            // No failure of a directory is one of the metadata log, with which a node ends.
            let metadata = self.dir.join("metadata");
            writeln!(text, "metadata.log.dir={}", metadata.display())?;
        }
        text.push_str(given);
        fs::write(self.file(), text)?;
        Ok(())
    }

    /// Starts the process and does not wait.
    pub(crate) fn spawn(&mut self, lab: &Lab, network: &Network) -> Result<()> {
        ensure!(self.child.is_none(), "node {} runs already", self.id);
        let mut command = match self.program {
            Against::Riverrun => {
                let mut command = Command::new(lab.riverrun()?);
                command.arg("server");
                command
            }
            Against::Kafka => lab.kafka_command("kafka.Kafka", &KAFKA_FLAGS),
        };
        let path = self.dir.join("server.log");
        self.log_mark = LogMark::at_end_of(&path);
        let log = File::options().create(true).append(true).open(&path)?;
        let child = command
            .arg(self.file())
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run {command:?}"))?;
        network.set_process(self.id, child.id());
        self.child = Some(child);
        self.is_held = false;
        Ok(())
    }

    /// Fails if the process has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        let Some(child) = &mut self.child else {
            return Ok(());
        };
        match child.try_wait()? {
            Some(status) => bail!("node {} ended by itself: {status}\n{}", self.id, self.log()),
            None => Ok(()),
        }
    }

    /// The last lines that this process wrote.
    pub(crate) fn log(&self) -> String {
        self.log_mark.tail()
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.check()?;
        self.signal(Signal::TERM)?;
        let status = self.await_end(STOP_LIMIT)?;
        // A JVM that ends by a signal's shutdown hooks reports 128 + the signal.
        let is_clean = status.success() || status.code() == Some(143);
        ensure!(
            is_clean,
            "node {} stopped with {status}\n{}",
            self.id,
            self.log()
        );
        Ok(())
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.check()?;
        self.signal(Signal::KILL)?;
        let status = self.await_end(STOP_LIMIT)?;
        ensure!(
            status.signal() == Some(Signal::KILL.as_raw()),
            "node {} ended with {status} when it was killed\n{}",
            self.id,
            self.log()
        );
        Ok(())
    }

    /// Holds the process as it is (SIGSTOP).
    pub(crate) fn hold(&mut self) -> Result<()> {
        self.check()?;
        self.is_held = true;
        self.signal(Signal::STOP)
    }

    /// Lets it go on (SIGCONT).
    pub(crate) fn go_on(&mut self) -> Result<()> {
        self.is_held = false;
        self.signal(Signal::CONT)
    }

    /// Waits until the process has ended by itself, which is wanted of it.
    pub(crate) fn await_end(&mut self, limit: Duration) -> Result<ExitStatus> {
        let child = self.child.as_mut().context("the node runs")?;
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = child.try_wait()? {
                self.child = None;
                return Ok(status);
            }
            if Instant::now() >= deadline {
                bail!(
                    "node {} still runs after {limit:?}\n{}",
                    self.id,
                    self.log()
                );
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("the node runs")?;
        let id = i32::try_from(child.id()).context("a process id fits in 32 bits")?;
        let process = Pid::from_raw(id).context("a process id is positive")?;
        kill_process(process, signal).context("cannot send a signal")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail only when the process is gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_connect_to_the_relay_of_a_listener_if_it_has_one() {
        let network = Network::new().expect("threads start");
        let own = Listener::new(&network, 1, false).expect("a port is free");
        assert_eq!(own.address(), format!("127.0.0.1:{}", own.port));
        let relayed = Listener::new(&network, 1, true).expect("a relay starts");
        assert_ne!(relayed.address(), format!("127.0.0.1:{}", relayed.port));
    }
}
