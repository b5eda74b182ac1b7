//! One server's part of a round: started, warmed up, put under each scenario's load, and ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::cores::Cores;
use super::network::Network;
use super::options::Options;
use super::peer::{Kind, Plan, Running};
use super::programs::Programs;
use super::scenario::{Floor, Load, SCENARIOS, Scenario};

/// Time after the start before memory counts as idle.
const IDLE: Duration = Duration::from_secs(1);
/// Load before each window.
pub(super) const BEFORE_WINDOW_SECONDS: f64 = 1.0;
/// The topic that the consumers share.
const SHARED_TOPIC: &str = "consumed";
/// What warms a server up, each with its share of the whole time.
const WARM_UP: [(&str, f64); 5] = [
    ("produce", 0.25),
    (
        "produce --partitions 16 --connections 64 --in-flight 1 --record-bytes 200 --batch-bytes 1",
        0.25,
    ),
    ("produce --codec lz4 --acks -1", 0.15),
    ("consume --fill-mb 100", 0.15),
    (
        "paced --acks -1 --partitions 200 --partitions-per-request 10 --batch-bytes 1 \
         --mb-per-second 2",
        0.2,
    ),
];

/// What scenarios said, by their names.
pub(super) type Results = BTreeMap<&'static str, Value>;

/// What stays the same from round to round.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) programs: &'a Programs,
    pub(super) cores: Option<Cores>,
    /// Another host for the load generator, if this user may make one.
    pub(super) network: Option<Network>,
}

