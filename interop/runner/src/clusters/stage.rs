//! Where a scenario plays: its cluster, the load on it, and what is judged at the end.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use harness::process::{LogMark, Step, Watched};

use super::checker::{self, History, Isolation, Reading, Verdict};
use super::cluster::{Cluster, LIMIT};
use super::lab::Lab;
use super::log_files;
use super::operator::Topic;
use super::tools::{Consumer, Producer};

/// Anomalies that are shown of one scenario.
const SHOWN_ANOMALIES: usize = 10;

/// The cluster of one scenario.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) lab: Arc<Lab>,
    pub(crate) cluster: Cluster,
    pub(crate) dir: PathBuf,
    clients: usize,
}

/// What a producer and its consumer do on a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) topic: &'a str,
    pub(crate) is_idempotent: bool,
    pub(crate) records_per_second: u32,
    /// How many records there are at most.
    pub(crate) records_max: Option<usize>,
    /// Further settings of the producer.
    pub(crate) settings: &'a [(&'a str, &'a str)],
    /// The protocol of the consumer's group, `classic` or `consumer`.
    pub(crate) group_protocol: &'a str,
}

impl<'a> Load<'a> {
    /// A thousand records a second, each written once, without end.
    pub(crate) const fn on(topic: &'a str) -> Self {
        Self {
            topic,
            is_idempotent: true,
            records_per_second: 1_000,
            records_max: None,
            settings: &[],
            group_protocol: "classic",
        }
    }
}

/// A producer of rising integers that never stops, and a consumer from the start.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) producer: Producer,
    pub(crate) consumer: Consumer,
    topic: String,
    is_idempotent: bool,
}

/// What a scenario tells when all is right.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) acknowledged: usize,
    pub(crate) lost: usize,
    pub(crate) duplicated: usize,
    /// How long something took, and what.
    pub(crate) times: Vec<(&'static str, Duration)>,
}

impl Stage {
    pub(crate) fn new(lab: Arc<Lab>, cluster: Cluster, dir: PathBuf) -> Self {
        Self {
            lab,
            cluster,
            dir,
            clients: 0,
        }
    }

    /// A number of the scenario's short form or its long one.
    pub(crate) fn either<T>(&self, short: T, long: T) -> T {
        if self.lab.is_long { long } else { short }
    }

    /// Makes a topic with three replicas of which two must be in sync. The second broker leads its first
    /// partition: the first broker may be the controller, without which nobody is elected.
    pub(crate) fn create(&mut self, name: &str, partitions: usize) -> Result<()> {
        self.create_with(name, partitions, &[("min.insync.replicas", "2")])
    }

    /// The same with these settings.
    pub(crate) fn create_with(
        &mut self,
        name: &str,
        partitions: usize,
        configs: &[(&str, &str)],
    ) -> Result<()> {
        let brokers = self.cluster.broker_ids();
        let replicas = |partition: usize| -> Vec<i32> {
            let from_there = brokers.iter().cycle().skip(1 + partition);
            from_there.take(3).copied().collect()
        };
        self.cluster.create(&Topic {
            name,
            assignment: (0..partitions).map(replicas).collect(),
            configs,
        })
    }

