//! A member of a streams group by script: what it asks, what the application hears, what each answer means.

mod news;

use super::super::script::{self, Scripted, accepted, error, settings};
use super::*;
use crate::consumer::heartbeat_membership::{Heartbeat, HeartbeatAnswer};
use crate::consumer::streams_group::{StreamsStatusCode, StreamsSubtopology, StreamsTopic};
use expect_test::{Expect, expect};
use model::BrokerId;
use std::fmt::Write as _;

/// Sub-topology 0 reads `in`, and writes `re` for sub-topology 1, which joins it with `other`.
fn topology() -> StreamsTopology {
    let part = |id: &str, sources: &[&str], repartitions: &[&str]| StreamsSubtopology {
        id: id.to_owned(),
        source_topics: sources.iter().map(|name| (*name).to_owned()).collect(),
        repartition_source_topics: repartitions
            .iter()
            .map(|name| StreamsTopic {
                name: (*name).to_owned(),
                ..StreamsTopic::default()
            })
            .collect(),
        ..StreamsSubtopology::default()
    };
    StreamsTopology {
        epoch: 0,
        subtopologies: vec![part("0", &["in"], &[]), part("1", &["other"], &["re"])],
    }
}

/// Runs a script, with the lines `start`, `assign 3 active 0_0 standby 1_1`, `counts in=2`, `status 2`, `slower 2`,
/// `endpoints 2 8 in` (epochs of the member and of the endpoints) and `shut-down` too.
fn check(settings: HeartbeatSettings, script: &str, expected: Expect) {
    let member = HeartbeatMembership::of_streams_group(settings, topology(), 0);
    script::check(member, script, expected);
}

impl Scripted for StreamsGroup {
    fn no_news() -> StreamsNews {
        news(&[])
    }

    fn play(member: &mut HeartbeatMembership<Self>, words: &[&str], now_ms: i64) {
        match *words {
            ["start"] => {}
            ["assign", epoch, ref tasks @ ..] => {
                let answer = accepted(epoch, Some(parse(tasks)), news(&[]));
                member.handle_answer(answer, now_ms);
            }
            ["status", epoch, ref tasks @ ..] => {
                let tasks = (!tasks.is_empty()).then(|| parse(tasks));
                let news = news(&[StreamsStatusCode::MissingInternalTopics]);
                member.handle_answer(accepted(epoch, tasks, news), now_ms);
            }
            ["counts", ref counts @ ..] => member.handle_counts(|topic| {
                let mut counts = counts
                    .iter()
                    .map(|one| one.split_once('=').expect("a count"));
                let (_, count) = counts.find(|(name, _)| *name == topic)?;
                count.parse().ok()
            }),
            ["endpoints", epoch, information_epoch, ref topics @ ..] => {
                let endpoint = |topic: &&str| StreamsEndpoint {
                    host: "one".to_owned(),
                    port: 7070,
                    active: vec![TopicPartition::new(*topic, 0)],
                    standby: vec![TopicPartition::new(*topic, 1)],
                };
                let news = StreamsNews {
                    endpoint_information_epoch: information_epoch.parse().expect("an epoch"),
                    endpoints: Some(topics.iter().map(endpoint).collect()),
                    ..news(&[])
                };
                member.handle_answer(accepted(epoch, None, news), now_ms);
            }
            ["slower", epoch] => {
                let news = StreamsNews {
                    heartbeat_interval_ms: 20_000,
                    ..news(&[StreamsStatusCode::MissingInternalTopics])
                };
                member.handle_answer(accepted(epoch, None, news), now_ms);
            }
            ["shut-down"] => member.shut_down_application(),
            _ => panic!("`{words:?}`"),
        }
    }

    fn heartbeat_text(beat: &Heartbeat<Self>) -> String {
        let mut text = String::new();
        let endpoints = beat.beside.endpoint_information_epoch;
        if endpoints != 7 {
            write!(text, " endpoints={endpoints}").expect("a string takes all");
        }
        if let Some(name) = &beat.group_instance_id {
            write!(text, " instance={name}").expect("a string takes all");
        }
        if beat.interest.is_some() {
            text.push_str(" topology");
        }
        if beat.beside.shuts_down_application {
            text.push_str(" shut-down");
        }
        if let Some(owned) = &beat.owned {
            write!(text, " owns {}", tasks_text(owned)).expect("a string takes all");
        }
        text
    }

