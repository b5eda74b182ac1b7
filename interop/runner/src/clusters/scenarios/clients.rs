//! Other clients on a cluster whose brokers end and come back: riverrun's own, which know what they were
//! told, and franz-go's tests of groups and transactions.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use harness::process::{LogMark, Step, Watched};

use crate::application::Application;
use crate::clusters::layout::{Layout, THREE_BROKERS};
use crate::clusters::stage::{Stage, Told};

/// Brokers that end while riverrun's clients go on.
const ROUNDS: (usize, usize) = (3, 12);

/// Members that go without a word are missed soon, as in `crash/campaign`.
pub(crate) const CAMPAIGN_LAYOUT: Layout = Layout {
    properties: &[
        ("group.min.session.timeout.ms", "1000"),
        ("group.consumer.min.session.timeout.ms", "1000"),
        ("group.consumer.session.timeout.ms", "3000"),
        ("group.consumer.min.heartbeat.interval.ms", "200"),
        ("group.consumer.heartbeat.interval.ms", "200"),
        (
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            "500",
        ),
    ],
    ..THREE_BROKERS
};

/// Topics with three replicas can be made while a broker is away. Its hundred clients connect to the brokers
/// themselves, as no link is cut.
pub(crate) const KGO_LAYOUT: Layout = Layout {
    broker_count: 4,
    has_relays: false,
    ..THREE_BROKERS
};

/// Of franz-go's tests those that copy all records of a topic from group to group, again and again. The others
/// look at what one request does.
const KGO_TESTS: &str = "^(TestGroupETL|TestTxnEtl)$";
/// Static members of groups of the new protocol take it for a failure when their coordinator moves while they join:
/// the next one has them already, and refuses the repeated request with UNRELEASED_INSTANCE_ID until their session
/// has run out, as Apache Kafka does.
const KGO_SKIPPED: &str = "^(TestGroupETL|TestTxnEtl)$/^sticky$/^848$/^static$";
const KGO_RECORDS: (&str, &str) = ("5000", "100000");
const KGO_LIMIT: (Duration, Duration) = (Duration::from_secs(240), Duration::from_secs(1200));

/// riverrun's producers, transactions and groups (`interop/rust/src/campaign/`).
pub(crate) fn campaign(stage: &mut Stage) -> Result<Told> {
    let mut command = stage.lab.riverrun_client()?;
    let seed = stage.lab.seed.to_string();
    command.args(["campaign", &stage.cluster.bootstrap(), &seed]);
    let mut application = Application::start(&mut command, &stage.dir)?;
    application.obey("begin")?;
    let victims = victims(stage);
    for (round, victim) in victims
        .iter()
        .cycle()
        .take(stage.either(ROUNDS.0, ROUNDS.1))
        .enumerate()
    {
        restart(stage, *victim, round % 2 == 0)?;
        for command in ["check", "progress"] {
            let obeyed = application.obey(command);
            obeyed.with_context(|| format!("round {round}, node {victim}"))?;
        }
    }
    let figures = application.obey("end")?;
    application.end()?;
    stage.cluster.check()?;
    // Its figures begin with the numbers that were acknowledged, all of which it has found.
    let numbers = figures.split(' ').find_map(|word| word.parse().ok());
    Ok(Told {
        acknowledged: numbers.context("a count of numbers")?,
        ..Told::default()
    })
}

/// franz-go's tests.
pub(crate) fn kgo(stage: &mut Stage) -> Result<Told> {
    let limit = stage.either(KGO_LIMIT.0, KGO_LIMIT.1);
    let mut command = stage.lab.kgo_tests()?;
    command
        .env("KGO_SEEDS", stage.cluster.bootstrap())
        .env("KGO_TEST_RF", "3")
        .env(
            "KGO_TEST_RECORDS",
            stage.either(KGO_RECORDS.0, KGO_RECORDS.1),
        )
        .env("KGO_LOG_LEVEL", "info")
        .args(["-test.v", &format!("-test.timeout={}s", limit.as_secs())])
        .arg(format!("-test.run={KGO_TESTS}"))
        .arg(format!("-test.skip={KGO_SKIPPED}"));
    let log = stage.dir.join("kgo.log");
    let mark = LogMark::at_end_of(&log);
    let tests = Watched::start(&mut command, &log)?;
    let deadline = Instant::now() + limit;
    let mut said: Vec<String> = Vec::new();
    let victims = victims(stage);
    let mut rounds = 0;
    for victim in victims.iter().cycle() {
        if drain(&tests, &mut said) {
            break;
        }
        ensure!(
            Instant::now() < deadline,
            "franz-go's tests still run after {limit:?}"
        );
        // They take no session that ends for a failure, as that of a member does whose coordinator is killed while
        // it joins: the next one does not know it.
        restart(stage, *victim, false)?;
        rounds += 1;
    }
    let passed = said
        .iter()
        .filter(|line| line.starts_with("--- PASS"))
        .count();
    let status = tests.finish(deadline)?;
    ensure!(
        passed == 2 && status.is_some_and(|status| status.success()),
        "{passed} of 2 tests pass, after {rounds} restarts:\n{}\n{}",
        said[said.len().saturating_sub(30)..].join("\n"),
        mark.tail()
    );
    Ok(Told::default())
}

/// Takes what the tests have said; whether that was all.
fn drain(tests: &Watched, said: &mut Vec<String>) -> bool {
    loop {
        match tests.next(Instant::now()) {
            Step::Line(line) => said.push(line),
            Step::End => return true,
            Step::TimedOut => return false,
        }
    }
}

/// The brokers that are no controllers.
fn victims(stage: &Stage) -> Vec<i32> {
    let controllers = stage.cluster.controller_ids();
    let mut brokers = stage.cluster.broker_ids();
    brokers.retain(|id| !controllers.contains(id));
    brokers
}

/// Ends a broker, starts it, and waits until all replicas of all topics are in sync.
fn restart(stage: &mut Stage, broker: i32, is_killed: bool) -> Result<()> {
    match is_killed {
        true => stage.cluster.node(broker)?.kill()?,
        false => stage.cluster.node(broker)?.stop()?,
    }
    stage.cluster.start_node(broker)?;
    stage.cluster.await_all_in_sync()
}
