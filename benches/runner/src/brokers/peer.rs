//! A server under measurement: Apache Kafka, riverrun or the floor, in a folder of its own.
//!
//! Apache Kafka and riverrun read the same properties file: Kafka's defaults, one node that is
//! broker and controller, and deleted topics that free their disk at once. The JVM has the flags
//! and the heap that Kafka's start script gives it.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::cores::on_core;
use super::programs::Programs;
use harness::free_port;
use harness::process::{LogMark, run_quietly};

/// Kafka's start script sets these; `-Xshare` is the virtual machine's own default.
pub(super) const JVM_FLAGS: [&str; 9] = [
    "-Xms1g",
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
];
const CLUSTER_ID: &str = "cmhvdGhhcmJvdXJyaXZlcg";
const CLOCK_TICKS_PER_SECOND: f64 = 100.0;
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const LIMIT: Duration = Duration::from_secs(60);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Kind {
    Kafka,
    Riverrun,
    Floor,
    /// Another build of riverrun.
    Before,
}

impl Kind {
    /// Those of a whole run, in the order of a round.
    pub(super) const ALL: [Self; 3] = [Self::Kafka, Self::Riverrun, Self::Floor];

    /// The name on the command line and in JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Riverrun => "riverrun",
            Self::Floor => "floor",
            Self::Before => "before",
        }
    }

    /// The name for people.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Kafka => "Apache Kafka 4.3.1",
            Self::Riverrun => "riverrun",
            Self::Floor => "floor",
            Self::Before => "riverrun before",
        }
    }
}

/// A server that can be started.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    dir: PathBuf,
    port: u16,
    core: Option<usize>,
    /// Where clients of another host connect.
    network: Option<SocketAddrV4>,
}

impl Plan {
    /// Prepares the empty folder `dir`; Apache Kafka's is formatted.
    pub(super) fn new(
        kind: Kind,
        dir: &Path,
        core: Option<usize>,
        network: Option<Ipv4Addr>,
        programs: &Programs,
    ) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let port = free_port(0)?;
        let network = match network {
            Some(address) => Some(SocketAddrV4::new(address, free_port(port)?)),
            None => None,
        };
        let controller_port = {
            // Taken for a moment, so that the third port is neither of the other two.
            let _taken = TcpListener::bind(("127.0.0.1", port))?;
            free_port(network.map_or(port, |address| address.port()))?
        };
        let plan = Self {
            kind,
            dir: dir.to_owned(),
            port,
            core,
            network,
        };
        if kind != Kind::Floor {
            fs::write(plan.properties(), plan.properties_text(controller_port))?;
        }
        plan.format("--standalone", programs)?;
        Ok(plan)
    }

    /// Prepares the empty folder `dir` for a node of a cluster that listens to `port` and has these
    /// properties; Apache Kafka's is formatted with `format`.
    pub(super) fn of_cluster(
        kind: Kind,
        dir: &Path,
        port: u16,
        properties: &str,
        format: &str,
        programs: &Programs,
    ) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let plan = Self {
            kind,
            dir: dir.to_owned(),
            port,
            core: None,
            network: None,
        };
        let data = format!("log.dirs={}\n", plan.data_dir().display());
        fs::write(plan.properties(), properties.to_owned() + &data)?;
        plan.format(format, programs)?;
        Ok(plan)
    }

    /// Only Apache Kafka needs it.
    fn format(&self, how: &str, programs: &Programs) -> Result<()> {
        if self.kind != Kind::Kafka {
            return Ok(());
        }
        let mut format = programs.java.command("kafka.tools.StorageTool");
        format.args(["format", how, "-t", CLUSTER_ID, "-c"]);
        run_quietly(format.arg(self.properties())).context("Kafka's StorageTool failed")
    }

    /// Where clients connect.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where clients of another host connect, if there is one.
    pub(super) fn network_address(&self) -> Option<String> {
        self.network.map(|address| address.to_string())
    }

    /// The folder of the log.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn properties(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    fn properties_text(&self, controller_port: u16) -> String {
        let address = self.address();
        let data = self.data_dir();
        let network = self.network.map(|address| format!(",NETWORK://{address}"));
        let network = network.unwrap_or_default();
        format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.listener.names=CONTROLLER\n\
             controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}\n\
             listeners=PLAINTEXT://{address},CONTROLLER://127.0.0.1:{controller_port}{network}\n\
             advertised.listeners=PLAINTEXT://{address}{network}\n\
             listener.security.protocol.map=\
             PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,NETWORK:PLAINTEXT\n\
             log.dirs={data}\n\
             offsets.topic.replication.factor=1\n\
             transaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\n\
             share.coordinator.state.topic.replication.factor=1\n\
             share.coordinator.state.topic.min.isr=1\n\
             log.initial.task.delay.ms=500\n\
             log.segment.delete.delay.ms=0\n",
            data = data.display(),
        )
    }

    /// Starts the server and tells when.
    pub(super) fn start(&self, programs: &Programs) -> Result<(Running<'_>, SystemTime)> {
        let log = self.dir.join("server.log");
        let log_mark = LogMark::at_end_of(&log);
        let output = File::options().create(true).append(true).open(&log)?;
        let mut command = self.command(programs);
        command
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let started_at = SystemTime::now();
        let child = on_core(self.core, || {
            let child = command.spawn();
            child.with_context(|| format!("cannot run {command:?}"))
        })?;
        let running = Running {
            plan: self,
            child,
            log_mark,
        };
        Ok((running, started_at))
    }

    fn command(&self, programs: &Programs) -> Command {
        match self.kind {
            Kind::Kafka => {
                let mut command = Command::new("java");
                command.args(JVM_FLAGS);
                command.args(["-cp", programs.java.class_path(), "kafka.Kafka"]);
                command.arg(self.properties());
                command
            }
            Kind::Riverrun | Kind::Before => {
                let before = programs
                    .before
                    .as_ref()
                    .filter(|_| self.kind == Kind::Before);
                let mut command = Command::new(before.unwrap_or(&programs.riverrun));
                command.arg("server").arg(self.properties());
                command
            }
            Kind::Floor => {
                let mut command = Command::new(&programs.macrobench);
                command.args(["floor", "--listen", &self.address(), "--dir"]);
                command.arg(self.data_dir());
                if let Some(address) = self.network_address() {
                    command.args(["--also-listen", &address]);
                }
                command
            }
        }
    }
}