    fn event_text(event: &Event) -> String {
        let names = |partitions: &[TopicPartition]| {
            let names = partitions.iter().map(ToString::to_string);
            names.collect::<Vec<_>>().join(" ")
        };
        match event {
            Event::Revoked(partitions) => format!("revoked {}", names(partitions)),
            Event::Lost(partitions) => format!("lost {}", names(partitions)),
            Event::Assigned(partitions) => format!("assigned {}", names(partitions)),
            Event::Tasks(tasks) => format!("tasks {}", tasks_text(tasks)),
            Event::Endpoints(endpoints) => {
                let texts = endpoints.iter().map(|one| {
                    let (active, standby) = (names(&one.active), names(&one.standby));
                    format!(
                        " {}:{} active {active} standby {standby}",
                        one.host, one.port
                    )
                });
                format!("endpoints{}", texts.collect::<String>())
            }
            Event::Statuses(statuses, 5_000) => {
                let codes: Vec<_> = statuses.iter().map(|status| status.code).collect();
                format!("statuses {codes:?}")
            }
            Event::Statuses(_, interval_ms) => format!("statuses once in {interval_ms}"),
        }
    }
}

fn news(codes: &[StreamsStatusCode]) -> StreamsNews {
    let statuses = codes.iter().map(|code| StreamsStatus {
        code: *code,
        detail: "in detail".to_owned(),
    });
    StreamsNews {
        statuses: statuses.collect(),
        heartbeat_interval_ms: 5_000,
        endpoint_information_epoch: 7,
        endpoints: None,
    }
}

/// Tasks of words such as `active 0_0 1_1 standby 0_1`.
fn parse(words: &[&str]) -> StreamsTasks {
    let mut tasks = StreamsTasks::default();
    let mut kind = "active";
    for word in words {
        let Some((id, number)) = word.split_once('_') else {
            kind = word;
            continue;
        };
        let set = match kind {
            "active" => &mut tasks.active,
            "standby" => &mut tasks.standby,
            _ => &mut tasks.warmup,
        };
        let number = number.parse().expect("a number");
        set.entry(id.to_owned()).or_default().insert(number);
    }
    tasks
}

fn tasks_text(tasks: &StreamsTasks) -> String {
    let mut text = String::new();
    for (kind, set) in [
        ("active", &tasks.active),
        ("standby", &tasks.standby),
        ("warmup", &tasks.warmup),
    ] {
        let all = set
            .iter()
            .flat_map(|(id, numbers)| numbers.iter().map(move |number| format!(" {id}_{number}")));
        let all: String = all.collect();
        if !all.is_empty() {
            write!(text, " {kind}{all}").expect("a string takes all");
        }
    }
    match text.is_empty() {
        true => "none".to_owned(),
        false => text.trim().to_owned(),
    }
}

#[test]
fn a_member_tells_its_topology_takes_tasks_gives_them_up_and_leaves() {
    check(
        settings(),
        "start
         found
         assign 1 active 0_0 0_1
         counts in=2
         done
         done
         ok 1
         wait 5000
         assign 2 active 0_1
         done
         done
         ok 2
         leave
         ok -1",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            assign 1 active 0_0 0_1
            counts in=2 => tasks active 0_0 0_1
            done => assigned in-0 in-1
            done -> epoch 1 owns active 0_0 0_1
            ok 1
            wait 5000 -> epoch 1
            assign 2 active 0_1 => revoked in-0
            done => tasks active 0_1
            done -> epoch 2 owns active 0_1
            ok 2
            leave -> epoch -1
            ok -1
        "#]],
    );
}

#[test]
fn a_task_reads_the_partition_of_its_number_where_there_is_one() {
    check(
        settings(),
        "start
         found
         assign 1 active 1_0 1_2
         counts other=1
         counts other=1 re=3
         done
         done",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            assign 1 active 1_0 1_2
            counts other=1
            counts other=1 re=3 => tasks active 1_0 1_2
            done => assigned other-0 re-0 re-2
            done -> epoch 1 owns active 1_0 1_2
        "#]],
    );
}

/// The coordinator knows of new partitions of a topic before the member does.
#[test]
fn a_task_whose_partition_is_new_waits_until_it_is_known() {
    check(
        settings(),
        "start
         found
         assign 1 active 0_0
         counts in=1
         done
         done
         ok 1
         wait 5000
         assign 2 active 0_0 0_1
         counts in=1
         counts in=2
         done
         done
         ok 2",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            assign 1 active 0_0
            counts in=1 => tasks active 0_0
            done => assigned in-0
            done -> epoch 1 owns active 0_0
            ok 1
            wait 5000 -> epoch 1
            assign 2 active 0_0 0_1
            counts in=1
            counts in=2 => tasks active 0_0 0_1
            done => assigned in-1
            done -> epoch 2 owns active 0_0 0_1
            ok 2
        "#]],
    );
}

