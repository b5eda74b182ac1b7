//! A running cluster: its nodes, the network between them, and its operator.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::lab::Lab;
use super::layout::{Controllers, DEFAULTS, Layout, Mixture};
use super::network::{Network, Party};
use super::node::{Node, Role};
use super::operator::{Operator, Partition, Topic};
use crate::server::Against;

const CLUSTER_ID: &str = "cmhvdGhhcmJvdXJyaXZlcg";
/// The controllers that are no brokers have ids from here on.
const FIRST_CONTROLLER: i32 = 101;
/// The operator, as the network knows it.
const OPERATOR: i32 = 0;
const START_LIMIT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Limits of what Kafka's system tests wait for (60 seconds as a rule), with room for slow machines.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// A cluster; dropping it kills its nodes.
#[derive(Debug)]
pub(crate) struct Cluster {
    lab: Arc<Lab>,
    nodes: Vec<Node>,
    network: Network,
    pub(crate) operator: Operator,
}

impl Cluster {
    /// Formats the directories below `dir`, starts every node and waits until all brokers are there.
    pub(crate) fn start(
        lab: &Arc<Lab>,
        dir: &Path,
        mixture: &Mixture,
        layout: &Layout,
    ) -> Result<Self> {
        let network = Network::new()?;
        let mut nodes = Vec::new();
        for (id, role, program) in roster(mixture, layout.broker_count) {
            nodes.push(Node::new((id, role), program, layout, dir, &network)?);
        }
        let mut cluster = Self {
            operator: Operator::start(lab, dir)?,
            lab: lab.clone(),
            nodes,
            network,
        };
        let operator = cluster.operator.process();
        cluster.network.set_process(OPERATOR, operator);
        cluster.configure(layout)?;
        cluster.format()?;
        for index in 0..cluster.nodes.len() {
            cluster.nodes[index].spawn(lab, &cluster.network)?;
        }
        let bootstrap = cluster.bootstrap();
        cluster.operator.connect(&bootstrap)?;
        let all = cluster.broker_ids();
        cluster.await_brokers(&all)?;
        Ok(cluster)
    }

    fn configure(&self, layout: &Layout) -> Result<()> {
        let controllers: Vec<(i32, String)> = self
            .nodes
            .iter()
            .filter_map(|node| Some((node.id, node.controller_address()?)))
            .collect();
        let mut given = String::new();
        match &controllers[..] {
            [(_, address)] => writeln!(given, "controller.quorum.bootstrap.servers={address}")?,
            all => {
                let voters = all.iter().map(|(id, address)| format!("{id}@{address}"));
                let voters: Vec<String> = voters.collect();
                writeln!(given, "controller.quorum.voters={}", voters.join(","))?;
            }
        }
        let is_default = |name: &str| !layout.properties.iter().any(|(given, _)| *given == name);
        let defaults = DEFAULTS.iter().filter(|(name, _)| is_default(name));
        for (name, value) in defaults.chain(layout.properties) {
            writeln!(given, "{name}={value}")?;
        }
        for node in &self.nodes {
            let mut given = given.clone();
            if layout.has_racks && node.role.is_broker() {
                writeln!(given, "broker.rack=rack-{}", node.id)?;
            }
            node.write_properties(&given)?;
        }
        Ok(())
    }

    fn format(&mut self) -> Result<()> {
        let files = |is_meant: fn(Role) -> bool| -> Vec<PathBuf> {
            let meant = self.nodes.iter().filter(|node| is_meant(node.role));
            meant.map(Node::file).collect()
        };
        let (controllers, brokers) = (
            files(Role::is_controller),
            files(|role| role == Role::Broker),
        );
        let id = ["-t", CLUSTER_ID];
        if controllers.len() > 1 {
            self.operator.format(&controllers, &id)?;
            return self.operator.format(&brokers, &id);
        }
        let alone = [&id[..], &["--standalone"]].concat();
        self.operator.format(&controllers, &alone)?;
        let joining = [&id[..], &["--no-initial-controllers"]].concat();
        self.operator.format(&brokers, &joining)
    }

