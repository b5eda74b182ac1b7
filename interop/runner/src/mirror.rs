//! Suite `mirror`: MirrorMaker 2 copies a topic of Apache Kafka's to the server under test, and keeps
//! the offsets of groups there. Topics, records and translated offsets have to arrive.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::run::Run;
use super::server::{Against, Server, ServerPlan};
use harness::process::{LogMark, output_of};

const SUITE: &str = "mirror";
const SCENARIO: &str = "kafka-to-server";
const RELEASE: &str = "4.3.1";

const TOPIC: &str = "orders";
/// What the copy is named by MirrorMaker's usual policy.
const COPY: &str = "source.orders";
const PARTITIONS: usize = 3;
const RECORDS: usize = 10;
/// A group that has read everything: its offset is translated exactly.
const AT_END: &str = "billing-end";
/// A group in between: MirrorMaker may put it before where it was, or nowhere, never behind.
const BETWEEN: &str = "billing-between";
const BETWEEN_OFFSET: u64 = 4;

const LIMIT: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The names of the scenarios.
pub(crate) fn list() -> Vec<String> {
    vec![SCENARIO.to_owned()]
}

/// Runs what is asked for.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    run.scenario(SUITE, SCENARIO, mirror);
    Ok(())
}

fn mirror(run: &mut Run) -> Result<()> {
    let dir = run.suite_dir(SUITE);
    let plan = ServerPlan::new(Against::Kafka, &dir.join("source"), &[])?;
    let source = run.start_planned(&plan)?;
    let plan = ServerPlan::new(run.options.against, &dir.join("target"), &[])?;
    let target = run.start_planned(&plan)?;
    let clusters = Clusters {
        riverrun: run.riverrun()?,
        dir,
        source,
        target,
    };
    clusters.fill()?;
    let mirror = Mirror::start(run, &clusters)?;
    let arrived = clusters.await_copy(mirror);
    arrived.map_err(|error| error.context(clusters.target.log_tail()))?;
    clusters.target.stop()?;
    clusters.source.stop()
}

/// Both ends.
struct Clusters {
    riverrun: PathBuf,
    dir: PathBuf,
    source: Server,
    target: Server,
}

impl Clusters {
    /// A topic with records, and groups that have read some of them.
    fn fill(&self) -> Result<()> {
        let (topic, partitions) = (TOPIC, PARTITIONS.to_string());
        let create = ["topic", "create", topic, "-p", &partitions];
        let configs = ["-c", "retention.ms=86400001"];
        self.ask(&self.source, &[&create[..], &configs].concat())?;
        let input = self.dir.join("records.txt");
        for partition in 0..PARTITIONS {
            let lines = (0..RECORDS).map(|number| format!("key-{number}:{partition}/{number}\n"));
            fs::write(&input, lines.collect::<String>())?;
            let (partition, input) = (partition.to_string(), input.display().to_string());
            let produce = ["produce", topic, "-p", &partition, "-K", ":", "-l", &input];
            self.ask(&self.source, &produce)?;
        }
        for (group, offset) in [(AT_END, RECORDS as u64), (BETWEEN, BETWEEN_OFFSET)] {
            let offset = offset.to_string();
            let seek = ["group", "seek", group, "--to", &offset, "--topics", topic];
            self.ask(&self.source, &seek)?;
        }
        Ok(())
    }