/// A smaller input of a sub-topology has more partitions, and the tasks are the same.
#[test]
fn a_task_reads_a_partition_that_comes_later() {
    check(
        settings(),
        "start
         found
         assign 1 active 1_0 1_1
         counts other=1 re=2
         done
         done
         ok 1
         counts other=2 re=2
         done
         done",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            assign 1 active 1_0 1_1
            counts other=1 re=2 => tasks active 1_0 1_1
            done => assigned other-0 re-0 re-1
            done -> epoch 1 owns active 1_0 1_1
            ok 1
            counts other=2 re=2 => tasks active 1_0 1_1
            done => assigned other-1
            done
        "#]],
    );
}

/// Who takes a task over waits for who has it: what is new is told once what is old is given up.
#[test]
fn a_member_gives_up_a_task_before_it_takes_another_one() {
    check(
        settings(),
        "start
         found
         assign 1 active 0_0
         counts in=2
         done
         done
         ok 1
         wait 5000
         assign 2 active 0_1
         done
         done
         done",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            assign 1 active 0_0
            counts in=2 => tasks active 0_0
            done => assigned in-0
            done -> epoch 1 owns active 0_0
            ok 1
            wait 5000 -> epoch 1
            assign 2 active 0_1 => revoked in-0
            done => tasks active 0_1
            done => assigned in-1
            done -> epoch 2 owns active 0_1
        "#]],
    );
}

#[test]
fn a_task_that_stands_by_is_told_and_acknowledged() {
    check(
        settings(),
        "start
         found
         assign 1 standby 1_0 warmup 1_1
         done
         ok 1
         wait 5000
         assign 2 active 1_0
         counts other=1 re=3
         done
         done",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            assign 1 standby 1_0 warmup 1_1 => tasks standby 1_0 warmup 1_1
            done -> epoch 1 owns standby 1_0 warmup 1_1
            ok 1
            wait 5000 -> epoch 1
            assign 2 active 1_0 => tasks active 1_0
            counts other=1 re=3
            done -> epoch 2 owns none => tasks active 1_0
            done => assigned other-0 re-0
        "#]],
    );
}

#[test]
fn a_fenced_member_loses_all_and_tells_its_topology_again() {
    check(
        settings(),
        "start
         found
         assign 1 active 0_0
         counts in=2
         done
         done
         refuse FENCED_MEMBER_EPOCH
         wait 100
         done
         done
         refuse UNKNOWN_MEMBER_ID
         wait 200
         done",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            assign 1 active 0_0
            counts in=2 => tasks active 0_0
            done => assigned in-0
            done -> epoch 1 owns active 0_0
            refuse FENCED_MEMBER_EPOCH => lost in-0
            wait 100
            done => tasks none
            done -> epoch 0 endpoints=-1 topology owns none
            refuse UNKNOWN_MEMBER_ID => tasks none
            wait 200
            done -> epoch 0 endpoints=-1 topology owns none
        "#]],
    );
}

#[test]
fn who_may_have_missed_an_assignment_gives_all_up_and_joins_anew() {
    check(
        settings(),
        "start
         found
         assign 1 active 0_0
         counts in=2
         done
         done
         ok 1
         wait 5000
         lose
         wait 100
         found
         ok 1
         done
         done
         ok -1
         assign 3 active 0_0 0_1
         done",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            assign 1 active 0_0
            counts in=2 => tasks active 0_0
            done => assigned in-0
            done -> epoch 1 owns active 0_0
            ok 1
            wait 5000 -> epoch 1
            lose
            wait 100 -> find
            found -> epoch 1 topology owns active 0_0
            ok 1 => revoked in-0
            done => tasks none
            done -> epoch -1
            ok -1 -> epoch 0 topology owns none
            assign 3 active 0_0 0_1 => tasks active 0_0 0_1
            done => assigned in-0 in-1
        "#]],
    );
}

#[test]
fn who_has_begun_anew_waits_before_it_does_so_again() {
    check(
        settings(),
        "start
         found
         assign 1 active 0_0
         counts in=2
         done
         done
         lose
         wait 100
         found
         ok 1
         done
         done
         ok -1
         assign 3 active 0_0
         counts in=2
         done
         done
         lose
         wait 100
         found
         ok 3
         wait 5000
         ok 3",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            assign 1 active 0_0
            counts in=2 => tasks active 0_0
            done => assigned in-0
            done -> epoch 1 owns active 0_0
            lose
            wait 100 -> find
            found -> epoch 1 topology owns active 0_0
            ok 1 => revoked in-0
            done => tasks none
            done -> epoch -1
            ok -1 -> epoch 0 topology owns none
            assign 3 active 0_0 => tasks active 0_0
            counts in=2
            done => assigned in-0
            done -> epoch 3 owns active 0_0
            lose
            wait 100 -> find
            found -> epoch 3 topology owns active 0_0
            ok 3
            wait 5000 -> epoch 3
            ok 3 => revoked in-0
        "#]],
    );
}

