//! A member by script: what it asks, what the application hears, what each error means.

use super::script::{self, Scripted, accepted, error, settings};
use super::*;
use expect_test::{Expect, expect};
use std::fmt::Write as _;

const TOPIC: Uuid = Uuid::from_u128(1);

/// Runs a script, with the lines `subscribe t`, `pattern t.*`, `assign 3 0 1`, `commit NAME 2` and `names` too.
fn check(settings: HeartbeatSettings, script: &str, expected: Expect) {
    script::check(HeartbeatMembership::new(settings, 0), script, expected);
}

impl Scripted for ConsumerGroup {
    fn no_news() {}

    fn play(member: &mut HeartbeatMembership, words: &[&str], now_ms: i64) {
        match *words {
            ["subscribe", ref topics @ ..] => {
                let topics = topics.iter().map(|topic| (*topic).to_owned());
                member.subscribe(Interest::Topics(topics.collect()));
            }
            ["pattern", pattern] => member.subscribe(Interest::Pattern(pattern.to_owned())),
            ["assign", epoch, ref partitions @ ..] => {
                let partitions = partitions.iter().map(|one| one.parse().expect("a number"));
                let assignment = Assignment::from([(TOPIC, partitions.collect())]);
                member.handle_answer(accepted(epoch, Some(assignment), ()), now_ms);
            }
            ["commit", name, epoch] => {
                member.handle_commit_error(error(name), epoch.parse().expect("a number"));
            }
            ["names"] => member.handle_names(|id| (id == TOPIC).then(|| "t".to_owned())),
            _ => panic!("`{words:?}`"),
        }
    }

    fn heartbeat_text(beat: &Heartbeat) -> String {
        let mut text = String::new();
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                write!(text, " {name}={value}").expect("a string takes all");
            }
        };
        add("instance", beat.group_instance_id.clone());
        let timeout_ms = beat.rebalance_timeout_ms;
        add("timeout", timeout_ms.map(|ms| ms.to_string()));
        add("assignor", beat.remote_assignor.clone());
        add("rack", beat.rack_id.clone());
        let interest = beat.interest.as_ref();
        add("interest", interest.map(|interest| format!("{interest:?}")));
        let drops_pattern = beat.drops_pattern;
        add("drops-pattern", drops_pattern.then(|| "yes".to_owned()));
        let owned = beat.owned.as_ref().map(|owned| {
            let all: Vec<i32> = owned.values().flatten().copied().collect();
            format!("{all:?}")
        });
        add("owned", owned);
        text
    }

    fn event_text(event: &Event) -> String {
        format!("{event:?}")
            .replace("TopicPartition { topic: \"t\", partition: ", "t-")
            .replace(" }", "")
    }
}

fn dynamic() -> HeartbeatSettings {
    HeartbeatSettings {
        remote_assignor: Some("range".to_owned()),
        rack_id: Some("here".to_owned()),
        ..settings()
    }
}

