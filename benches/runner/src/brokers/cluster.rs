//! Three brokers and a controller, all of one kind: started, stopped and killed one by one.
//!
//! The controller is a node of its own, so that each of the brokers can end and come back while somebody
//! elects leaders. It is the same shape for both sides, and what it costs is counted on neither.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::peer::{Kind, Plan, Running};
use super::programs::Programs;
use super::round::result_of;
use harness::free_port;

/// Brokers of a cluster, and replicas of its topics.
pub(super) const BROKER_COUNT: usize = 3;
/// The ids of the brokers follow on this one.
const CONTROLLER_ID: usize = 0;

/// When the controller takes a broker to be gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    pub(super) timeout: Duration,
    heartbeat_interval: Duration,
}

impl Session {
    /// Kafka's defaults.
    pub(super) const DEFAULT: Self = Self {
        timeout: Duration::from_secs(9),
        heartbeat_interval: Duration::from_secs(2),
    };
    /// For development.
    pub(super) const SHORT: Self = Self {
        timeout: Duration::from_secs(3),
        heartbeat_interval: Duration::from_millis(500),
    };
}

/// The nodes of a cluster, to be started.
#[derive(Debug)]
pub(super) struct Plans {
    controller: Plan,
    brokers: Vec<Plan>,
}

impl Plans {
    /// Prepares each node's folder below `dir`; a broker that says nothing for `session` is fenced.
    pub(super) fn new(
        kind: Kind,
        dir: &Path,
        session: Session,
        programs: &Programs,
    ) -> Result<Self> {
        let controller_port = free_port(0)?;
        let node = |id: usize, role: &str, listener: &str, port: u16, format: &str| {
            let text = format!(
                "process.roles={role}\nnode.id={id}\n\
                 controller.listener.names=CONTROLLER\n\
                 controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}\n\
                 listeners={listener}://127.0.0.1:{port}\n\
                 listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
                 default.replication.factor={BROKER_COUNT}\n\
                 offsets.topic.replication.factor={BROKER_COUNT}\n\
                 transaction.state.log.replication.factor={BROKER_COUNT}\n\
                 broker.session.timeout.ms={}\n\
                 broker.heartbeat.interval.ms={}\n\
                 log.initial.task.delay.ms=500\n\
                 log.segment.delete.delay.ms=0\n",
                session.timeout.as_millis(),
                session.heartbeat_interval.as_millis(),
            );
            let dir = dir.join(format!("node-{id}"));
            Plan::of_cluster(kind, &dir, port, &text, format, programs)
        };
        let first = CONTROLLER_ID + 1;
        let brokers = (first..first + BROKER_COUNT).map(|id| {
            let port = free_port(controller_port)?;
            node(id, "broker", "PLAINTEXT", port, "--no-initial-controllers")
        });
        let brokers = brokers.collect::<Result<Vec<_>>>()?;
        let (id, port) = (CONTROLLER_ID, controller_port);
        Ok(Self {
            controller: node(id, "controller", "CONTROLLER", port, "--standalone")?,
            brokers,
        })
    }
}

/// A running cluster; dropping it kills its processes.
#[derive(Debug)]
pub(super) struct Cluster<'p> {
    programs: &'p Programs,
    plans: &'p Plans,
    controller: Running<'p>,
    /// By index; `None` while it is down.
    brokers: Vec<Option<Running<'p>>>,
}

impl<'p> Cluster<'p> {
    /// Starts all nodes.
    pub(super) fn start(plans: &'p Plans, programs: &'p Programs) -> Result<Self> {
        let (controller, _) = plans.controller.start(programs)?;
        let mut cluster = Self {
            programs,
            plans,
            controller,
            brokers: Vec::new(),
        };
        for plan in &plans.brokers {
            let (broker, _) = plan.start(programs)?;
            cluster.brokers.push(Some(broker));
        }
        Ok(cluster)
    }

    /// Which server it is of.
    pub(super) fn kind(&self) -> Kind {
        self.plans.controller.kind
    }

