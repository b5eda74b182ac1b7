//! One kind's part of a round on three brokers: started, warmed up, put through each scenario, and ended.

use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::cluster::{BROKER_COUNT, Cluster, Plans, Session, number};
use super::peer::Kind;
use super::round::{BEFORE_WINDOW_SECONDS, Bench, Results, result_of};
use super::scenario::{ClusterLoad, Load, SCENARIOS, Scenario};

/// What warms the brokers up, each with its share of the whole time.
const WARM_UP: [(&str, f64); 3] = [
    ("produce --acks -1 --partitions 6 --connections 6", 0.4),
    (
        "produce --acks -1 --partitions 6 --connections 30 --in-flight 1 --record-bytes 200 --batch-bytes 1",
        0.3,
    ),
    (
        "paced --acks -1 --partitions 60 --connections 6 --batch-bytes 1 --mb-per-second 0.5",
        0.3,
    ),
];
/// Partitions of the topic that a broker catches up with, and of the one that is used through restarts.
const PARTITION_COUNT: usize = 6;
/// A heartbeat may have been on its way when its broker stopped.
const AFTER_SESSION: Duration = Duration::from_secs(1);
/// The load before the first restart and after each.
const BETWEEN_RESTARTS: Duration = Duration::from_secs(1);

impl Bench<'_> {
    /// Runs every chosen scenario of clusters on a fresh one in `dir`.
    pub(super) fn run_cluster(&self, kind: Kind, dir: &Path) -> Result<Results> {
        let plans = Plans::new(kind, dir, self.session(), self.programs)?;
        let mut cluster = Cluster::start(&plans, self.programs)?;
        let mut results = Results::new();
        let outcome = self.cluster_scenarios(&mut cluster, &mut results);
        outcome.with_context(|| format!("{}; {}", kind.title(), cluster.log_tails()))?;
        Ok(results)
    }

    /// How long three brokers are warmed up: as many virtual machines share the cores.
    pub(super) fn cluster_warm_up_seconds(&self, kind: Kind) -> f64 {
        match (kind, self.options.quick) {
            (Kind::Kafka, false) => 60.0,
            (Kind::Kafka, true) => 15.0,
            _ => 3.0,
        }
    }

    const fn session(&self) -> Session {
        match self.options.quick {
            true => Session::SHORT,
            false => Session::DEFAULT,
        }
    }

    fn cluster_scenarios(&self, cluster: &mut Cluster<'_>, results: &mut Results) -> Result<()> {
        cluster.in_sync("first", 1)?;
        for (load, share) in WARM_UP {
            let seconds = self.cluster_warm_up_seconds(cluster.kind()) * share;
            let mut command = cluster.load(load, "warm-up");
            command.args(["--warmup-seconds", "0", "--delete", "--max-mb", "1000"]);
            command.args(["--seconds", &seconds.to_string()]);
            result_of(command.spawn()?).with_context(|| format!("warm-up `{load}`"))?;
            cluster.wait_until_deleted("warm-up")?;
        }
        for scenario in SCENARIOS.iter().filter(|one| self.options.chooses(one)) {
            let Load::Cluster(load) = scenario.load else {
                continue;
            };
            // Who wrote most before would wait most for the disk now.
            rustix::fs::sync();
            let result = match load {
                ClusterLoad::Window(load) => self.cluster_window(cluster, scenario, load),
                ClusterLoad::CatchUp => self.catch_up(cluster, scenario.name),
                ClusterLoad::Failover => self.failover(cluster, scenario.name),
                ClusterLoad::Rolling => rolling(cluster, scenario.name),
            };
            results.insert(scenario.name, result.context(scenario.name)?);
            cluster.check()?;
        }
        Ok(())
    }

    fn cluster_window(
        &self,
        cluster: &mut Cluster<'_>,
        scenario: &Scenario,
        load: &str,
    ) -> Result<Value> {
        let mut command = cluster.load(load, scenario.name);
        command.args(["--warmup-seconds", &BEFORE_WINDOW_SECONDS.to_string()]);
        let seconds = self.options.seconds() * scenario.length;
        command.args(["--seconds", &seconds.to_string()]);
        command.args(["--max-mb", &self.window_mb().to_string(), "--delete"]);
        let mut result = result_of(command.spawn()?)?;
        result["cores_busy"] = json!(number(&result, "cpu_seconds")? / number(&result, "seconds")?);
        cluster.wait_until_deleted(scenario.name)?;
        Ok(result)
    }

    /// A broker stops cleanly, the others take records, and it starts again.
    fn catch_up(&self, cluster: &mut Cluster<'_>, topic: &str) -> Result<Value> {
        const DOWN: usize = BROKER_COUNT - 1;
        cluster.in_sync(topic, PARTITION_COUNT)?;
        cluster.stop_broker(DOWN)?;
        let stopped = Instant::now();
        let mut fill = cluster.load(
            "produce --acks -1 --connections 6 --warmup-seconds 0",
            topic,
        );
        let megabytes = (self.options.catch_up_gb() * 1e3).round();
        fill.args(["--partitions", &PARTITION_COUNT.to_string()]);
        fill.args(["--seconds", "600", "--max-mb", &megabytes.to_string()]);
        let filled = result_of(fill.spawn()?)?;
        let gigabytes = number(&filled, "bytes")? / 1e9;
        // Neither side registers a broker again before its old session has run out, a clean stop or not.
        let until = stopped + self.session().timeout + AFTER_SESSION;
        thread::sleep(until.saturating_duration_since(Instant::now()));
        let cpu_before = cluster.cpu_seconds()?;
        let started_at = cluster.start_broker(DOWN)?;
        let in_sync = cluster.in_sync(topic, PARTITION_COUNT)?;
        let cpu_seconds = cluster.cpu_seconds()? - cpu_before;
        let seconds = number(&in_sync, "in_sync_at_seconds")? - started_at;
        cluster.delete(topic, PARTITION_COUNT)?;
        Ok(json!({
            "gigabytes": gigabytes,
            "seconds": seconds,
            "mb_per_second": gigabytes * 1e3 / seconds,
            "cpu_seconds": cpu_seconds,
            "cpu_seconds_per_gb": cpu_seconds / gigabytes,
        }))
    }

    /// The leader of a partition is killed, again and again.
    fn failover(&self, cluster: &mut Cluster<'_>, topic: &str) -> Result<Value> {
        let mut kills = Vec::new();
        for _ in 0..self.options.kills() {
            let in_sync = cluster.in_sync(topic, 1)?;
            let leader = in_sync["leaders"][0].as_u64().context("it has a leader")?;
            let leader = Cluster::index_of(leader)?;
            let killed_at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
            cluster.kill_broker(leader)?;
            let mut load = cluster.load("next-record --partitions 1", topic);
            let next = result_of(load.spawn()?)?;
            kills.push(number(&next, "acknowledged_at_seconds")? - killed_at);
            cluster.start_broker(leader)?;
        }
        cluster.in_sync(topic, 1)?;
        let mean = kills.iter().sum::<f64>() / kills.len() as f64;
        let longest = kills.iter().copied().fold(0.0, f64::max);
        Ok(json!({ "mean_seconds": mean, "longest_seconds": longest, "kills_seconds": kills }))
    }
}