    /// A producer of rising integers.
    pub(crate) fn producer(&mut self, load: &Load<'_>) -> Result<Producer> {
        let number = self.clients;
        self.clients += 1;
        let mut settings = vec![
            // Each partition is written to all the time.
            (
                "partitioner.class",
                "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            ),
            ("socket.connection.setup.timeout.ms", "1000"),
            ("socket.connection.setup.timeout.max.ms", "2000"),
        ];
        if load.is_idempotent {
            settings.extend([("enable.idempotence", "true"), ("retries", "2147483647")]);
        }
        settings.extend(load.settings);
        let file = self.settings_file(&format!("producer-{number}.properties"), &settings)?;
        let bootstrap = self.cluster.bootstrap();
        let mut command = self
            .lab
            .client_command("org.apache.kafka.tools.VerifiableProducer");
        command.args(["--bootstrap-server", &bootstrap, "--topic", load.topic]);
        command.args(["--throughput", &load.records_per_second.to_string()]);
        command.args(["--command-config", &file]);
        if let Some(records) = load.records_max {
            command.args(["--max-messages", &records.to_string()]);
        }
        let log = self.dir.join(format!("producer-{number}.log"));
        Producer::start(&mut command, number, log)
    }

    /// A member of a group that reads from the beginning and commits.
    pub(crate) fn consumer(
        &mut self,
        load: &Load<'_>,
        group: &str,
        isolation: Isolation,
    ) -> Result<Consumer> {
        let number = self.clients;
        self.clients += 1;
        let settings = [
            ("socket.connection.setup.timeout.ms", "1000"),
            ("socket.connection.setup.timeout.max.ms", "2000"),
            ("isolation.level", isolation.name()),
        ];
        let file = self.settings_file(&format!("consumer-{number}.properties"), &settings)?;
        let bootstrap = self.cluster.bootstrap();
        let mut command = self
            .lab
            .client_command("org.apache.kafka.tools.VerifiableConsumer");
        command.args(["--bootstrap-server", &bootstrap, "--topic", load.topic]);
        command.args(["--group-protocol", load.group_protocol]);
        command.args(["--command-config", &file]);
        if load.group_protocol == "classic" {
            command.args(["--session-timeout", "10000"]);
        }
        let log = self.dir.join(format!("consumer-{number}.log"));
        Consumer::start(&mut command, (group, isolation), log)
    }

    /// Starts a producer and a consumer, and waits until both are at work.
    pub(crate) fn traffic(&mut self, load: &Load<'_>) -> Result<Traffic> {
        let mut traffic = Traffic {
            producer: self.producer(load)?,
            consumer: self.consumer(load, "readers", Isolation::Uncommitted)?,
            topic: load.topic.to_owned(),
            is_idempotent: load.is_idempotent,
        };
        traffic.producer.await_count(100, LIMIT)?;
        let partitions = self.cluster.operator.describe(load.topic)?.len();
        let ends = self
            .cluster
            .operator
            .ends(load.topic, i32::try_from(partitions)?)?;
        traffic.consumer.await_ends(&ends, LIMIT)?;
        Ok(traffic)
    }

    /// Waits until Kafka's ReplicaVerificationTool finds the replicas of a topic alike.
    pub(crate) fn verify_replicas(&mut self, topic: &str) -> Result<()> {
        let bootstrap = self.cluster.bootstrap();
        let mut command = self
            .lab
            .client_command("org.apache.kafka.tools.ReplicaVerificationTool");
        command.args(["--broker-list", &bootstrap, "--topics-include", topic]);
        command.args(["--time", "-2", "--report-interval-ms", "500"]);
        let log = self.dir.join("replica-verification.log");
        let mark = LogMark::at_end_of(&log);
        let tool = Watched::start(&mut command, &log)?;
        let deadline = Instant::now() + LIMIT;
        let mut said = Vec::new();
        loop {
            match tool.next(deadline) {
                // Records that come meanwhile are a lag, too.
                Step::Line(line) if line.contains("max lag is 0 for") => return Ok(()),
                Step::Line(line) => said.push(line),
                Step::End | Step::TimedOut => {
                    bail!(
                        "the replicas of {topic} are not alike: {said:?}\n{}",
                        mark.tail()
                    )
                }
            }
        }
    }

    /// Ends the traffic when all replicas are in sync, reads everything, and judges it.
    pub(crate) fn finish(&mut self, traffic: Traffic) -> Result<Told> {
        let topic = traffic.topic.clone();
        let history = self.history(traffic)?;
        self.judge(&topic, history)
    }

    /// Ends the traffic, and gives what was sent and what the consumer was given.
    pub(crate) fn history(&mut self, traffic: Traffic) -> Result<History> {
        let Traffic {
            producer,
            mut consumer,
            topic,
            is_idempotent,
        } = traffic;
        let sent = producer.stop()?;
        let partitions = self.cluster.operator.describe(&topic)?.len();
        let ends = self
            .cluster
            .operator
            .ends(&topic, i32::try_from(partitions)?)?;
        consumer.await_ends(&ends, LIMIT)?;
        Ok(History {
            is_idempotent,
            sent,
            consumers: vec![consumer.stop()?],
            ..History::default()
        })
    }

    /// Waits until all replicas of a topic are in sync, reads it by readers and from its files, and judges.
    pub(crate) fn judge(&mut self, topic: &str, mut history: History) -> Result<Told> {
        self.cluster.await_full_isr(topic)?;
        for isolation in [Isolation::Uncommitted, Isolation::Committed] {
            history.readings.push(self.reading(topic, isolation)?);
        }
        self.judge_files(topic, history)
    }

    /// A topic from its beginning to its end.
    pub(crate) fn reading(&mut self, topic: &str, isolation: Isolation) -> Result<Reading> {
        let settings = [("isolation.level", isolation.name())];
        let records = self.cluster.operator.read(topic, &settings)?.records;
        Ok(Reading { isolation, records })
    }

    /// Reads the files of a topic, of which all replicas are in sync, and judges.
    pub(crate) fn judge_files(&mut self, topic: &str, mut history: History) -> Result<Told> {
        let partitions = self.cluster.operator.describe(topic)?;
        history.replicas = log_files::read(self.cluster.nodes(), topic, &partitions)?;
        let verdict = checker::check(&history);
        self.cluster.check()?;
        told(&verdict)
    }

    fn settings_file(&self, name: &str, settings: &[(&str, &str)]) -> Result<String> {
        let lines = settings
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"));
        let text: String = lines.collect();
        self.cluster.operator.write_file(name, &text)
    }
}

impl Traffic {
    /// Waits until so many more records are acknowledged.
    pub(crate) fn await_more(&mut self, count: usize) -> Result<()> {
        self.producer.await_more(count, LIMIT)
    }
}

/// What a verdict without anomalies tells.
fn told(verdict: &Verdict) -> Result<Told> {
    if verdict.anomalies.is_empty() {
        return Ok(Told {
            acknowledged: verdict.acknowledged,
            lost: verdict.lost,
            duplicated: verdict.duplicated,
            times: Vec::new(),
        });
    }
    let shown = verdict.anomalies.iter().take(SHOWN_ANOMALIES);
    let lines: Vec<String> = shown.map(ToString::to_string).collect();
    bail!(
        "{} records acknowledged, {} lost, {} duplicated, {} anomalies:\n{}",
        verdict.acknowledged,
        verdict.lost,
        verdict.duplicated,
        verdict.anomalies.len(),
        lines.join("\n")
    )
}

impl Told {
    /// Adds how long something took.
    pub(crate) fn took(mut self, what: &'static str, time: Duration) -> Self {
        self.times.push((what, time));
        self
    }

    /// Adds the counts of another part of the scenario.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.times.extend(other.times);
        self
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "acknowledged {}, lost {}, duplicated {}",
            self.acknowledged, self.lost, self.duplicated
        )?;
        for (what, time) in &self.times {
            write!(f, ", {what} {:.1} s", time.as_secs_f64())?;
        }
        Ok(())
    }
}