    /// Waits until everything has arrived, and ends MirrorMaker.
    fn await_copy(&self, mut mirror: Mirror) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        let records = self.records(&self.source, TOPIC)?;
        loop {
            let missing = self.missing(&records);
            let Err(missing) = missing else { return Ok(()) };
            if let Some(status) = mirror.child.try_wait()? {
                bail!("MirrorMaker has ended with {status}\n{}", mirror.log.tail());
            }
            if Instant::now() > deadline {
                let text = format!("not so after {LIMIT:?}\n{}", mirror.log.tail());
                return Err(missing.context(text));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// What is not there yet, or not as it should be.
    fn missing(&self, records: &[serde_json::Value]) -> Result<()> {
        let described = self.ask(&self.target, &["topic", "describe", COPY])?;
        let described: serde_json::Value = serde_json::from_str(&described)?;
        ensure!(described["partitions"] == PARTITIONS, "{described}");
        let configs = described["configs"].to_string();
        ensure!(configs.contains("86400001"), "{configs}");
        let copied = self.records(&self.target, COPY)?;
        ensure!(
            copied == records,
            "{} records are copied: {copied:?}",
            copied.len()
        );
        let at_end = self.offsets(AT_END)?;
        ensure!(
            at_end == [RECORDS as u64; PARTITIONS],
            "group {AT_END} is at {at_end:?}"
        );
        // For a partition whose syncs it has not kept it translates nothing; then there may be no
        // group at all.
        let between = self.offsets(BETWEEN).unwrap_or_default();
        ensure!(
            between.iter().all(|offset| *offset <= BETWEEN_OFFSET),
            "group {BETWEEN} is at {between:?}"
        );
        Ok(())
    }

    /// The records of a topic by partition and offset, without the topic's name.
    fn records(&self, server: &Server, topic: &str) -> Result<Vec<serde_json::Value>> {
        let printed = self.ask(server, &["consume", topic, "-o", "start", "-e"])?;
        let mut records = Vec::new();
        for line in printed.lines() {
            let mut record: serde_json::Value = serde_json::from_str(line)?;
            let fields = record.as_object_mut().context("a record is an object")?;
            fields.remove("topic");
            fields.remove("leaderEpoch");
            records.push(record);
        }
        let place = |record: &serde_json::Value| {
            let number = |name: &str| record[name].as_i64();
            (number("partition"), number("offset"))
        };
        records.sort_by_key(place);
        Ok(records)
    }

    /// What a group has committed in the copy.
    fn offsets(&self, group: &str) -> Result<Vec<u64>> {
        let described = self.ask(&self.target, &["group", "describe", group])?;
        let mut offsets = Vec::new();
        for line in described.lines() {
            let row: serde_json::Value = serde_json::from_str(line)?;
            ensure!(row["topic"] == COPY, "{row}");
            offsets.extend(row["committedOffset"].as_u64());
        }
        Ok(offsets)
    }

    /// What one of riverrun's commands prints for programs.
    fn ask(&self, server: &Server, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.riverrun);
        command.args(words);
        command.args(["-b", &server.bootstrap(), "--output", "json"]);
        output_of(&mut command).with_context(|| words[..2].join(" "))
    }
}

/// A running MirrorMaker; dropping it kills the process.
struct Mirror {
    child: Child,
    log: LogMark,
}

impl Mirror {
    fn start(run: &Run, clusters: &Clusters) -> Result<Self> {
        let java = run.kafka_connect("mirror", RELEASE)?;
        let properties = clusters.dir.join("mirror.properties");
        fs::write(&properties, Self::properties(clusters))?;
        let path = clusters.dir.join("mirror.log");
        let log = LogMark::at_end_of(&path);
        let output = File::options().create(true).append(true).open(&path)?;
        let mut command = java.command("org.apache.kafka.connect.mirror.MirrorMaker");
        let child = command
            .arg(&properties)
            .current_dir(&clusters.dir)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot run MirrorMaker")?;
        Ok(Self { child, log })
    }

    /// Every interval is as short as it can be, and each record leaves a trace by which offsets are
    /// translated.
    fn properties(clusters: &Clusters) -> String {
        format!(
            "clusters=source,target\n\
             source.bootstrap.servers={source}\n\
             target.bootstrap.servers={target}\n\
             source->target.enabled=true\n\
             target->source.enabled=false\n\
             source->target.topics={TOPIC}\n\
             source->target.groups=billing-.*\n\
             source->target.sync.group.offsets.enabled=true\n\
             tasks.max=1\n\
             replication.factor=1\n\
             checkpoints.topic.replication.factor=1\n\
             heartbeats.topic.replication.factor=1\n\
             offset-syncs.topic.replication.factor=1\n\
             config.storage.replication.factor=1\n\
             offset.storage.replication.factor=1\n\
             offset.storage.partitions=1\n\
             status.storage.replication.factor=1\n\
             status.storage.partitions=1\n\
             offset.lag.max=0\n\
             offset.flush.interval.ms=1000\n\
             refresh.topics.interval.seconds=1\n\
             refresh.groups.interval.seconds=1\n\
             emit.checkpoints.interval.seconds=1\n\
             sync.group.offsets.interval.seconds=1\n",
            source = clusters.source.bootstrap(),
            target = clusters.target.bootstrap(),
        )
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