/// Each broker stops cleanly and starts again, under a producer and a consumer of each partition.
fn rolling(cluster: &mut Cluster<'_>, topic: &str) -> Result<Value> {
    cluster.in_sync(topic, PARTITION_COUNT)?;
    let mut load = cluster.load("steady", topic);
    load.args(["--partitions", &PARTITION_COUNT.to_string()]);
    let mut load = load.stdin(Stdio::piped()).spawn()?;
    let mut restarts = Vec::new();
    for index in 0..BROKER_COUNT {
        thread::sleep(BETWEEN_RESTARTS);
        let begun_at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        cluster.stop_broker(index)?;
        cluster.start_broker(index)?;
        let in_sync = cluster.in_sync(topic, PARTITION_COUNT)?;
        restarts.push(number(&in_sync, "in_sync_at_seconds")? - begun_at);
    }
    thread::sleep(BETWEEN_RESTARTS);
    // The load goes on until its input ends.
    drop(load.stdin.take());
    let mut result = result_of(load)?;
    ensure!(
        number(&result["consumer"], "records")? > 0.0,
        "nothing was consumed"
    );
    result["restart_seconds"] = json!(restarts.iter().sum::<f64>() / restarts.len() as f64);
    result["restarts_seconds"] = json!(restarts);
    Ok(result)
}
