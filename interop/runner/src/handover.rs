//! Suite `handover`: one directory and one properties file, opened by Apache Kafka and by the server
//! under test in turn. Each finds every record, topic, configuration and offset that the other left.

use anyhow::{Result, ensure};

use super::run::Run;
use super::server::{Against, Server, ServerPlan};

const SUITE: &str = "handover";

/// What a directory formatted by an older Kafka lacks beyond `metadata.version`.
const NO_FEATURES: [&str; 5] = [
    "group.version=0",
    "transaction.version=0",
    "share.version=0",
    "streams.version=0",
    "eligible.leader.replicas.version=0",
];

/// The names of the scenarios.
pub(crate) fn list() -> Vec<String> {
    [
        "kafka-first",
        "kafka-first-without-features",
        "kafka-second",
    ]
    .map(str::to_owned)
    .into()
}

/// Runs what is asked for.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    let tested = run.options.against;
    run.scenario(SUITE, "kafka-first", |run| {
        hand_over(run, [Against::Kafka, tested, Against::Kafka], &[])
    });
    run.scenario(SUITE, "kafka-first-without-features", |run| {
        hand_over(run, [Against::Kafka, tested, Against::Kafka], &NO_FEATURES)
    });
    run.scenario(SUITE, "kafka-second", |run| {
        hand_over(run, [tested, Against::Kafka, tested], &[])
    });
    Ok(())
}

/// Starts each server in turn on one directory; each checks what it finds and adds to it.
fn hand_over(run: &mut Run, servers: [Against; 3], features: &[&str]) -> Result<()> {
    let plan = ServerPlan::new(servers[0], &run.suite_dir(SUITE), &[])?.with_features(features);
    let mut left: Option<String> = None;
    let mut sums = Vec::new();
    for (turn, against) in servers.into_iter().enumerate() {
        let server = run.start_planned(&plan.on(against))?;
        if let Some(left) = &left {
            let found = go(run, &["handover", "show", &server.bootstrap()])?;
            ensure!(
                *left == found,
                "turn {turn}: left:\n{left}\nfound:\n{found}"
            );
        }
        for (writer, written) in sums.iter().enumerate() {
            let read = cross(run, "read", &server, writer)?;
            ensure!(
                *written == read,
                "turn {turn}: written:\n{written}\nread:\n{read}"
            );
        }
        sums.push(cross(run, "write", &server, turn)?);
        go(
            run,
            &["handover", "write", &server.bootstrap(), &turn.to_string()],
        )?;
        left = Some(go(run, &["handover", "show", &server.bootstrap()])?);
        server.stop()?;
    }
    Ok(())
}

fn cross(run: &mut Run, action: &str, server: &Server, writer: usize) -> Result<String> {
    go(
        run,
        &[
            "cross",
            action,
            &server.bootstrap(),
            &format!("turn-{writer}"),
        ],
    )
}

fn go(run: &mut Run, arguments: &[&str]) -> Result<String> {
    let mut command = run.go()?.command();
    run.output(SUITE, command.args(arguments))
}
