use super::*;
use expect_test::{Expect, expect};
use std::fmt::Write;

/// Does what each line says, and shows what comes of it: an answer, and the states that the listener hears of.
fn check(script: &str, expected: Expect) {
    let mut lifecycle = Lifecycle::default();
    let mut out = String::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let answer = step(&mut lifecycle, line);
        let _ = write!(out, "{line}:");
        if !answer.is_empty() {
            let _ = write!(out, " {answer}");
        }
        for (state, before) in lifecycle.take_changes() {
            assert!(before.may_become(state), "{before:?} to {state:?}");
            let _ = write!(out, " -> {state:?}");
        }
        out.push('\n');
    }
    let threads: Vec<String> = lifecycle
        .threads()
        .map(|(index, state)| format!("{index} {state:?}"))
        .collect();
    let (alive, failed) = lifecycle.count_threads();
    let _ = writeln!(out, "= {alive} alive, {failed} failed {threads:?}");
    expected.assert_eq(&out);
}

fn step(lifecycle: &mut Lifecycle, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["start", count] => answer(lifecycle.start(number(count), false)),
        ["start", count, "global"] => answer(lifecycle.start(number(count), true)),
        ["add"] => index(lifecycle.add_thread()),
        ["remove"] => removed(lifecycle.remove_thread(None)),
        ["remove", "by", asker] => removed(lifecycle.remove_thread(Some(number(asker)))),
        [thread, "processes?"] => processes(lifecycle, number(thread)),
        ["close"] => answer(lifecycle.close()),
        ["fail"] => answer(lifecycle.fail()),
        ["hears", "end"] => answer(lifecycle.fail()),
        ["finish"] => {
            let is_over = lifecycle.is_over();
            lifecycle.finish();
            answer(is_over)
        }
        ["global", state] => {
            lifecycle.stand_global(thread_state(state));
            String::new()
        }
        ["global", "fails", response] => fail(lifecycle, Failed::Global, response),
        [thread, "fails", response] => fail(lifecycle, Failed::Thread(number(thread)), response),
        [thread, state] => {
            lifecycle.stand(number(thread), thread_state(state));
            String::new()
        }
        _ => panic!("what is `{line}`?"),
    }
}

fn fail(lifecycle: &mut Lifecycle, failed: Failed, response: &str) -> String {
    let response = match response {
        "replace" => StreamThreadExceptionResponse::ReplaceThread,
        "client" => StreamThreadExceptionResponse::ShutdownClient,
        _ => StreamThreadExceptionResponse::ShutdownApplication,
    };
    let started = index(lifecycle.respond(failed, response));
    match lifecycle.is_application_ending() {
        true => format!("{started}, tells the group"),
        false => started,
    }
}

fn number(word: &str) -> usize {
    word.parse().expect("a number")
}

