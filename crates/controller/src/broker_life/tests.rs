use super::*;
use std::fmt::Write as _;

const SETTINGS: BrokerLifeSettings = BrokerLifeSettings {
    heartbeat_interval_ms: 2_000,
    session_timeout_ms: 9_000,
    registration_timeout_ms: 60_000,
    log_dir_failure_timeout_ms: 30_000,
};

fn standing(text: &str) -> BrokerStanding {
    BrokerStanding {
        is_caught_up: text.contains("caught-up"),
        is_fenced: !text.contains("unfenced"),
        is_shutting_down: false,
        should_shut_down: text.contains("stop"),
    }
}

fn code(text: &str) -> ErrorCode {
    match text {
        "duplicate" => ErrorCode::DuplicateBrokerRegistration,
        "foreign" => ErrorCode::InconsistentClusterId,
        "not-controller" => ErrorCode::NotController,
        "stale" => ErrorCode::StaleBrokerEpoch,
        "storage" => ErrorCode::KafkaStorageError,
        other => panic!("{other}?"),
    }
}

fn heartbeat(told: &BrokerHeartbeat) -> String {
    let words = [
        (told.wants_fence, " fence"),
        (told.wants_shut_down, " shut-down"),
        (!told.offline_directories.is_empty(), " offline"),
    ];
    let words = words.into_iter().filter(|(is_so, _)| *is_so);
    let words: String = words.map(|(_, word)| word).collect();
    format!("heartbeat{words} at {}", told.metadata_offset)
}

/// Runs a script, each line of which is a time in milliseconds and what happens then; gives what the life
/// asks for, and its state where that has changed.
fn check(script: &[(i64, &str)], expect: &str) {
    let registration = NewRegistration {
        broker_id: BrokerId(1),
        incarnation_id: Uuid::from_u128(7),
        endpoints: Vec::new(),
        features: crate::broker_features(),
        rack: None,
        directories: vec![Uuid::from_u128(500)],
        previous_broker_epoch: BrokerEpoch::NONE,
        is_migrating_zk_broker: false,
    };
    let mut life = BrokerLife::new(SETTINGS, registration, MonotonicTime::from_ms(0));
    let mut lines = String::new();
    for (at_ms, what) in script {
        let now = MonotonicTime::from_ms(*at_ms);
        let before = life.state();
        let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
        let mut failed = None;
        match word {
            "poll" => {}
            "registered" => {
                let epoch = rest.parse().map(BrokerEpoch).map_err(|_| code(rest));
                failed = life.handle_registered(epoch, now).err();
            }
            "heard" => life.handle_heartbeat(Ok(standing(rest)), now),
            "refused" => life.handle_heartbeat(Err(code(rest)), now),
            "lost" => life.handle_failure(now),
            "metadata" => life.note_metadata(rest.parse().expect("an offset")),
            "ready" => life.ready(now),
            "cordoned" => life.set_cordoned(Vec::new(), now),
            "next" => {
                let next = life.next_deadline().map(MonotonicTime::as_ms);
                let next = next.map_or_else(|| "never".to_owned(), |at_ms| at_ms.to_string());
                let _ = writeln!(lines, "{at_ms} next {next}");
            }
            "known" => {
                let _ = writeln!(lines, "{at_ms} known {}", life.is_known());
            }
            "failed-directory" => life.directory_failed(Uuid::from_u128(500), now),
            "shut-down" => {
                let deadline = MonotonicTime::from_ms(rest.parse().expect("a deadline"));
                life.begin_shutdown(deadline, now);
            }
            other => panic!("{other}?"),
        }
        let polled = match failed {
            Some(error) => Err(error),
            None => life.poll_request(now),
        };
        let _ = match polled {
            Ok(None) => Ok(()),
            Ok(Some(BrokerLifeRequest::Register(_))) => writeln!(lines, "{at_ms} register"),
            Ok(Some(BrokerLifeRequest::Heartbeat(beat))) => {
                writeln!(lines, "{at_ms} {}", heartbeat(&beat))
            }
            Err(error) => writeln!(lines, "{at_ms} {error}"),
        };
        if life.state() != before {
            let _ = writeln!(lines, "{at_ms} {:?}", life.state());
        }
    }
    assert_eq!(lines.trim(), expect.trim());
}

