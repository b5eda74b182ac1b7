//! Kafka's `log_dir_failure`: a log directory of a broker fails, which goes on with the other one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::clusters::cluster::LIMIT;
use crate::clusters::layout::{Layout, THREE_BROKERS};
use crate::clusters::stage::{Load, Stage, Told};

const TOPIC: &str = "failing";
/// It has replicas in both directories of each broker.
const OTHER: &str = "beside";

pub(crate) const LAYOUT: Layout = Layout {
    log_dir_count: 2,
    properties: &[("log.dir.failure.timeout.ms", "20000")],
    ..THREE_BROKERS
};

/// The directory of the leader fails, then that of a follower, which is restarted with it.
pub(crate) fn directory_fails(stage: &mut Stage) -> Result<Told> {
    stage.create_with(
        TOPIC,
        1,
        &[("min.insync.replicas", "2"), ("segment.ms", "3000")],
    )?;
    stage.create_with(OTHER, 4, &[("min.insync.replicas", "1")])?;
    let mut traffic = stage.traffic(&Load {
        records_per_second: 500,
        ..Load::on(TOPIC)
    })?;
    let leader = stage.cluster.leader(TOPIC, 0)?;
    fails(stage, leader, false)?;
    traffic.await_more(500)?;
    repair(stage, leader)?;
    let now = stage.cluster.leader(TOPIC, 0)?;
    let controllers = stage.cluster.controller_ids();
    let brokers = stage.cluster.broker_ids();
    let mut followers = brokers
        .into_iter()
        .filter(|id| *id != now && !controllers.contains(id));
    let follower = followers.next().context("some broker follows")?;
    fails(stage, follower, true)?;
    traffic.await_more(500)?;
    repair(stage, follower)?;
    stage.finish(traffic)
}

/// Breaks the directory that a broker has the topic in, and waits until everybody knows.
fn fails(stage: &mut Stage, broker: i32, is_restarted: bool) -> Result<()> {
    let dir = dir_of(stage, broker)?;
    fs::rename(&dir, aside(&dir))?;
    // A file in its place: nothing can be made in it, and what is open stays open.
    fs::write(&dir, "")?;
    if is_restarted {
        stage.cluster.node(broker)?.kill()?;
        stage.cluster.start_node(broker)?;
    }
    let what = format!("node {broker} is out of sync");
    stage.cluster.await_partitions(TOPIC, &what, |partition| {
        partition.leader >= 0 && !partition.isr.contains(&broker)
    })?;
    let what = format!("node {broker} serves its other directory only");
    stage.cluster.await_that(&what, LIMIT, |cluster| {
        let dirs = cluster.operator.log_dirs()?;
        let of_it = dirs.iter().filter(|found| found.broker == broker);
        // One that has failed before a start has no name.
        let is_good = |path: &Path| {
            let mut found = of_it.clone().filter(|found| found.path == path);
            found.any(|found| !found.is_failed)
        };
        let other = other_dirs(cluster.node(broker)?.log_dirs(), &dir);
        Ok(!is_good(&dir) && other.iter().all(|path| is_good(path)))
    })?;
    stage
        .cluster
        .await_partitions(OTHER, "somebody leads", |partition| partition.leader >= 0)
}

/// Brings the directory back, and the broker with it.
fn repair(stage: &mut Stage, broker: i32) -> Result<()> {
    let dirs = stage.cluster.node(broker)?.log_dirs();
    let broken = dirs.into_iter().find(|dir| dir.is_file());
    let dir = broken.context("a directory is broken")?;
    stage.cluster.node(broker)?.stop()?;
    fs::remove_file(&dir)?;
    fs::rename(aside(&dir), &dir)?;
    stage.cluster.start_node(broker)?;
    stage.cluster.await_full_isr(TOPIC)?;
    stage.cluster.await_full_isr(OTHER)
}

/// The directory in which a broker has the topic.
fn dir_of(stage: &mut Stage, broker: i32) -> Result<PathBuf> {
    let dirs = stage.cluster.operator.log_dirs()?;
    let place = format!("{TOPIC}-0");
    let found = dirs
        .into_iter()
        .find(|dir| dir.broker == broker && dir.lag.contains_key(&place));
    Ok(found.context("the broker has a replica")?.path)
}

fn other_dirs(mut dirs: Vec<PathBuf>, dir: &Path) -> Vec<PathBuf> {
    dirs.retain(|other| other != dir);
    dirs
}

fn aside(dir: &Path) -> PathBuf {
    dir.with_extension("aside")
}