fn answer(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

fn index(index: Option<usize>) -> String {
    index.map_or("no thread".to_owned(), |index| format!("thread {index}"))
}

fn removed(removed: Option<Removed>) -> String {
    let index = index(removed.map(|removed| removed.index));
    match removed.is_some_and(|removed| removed.is_awaited) {
        true => index + ", awaited",
        false => index,
    }
}

/// Whether a thread has what it needs to process, and may.
fn processes(lifecycle: &Lifecycle, thread: usize) -> String {
    answer(lifecycle.are_global_stores_filled() && !lifecycle.is_teller(thread))
}

fn thread_state(word: &str) -> ThreadState {
    match word {
        "revoked" => ThreadState::PartitionsRevoked,
        "assigned" => ThreadState::PartitionsAssigned,
        "running" => ThreadState::Running,
        "dead" => ThreadState::Dead,
        _ => panic!("what is `{word}`?"),
    }
}

/// The table of Kafka Streams 4.3.1, but for `RUNNING` after itself, of which nobody hears here.
#[test]
fn states_follow_as_in_kafka_streams() {
    use State::*;
    let all = [
        Created,
        Rebalancing,
        Running,
        PendingShutdown,
        NotRunning,
        PendingError,
        Error,
    ];
    let mut out = String::new();
    for state in all {
        let next: Vec<State> = all
            .into_iter()
            .filter(|next| state.may_become(*next))
            .collect();
        let _ = writeln!(out, "{state:?} {next:?}");
    }
    expect![[r#"
        Created [Rebalancing, PendingShutdown]
        Rebalancing [Running, PendingShutdown, PendingError]
        Running [Rebalancing, PendingShutdown, PendingError]
        PendingShutdown [NotRunning]
        NotRunning []
        PendingError [Error]
        Error []
    "#]]
    .assert_eq(&out);
}

#[test]
fn an_instance_runs_when_all_threads_do() {
    check(
        "start 2
         start 2
         0 assigned
         0 running
         1 running
         0 revoked
         1 running
         0 assigned
         0 running
         close
         0 running
         0 dead
         finish
         1 dead
         finish
         close
         fail",
        expect![[r#"
            start 2: yes -> Rebalancing
            start 2: no
            0 assigned:
            0 running:
            1 running: -> Running
            0 revoked: -> Rebalancing
            1 running:
            0 assigned:
            0 running: -> Running
            close: yes -> PendingShutdown
            0 running:
            0 dead:
            finish: no
            1 dead:
            finish: yes -> NotRunning
            close: no
            fail: no
            = 0 alive, 0 failed []
        "#]],
    );
}

#[test]
fn global_stores_are_filled_first() {
    check(
        "start 1 global
         add
         1 processes?
         global running
         1 processes?
         0 running
         1 running
         close
         0 dead
         1 dead
         finish
         global dead
         finish",
        expect![[r#"
            start 1 global: yes -> Rebalancing
            add: thread 1
            1 processes?: no
            global running:
            1 processes?: yes
            0 running:
            1 running: -> Running
            close: yes -> PendingShutdown
            0 dead:
            1 dead:
            finish: no
            global dead:
            finish: yes -> NotRunning
            = 0 alive, 0 failed []
        "#]],
    );
    // Nobody waits for what does not come.
    check(
        "start 1 global
         add
         global dead
         1 processes?",
        expect![[r#"
            start 1 global: yes -> Rebalancing
            add: thread 1
            global dead: -> PendingError
            1 processes?: yes
            = 0 alive, 0 failed ["0 PendingShutdown", "1 PendingShutdown"]
        "#]],
    );
}

#[test]
fn global_stores_alone_make_an_instance_run() {
    check(
        "start 0 global
         global running
         add
         close
         global dead
         finish",
        expect![[r#"
            start 0 global: yes -> Rebalancing
            global running: -> Running
            add: thread 0
            close: yes -> PendingShutdown
            global dead:
            finish: no
            = 0 alive, 0 failed ["0 PendingShutdown"]
        "#]],
    );
}

#[test]
fn what_was_not_started_is_closed_at_once() {
    check(
        "add
         remove
         close
         finish
         start 1
         close",
        expect![[r#"
            add: no thread
            remove: no thread
            close: yes -> PendingShutdown
            finish: yes -> NotRunning
            start 1: no
            close: no
            = 0 alive, 0 failed []
        "#]],
    );
}

#[test]
fn errors_end_an_instance_when_the_other_threads_have_closed() {
    check(
        "start 2
         0 running
         1 running
         0 fails client
         close
         0 dead
         finish
         1 running
         1 fails client
         1 dead
         finish
         close
         fail",
        expect![[r#"
            start 2: yes -> Rebalancing
            0 running:
            1 running: -> Running
            0 fails client: no thread -> PendingError
            close: no
            0 dead:
            finish: no
            1 running:
            1 fails client: no thread
            1 dead:
            finish: yes -> Error
            close: no
            fail: no
            = 0 alive, 2 failed []
        "#]],
    );
}

#[test]
fn an_error_while_it_is_closed_does_not_change_how_it_ends() {
    check(
        "start 1
         0 running
         close
         0 fails client
         0 dead
         finish",
        expect![[r#"
            start 1: yes -> Rebalancing
            0 running: -> Running
            close: yes -> PendingShutdown
            0 fails client: no thread
            0 dead:
            finish: yes -> NotRunning
            = 0 alive, 1 failed []
        "#]],
    );
}

#[test]
fn a_thread_that_is_replaced_keeps_its_name_until_it_is_dead() {
    check(
        "start 1
         0 running
         0 fails replace
         1 assigned
         1 running
         0 dead
         1 fails replace
         1 dead
         0 running
         close
         0 fails replace",
        expect![[r#"
            start 1: yes -> Rebalancing
            0 running: -> Running
            0 fails replace: thread 1
            1 assigned: -> Rebalancing
            1 running: -> Running
            0 dead:
            1 fails replace: thread 0
            1 dead:
            0 running:
            close: yes -> PendingShutdown
            0 fails replace: no thread
            = 0 alive, 3 failed ["0 PendingShutdown"]
        "#]],
    );
}

#[test]
fn the_end_of_the_application_is_told_by_a_thread_that_lives() {
    check(
        "start 1
         0 running
         0 fails application
         0 dead
         1 running
         hears end
         1 dead
         finish",
        expect![[r#"
            start 1: yes -> Rebalancing
            0 running: -> Running
            0 fails application: thread 1, tells the group
            0 dead:
            1 running:
            hears end: yes -> PendingError
            1 dead:
            finish: yes -> Error
            = 0 alive, 1 failed []
        "#]],
    );
    check(
        "start 2
         0 running
         1 running
         0 fails application
         0 dead
         finish
         hears end
         1 dead
         finish",
        expect![[r#"
            start 2: yes -> Rebalancing
            0 running:
            1 running: -> Running
            0 fails application: no thread, tells the group
            0 dead:
            finish: no
            hears end: yes -> PendingError
            1 dead:
            finish: yes -> Error
            = 0 alive, 1 failed []
        "#]],
    );
}

/// An application that cannot tell its group, such as one whose topics are missing, would start threads without end.
#[test]
fn who_is_there_to_tell_the_group_does_nothing_else_and_is_not_replaced() {
    check(
        "start 2
         0 fails application
         1 fails application
         2 processes?
         0 dead
         1 dead
         2 fails application
         2 dead
         finish",
        expect![[r#"
            start 2: yes -> Rebalancing
            0 fails application: no thread, tells the group
            1 fails application: thread 2, tells the group
            2 processes?: no
            0 dead:
            1 dead:
            2 fails application: no thread, tells the group -> PendingError
            2 dead:
            finish: yes -> Error
            = 0 alive, 3 failed []
        "#]],
    );
}

/// Each of two threads removes the other one at the same time: one of them must not wait.
#[test]
fn threads_that_remove_each_other_do_not_wait_for_each_other() {
    check(
        "start 3
         remove by 1
         remove by 0
         remove by 2",
        expect![[r#"
            start 3: yes -> Rebalancing
            remove by 1: thread 0, awaited
            remove by 0: thread 1
            remove by 2: thread 2
            = 0 alive, 0 failed ["0 PendingShutdown", "1 PendingShutdown", "2 PendingShutdown"]
        "#]],
    );
}

#[test]
fn the_global_thread_is_not_replaced() {
    check(
        "start 1 global
         0 running
         global running
         global fails replace
         global dead
         0 dead
         finish",
        expect![[r#"
            start 1 global: yes -> Rebalancing
            0 running:
            global running: -> Running
            global fails replace: no thread -> PendingError
            global dead:
            0 dead:
            finish: yes -> Error
            = 0 alive, 0 failed []
        "#]],
    );
    check(
        "start 1 global
         0 running
         global running
         global fails application
         global dead
         hears end
         0 dead
         finish",
        expect![[r#"
            start 1 global: yes -> Rebalancing
            0 running:
            global running: -> Running
            global fails application: no thread, tells the group
            global dead:
            hears end: yes -> PendingError
            0 dead:
            finish: yes -> Error
            = 0 alive, 0 failed []
        "#]],
    );
    check(
        "start 0 global
         global running
         global fails application
         global dead
         finish",
        expect![[r#"
            start 0 global: yes -> Rebalancing
            global running: -> Running
            global fails application: no thread -> PendingError
            global dead:
            finish: yes -> Error
            = 0 alive, 0 failed []
        "#]],
    );
    // It ends although nobody has asked it to.
    check(
        "start 1 global
         global running
         0 running
         global dead",
        expect![[r#"
            start 1 global: yes -> Rebalancing
            global running:
            0 running: -> Running
            global dead: -> PendingError
            = 0 alive, 0 failed ["0 PendingShutdown"]
        "#]],
    );
}

#[test]
fn threads_come_and_go() {
    check(
        "start 2
         0 running
         1 running
         add
         2 running
         remove
         remove by 1
         add
         0 dead
         add
         0 running
         3 running",
        expect![[r#"
            start 2: yes -> Rebalancing
            0 running:
            1 running: -> Running
            add: thread 2
            2 running:
            remove: thread 0, awaited
            remove by 1: thread 2, awaited
            add: thread 3
            0 dead:
            add: thread 0
            0 running:
            3 running:
            = 3 alive, 0 failed ["0 Running", "1 Running", "2 PendingShutdown", "3 Running"]
        "#]],
    );
}

#[test]
fn the_last_thread_may_go_and_another_one_come() {
    check(
        "start 1
         0 running
         remove by 0
         remove
         0 dead
         add
         0 assigned
         0 running",
        expect![[r#"
            start 1: yes -> Rebalancing
            0 running: -> Running
            remove by 0: thread 0
            remove: no thread
            0 dead:
            add: thread 0
            0 assigned: -> Rebalancing
            0 running: -> Running
            = 1 alive, 0 failed ["0 Running"]
        "#]],
    );
}

/// Only the thread that restored kept the instance from running.
#[test]
fn who_goes_is_not_waited_for() {
    check(
        "start 2
         1 running
         0 assigned
         remove",
        expect![[r#"
            start 2: yes -> Rebalancing
            1 running:
            0 assigned:
            remove: thread 0, awaited -> Running
            = 1 alive, 0 failed ["0 PendingShutdown", "1 Running"]
        "#]],
    );
}

#[test]
fn who_is_to_end_stands_nowhere_else() {
    let mut lifecycle = Lifecycle::default();
    assert!(lifecycle.start(2, false));
    for thread in [0, 1] {
        lifecycle.stand(thread, ThreadState::Running);
    }
    let removed = lifecycle.remove_thread(None).expect("a thread");
    for state in [ThreadState::PartitionsAssigned, ThreadState::Running] {
        lifecycle.stand(removed.index, state);
        assert!(lifecycle.is_thread_ending(removed.index), "{state:?}");
    }
    assert_eq!(lifecycle.state(), State::Running);
    lifecycle.stand(removed.index, ThreadState::Dead);
    assert_eq!(lifecycle.count_deaths(removed.index), 1);
}