#[test]
fn a_broker_is_unfenced_once_it_has_caught_up_and_its_logs_are_open() {
    check(
        &[
            (0, "poll"),
            (1, "registered 40"),
            (2, "poll"),
            (11, "poll"),
            (12, "heard"),
            (20, "metadata 40"),
            (22, "poll"),
            (23, "heard caught-up"),
            (24, "poll"),
            (50, "ready"),
            (51, "heard caught-up"),
            (61, "poll"),
            (62, "heard caught-up unfenced"),
            (2_000, "poll"),
            (2_062, "poll"),
        ],
        "
0 register
11 heartbeat fence at -1
22 heartbeat fence at 40
23 Recovery
50 heartbeat at 40
61 heartbeat at 40
62 Running
2062 heartbeat at 40",
    );
}

#[test]
fn a_registration_is_tried_again_while_another_session_lives() {
    check(
        &[
            (0, "poll"),
            (1, "registered duplicate"),
            (50, "poll"),
            (101, "poll"),
            (102, "lost"),
            (301, "poll"),
            (302, "poll"),
            (303, "lost"),
            (703, "poll"),
            // The other one's session ends within seconds: no pause is longer than half of one.
            (704, "registered duplicate"),
            (1_203, "poll"),
            (1_204, "poll"),
            (1_205, "registered 9"),
        ],
        "
0 register
101 register
302 register
703 register
1204 register",
    );
}

/// A heartbeat that was under way before the directory has failed tells nothing of it.
#[test]
fn a_failed_directory_is_not_told_by_an_earlier_heartbeat() {
    check(
        &[
            (0, "registered 9"),
            (10, "poll"),
            (20, "failed-directory"),
            (30, "heard caught-up"),
            (31, "lost"),
            (30_019, "poll"),
            (30_020, "lost"),
        ],
        "
10 heartbeat fence at -1
30 heartbeat fence offline at -1
30 Recovery
30019 heartbeat fence offline at -1
30020 a log directory has failed, and the controller could not be told within 30000 ms (`log.dir.failure.timeout.ms`)",
    );
}

#[test]
fn a_broker_of_another_cluster_gives_up() {
    check(
        &[(0, "poll"), (1, "registered foreign")],
        "
0 register
1 the controller refuses the registration of broker 1: InconsistentClusterId; this directory belongs to another cluster than the controllers",
    );
}

#[test]
fn a_broker_that_nobody_registers_gives_up() {
    check(
        &[(0, "poll"), (1, "registered duplicate"), (60_000, "poll")],
        "
0 register
60000 broker 1 could not register within 60000 ms (`initial.broker.registration.timeout.ms`); the last answer was DuplicateBrokerRegistration",
    );
}

/// Up to where the broker runs, at 30.
const RUNNING: [(i64, &str); 7] = [
    (0, "poll"),
    (1, "registered 40"),
    (11, "poll"),
    (12, "heard caught-up"),
    (13, "ready"),
    (14, "poll"),
    (30, "heard caught-up unfenced"),
];

const RUNS: &str = "
0 register
11 heartbeat fence at -1
12 Recovery
13 heartbeat at -1
30 Running";

fn check_running(script: &[(i64, &str)], expect: &str) {
    let script = [&RUNNING[..], script].concat();
    check(&script, &format!("{RUNS}{expect}"));
}

#[test]
fn a_controlled_shutdown_waits_for_the_controller() {
    check_running(
        &[
            (100, "shut-down 9000"),
            (101, "heard caught-up unfenced"),
            (151, "poll"),
            (152, "heard caught-up stop"),
            (300, "poll"),
        ],
        "
100 heartbeat shut-down at -1
100 PendingControlledShutdown
151 heartbeat shut-down at -1
152 ShuttingDown",
    );
}

#[test]
fn a_controlled_shutdown_ends_without_a_controller() {
    check_running(
        &[
            (100, "shut-down 500"),
            (101, "lost"),
            (201, "poll"),
            (202, "lost"),
            (500, "poll"),
        ],
        "
100 heartbeat shut-down at -1
100 PendingControlledShutdown
201 heartbeat shut-down at -1
500 ShuttingDown",
    );
}