    /// Where clients connect first.
    pub(crate) fn bootstrap(&self) -> String {
        let addresses: Vec<String> = self.nodes.iter().filter_map(Node::address).collect();
        addresses.join(",")
    }

    /// The ids of the brokers, whether they run or not.
    pub(crate) fn broker_ids(&self) -> Vec<i32> {
        let brokers = self.nodes.iter().filter(|node| node.role.is_broker());
        brokers.map(|node| node.id).collect()
    }

    /// The ids of the controllers.
    pub(crate) fn controller_ids(&self) -> Vec<i32> {
        let controllers = self.nodes.iter().filter(|node| node.role.is_controller());
        controllers.map(|node| node.id).collect()
    }

    /// The nodes.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node by its id.
    pub(crate) fn node(&mut self, id: i32) -> Result<&mut Node> {
        let found = self.nodes.iter_mut().find(|node| node.id == id);
        found.with_context(|| format!("there is no node {id}"))
    }

    /// Starts a node that was ended, and waits until it is back if it is a broker.
    pub(crate) fn start_node(&mut self, id: i32) -> Result<()> {
        self.spawn(id)?;
        if self.node(id)?.role.is_broker() {
            self.await_broker(id)?;
        }
        Ok(())
    }

    /// Starts a node that was ended.
    pub(crate) fn spawn(&mut self, id: i32) -> Result<()> {
        let found = self.nodes.iter_mut().find(|node| node.id == id);
        let node = found.with_context(|| format!("there is no node {id}"))?;
        node.spawn(&self.lab, &self.network)
    }

    /// Ends a node by SIGTERM and starts another program on its directory.
    pub(crate) fn replace(&mut self, id: i32, program: Against) -> Result<()> {
        self.node(id)?.stop()?;
        self.node(id)?.program = program;
        self.start_node(id)
    }

    /// Cuts a node off from all other nodes; clients still reach it. The operator does not, as it would be told of
    /// a cluster that is no more.
    pub(crate) fn cut_off(&self, id: i32) {
        let mut others = self.parties();
        others.push(Party::Node(OPERATOR));
        self.network.cut(&[Party::Node(id)], &others);
    }

    /// Cuts a broker off from the other brokers; the controller still hears of it.
    pub(crate) fn cut_off_from_brokers(&self, id: i32) {
        let controllers = self.controller_ids();
        let mut others = self.parties();
        others.retain(|party| !matches!(party, Party::Node(id) if controllers.contains(id)));
        self.network.cut(&[Party::Node(id)], &others);
    }

    /// Cuts clients off from all nodes.
    pub(crate) fn cut_clients_off(&self) {
        self.network.cut(&[Party::Client], &self.parties());
    }

    /// Everything that is sent, clients' too, comes late and slowly.
    pub(crate) fn slow(&self, delay: Duration, bytes_per_second: u32) {
        let mut parties = self.parties();
        parties.extend([Party::Client, Party::Node(OPERATOR)]);
        self.network.slow(&parties, delay, bytes_per_second);
    }

    /// Ends whatever befalls the network.
    pub(crate) fn heal(&self) {
        self.network.heal();
    }

    fn parties(&self) -> Vec<Party> {
        self.nodes.iter().map(|node| Party::Node(node.id)).collect()
    }

    /// Waits until these brokers, and no others, are there and not fenced.
    pub(crate) fn await_brokers(&mut self, wanted: &[i32]) -> Result<()> {
        self.await_that(
            &format!("brokers {wanted:?} are there"),
            START_LIMIT,
            |cluster| Ok(cluster.operator.brokers()? == wanted),
        )
    }

