//! Random clients, crashes and restarts against the coordinator and modelled partitions: each
//! transaction is seen whole or not at all, as its client was told; the log gives the same state.

use super::clients::{Client, History, Outcome};
use super::worlds::World;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const PARTITION_COUNT: usize = 3;
const CLIENT_COUNT: usize = 5;

#[derive(Debug, Clone)]
enum Step {
    Init {
        client: usize,
        goes_on: bool,
        loses_answer: bool,
    },
    Send {
        client: usize,
        partition: usize,
        is_late: bool,
    },
    Deliver(usize),
    End {
        client: usize,
        commits: bool,
        loses_answer: bool,
    },
    CrashClient(usize),
    WriteMarker(usize),
    RestartCoordinator,
    RefuseNextAppend,
    Tick(i64),
    SetClock(i64),
    AbortTimedOut,
    ExpireIds,
}

/// A second, more than a timeout, an hour, and more than anything is kept for.
const CLOCK_STEPS_MS: [i64; 8] = {
    let (hour, days) = (3_600_000, 8 * 86_400_000);
    [1_000, -1_000, 61_000, -61_000, hour, -hour, days, -days]
};

fn step() -> impl Strategy<Value = Step> {
    let client = 0..CLIENT_COUNT;
    let seldom = || prop::bool::weighted(0.15);
    prop_oneof![
        4 => (client.clone(), any::<bool>(), seldom()).prop_map(
            |(client, goes_on, loses_answer)| Step::Init { client, goes_on, loses_answer }
        ),
        12 => (client.clone(), 0..PARTITION_COUNT, seldom()).prop_map(
            |(client, partition, is_late)| Step::Send { client, partition, is_late }
        ),
        2 => any::<usize>().prop_map(Step::Deliver),
        8 => (client.clone(), prop::bool::weighted(0.7), seldom()).prop_map(
            |(client, commits, loses_answer)| Step::End { client, commits, loses_answer }
        ),
        1 => client.prop_map(Step::CrashClient),
        12 => any::<usize>().prop_map(Step::WriteMarker),
        2 => Just(Step::RestartCoordinator),
        2 => Just(Step::RefuseNextAppend),
        2 => select(vec![1, 1_000, 61_000, 8 * 86_400_000]).prop_map(Step::Tick),
        2 => select(CLOCK_STEPS_MS.to_vec()).prop_map(Step::SetClock),
        1 => Just(Step::AbortTimedOut),
        1 => Just(Step::ExpireIds),
    ]
}

fn run(steps: Vec<Step>, versions: &[i16]) -> (World, History) {
    let mut world = World::new(PARTITION_COUNT);
    let mut history = History::default();
    let ids = ["t", "u"];
    let clients = versions.iter().enumerate();
    let mut clients: Vec<_> = clients
        .map(|(at, version)| Client::new(ids[at % ids.len()], *version))
        .collect();
    for step in steps {
        match step {
            Step::Init {
                client,
                goes_on,
                loses_answer,
            } => clients[client].init(&mut world, goes_on, loses_answer),
            Step::Send {
                client,
                partition,
                is_late,
            } => clients[client].send(&mut world, &mut history, partition, is_late),
            Step::Deliver(at) => history.deliver(&mut world, at),
            Step::End {
                client,
                commits,
                loses_answer,
            } => clients[client].end(&mut world, &mut history, commits, loses_answer),
            Step::CrashClient(client) => clients[client].crash(),
            Step::WriteMarker(at) => world.write_marker(at),
            Step::RestartCoordinator => world.restart_coordinator(),
            Step::RefuseNextAppend => world.refuses_next = true,
            Step::Tick(ms) => world.wait(ms),
            Step::SetClock(ms) => world.now.wall_ms += ms,
            Step::AbortTimedOut => world.abort_timed_out(),
            Step::ExpireIds => world.expire_ids(),
        }
    }
    (world, history)
}

/// What is promised to the client of each transaction.
fn check(world: &World, history: &History) {
    let committed: Vec<_> = world.partitions.iter().map(|one| one.committed()).collect();
    for attempt in &history.attempts {
        let records = attempt.records.iter();
        let times_seen = records.map(|(partition, record)| {
            let seen = committed[*partition].iter();
            seen.filter(|one| *one == record).count()
        });
        let times_seen: Vec<_> = times_seen.collect();
        let is_whole = times_seen.iter().all(|times| *times == 1);
        let is_absent = times_seen.iter().all(|times| *times == 0);
        let holds = match attempt.outcome {
            Outcome::Committed => is_whole,
            Outcome::Aborted => is_absent,
            Outcome::Unknown if attempt.asked_to_commit => is_whole || is_absent,
            Outcome::Unknown => is_absent,
        };
        assert!(holds, "{attempt:?} is seen {times_seen:?} times");
    }
}

proptest! {
    #![proptest_config(trials::property(100))]

    #[test]
    fn transactions_are_seen_whole_or_not_at_all(
        steps in vec(step(), 1..200),
        versions in vec(select(vec![0_i16, 2]), CLIENT_COUNT),
    ) {
        let (mut world, history) = run(steps, &versions);
        world.settle();
        check(&world, &history);
        world.restart_coordinator();
    }
}