/// A running server; dropping it kills the process.
#[derive(Debug)]
pub(super) struct Running<'a> {
    pub(super) plan: &'a Plan,
    child: Child,
    log_mark: LogMark,
}

impl Running<'_> {
    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The last lines that it wrote.
    pub(super) fn log_tail(&self) -> String {
        self.log_mark.tail()
    }

    /// Waits until it accepts connections.
    pub(super) fn wait_until_listening(&mut self) -> Result<()> {
        let address = self.plan.address();
        self.wait_until("listen", || TcpStream::connect(&address).is_ok())
    }

    /// Waits until the files of a deleted topic are gone.
    pub(super) fn wait_until_deleted(&mut self, topic: &str) -> Result<()> {
        let data = self.plan.data_dir();
        self.wait_until("delete its topic's files", || {
            fs::read_dir(&data).is_ok_and(|entries| {
                let names = entries.flatten().map(|entry| entry.file_name());
                !names
                    .into_iter()
                    .any(|name| name.to_string_lossy().starts_with(topic))
            })
        })
    }

    /// Whether the process is gone.
    pub(super) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits until the process is gone.
    pub(super) fn wait(&mut self) -> Result<()> {
        self.child.wait()?;
        Ok(())
    }

    /// Has the process end by itself, and waits.
    pub(super) fn stop(&mut self) -> Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("it has a process")?, Signal::TERM)?;
        self.wait()
    }

    /// CPU time of all threads of the process, user and system, since it began.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds_of(self.pid())
    }

    /// Ends the process at once.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.wait()
    }

    /// Resident memory in MB.
    pub(super) fn resident_mb(&self) -> Result<f64> {
        memory_mb_of(self.pid(), "VmRSS:")
    }

    fn wait_until(&mut self, what: &str, done: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while !done() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}");
            }
            ensure!(
                Instant::now() < deadline,
                "the server did not {what} within {LIMIT:?}"
            );
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

/// CPU time of all threads of a process, user and system, since it began.
pub(super) fn cpu_seconds_of(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("no name in stat")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let ticks = words.get(11..13).context("no times in stat")?.iter();
    let ticks: Vec<f64> = ticks.map(|word| word.parse()).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / CLOCK_TICKS_PER_SECOND)
}

/// Memory of a process in MB: what stands in its status after `name`, such as `VmRSS:`.
pub(super) fn memory_mb_of(pid: u32, name: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib: f64 = kib.with_context(|| format!("no {name}"))?.parse()?;
    Ok(kib * 1024.0 / 1e6)
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