    /// Waits until a broker is there and not fenced.
    pub(crate) fn await_broker(&mut self, id: i32) -> Result<()> {
        self.await_that(&format!("broker {id} is there"), START_LIMIT, |cluster| {
            Ok(cluster.operator.brokers()?.contains(&id))
        })
    }

    /// Makes a topic and waits until all replicas of it are in sync.
    pub(crate) fn create(&mut self, topic: &Topic<'_>) -> Result<()> {
        self.operator.create(topic)?;
        self.await_full_isr(topic.name)
    }

    /// Waits until every replica of a topic is in sync.
    pub(crate) fn await_full_isr(&mut self, topic: &str) -> Result<()> {
        self.await_partitions(topic, "all replicas are in sync", |partition| {
            partition.leader >= 0 && partition.isr.len() == partition.replicas.len()
        })
    }

    /// Waits until every replica of every topic is in sync, by `kafka-topics`.
    pub(crate) fn await_all_in_sync(&mut self) -> Result<()> {
        self.await_that("all replicas of all topics are in sync", LIMIT, |cluster| {
            let arguments = ["--describe", "--under-replicated-partitions"];
            let told = cluster.operator.tool("TopicCommand", &arguments)?;
            ensure!(told.trim().is_empty(), "{told}");
            Ok(true)
        })
    }

    /// Waits until every partition of a topic is as it should be.
    pub(crate) fn await_partitions(
        &mut self,
        topic: &str,
        what: &str,
        is_wanted: impl Fn(&Partition) -> bool,
    ) -> Result<()> {
        self.await_that(&format!("{topic}: {what}"), LIMIT, |cluster| {
            let partitions = cluster.operator.describe(topic)?;
            match partitions.iter().all(&is_wanted) {
                true => Ok(true),
                false => bail!("{partitions:?}"),
            }
        })
    }

    /// The leader of a partition, once there is one.
    pub(crate) fn leader(&mut self, topic: &str, partition: usize) -> Result<i32> {
        self.leader_other_than(topic, partition, -1)
    }

    /// The leader of a partition, once it is not `former`.
    pub(crate) fn leader_other_than(
        &mut self,
        topic: &str,
        partition: usize,
        former: i32,
    ) -> Result<i32> {
        let mut leader = -1;
        let what = format!("{topic}-{partition} has a leader other than {former}");
        self.await_that(&what, LIMIT, |cluster| {
            let partitions = cluster.operator.describe(topic)?;
            leader = partitions
                .get(partition)
                .context("no such partition")?
                .leader;
            Ok(leader >= 0 && leader != former)
        })?;
        Ok(leader)
    }

    /// Waits until `holds` says so; an error of it counts as no, and is told at the end. A node that ends by
    /// itself ends the wait.
    pub(crate) fn await_that(
        &mut self,
        what: &str,
        limit: Duration,
        mut holds: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let held = holds(self);
            if matches!(held, Ok(true)) {
                return Ok(());
            }
            self.check()?;
            if Instant::now() >= deadline {
                let what = format!("still not so after {limit:?}: {what}");
                return match held {
                    Err(error) => Err(error.context(what)),
                    Ok(_) => bail!(what),
                };
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Fails if a node has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(Node::check)
    }
}

/// The nodes of a cluster: id, role and program.
fn roster(mixture: &Mixture, broker_count: usize) -> Vec<(i32, Role, Against)> {
    let mut nodes = Vec::new();
    if let Controllers::Apart(programs) = mixture.controllers {
        for (id, program) in (FIRST_CONTROLLER..).zip(programs) {
            nodes.push((id, Role::Controller, *program));
        }
    }
    let is_combined = matches!(mixture.controllers, Controllers::FirstBroker);
    let programs = mixture.brokers.iter().cycle();
    for (id, program) in (1..).zip(programs).take(broker_count) {
        let role = match id == 1 && is_combined {
            true => Role::Both,
            false => Role::Broker,
        };
        nodes.push((id, role, *program));
    }
    nodes
}
