//! A server under test: started on free ports with its own directory, stopped or killed by its own
//! process id, and never left behind.
//!
//! `riverrun` and Apache Kafka differ only in [`Against`]: the process to run and how its
//! directory is prepared. Everything else asks the same of both.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use harness::free_port;
use harness::java::Java;
use harness::process::{LogMark, run_quietly};

/// The cluster that StorageTool formats.
const CLUSTER_ID: &str = "cmhvdGhhcmJvdXJyaXZlcg";
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Members of the newer groups learn of a new assignment with a heartbeat, whose interval the
/// broker sets; its default would make up most of the suite's time. So would sessions of members that
/// are gone, by the defaults of their lower bounds.
pub(crate) const FAST_GROUPS: &[(&str, &str)] = &[
    ("group.consumer.min.heartbeat.interval.ms", "200"),
    ("group.consumer.heartbeat.interval.ms", "200"),
    ("group.min.session.timeout.ms", "1000"),
    ("group.consumer.min.session.timeout.ms", "1000"),
    ("group.share.min.heartbeat.interval.ms", "200"),
    ("group.share.heartbeat.interval.ms", "200"),
    (
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "500",
    ),
];

/// Which server is under test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Against {
    #[default]
    Riverrun,
    Kafka,
}

/// How to run each kind of server.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) riverrun: PathBuf,
    pub(crate) java: Java,
}

/// What only Apache Kafka is started with, on a directory that it shares with others.
#[derive(Clone, Debug, Default)]
pub(crate) struct KafkaOnly {
    /// The release to run; none is the one that the clients are of.
    pub(crate) java: Option<Java>,
    /// Further properties.
    pub(crate) properties: Vec<(&'static str, &'static str)>,
}

/// What a server is started with; reusable for a restart on the same directory and port.
#[derive(Clone, Debug)]
pub(crate) struct ServerPlan {
    against: Against,
    port: u16,
    controller_port: u16,
    dir: PathBuf,
    properties: Vec<(String, String)>,
    by_file: bool,
    features: Vec<String>,
    has_fixed_voters: bool,
    kafka_only: KafkaOnly,
    environment: Vec<(&'static str, PathBuf)>,
}

impl ServerPlan {
    /// Plans a server with the empty directory `dir` and free ports. `properties` are Kafka's
    /// configuration names and win over the defaults of one node without replication.
    pub(crate) fn new(against: Against, dir: &Path, properties: &[(&str, &str)]) -> Result<Self> {
        if dir.exists() {
            fs::remove_dir_all(dir).with_context(|| format!("cannot clear {}", dir.display()))?;
        }
        fs::create_dir_all(dir)?;
        let port = free_port(0)?;
        let controller_port = free_port(port)?;
        let mut plan = Self {
            against,
            port,
            controller_port,
            dir: dir.to_owned(),
            properties: Vec::new(),
            by_file: against == Against::Kafka,
            features: Vec::new(),
            has_fixed_voters: false,
            kafka_only: KafkaOnly::default(),
            environment: Vec::new(),
        };
        for (name, value) in [
            ("offsets.topic.replication.factor", "1"),
            ("offsets.topic.num.partitions", "5"),
            ("transaction.state.log.replication.factor", "1"),
            ("transaction.state.log.min.isr", "1"),
            ("transaction.state.log.num.partitions", "5"),
            ("share.coordinator.state.topic.replication.factor", "1"),
            ("share.coordinator.state.topic.min.isr", "1"),
            ("group.initial.rebalance.delay.ms", "0"),
            // Bounds how long a broker killed and restarted waits for its old registration.
            ("broker.session.timeout.ms", "3000"),
            ("broker.heartbeat.interval.ms", "500"),
        ] {
            plan.set(name, value);
        }
        for (name, value) in properties {
            plan.set(name, value);
        }
        Ok(plan)
    }

    /// The same plan for another kind of server: it opens the directory the first one left, and
    /// reads the same properties file.
    pub(crate) fn on(&self, against: Against) -> Self {
        Self {
            against,
            by_file: true,
            ..self.clone()
        }
    }

    /// The same plan, but Kafka's StorageTool formats the directory with these features
    /// (`NAME=LEVEL`) instead of the newest.
    pub(crate) fn with_features(mut self, features: &[&str]) -> Self {
        self.features = features.iter().map(|&feature| feature.to_owned()).collect();
        self
    }

    /// The same plan, but the properties file names the voters of the quorum, which it then fixes.
    pub(crate) fn with_fixed_voters(mut self) -> Self {
        self.has_fixed_voters = true;
        self
    }

    /// The same plan with what only Kafka is started with.
    pub(crate) fn with_kafka_only(mut self, kafka_only: KafkaOnly) -> Self {
        self.kafka_only = kafka_only;
        self
    }

    /// The same plan with a file that an environment variable of the process names.
    pub(crate) fn with_environment(mut self, name: &'static str, file: PathBuf) -> Self {
        self.environment.push((name, file));
        self
    }

    fn set(&mut self, name: &str, value: &str) {
        self.properties.retain(|(present, _)| present != name);
        self.properties.push((name.to_owned(), value.to_owned()));
    }