#[test]
fn a_member_joins_takes_gives_up_and_leaves() {
    check(
        dynamic(),
        "subscribe t
         found
         assign 1 0 1
         names
         done
         ok 1
         wait 4999
         wait 1
         assign 1 1
         done
         assign 2 1 2
         done
         ok 2
         leave
         ok -1",
        expect![[r#"
            subscribe t -> find
            found -> epoch 0 timeout=60000 assignor=range rack=here interest=Topics({"t"}) owned=[]
            assign 1 0 1
            names => Assigned([t-0, t-1])
            done -> epoch 1 owned=[0, 1]
            ok 1
            wait 4999
            wait 1 -> epoch 1
            assign 1 1 => Revoked([t-0])
            done -> epoch 1 owned=[1]
            assign 2 1 2 => Assigned([t-2])
            done -> epoch 2 owned=[1, 2]
            ok 2
            leave -> epoch -1
            ok -1
        "#]],
    );
}

#[test]
fn a_lost_heartbeat_is_followed_by_a_full_one() {
    check(
        dynamic(),
        "subscribe t
         found
         assign 1 0
         names
         done
         lose
         wait 100
         found
         ok 1
         subscribe t u
         ok 2",
        expect![[r#"
            subscribe t -> find
            found -> epoch 0 timeout=60000 assignor=range rack=here interest=Topics({"t"}) owned=[]
            assign 1 0
            names => Assigned([t-0])
            done -> epoch 1 owned=[0]
            lose
            wait 100 -> find
            found -> epoch 1 timeout=60000 assignor=range rack=here interest=Topics({"t"}) drops-pattern=yes owned=[0]
            ok 1
            subscribe t u -> epoch 1 interest=Topics({"t", "u"}) drops-pattern=yes
            ok 2
        "#]],
    );
}

#[test]
fn a_fenced_member_loses_all_and_joins_anew() {
    check(
        dynamic(),
        "subscribe t
         found
         assign 1 0 1
         names
         done
         refuse FENCED_MEMBER_EPOCH
         wait 100
         done
         assign 5 1
         names
         done
         commit UNKNOWN_MEMBER_ID 4
         commit UNKNOWN_MEMBER_ID 5
         ok 5
         done",
        expect![[r#"
            subscribe t -> find
            found -> epoch 0 timeout=60000 assignor=range rack=here interest=Topics({"t"}) owned=[]
            assign 1 0 1
            names => Assigned([t-0, t-1])
            done -> epoch 1 owned=[0, 1]
            refuse FENCED_MEMBER_EPOCH => Lost([t-0, t-1])
            wait 100
            done -> epoch 0 timeout=60000 assignor=range rack=here interest=Topics({"t"}) owned=[]
            assign 5 1 => Assigned([t-1])
            names
            done -> epoch 5 owned=[1]
            commit UNKNOWN_MEMBER_ID 4
            commit UNKNOWN_MEMBER_ID 5 => Lost([t-1])
            ok 5
            done -> epoch 0 timeout=60000 assignor=range rack=here interest=Topics({"t"}) owned=[]
        "#]],
    );
}

#[test]
fn a_commit_of_an_old_epoch_asks_for_the_new_one() {
    check(
        dynamic(),
        "subscribe t
         found
         ok 1
         commit STALE_MEMBER_EPOCH 1
         ok 2",
        expect![[r#"
            subscribe t -> find
            found -> epoch 0 timeout=60000 assignor=range rack=here interest=Topics({"t"}) owned=[]
            ok 1
            commit STALE_MEMBER_EPOCH 1 -> epoch 1
            ok 2
        "#]],
    );
}

#[test]
fn a_static_member_goes_away_for_a_while() {
    let settings = HeartbeatSettings {
        group_instance_id: Some("one".to_owned()),
        remote_assignor: None,
        rack_id: None,
        ..dynamic()
    };
    check(
        settings,
        "subscribe t
         found
         assign 1 0
         leave
         ok -2
         subscribe t
         refuse UNRELEASED_INSTANCE_ID",
        expect![[r#"
            subscribe t -> find
            found -> epoch 0 instance=one timeout=60000 interest=Topics({"t"}) owned=[]
            assign 1 0
            leave -> epoch -2 instance=one
            ok -2
            subscribe t -> epoch 0 instance=one timeout=60000 interest=Topics({"t"}) owned=[]
            refuse UNRELEASED_INSTANCE_ID failed: UNRELEASED_INSTANCE_ID
        "#]],
    );
}

#[test]
fn who_is_closed_leaves_or_remains_as_it_is_told() {
    let static_one = HeartbeatSettings {
        group_instance_id: Some("one".to_owned()),
        remote_assignor: None,
        rack_id: None,
        ..dynamic()
    };
    check(
        dynamic(),
        "subscribe t
         found
         assign 1 0
         remain
         wait 100000",
        expect![[r#"
            subscribe t -> find
            found -> epoch 0 timeout=60000 assignor=range rack=here interest=Topics({"t"}) owned=[]
            assign 1 0
            remain
            wait 100000
        "#]],
    );
    check(
        static_one.clone(),
        "subscribe t
         found
         assign 1 0
         remain",
        expect![[r#"
            subscribe t -> find
            found -> epoch 0 instance=one timeout=60000 interest=Topics({"t"}) owned=[]
            assign 1 0
            remain -> epoch -2 instance=one
        "#]],
    );
    check(
        static_one,
        "subscribe t
         found
         assign 1 0
         leave for-good
         ok -1",
        expect![[r#"
            subscribe t -> find
            found -> epoch 0 instance=one timeout=60000 interest=Topics({"t"}) owned=[]
            assign 1 0
            leave for-good -> epoch -1 instance=one
            ok -1
        "#]],
    );
}

#[test]
fn an_application_that_does_not_poll_is_out_until_it_does() {
    check(
        dynamic(),
        "subscribe t
         found
         assign 1 0
         names
         done
         ok 1
         wait 60000
         ok -1
         wait 1
         poll
         done",
        expect![[r#"
            subscribe t -> find
            found -> epoch 0 timeout=60000 assignor=range rack=here interest=Topics({"t"}) owned=[]
            assign 1 0
            names => Assigned([t-0])
            done -> epoch 1 owned=[0]
            ok 1
            wait 60000 -> epoch -1
            ok -1
            wait 1
            poll => Lost([t-0])
            done -> epoch 0 timeout=60000 assignor=range rack=here interest=Topics({"t"}) owned=[]
        "#]],
    );
}

#[test]
fn patterns_are_the_coordinators_to_match() {
    check(
        dynamic(),
        "pattern t.*
         found
         assign 1 0
         names
         done
         ok 1
         subscribe t
         ok 2
         pattern [
         refuse INVALID_REGULAR_EXPRESSION
         subscribe t",
        expect![[r#"
            pattern t.* -> find
            found -> epoch 0 timeout=60000 assignor=range rack=here interest=Pattern("t.*") owned=[]
            assign 1 0
            names => Assigned([t-0])
            done -> epoch 1 owned=[0]
            ok 1
            subscribe t -> epoch 1 interest=Topics({"t"}) drops-pattern=yes
            ok 2
            pattern [ -> epoch 2 interest=Pattern("[") drops-pattern=yes
            refuse INVALID_REGULAR_EXPRESSION => Lost([t-0]) failed: INVALID_REGULAR_EXPRESSION
            subscribe t
        "#]],
    );
}

#[test]
fn a_change_of_mind_meanwhile_is_dealt_with_afterwards() {
    check(
        dynamic(),
        "subscribe t
         found
         assign 1 0 1
         names
         wait 5000
         assign 2 1
         done
         done
         ok 2",
        expect![[r#"
            subscribe t -> find
            found -> epoch 0 timeout=60000 assignor=range rack=here interest=Topics({"t"}) owned=[]
            assign 1 0 1
            names => Assigned([t-0, t-1])
            wait 5000 -> epoch 1
            assign 2 1
            done -> epoch 2 owned=[0, 1] => Revoked([t-0])
            done
            ok 2 -> epoch 2 owned=[1]
        "#]],
    );
}

/// A member that has partition 0 of the topic, and has said so.
fn settled() -> HeartbeatMembership {
    let mut member = HeartbeatMembership::new(dynamic(), 0);
    member.subscribe(Interest::Topics(["t".to_owned()].into()));
    let first = member.poll_request(0);
    assert_eq!(first, Some(MemberRequest::FindCoordinator));
    member.handle_answer(HeartbeatAnswer::Coordinator(Ok(BrokerId(1))), 0);
    let assigned = [("1", Some(assignment(&[0]))), ("1", None)];
    for (epoch, assignment) in assigned {
        assert!(member.poll_request(0).is_some());
        member.handle_answer(accepted(epoch, assignment, ()), 0);
        member.handle_names(|id| (id == TOPIC).then(|| "t".to_owned()));
        if member.poll_event().is_some() {
            member.handle_event_done();
        }
    }
    member
}

fn assignment(partitions: &[i32]) -> Assignment {
    Assignment::from([(TOPIC, partitions.iter().copied().collect())])
}

#[test]
fn what_goes_is_told_before_what_comes_and_both_before_the_coordinator_hears() {
    let mut member = settled();
    assert!(member.poll_request(5_000).is_some());
    member.handle_answer(accepted("2", Some(assignment(&[1])), ()), 5_000);
    let partition = |index: i32| vec![TopicPartition::new("t", index)];
    assert_eq!(member.poll_event(), Some(Event::Revoked(partition(0))));
    member.handle_event_done();
    assert_eq!(member.poll_request(5_000), None);
    assert_eq!(member.poll_event(), Some(Event::Assigned(partition(1))));
    assert_eq!(member.poll_request(5_000), None);
    member.handle_event_done();
    let Some(MemberRequest::Heartbeat(beat)) = member.poll_request(5_000) else {
        panic!("the coordinator hears of it");
    };
    assert_eq!(beat.owned, Some(assignment(&[1])));
}

#[test]
fn who_waits_for_a_poll_and_to_try_again_has_nothing_to_do_before_both() {
    let mut member = settled();
    let fenced_at = dynamic().max_poll_interval_ms - 10;
    assert!(member.poll_request(fenced_at).is_some());
    let fenced = HeartbeatAnswer::Refused(ErrorCode::FencedMemberEpoch);
    member.handle_answer(fenced, fenced_at);
    for now_ms in fenced_at..fenced_at + 200 {
        if member.poll_request(now_ms).is_some() {
            break;
        }
        let next = member.next_deadline();
        assert!(
            next.is_none_or(|at_ms| at_ms > now_ms),
            "{now_ms}: {next:?}"
        );
    }
}
