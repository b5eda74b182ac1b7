//! The codecs against Kafka's own: every message and record in every version, both ways.
//!
//! ```text
//!   random bytes of the schema ──> Kafka reads and writes them ──> the same bytes
//!   Kafka's random bytes ──> read and written here ──> the same bytes
//! ```
//!
//! Defaults count as well: of messages that nobody has touched, and of fields that the version
//! read does not have when another version is written.

use anyhow::{Context as _, Result, bail, ensure};
use codegen::{Message, Schema};
use interpreter::{Codec, Random, encode, random_message};

use super::oracle::{Oracle, from_hex, hex};
use super::run::{Check, Run};

macro_rules! wire_codecs {
    ($($message:ident)*) => { &[$(interpreter::codec!($message in wire::messages)),*] };
}
macro_rules! metadata_codecs {
    ($($message:ident)*) => { &[$(interpreter::codec!($message in metadata::messages)),*] };
}
macro_rules! coordinator_codecs {
    ($($message:ident)*) => { &[$(interpreter::codec!($message in coordinator::messages)),*] };
}

/// The folder of each schema, and the codecs that are generated from it.
const TABLES: [(&str, &[Codec]); 3] = [
    ("wire", wire::for_each_message!(wire_codecs)),
    ("metadata", metadata::for_each_message!(metadata_codecs)),
    (
        "coordinator",
        coordinator::for_each_message!(coordinator_codecs),
    ),
];

/// Messages of each kind and version, unless the command line says.
const DEFAULT_COUNT: usize = 4;

/// The scenarios of the suite `codec`.
pub(crate) const SCENARIOS: &[Check] = &[
    ("defaults", |run| check(run, defaults)),
    ("kafka-reads", |run| check(run, kafka_reads)),
    ("kafka-writes", |run| check(run, kafka_writes)),
    ("other-versions", |run| check(run, other_versions)),
];

/// One message to compare, and what to compare it with.
struct Comparison<'a> {
    message: &'a Message,
    codec: Codec,
    oracle: &'a mut Oracle,
    random: &'a mut Random,
}

/// Runs `compare` for every message, `--count` times over.
fn check(run: &mut Run, compare: fn(&mut Comparison<'_>) -> Result<usize>) -> Result<()> {
    let dir = run.suite_dir("codec");
    std::fs::create_dir_all(&dir)?;
    let program = run.java()?.command("riverrun.interop.codec.CodecOracle");
    let mut oracle = Oracle::start(program, &dir.join("oracle.log"))?;
    let count = run.options.count.unwrap_or(DEFAULT_COUNT);
    let mut random = Random::new(run.options.seed.unwrap_or(1));
    let mut compared = 0;
    for (crate_name, codecs) in TABLES {
        let schema = parse_schema(run, crate_name)?;
        for (message, codec) in interpreter::verify::with_messages(&schema, codecs) {
            for _ in 0..count {
                compared += compare(&mut Comparison {
                    message,
                    codec,
                    oracle: &mut oracle,
                    random: &mut random,
                })?;
            }
        }
    }
    ensure!(compared > 1000, "only {compared} messages were compared");
    Ok(())
}

fn parse_schema(run: &Run, crate_name: &str) -> Result<Schema> {
    let folder = run.root().join("crates").join(crate_name).join("schema");
    codegen::parse_folder(&folder).map_err(anyhow::Error::msg)
}

/// The untouched message has the same bytes in every version that lets it be written.
fn defaults(comparison: &mut Comparison<'_>) -> Result<usize> {
    let name = &comparison.message.name;
    let mut compared = 0;
    for version in comparison.versions() {
        let question = format!("default {name} {version}");
        // Some defaults are null where the version does not allow it.
        if let Ok(theirs) = comparison.oracle.ask(&question)? {
            let ours = (comparison.codec.default)(version);
            same(name, version, &ours, &from_hex(&theirs)?)?;
            compared += 1;
        }
    }
    Ok(compared)
}

/// Kafka reads what is encoded here and writes the same bytes.
fn kafka_reads(comparison: &mut Comparison<'_>) -> Result<usize> {
    let message = comparison.message;
    for version in comparison.versions() {
        let value = random_message(message, version, false, comparison.random);
        let bytes = encode(message, version, &value);
        let question = recode(&message.name, version, version, &bytes);
        let theirs = comparison.oracle.ask(&question)?;
        let theirs = theirs.map_err(|reason| {
            anyhow::anyhow!("{} {version}: {reason}\n{value}\n{question}", message.name)
        })?;
        same(&message.name, version, &bytes, &from_hex(&theirs)?)
            .with_context(|| format!("{value}\n{question}"))?;
    }
    Ok(comparison.versions().count())
}

/// What Kafka writes is read here and written as the same bytes.
fn kafka_writes(comparison: &mut Comparison<'_>) -> Result<usize> {
    let name = &comparison.message.name;
    for version in comparison.versions() {
        let (question, theirs) = comparison.random_of_kafka(version)?;
        let ours = (comparison.codec.recode)(&theirs, version, version)
            .with_context(|| format!("{question}: {}", hex(&theirs)))?;
        same(name, version, &ours.bytes, &theirs)?;
        ensure!(
            ours.announced_size == theirs.len(),
            "{name} {version}: a size of {}",
            ours.announced_size
        );
    }
    Ok(comparison.versions().count())
}

/// A message read in one version is written in another as Kafka writes it, where Kafka can.
fn other_versions(comparison: &mut Comparison<'_>) -> Result<usize> {
    let message = comparison.message;
    let versions: Vec<i16> = comparison.versions().collect();
    let mut compared = 0;
    for from in comparison.versions() {
        let to = *comparison.random.choice(&versions);
        let value = random_message(message, from, false, comparison.random);
        let bytes = encode(message, from, &value);
        let question = recode(&message.name, from, to, &bytes);
        // Kafka refuses to drop fields that a version lacks unless they may be ignored.
        if let Ok(theirs) = comparison.oracle.ask(&question)? {
            let ours = (comparison.codec.recode)(&bytes, from, to)?;
            same(&message.name, to, &ours.bytes, &from_hex(&theirs)?)
                .with_context(|| format!("from {from}: {value}\n{question}"))?;
            compared += 1;
        }
    }
    Ok(compared)
}

impl Comparison<'_> {
    /// A random message of Kafka's and the question that it answers. Not every seed has one: its
    /// schemas mark a null struct in a tagged field in a way that its messages do not read.
    fn random_of_kafka(&mut self, version: i16) -> Result<(String, Vec<u8>)> {
        const TRIES: usize = 20;
        let mut reason = String::new();
        for _ in 0..TRIES {
            let seed = self.random.bits() >> 1;
            let question = format!("random {} {version} {seed}", self.message.name);
            match self.oracle.ask(&question)? {
                Ok(bytes) => return Ok((question, from_hex(&bytes)?)),
                Err(why) => reason = format!("{question}: {why}"),
            }
        }
        bail!("{reason}")
    }

    fn versions(&self) -> impl Iterator<Item = i16> + use<> {
        self.message.versions.first..=self.message.versions.last
    }
}

fn recode(name: &str, from: i16, to: i16, bytes: &[u8]) -> String {
    format!("recode {name} {from} {to} {}", hex(bytes))
}

fn same(name: &str, version: i16, ours: &[u8], theirs: &[u8]) -> Result<()> {
    ensure!(
        ours == theirs,
        "{name} {version} differs\nriverrun {}\nkafka    {}",
        hex(ours),
        hex(theirs)
    );
    Ok(())
}