    /// Starts a broker that is down; the time of the day in seconds.
    pub(super) fn start_broker(&mut self, index: usize) -> Result<f64> {
        let (running, started_at) = self.plans.brokers[index].start(self.programs)?;
        self.brokers[index] = Some(running);
        Ok(started_at.duration_since(UNIX_EPOCH)?.as_secs_f64())
    }

    /// Ends a broker cleanly.
    pub(super) fn stop_broker(&mut self, index: usize) -> Result<()> {
        self.take(index)?.stop()
    }

    /// Kills a broker.
    pub(super) fn kill_broker(&mut self, index: usize) -> Result<()> {
        self.take(index)?.kill()
    }

    fn take(&mut self, index: usize) -> Result<Running<'p>> {
        let broker = self.brokers.get_mut(index).and_then(Option::take);
        broker.with_context(|| format!("broker {index} does not run"))
    }

    /// The index of a broker by its node id.
    pub(super) fn index_of(id: u64) -> Result<usize> {
        let index = usize::try_from(id)?.checked_sub(CONTROLLER_ID + 1);
        index.context("a controller leads no partition")
    }

    fn running(&self) -> impl Iterator<Item = &Running<'p>> {
        self.brokers.iter().flatten()
    }

    /// CPU time of the running brokers, since each began.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        self.running().map(Running::cpu_seconds).sum()
    }

    /// A load of the load generator on the running brokers, whose processes it watches.
    pub(super) fn load(&self, load: &str, topic: &str) -> Command {
        let joined = |each: &dyn Fn(&Running<'p>) -> String| {
            let all: Vec<String> = self.running().map(each).collect();
            all.join(",")
        };
        let mut command = Command::new(&self.programs.macrobench);
        command.arg("load").args(load.split_whitespace());
        command.args(["--topic", topic, "--config", "min.insync.replicas=2"]);
        command.args(["--replication-factor", &BROKER_COUNT.to_string()]);
        command.args(["--address", &joined(&|broker| broker.plan.address())]);
        command.args(["--pid", &joined(&|broker| broker.pid().to_string())]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// Makes a topic unless it is there, and waits until every running broker says that all of its
    /// replicas are in sync.
    pub(super) fn in_sync(&self, topic: &str, partition_count: usize) -> Result<Value> {
        let mut load = self.load("in-sync --limit-seconds 300", topic);
        load.args(["--partitions", &partition_count.to_string()]);
        result_of(load.spawn()?).with_context(|| format!("topic {topic} is to be in sync"))
    }

    /// Deletes a topic whose replicas are all in sync, and its files.
    pub(super) fn delete(&mut self, topic: &str, partition_count: usize) -> Result<()> {
        let mut load = self.load("in-sync --delete", topic);
        load.args(["--partitions", &partition_count.to_string()]);
        result_of(load.spawn()?)?;
        self.wait_until_deleted(topic)
    }

    /// Waits until no broker has files of a deleted topic.
    pub(super) fn wait_until_deleted(&mut self, topic: &str) -> Result<()> {
        let mut brokers = self.brokers.iter_mut().flatten();
        brokers.try_for_each(|broker| broker.wait_until_deleted(topic))
    }

    /// Fails if a node has ended by itself.
    pub(super) fn check(&mut self) -> Result<()> {
        let brokers = self.brokers.iter_mut().flatten();
        for node in std::iter::once(&mut self.controller).chain(brokers) {
            if node.has_ended()? {
                bail!("a node has ended: {}", node.log_tail());
            }
        }
        Ok(())
    }

    /// The last lines of every node.
    pub(super) fn log_tails(&self) -> String {
        let nodes = std::iter::once(&self.controller).chain(self.running());
        let tails: Vec<String> = nodes.map(Running::log_tail).collect();
        tails.join("\n")
    }
}

/// A number of a load's result.
pub(super) fn number(result: &Value, name: &str) -> Result<f64> {
    let value = result[name].as_f64();
    value.with_context(|| format!("the result has no {name}: {}", json!(result)))
}
