//! What an operator asks of a cluster, by Kafka's admin client and tools: one Java program that stays
//! (`interop/java/src/riverrun/interop/cluster/Operator.java`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::checker::Place;
use super::lab::Lab;
use crate::application::Application;

/// The program; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Operator {
    program: Application,
    dir: PathBuf,
}

/// A partition as the cluster's metadata have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// -1 if nobody leads.
    pub(crate) leader: i32,
    pub(crate) replicas: Vec<i32>,
    pub(crate) isr: Vec<i32>,
}

/// A log directory as its broker tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogDir {
    pub(crate) broker: i32,
    pub(crate) path: PathBuf,
    pub(crate) is_failed: bool,
    /// How far each replica is behind, by `TOPIC-PARTITION`.
    pub(crate) lag: BTreeMap<String, i64>,
}

/// A topic to make.
#[derive(Clone, Debug)]
pub(crate) struct Topic<'a> {
    pub(crate) name: &'a str,
    /// The replicas of each partition, the one that should lead first.
    pub(crate) assignment: Vec<Vec<i32>>,
    pub(crate) configs: &'a [(&'a str, &'a str)],
}

/// What a reader found from a topic's beginning to its end.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) records: Vec<(Place, String)>,
    /// From which broker each partition was read, if not from its leader.
    pub(crate) preferred: BTreeMap<String, i64>,
}

impl Operator {
    /// Starts the program; its log and files are in `dir`.
    pub(crate) fn start(lab: &Lab, dir: &Path) -> Result<Self> {
        let mut command = lab.command("riverrun.interop.cluster.Operator");
        let program = Application::start(&mut command, dir)?;
        let dir = dir.to_owned();
        Ok(Self { program, dir })
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.program.process()
    }

    fn ask(&mut self, command: &Value) -> Result<Value> {
        let answer = self.program.obey(&command.to_string());
        let answer = answer.with_context(|| command.to_string())?;
        Ok(serde_json::from_str(&answer)?)
    }

    /// Formats the log directories of each properties file by `kafka-storage`.
    pub(crate) fn format(&mut self, files: &[PathBuf], arguments: &[&str]) -> Result<()> {
        let command = json!({"do": "format", "files": files, "arguments": arguments});
        self.ask(&command).map(drop)
    }

    /// Names the brokers that are asked from here on.
    pub(crate) fn connect(&mut self, bootstrap: &str) -> Result<()> {
        self.ask(&json!({"do": "connect", "bootstrap": bootstrap}))
            .map(drop)
    }

    /// The brokers that are not fenced.
    pub(crate) fn brokers(&mut self) -> Result<Vec<i32>> {
        ids(&self.ask(&json!({"do": "brokers"}))?)
    }

    /// Makes a topic.
    pub(crate) fn create(&mut self, topic: &Topic<'_>) -> Result<()> {
        let configs: BTreeMap<&str, &str> = topic.configs.iter().copied().collect();
        let command = json!({
            "do": "create", "topic": topic.name, "assignment": topic.assignment, "configs": configs,
        });
        self.ask(&command).map(drop)
    }

    /// The partitions of a topic.
    pub(crate) fn describe(&mut self, topic: &str) -> Result<Vec<Partition>> {
        let answer = self.ask(&json!({"do": "describe", "topic": topic}))?;
        let partitions = answer.as_array().context("partitions are an array")?;
        let read = partitions.iter().map(|partition| {
            Ok(Partition {
                leader: i32::try_from(partition["leader"].as_i64().context("a leader")?)?,
                replicas: ids(&partition["replicas"])?,
                isr: ids(&partition["isr"])?,
            })
        });
        read.collect()
    }

    /// The end of each partition as consumers see it.
    pub(crate) fn ends(&mut self, topic: &str, partitions: i32) -> Result<BTreeMap<i32, i64>> {
        let command = json!({"do": "ends", "topic": topic, "partitions": partitions});
        let answer = self.ask(&command)?;
        let ends = answer.as_object().context("ends are an object")?;
        let read = ends.iter().map(|(partition, end)| {
            let end = end.as_i64().context("an end is a number")?;
            Ok((partition.parse()?, end))
        });
        read.collect()
    }

    /// The log directories of all brokers that are there.
    pub(crate) fn log_dirs(&mut self) -> Result<Vec<LogDir>> {
        let answer = self.ask(&json!({"do": "logs"}))?;
        let dirs = answer.as_array().context("log directories are an array")?;
        let read = dirs.iter().map(|dir| {
            let lag = dir["lag"].as_object().context("lags are an object")?;
            let lag = lag.iter();
            Ok(LogDir {
                broker: i32::try_from(dir["broker"].as_i64().context("a broker")?)?,
                path: PathBuf::from(dir["dir"].as_str().context("a path")?),
                is_failed: dir["failed"].as_bool().context("failed or not")?,
                lag: lag
                    .map(|(place, lag)| (place.clone(), lag.as_i64().unwrap_or(-1)))
                    .collect(),
            })
        });
        read.collect()
    }

    /// Reads a topic from its beginning to its end by a consumer with these settings.
    pub(crate) fn read(&mut self, topic: &str, settings: &[(&str, &str)]) -> Result<Found> {
        let file = self.dir.join(format!("read-{topic}.txt"));
        let settings: BTreeMap<&str, &str> = settings.iter().copied().collect();
        let answer = self.ask(&json!({
            "do": "read", "topic": topic, "file": file, "limit_ms": 90_000, "settings": settings,
        }))?;
        let text = std::fs::read_to_string(&file)?;
        let records = text.lines().map(|line| {
            let mut fields = line.splitn(3, '\t');
            let mut field = || fields.next().context("three fields a line");
            let place = (field()?.parse()?, field()?.parse()?);
            Ok((place, field()?.to_owned()))
        });
        let preferred = answer["preferred"].as_object();
        let preferred = preferred.into_iter().flatten().map(|(partition, broker)| {
            let broker = broker.as_str().and_then(|broker| broker.parse().ok());
            (partition.clone(), broker.unwrap_or(-1))
        });
        Ok(Found {
            preferred: preferred.collect(),
            records: records.collect::<Result<_>>()?,
        })
    }

    /// Runs one of Kafka's tools; fails unless it ends well.
    pub(crate) fn tool(&mut self, class: &str, arguments: &[&str]) -> Result<String> {
        let class = format!("org.apache.kafka.tools.{class}");
        let answer = self.ask(&json!({"do": "tool", "class": class, "arguments": arguments}))?;
        let text = answer["text"].as_str().unwrap_or_default().to_owned();
        ensure!(
            answer["status"] == 0,
            "{class} {arguments:?} failed:\n{text}"
        );
        Ok(text)
    }

    /// Writes a file that a tool reads.
    pub(crate) fn write_file(&self, name: &str, text: &str) -> Result<String> {
        let path = self.dir.join(name);
        std::fs::write(&path, text)?;
        let path = path.to_str().context("the folder's path is text")?;
        Ok(path.to_owned())
    }
}

fn ids(array: &Value) -> Result<Vec<i32>> {
    let ids = array.as_array().context("ids are an array")?;
    let read = ids
        .iter()
        .map(|id| Ok(i32::try_from(id.as_i64().context("an id")?)?));
    read.collect()
}