/// The last answer counts: whoever has led then has others lead by the end of the session.
#[test]
fn a_controlled_shutdown_waits_no_longer_than_a_session_for_a_controller_that_is_silent() {
    check_running(
        &[
            (100, "shut-down 300000"),
            (150, "heard caught-up unfenced"),
            (200, "poll"),
            (201, "lost"),
            (202, "next"),
            (9_149, "poll"),
            (9_149, "lost"),
            (9_149, "next"),
            (9_150, "poll"),
            (9_150, "next"),
        ],
        "
100 heartbeat shut-down at -1
100 PendingControlledShutdown
200 heartbeat shut-down at -1
202 next 301
9149 heartbeat shut-down at -1
9149 next 9150
9150 ShuttingDown
9150 next never",
    );
}

/// A node of the quorum that leads nothing is up, and so is a controller whose log takes no records.
#[test]
fn a_controlled_shutdown_waits_no_longer_than_a_session_for_a_controller_that_decides() {
    check_running(
        &[
            (100, "shut-down 300000"),
            (150, "heard caught-up unfenced"),
            (200, "poll"),
            (201, "refused not-controller"),
            (301, "poll"),
            (302, "refused storage"),
            (9_149, "poll"),
            (9_149, "refused not-controller"),
            (9_149, "next"),
            (9_150, "poll"),
        ],
        "
100 heartbeat shut-down at -1
100 PendingControlledShutdown
200 heartbeat shut-down at -1
301 heartbeat shut-down at -1
9149 heartbeat shut-down at -1
9149 next 9150
9150 ShuttingDown",
    );
}

#[test]
fn a_controlled_shutdown_has_nothing_to_hand_over_when_the_controller_knows_the_broker_no_more() {
    check_running(
        &[(100, "shut-down 9000"), (101, "refused stale")],
        "
100 heartbeat shut-down at -1
100 PendingControlledShutdown
101 ShuttingDown",
    );
}

#[test]
fn what_is_new_of_directories_is_told_after_the_answer_that_is_awaited() {
    check_running(
        &[
            (100, "failed-directory"),
            (101, "cordoned"),
            (102, "heard caught-up unfenced"),
            (103, "known"),
            (104, "heard caught-up unfenced"),
            (105, "known"),
        ],
        "
100 heartbeat offline at -1
102 heartbeat offline at -1
103 known false
105 known true",
    );
}

#[test]
fn a_broker_that_is_fenced_goes_on_and_is_unfenced() {
    check_running(
        &[
            (2_030, "poll"),
            (2_031, "refused stale"),
            (2_131, "poll"),
            (2_132, "heard caught-up"),
            (4_132, "poll"),
        ],
        "
2030 heartbeat at -1
2131 heartbeat at -1
4132 heartbeat at -1",
    );
}

#[test]
fn a_failed_directory_is_told_at_once_and_until_it_is_known() {
    check_running(
        &[
            (100, "failed-directory"),
            (101, "lost"),
            (201, "poll"),
            (202, "heard caught-up unfenced"),
            (2_202, "poll"),
            (40_000, "heard caught-up unfenced"),
        ],
        "
100 heartbeat offline at -1
201 heartbeat offline at -1
2202 heartbeat offline at -1",
    );
}

#[test]
fn a_failed_directory_of_which_nobody_can_be_told_ends_the_broker() {
    check_running(
        &[(100, "failed-directory"), (101, "lost"), (30_100, "poll")],
        "
100 heartbeat offline at -1
30100 a log directory has failed, and the controller could not be told within 30000 ms (`log.dir.failure.timeout.ms`)",
    );
}

/// For the next request, the end of the time to register, of that to tell of a failed directory, and of the shutdown.
#[test]
fn a_broker_wakes_for_its_next_request_and_for_every_deadline() {
    check(
        &[(0, "next"), (1, "next"), (2, "registered 40"), (3, "next")],
        "
0 next 0
0 register
1 next 60000
3 next 12",
    );
    check_running(
        &[
            (31, "next"),
            (100, "failed-directory"),
            (101, "next"),
            (102, "heard caught-up unfenced"),
            (103, "next"),
            (200, "shut-down 9000"),
            (201, "next"),
            (202, "heard caught-up unfenced"),
            (203, "next"),
            (252, "poll"),
            (253, "heard caught-up stop"),
            (254, "next"),
        ],
        "
31 next 2030
100 heartbeat offline at -1
101 next 30100
103 next 2102
200 heartbeat shut-down offline at -1
200 PendingControlledShutdown
201 next 9000
203 next 252
252 heartbeat shut-down offline at -1
253 ShuttingDown
254 next never",
    );
}
