//! Suite `swap`: one directory and one properties file, four swaps between Apache Kafka and the
//! server under test, while an application goes on.
//!
//! The workload (`interop/java/src/riverrun/interop/swap/`) lives through every swap and knows what
//! was acknowledged: records of an idempotent producer that never stops, a batch sent again to the
//! next server, a compacted topic, members of groups with their commits, transactions that end, that
//! stay open over the swap and that never stop, and all that an operator sets. Each server shows what
//! it took over before it adds to it.

use std::fmt;
use std::process::Command;

use anyhow::Result;

use super::application::Application;
use super::run::Run;
use super::server::{Against, KafkaOnly, Server, ServerPlan};

const SUITE: &str = "swap";

/// How a server ends its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stop,
    Kill,
}

/// One way through the servers. Each older release is killed once and stopped once before riverrun
/// takes over.
#[derive(Debug)]
struct Variant {
    name: &'static str,
    /// The release of Apache Kafka; none is the one that the clients are of.
    release: Option<&'static str>,
    /// Whether the voters of the quorum are fixed by the properties file.
    has_fixed_voters: bool,
    /// How each turn but the last ends.
    ends: [End; 4],
    /// What the release lacks.
    has_consumer_groups: bool,
    has_authorizer: bool,
    has_share_groups: bool,
}

const VARIANTS: &[Variant] = &[
    Variant {
        name: "4.3-stopped",
        release: None,
        has_fixed_voters: false,
        ends: [End::Stop; 4],
        has_consumer_groups: true,
        has_authorizer: true,
        has_share_groups: true,
    },
    Variant {
        name: "4.3-killed",
        release: None,
        has_fixed_voters: true,
        ends: [End::Kill; 4],
        has_consumer_groups: true,
        has_authorizer: false,
        has_share_groups: true,
    },
    Variant {
        name: "4.1-killed-once",
        release: Some("4.1.1"),
        has_fixed_voters: false,
        ends: [End::Kill, End::Kill, End::Stop, End::Stop],
        has_consumer_groups: true,
        has_authorizer: true,
        has_share_groups: false,
    },
    Variant {
        name: "4.0-killed-once",
        release: Some("4.0.1"),
        has_fixed_voters: true,
        ends: [End::Kill, End::Stop, End::Stop, End::Stop],
        has_consumer_groups: true,
        has_authorizer: true,
        has_share_groups: false,
    },
    Variant {
        name: "3.9-killed-once",
        release: Some("3.9.1"),
        has_fixed_voters: true,
        ends: [End::Kill, End::Stop, End::Stop, End::Kill],
        has_consumer_groups: false,
        has_authorizer: true,
        has_share_groups: false,
    },
];

/// The names of the scenarios.
pub(crate) fn list() -> Vec<String> {
    let names = VARIANTS.iter().map(|variant| variant.name.to_owned());
    names.collect()
}

/// Runs what is asked for.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    for variant in VARIANTS {
        run.scenario(SUITE, variant.name, |run| swap(run, variant));
    }
    Ok(())
}

/// Starts each server in turn on one directory; each shows what it found, and adds to it.
fn swap(run: &mut Run, variant: &Variant) -> Result<()> {
    let tested = run.options.against;
    let properties = [
        // Snapshots of the metadata, compaction and retention take part.
        ("metadata.log.max.record.bytes.between.snapshots", "20000"),
        ("log.cleaner.backoff.ms", "500"),
        ("group.consumer.heartbeat.interval.ms", "1000"),
        ("group.consumer.min.heartbeat.interval.ms", "1000"),
    ];
    let mut kafka = KafkaOnly::default();
    if let Some(release) = variant.release {
        kafka.java = Some(run.older_kafka(release)?);
    }
    if variant.has_authorizer {
        kafka.properties = vec![
            (
                "authorizer.class.name",
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            ),
            ("super.users", "User:ANONYMOUS"),
        ];
    }
    let mut plan =
        ServerPlan::new(Against::Kafka, &run.suite_dir(SUITE), &properties)?.with_kafka_only(kafka);
    if variant.has_fixed_voters {
        plan = plan.with_fixed_voters();
    }
    let mut workload = workload(run, variant, &plan)?;
    let servers = [
        Against::Kafka,
        tested,
        Against::Kafka,
        tested,
        Against::Kafka,
    ];
    for (turn, against) in servers.into_iter().enumerate() {
        let server = run.start_planned(&plan.on(against))?;
        let context = Turn { turn, against };
        let within =
            |error: anyhow::Error| error.context(format!("{context}\n{}", server.log_tail()));
        workload.obey(&format!("turn {turn}")).map_err(within)?;
        match variant.ends.get(turn) {
            Some(End::Stop) => {
                if against == Against::Kafka {
                    workload.obey(&format!("rest {turn}")).map_err(within)?;
                }
                server.stop()?;
            }
            Some(End::Kill) => server.kill()?,
            None => {
                workload
                    .obey(&format!("finish {}", turn + 1))
                    .map_err(within)?;
                return last(run, server, workload);
            }
        }
    }
    Ok(())
}

/// Ends workload and server, and has Kafka read every file.
fn last(run: &mut Run, server: Server, workload: Application) -> Result<()> {
    workload.end()?;
    server.stop()?;
    run.read_disk(SUITE)
}

/// Which server a failure is about.
#[derive(Debug)]
struct Turn {
    turn: usize,
    against: Against,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn {} ({:?})", self.turn, self.against)
    }
}

/// The program that lives through the swaps.
fn workload(run: &mut Run, variant: &Variant, plan: &ServerPlan) -> Result<Application> {
    let mut command: Command = run.java()?.command("riverrun.interop.swap.Swap");
    command.arg(plan.bootstrap()).arg(run.suite_dir(SUITE));
    command.args(["transactions", "transactional-offsets"]);
    if variant.has_consumer_groups {
        command.arg("consumer-groups");
    }
    // Only Kafka serves them; others keep them.
    if variant.has_share_groups {
        command.arg("share-groups");
    }
    Application::start(&mut command, &run.suite_dir(SUITE))
}