#[test]
fn an_epoch_that_no_member_has_is_no_answer() {
    check(
        settings(),
        "start
         found
         ok 0
         wait 100
         found
         assign 2 active 0_0
         counts in=2
         done
         done
         ok -1
         wait 100
         found
         assign 2 active 0_0",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            ok 0
            wait 100 -> find
            found -> epoch 0 endpoints=-1 topology owns none
            assign 2 active 0_0
            counts in=2 => tasks active 0_0
            done => assigned in-0
            done -> epoch 2 owns active 0_0
            ok -1
            wait 100 -> find
            found -> epoch 2 topology owns active 0_0
            assign 2 active 0_0 -> epoch 2 owns active 0_0
        "#]],
    );
}

#[test]
fn a_coordinator_cannot_ask_for_heartbeats_without_pause() {
    let mut member = HeartbeatMembership::of_streams_group(settings(), topology(), 0);
    assert!(member.poll_request(0).is_some());
    member.handle_answer(HeartbeatAnswer::Coordinator(Ok(BrokerId(1))), 0);
    assert!(member.poll_request(0).is_some());
    let answer = HeartbeatAnswer::Accepted {
        member_id: None,
        member_epoch: 1,
        heartbeat_interval_ms: 1,
        assignment: None,
        news: news(&[]),
    };
    member.handle_answer(answer, 0);
    assert_eq!(member.next_deadline(), Some(50));
}

#[test]
fn a_lost_answer_does_not_matter_once_tasks_are_told() {
    check(
        settings(),
        "start
         found
         assign 1 active 0_0
         counts in=2
         done
         done
         lose
         wait 100
         found
         assign 2 active 0_0
         ok 2",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            assign 1 active 0_0
            counts in=2 => tasks active 0_0
            done => assigned in-0
            done -> epoch 1 owns active 0_0
            lose
            wait 100 -> find
            found -> epoch 1 topology owns active 0_0
            assign 2 active 0_0 -> epoch 2 owns active 0_0
            ok 2
        "#]],
    );
}

#[test]
fn who_may_not_read_a_topic_hears_so_and_goes_on() {
    check(
        settings(),
        "start
         found
         refuse TOPIC_AUTHORIZATION_FAILED
         wait 100
         refuse TOPIC_AUTHORIZATION_FAILED
         wait 200
         assign 1 active 0_0",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            refuse TOPIC_AUTHORIZATION_FAILED !! TOPIC_AUTHORIZATION_FAILED
            wait 100 -> epoch 0 endpoints=-1 topology owns none
            refuse TOPIC_AUTHORIZATION_FAILED !! TOPIC_AUTHORIZATION_FAILED
            wait 200 -> epoch 0 endpoints=-1 topology owns none
            assign 1 active 0_0
        "#]],
    );
}

#[test]
fn a_coordinator_that_does_not_let_go_is_left_all_the_same() {
    check(
        settings(),
        "start
         found
         assign 1 active 0_0
         leave
         ok 7",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            assign 1 active 0_0
            leave -> epoch -1
            ok 7
        "#]],
    );
}

#[test]
fn the_end_of_all_is_asked_for_at_once_and_in_every_heartbeat() {
    check(
        settings(),
        "start
         found
         ok 1
         shut-down
         ok 1
         wait 5000",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            ok 1
            shut-down -> epoch 1 shut-down
            ok 1
            wait 5000 -> epoch 1 shut-down
        "#]],
    );
}

#[test]
fn a_static_member_goes_away_for_a_while() {
    let settings = HeartbeatSettings {
        group_instance_id: Some("one".to_owned()),
        ..settings()
    };
    check(
        settings,
        "start
         found
         assign 1 active 0_0
         leave
         ok -2",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 instance=one topology owns none
            assign 1 active 0_0
            leave -> epoch -2 instance=one
            ok -2
        "#]],
    );
}

#[test]
fn a_coordinator_without_streams_groups_and_a_topology_that_it_does_not_take_are_final() {
    for name in [
        "UNSUPPORTED_VERSION",
        "STREAMS_INVALID_TOPOLOGY",
        "STREAMS_TOPOLOGY_FENCED",
        "INVALID_REQUEST",
        "GROUP_MAX_SIZE_REACHED",
    ] {
        let mut member = HeartbeatMembership::of_streams_group(settings(), topology(), 0);
        assert!(member.poll_request(0).is_some());
        member.handle_answer(HeartbeatAnswer::Coordinator(Ok(BrokerId(1))), 0);
        assert!(member.poll_request(0).is_some());
        let code = error(name);
        member.handle_answer(HeartbeatAnswer::Refused(code), 0);
        assert_eq!(member.failure(), Some(code));
    }
}