    /// Where clients connect.
    pub(crate) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The log directory.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The file that takes the server's output.
    fn log_path(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    /// Starts the server and waits until it answers a metadata request with itself in it.
    pub(crate) fn start(&self, programs: &Programs) -> Result<Server> {
        let mut server = self.spawn(programs)?;
        match server.wait_until_ready() {
            Ok(()) => Ok(server),
            Err(error) => Err(error.context(server.log_tail())),
        }
    }

    /// Starts the server and does not wait.
    pub(crate) fn spawn(&self, programs: &Programs) -> Result<Server> {
        let mut command = match self.against {
            Against::Riverrun => self.riverrun_command(programs)?,
            Against::Kafka => self.kafka_command(programs)?,
        };
        let log_mark = LogMark::at_end_of(&self.log_path());
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())?;
        let child = command
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run {command:?}"))?;
        Ok(Server {
            child,
            plan: self.clone(),
            log_mark,
        })
    }

    fn riverrun_command(&self, programs: &Programs) -> Result<Command> {
        let mut command = Command::new(&programs.riverrun);
        command.arg("server").current_dir(&self.dir);
        if self.by_file {
            command.arg(self.write_properties()?);
            return Ok(command);
        }
        let place = [
            (
                "listeners".to_owned(),
                format!("PLAINTEXT://{}", self.bootstrap()),
            ),
            ("log.dirs".to_owned(), self.data_dir().display().to_string()),
        ];
        for (name, value) in place.iter().chain(&self.properties) {
            command.arg("--set").arg(format!("{name}={value}"));
        }
        Ok(command)
    }

    /// Formats the directory when it is new, and names the process.
    fn kafka_command(&self, programs: &Programs) -> Result<Command> {
        let file = self.write_properties()?;
        let java = self.kafka_only.java.as_ref().unwrap_or(&programs.java);
        if !self.data_dir().join("meta.properties").exists() {
            let mut format = java.command("kafka.tools.StorageTool");
            format.args(["format", "-t", CLUSTER_ID]);
            if !self.has_fixed_voters {
                format.arg("--standalone");
            }
            for feature in &self.features {
                format.args(["--feature", feature]);
            }
            format.arg("-c");
            run_quietly(format.arg(&file)).context("Kafka's StorageTool failed")?;
        }
        let mut command = java.command_with("kafka.Kafka", &["-Xms256m", "-Xmx1g"]);
        command.arg(&file).current_dir(&self.dir);
        Ok(command)
    }

    /// Writes the properties file of one node that is broker and controller.
    fn write_properties(&self) -> Result<PathBuf> {
        let file = self.dir.join("server.properties");
        let controller = format!("127.0.0.1:{}", self.controller_port);
        let quorum = match self.has_fixed_voters {
            true => format!("controller.quorum.voters=1@{controller}"),
            false => format!("controller.quorum.bootstrap.servers={controller}"),
        };
        let mut text = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.listener.names=CONTROLLER\n\
             {quorum}\n\
             listeners=PLAINTEXT://{bootstrap},CONTROLLER://{controller}\n\
             advertised.listeners=PLAINTEXT://{bootstrap}\n\
             log.dirs={data}\n",
            bootstrap = self.bootstrap(),
            data = self.data_dir().display(),
        );
        for (name, value) in &self.properties {
            text.push_str(&format!("{name}={value}\n"));
        }
        if self.against == Against::Kafka {
            for (name, value) in &self.kafka_only.properties {
                text.push_str(&format!("{name}={value}\n"));
            }
        }
        fs::write(&file, text)?;
        Ok(file)
    }
}

/// A running server; dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    plan: ServerPlan,
    log_mark: LogMark,
}

impl Server {
    /// Where clients connect.
    pub(crate) fn bootstrap(&self) -> String {
        self.plan.bootstrap()
    }

    /// What it was started with.
    pub(crate) fn plan(&self) -> &ServerPlan {
        &self.plan
    }

    /// The last lines that this process wrote.
    pub(crate) fn log_tail(&self) -> String {
        self.log_mark.tail()
    }

    /// The process's exit status if it ended by itself.
    pub(crate) fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Stops the server by SIGTERM and waits for its end.
    pub(crate) fn stop(mut self) -> Result<()> {
        let stopped = self.stop_gracefully();
        stopped.map_err(|error| error.context(self.log_tail()))
    }

    fn stop_gracefully(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the server ended by itself: {status}");
        }
        let id = i32::try_from(self.child.id()).context("a process id fits in 32 bits")?;
        let pid = Pid::from_raw(id).context("a process id is positive")?;
        kill_process(pid, Signal::TERM).context("cannot send SIGTERM")?;
        let deadline = Instant::now() + STOP_LIMIT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                // A JVM that ends by a signal's shutdown hooks reports 128 + the signal.
                let clean = status.success() || status.code() == Some(143);
                ensure!(clean, "the server stopped with {status}");
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
        bail!("the server still ran {STOP_LIMIT:?} after SIGTERM")
    }

    /// Ends the server by SIGKILL, as a crash would.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at start with {status}");
            }
            if answers_metadata(self.plan.port).unwrap_or(false) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the server is not ready after {START_LIMIT:?}"
            );
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks for metadata (version 1, no topics) and tells whether the answer names a broker.
fn answers_metadata(port: u16) -> Result<bool> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let limit = Duration::from_secs(5);
    let mut connection = TcpStream::connect_timeout(&address, limit)?;
    connection.set_read_timeout(Some(limit))?;
    // Size, API key 3, version 1, correlation id 7, no client id, an empty array of topics.
    connection.write_all(&[0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 7, 255, 255, 0, 0, 0, 0])?;
    // Size, correlation id, count of brokers.
    let mut head = [0; 12];
    connection.read_exact(&mut head)?;
    Ok(head[4..8] == [0, 0, 0, 7] && head[8..12] != [0, 0, 0, 0])
}
