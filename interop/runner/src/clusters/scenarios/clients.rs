//! Other clients on a cluster whose brokers end and come back: riverrun's own, which know what they were
//! told, and franz-go's tests of groups and transactions.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

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
/// themselves, as no link is cut. A member whose leave is lost is missed before its coordinator moves again, with
/// which its session starts anew.
pub(crate) const KGO_LAYOUT: Layout = Layout {
    broker_count: 4,
    has_relays: false,
    properties: &[
        ("group.consumer.min.session.timeout.ms", "8000"),
        ("group.consumer.session.timeout.ms", "8000"),
        ("group.consumer.min.heartbeat.interval.ms", "2000"),
        ("group.consumer.heartbeat.interval.ms", "2000"),
    ],
    ..THREE_BROKERS
};

/// Of franz-go's tests those that copy all records of a topic from group to group, again and again. The others
/// look at what one request does.
const KGO_TESTS: [&str; 2] = ["TestGroupETL", "TestTxnEtl"];
/// Static members of groups of the new protocol take it for a failure when their coordinator moves while they join:
/// the next one has them already, and refuses the repeated request with UNRELEASED_INSTANCE_ID until their session
/// has run out, as Apache Kafka does.
const KGO_SKIPPED: &str = "^(TestGroupETL|TestTxnEtl)$/^sticky$/^848$/^static$";
const KGO_RECORDS: (&str, &str) = ("5000", "100000");
/// What they say first when the coordinator of a classic group has moved while members join. Between JoinGroup and
/// SyncGroup, the next one does not know the generation. In a JoinGroup that has waited longer than the session
/// timeout, franz-go does not ask for the next one. By the protocol the members join again, and these tests fail. They
/// are repeated.
const KGO_MOVED: [&str; 3] = [
    "unable to join group session: ILLEGAL_GENERATION",
    "unable to join group session: UNKNOWN_MEMBER_ID",
    "unable to join group session: NOT_COORDINATOR",
];
const KGO_ATTEMPTS: usize = 3;
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
    let mut left = KGO_TESTS.to_vec();
    for _ in 0..KGO_ATTEMPTS {
        left = run_kgo(stage, &left)?;
        if left.is_empty() {
            return Ok(Told::default());
        }
    }
    bail!("{left:?} have met a coordinator that moves while members join {KGO_ATTEMPTS} times")
}

/// Runs tests of franz-go while brokers stop and start; gives those that are to be repeated.
fn run_kgo<'a>(stage: &mut Stage, wanted: &[&'a str]) -> Result<Vec<&'a str>> {
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
        .arg(format!("-test.run=^({})$", wanted.join("|")))
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
    let status = tests.finish(deadline)?;
    let told = || format!("{rounds} restarts\n{}", mark.tail());
    let left = to_repeat(wanted, &said).with_context(told)?;
    let has_ended_well = status.is_some_and(|status| status.success());
    ensure!(
        has_ended_well || !left.is_empty(),
        "they have ended with {status:?}, {}",
        told()
    );
    Ok(left)
}

/// Of the tests that were run, those that have failed by what is in the protocol.
///
/// # Errors
/// What the tests have said at the end, when one has failed by something else.
fn to_repeat<'a>(wanted: &[&'a str], said: &[String]) -> Result<Vec<&'a str>> {
    let mut left = wanted.to_vec();
    left.retain(|test| {
        let passed = format!("--- PASS: {test} (");
        !said.iter().any(|line| line.starts_with(&passed))
    });
    // What comes after the first complaint may follow from it.
    let first = said.iter().find(|line| line.contains("sendErr"));
    let has_moved = first.is_some_and(|line| KGO_MOVED.iter().any(|moved| line.contains(moved)));
    ensure!(
        left.is_empty() || has_moved,
        "{left:?} do not pass:\n{}",
        said[said.len().saturating_sub(30)..].join("\n")
    );
    Ok(left)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_repeated_when_its_coordinator_has_moved_while_members_join() {
        let check = |said: &[&str]| {
            let said: Vec<String> = said.iter().map(ToString::to_string).collect();
            to_repeat(&KGO_TESTS, &said).map_err(|error| error.to_string())
        };
        let (group, transactions) = (
            "--- PASS: TestGroupETL (9.0s)",
            "--- PASS: TestTxnEtl (9.0s)",
        );
        let moved = "    testConsumer sendErr group=g: [{ 0 unable to join group session: ILLEGAL_GENERATION: Spec";
        let doubled = "    testConsumer sendErr group=g: saw double offset t a p0o1";
        assert_eq!(check(&[group, transactions]), Ok(vec![]));
        let failed = "--- FAIL: TestTxnEtl (9.0s)";
        assert_eq!(
            check(&[moved, doubled, group, failed]),
            Ok(vec!["TestTxnEtl"])
        );
        assert!(check(&[doubled, moved, group, failed]).is_err());
        // A process that ends early leaves nothing that passes.
        assert!(check(&[group]).is_err());
        assert_eq!(check(&[moved]), Ok(KGO_TESTS.to_vec()));
        let late = "    testConsumer sendErr group=g: [{ 0 unable to join group session: NOT_COORDINATOR: This";
        assert_eq!(check(&[late, group, failed]), Ok(vec!["TestTxnEtl"]));
    }
}