impl Bench<'_> {
    /// How long a server is warmed up before its first window: a JVM compiles what runs often.
    pub(super) fn warm_up_seconds(&self, kind: Kind) -> f64 {
        match (kind, self.options.quick) {
            (Kind::Kafka, false) => 20.0,
            (Kind::Kafka, true) => 10.0,
            _ => 3.0,
        }
    }

    /// Whether there is another host, and the kernel has this congestion control.
    fn has_network(&self, control: &str) -> bool {
        let network = self.network.as_ref();
        network.is_some_and(|network| network.has_congestion_control(control))
    }

    /// Most MB of records in one window, so that the disk is not part of the measurement.
    pub(super) fn window_mb(&self) -> u32 {
        if self.options.quick { 600 } else { 2000 }
    }

    /// Runs every chosen scenario of one server on a fresh one in `dir`.
    pub(super) fn run(&self, kind: Kind, dir: &Path) -> Result<Results> {
        let core = self.cores.map(|cores| cores.server);
        let network = self.network.as_ref().map(|network| network.server);
        let plan = Plan::new(kind, dir, core, network, self.programs)?;
        let (mut running, start) = self.start(&plan)?;
        let mut results = Results::new();
        let outcome = self.scenarios(&mut running, start, &mut results);
        outcome.with_context(|| format!("{}; {}", kind.title(), running.log_tail()))?;
        Ok(results)
    }

    /// Starts the server; with its time to the first acknowledged record, which asks for it from
    /// before the start.
    pub(super) fn start<'p>(&self, plan: &'p Plan) -> Result<(Running<'p>, Value)> {
        if plan.kind == Kind::Floor {
            let (mut running, _) = plan.start(self.programs)?;
            running.wait_until_listening()?;
            return Ok((running, Value::Null));
        }
        let mut load = self.load("first-record --topic first --partitions 1", plan, None);
        let load = load.stdout(Stdio::piped()).spawn()?;
        let (running, started_at) = plan.start(self.programs)?;
        let result = result_of(load).with_context(|| running.log_tail())?;
        let acknowledged = result["acknowledged_at_seconds"].as_f64();
        let started = started_at.duration_since(UNIX_EPOCH)?.as_secs_f64();
        let seconds = acknowledged.context("no time of the first record")? - started;
        Ok((running, json!({ "start_ms": seconds * 1e3 })))
    }

    fn scenarios(
        &self,
        running: &mut Running<'_>,
        start: Value,
        results: &mut Results,
    ) -> Result<()> {
        thread::sleep(IDLE);
        let idle_mb = running.resident_mb()?;
        let chosen = SCENARIOS.iter().filter(|scenario| {
            self.options.chooses(scenario)
                && !scenario.is_cluster()
                && (scenario.floor == Floor::Serves || running.plan.kind != Kind::Floor)
                && scenario
                    .over
                    .is_none_or(|control| self.has_network(control))
        });
        let chosen: Vec<&Scenario> = chosen.collect();
        if chosen.iter().any(|scenario| scenario.load.is_window()) {
            self.warm_up(running)?;
        }
        let mut loaded_mb = idle_mb;
        for scenario in chosen {
            let result = match scenario.load {
                Load::Start => start.clone(),
                Load::Memory => json!({ "idle_mb": idle_mb, "loaded_mb": loaded_mb }),
                Load::Window(_) | Load::Cold(_) => self.window(running, scenario, true)?,
                Load::Shared(_) => self.window(running, scenario, false)?,
                Load::Cluster(_) => continue,
            };
            loaded_mb = loaded_mb.max(result["resident_mb"].as_f64().unwrap_or(0.0));
            results.insert(scenario.name, result);
        }
        Ok(())
    }

    fn warm_up(&self, running: &mut Running<'_>) -> Result<()> {
        let seconds = self.warm_up_seconds(running.plan.kind);
        for (load, share) in WARM_UP {
            let mut command = self.load(load, running.plan, None);
            let seconds = (seconds * share).to_string();
            command.args(["--topic", "warm-up", "--warmup-seconds", "0", "--delete"]);
            command.args(["--seconds", &seconds, "--max-mb", "2000"]);
            let result = result_of(command.stdout(Stdio::piped()).spawn()?);
            result.with_context(|| format!("warm-up `{load}`"))?;
            running.wait_until_deleted("warm-up")?;
        }
        Ok(())
    }

    /// One window of load; `delete` removes its topic afterwards.
    pub(super) fn window(
        &self,
        running: &mut Running<'_>,
        scenario: &Scenario,
        delete: bool,
    ) -> Result<Value> {
        let (topic, load) = match scenario.load {
            Load::Window(load) | Load::Cold(load) => (scenario.name, load),
            Load::Shared(load) => (SHARED_TOPIC, load),
            Load::Start | Load::Memory | Load::Cluster(_) => {
                bail!("`{}` has no window", scenario.name)
            }
        };
        let mut command = self.load(load, running.plan, scenario.over);
        if let (Some(network), Some(control)) = (&self.network, scenario.over) {
            network.set_congestion_control(control)?;
        }
        command.args(["--topic", topic, "--pid", &running.pid().to_string()]);
        command.args(["--warmup-seconds", &BEFORE_WINDOW_SECONDS.to_string()]);
        let seconds = self.options.seconds() * scenario.length;
        command.args(["--seconds", &seconds.to_string()]);
        command.args(["--max-mb", &self.window_mb().to_string()]);
        if delete {
            command.arg("--delete");
        }
        if load.starts_with("consume") {
            command.args(["--fill-mb", &(self.window_mb() / 2).to_string()]);
        }
        if matches!(scenario.load, Load::Cold(_)) {
            command.arg("--cold").arg(running.plan.data_dir());
        }
        let result = result_of(command.stdout(Stdio::piped()).spawn()?);
        let mut result = result.with_context(|| format!("`{load}` on topic {topic}"))?;
        let cpu = result["cpu_seconds"]
            .as_f64()
            .zip(result["seconds"].as_f64());
        result["cores_busy"] = json!(cpu.map(|(cpu, seconds)| cpu / seconds));
        if delete {
            running.wait_until_deleted(topic)?;
        }
        Ok(result)
    }

    /// The load generator with the arguments in `load`, on the other host if there is a network
    /// between.
    fn load(&self, load: &str, plan: &Plan, over: Option<&str>) -> Command {
        let network = self.network.as_ref().filter(|_| over.is_some());
        let (mut command, address) = match (network, plan.network_address()) {
            (Some(network), Some(address)) => (network.inside(&self.programs.macrobench), address),
            _ => (Command::new(&self.programs.macrobench), plan.address()),
        };
        command.arg("load").args(load.split_whitespace());
        command.args(["--address", &address]);
        if let Some(cores) = self.cores {
            command.args(["--core", &cores.load.to_string()]);
        }
        command.stdin(Stdio::null());
        command
    }
}

/// Waits for the load generator's result.
pub(super) fn result_of(load: Child) -> Result<Value> {
    let output = load.wait_with_output()?;
    ensure!(
        output.status.success(),
        "the load generator ended with {}",
        output.status
    );
    serde_json::from_slice(&output.stdout).context("the load generator's result is no JSON")
}
