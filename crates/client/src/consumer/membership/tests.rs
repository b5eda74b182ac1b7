//! Members by script, and several of them against the coordinator's own state machine.

use super::super::assignors::{Assignor, Subscription, Topics, protocol};
use super::*;
use expect_test::{Expect, expect};
use std::fmt::Write;

/// Runs the commands of a script, which stand at the margin, and compares what follows each.
fn check(expect: &Expect) {
    let text = expect.data().lines();
    let margin = text.clone().filter(|line| !line.trim().is_empty());
    let margin = margin
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    let mut script = Script::new(&[Assignor::Range], None);
    let mut out = String::new();
    for line in text.filter(|line| line.len() > margin && !line[margin..].starts_with(' ')) {
        let command = line.trim();
        writeln!(out, "{command}").unwrap();
        script.run(command, &mut out);
    }
    expect.assert_eq(&out);
}

struct Script {
    member: Membership,
    now_ms: i64,
}

fn settings(assignors: &[Assignor], instance: Option<&str>) -> MembershipSettings {
    MembershipSettings {
        group_instance_id: instance.map(str::to_owned),
        session_timeout_ms: 10_000,
        heartbeat_interval_ms: 3_000,
        max_poll_interval_ms: 60_000,
        retry_backoff_ms: 100,
        retry_backoff_max_ms: 1_000,
        assignors: assignors.to_vec(),
        rack_id: None,
    }
}

fn partitions(text: &str) -> Vec<TopicPartition> {
    let names = text.split(' ').filter(|name| !name.is_empty());
    names
        .map(|name| {
            let (topic, partition) = name.rsplit_once('-').unwrap();
            TopicPartition::new(topic, partition.parse().unwrap())
        })
        .collect()
}

fn names(partitions: &[TopicPartition]) -> String {
    let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
    names.join(" ")
}

fn error(name: &str) -> ErrorCode {
    let found = ErrorCode::ALL.iter().find(|code| code.name() == name);
    *found.unwrap_or_else(|| panic!("{name}"))
}

fn topics(text: &str) -> Topics {
    let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, count)| (name.to_owned(), vec![Vec::new(); count.parse().unwrap()]))
        .collect()
}

impl Script {
    fn new(assignors: &[Assignor], instance: Option<&str>) -> Self {
        Self {
            member: Membership::new(settings(assignors, instance), 0),
            now_ms: 0,
        }
    }

    fn run(&mut self, command: &str, out: &mut String) {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let now_ms = self.now_ms;
        let mut answer = |answer| self.member.handle_answer(answer, now_ms);
        match verb {
            "static" => *self = Self::new(&[Assignor::Range], Some(rest)),
            "cooperative" => *self = Self::new(&[Assignor::CooperativeSticky], None),
            "subscribe" => {
                self.member
                    .subscribe(rest.split(' ').map(str::to_owned).collect());
            }
            "tick" => self.now_ms += rest.parse::<i64>().unwrap(),
            "app" => {
                self.member.handle_application_poll(now_ms);
            }
            "done" => self.member.handle_event_done(),
            "leave" => self.member.leave(match rest {
                "for-good" => GroupMembershipOperation::LeaveGroup,
                _ => GroupMembershipOperation::Default,
            }),
            "remain" => self.member.leave(GroupMembershipOperation::RemainInGroup),
            "fails" => self.member.handle_failure(now_ms),
            "changed" => self.member.handle_topics(&topics(rest)),
            "commit-refused" => {
                let generation_id = self.member.generation().1;
                self.member.handle_commit_error(error(rest), generation_id);
            }
            "coordinator" => answer(Response::Coordinator(rest.parse().map_err(|_| error(rest)))),
            "id" => answer(Response::MemberIdRequired(rest.to_owned())),
            "joined" | "leads" => answer(Response::Join(Ok(joined(verb == "leads", rest)))),
            "join-refused" => answer(Response::Join(Err(error(rest)))),
            "topics" => answer(Response::Topics(topics(rest))),
            "synced" => {
                answer(Response::Sync(Ok(protocol::encode_assignment(
                    &partitions(rest).into(),
                ))));
            }
            "sync-refused" => answer(Response::Sync(Err(error(rest)))),
            "heartbeat" => answer(Response::Heartbeat(error(rest))),
            "left" => answer(Response::Leave),
            _ => panic!("{command}"),
        }
        while let Some(event) = self.member.poll_event() {
            match event {
                Event::Revoked(list) => writeln!(out, "  revoked {}", names(&list)).unwrap(),
                Event::Lost(list) => writeln!(out, "  lost {}", names(&list)).unwrap(),
                Event::Assigned(list) => writeln!(out, "  assigned {}", names(&list)).unwrap(),
                Event::Tasks(_) | Event::Statuses(..) | Event::Endpoints(_) => {
                    panic!("no streams group")
                }
            }
        }
        if let Some(request) = self.member.poll_request(self.now_ms) {
            writeln!(out, "  > {}", show(&request)).unwrap();
        } else if let Some(due_ms) = self.member.next_deadline() {
            assert!(
                due_ms > self.now_ms,
                "a deadline that has passed brings a request"
            );
        }
    }
}

/// `generation assignor member=topics…`, the first member is this one.
fn joined(leads: bool, text: &str) -> JoinAnswer {
    let mut words = text.split(' ');
    let generation_id = words.next().unwrap().parse().unwrap();
    let protocol_name = words.next().unwrap().to_owned();
    let members = words.map(|word| {
        let (name, topics) = word.split_once('=').unwrap();
        let subscription = Subscription {
            topics: topics.split(',').map(str::to_owned).collect(),
            generation_id: -1,
            ..Subscription::default()
        };
        JoinedMember {
            member_id: name.to_owned(),
            group_instance_id: None,
            metadata: protocol::encode_subscription(&subscription),
        }
    });
    JoinAnswer {
        generation_id,
        protocol_name,
        leader: if leads { "me" } else { "other" }.to_owned(),
        skips_assignment: false,
        member_id: "me".to_owned(),
        members: members.collect(),
    }
}

fn show(request: &GroupRequest) -> String {
    match request {
        GroupRequest::Join(join) => {
            let protocols = join.protocols.iter().map(|(name, bytes)| {
                let subscription = protocol::decode_subscription(bytes).unwrap();
                let topics = subscription.topics.join(",");
                let owned = names(&subscription.owned_partitions);
                let generation = subscription.generation_id;
                format!(" {name} [{topics}] owned [{owned}] of {generation}")
            });
            let protocols: String = protocols.collect();
            format!("join{protocols} {}", join.reason)
                .trim_end()
                .to_owned()
        }
        GroupRequest::Sync(sync) => {
            let all = sync.assignments.iter().map(|(member, bytes)| {
                format!(
                    " {member}: {}",
                    names(&protocol::decode_assignment(bytes).unwrap().partitions)
                )
            });
            let all: String = all.collect();
            format!("sync{all}")
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn a_member_gets_an_id_follows_and_lives() {
    check(&expect![[r#"
        subscribe t
          > FindCoordinator
        coordinator 1
          > join range [t] owned [] of -1
        id me
          > join range [t] owned [] of -1
        joined 1 range
          > sync
        synced t-0
          assigned t-0
        tick 2999
        tick 1
          > Heartbeat
        heartbeat NONE
    "#]]);
}

#[test]
fn a_leader_assigns_and_watches_the_topics() {
    check(&expect![[r#"
        subscribe t
          > FindCoordinator
        coordinator 1
          > join range [t] owned [] of -1
        leads 1 range me=t other=t,u
          > DescribeTopics({"t", "u"})
        topics t=3 u=1
          > sync me: t-0 t-1 other: t-2 u-0
        synced t-0 t-1
          assigned t-0 t-1
        done
        changed t=3 u=1
        changed t=4 u=1
          revoked t-0 t-1
        done
          > join range [t] owned [] of 1 partitions or racks of the group's topics changed
    "#]]);
}

#[test]
fn an_eager_member_gives_up_all_before_it_rejoins() {
    check(&expect![[r#"
        subscribe t
          > FindCoordinator
        coordinator 1
          > join range [t] owned [] of -1
        joined 1 range
          > sync
        synced t-0 t-1
          assigned t-0 t-1
        done
        tick 3000
          > Heartbeat
        heartbeat REBALANCE_IN_PROGRESS
          revoked t-0 t-1
        tick 3000
          > Heartbeat
        heartbeat REBALANCE_IN_PROGRESS
        done
          > join range [t] owned [] of 1 the group rebalances
        joined 2 range
          > sync
        sync-refused REBALANCE_IN_PROGRESS
          > join range [t] owned [] of 2
        joined 3 range
          > sync
        synced t-1
          assigned t-1
        done
    "#]]);
}

#[test]
fn a_cooperative_member_keeps_what_it_has_and_rejoins_after_giving_up_some() {
    check(&expect![[r#"
        cooperative
        subscribe t
          > FindCoordinator
        coordinator 1
          > join cooperative-sticky [t] owned [] of -1
        joined 1 cooperative-sticky
          > sync
        synced t-0 t-1
          assigned t-0 t-1
        done
        tick 3000
          > Heartbeat
        heartbeat REBALANCE_IN_PROGRESS
          > join cooperative-sticky [t] owned [t-0 t-1] of 1 the group rebalances
        joined 2 cooperative-sticky
          > sync
        synced t-0
          revoked t-1
        done
          > join cooperative-sticky [t] owned [t-0] of 2 partitions were given up for other members
        joined 3 cooperative-sticky
          > sync
        synced t-0 t-2
          assigned t-2
        done
        subscribe u
          revoked t-0 t-2
        done
          > join cooperative-sticky [u] owned [] of 3 the subscription changed
    "#]]);
}

#[test]
fn a_member_that_is_unknown_or_of_another_generation_loses_everything() {
    check(&expect![[r#"
        subscribe t
          > FindCoordinator
        coordinator 1
          > join range [t] owned [] of -1
        joined 1 range
          > sync
        synced t-0
          assigned t-0
        done
        tick 3000
          > Heartbeat
        heartbeat UNKNOWN_MEMBER_ID
          lost t-0
        tick 100
        done
          > join range [t] owned [] of -1 the member's generation ended
        joined 2 range
          > sync
        synced t-0
          assigned t-0
        done
        commit-refused ILLEGAL_GENERATION
          lost t-0
        done
          > join range [t] owned [] of -1 the member's generation ended
        tick 100
    "#]]);
}

#[test]
fn a_coordinator_that_moves_or_falls_silent_is_looked_up() {
    check(&expect![[r#"
        subscribe t
          > FindCoordinator
        coordinator COORDINATOR_NOT_AVAILABLE
        tick 100
          > FindCoordinator
        coordinator 1
          > join range [t] owned [] of -1
        join-refused NOT_COORDINATOR
        tick 200
          > FindCoordinator
        coordinator 2
          > join range [t] owned [] of -1
        tick 0
        joined 1 range
          > sync
        synced t-0
          assigned t-0
        done
        tick 3000
          > Heartbeat
        fails
        tick 200
          > FindCoordinator
        coordinator 3
          > Heartbeat
        heartbeat NONE
        tick 3000
          > Heartbeat
        tick 7000
        fails
        tick 100
          > FindCoordinator
        coordinator 3
          > Heartbeat
    "#]]);
}

#[test]
fn an_application_that_does_not_poll_is_out_until_it_does() {
    check(&expect![[r#"
        subscribe t
          > FindCoordinator
        coordinator 1
          > join range [t] owned [] of -1
        joined 1 range
          > sync
        synced t-0
          assigned t-0
        done
        tick 60000
          > Leave { reason: "the application has not polled for `max.poll.interval.ms`" }
        left
        tick 60000
        app
          lost t-0
        done
          > join range [t] owned [] of -1 the member's generation ended
        joined 2 range
          > sync
    "#]]);
}

#[test]
fn leaving_tells_the_coordinator_unless_the_member_is_static() {
    check(&expect![[r#"
        subscribe t
          > FindCoordinator
        coordinator 1
          > join range [t] owned [] of -1
        joined 1 range
          > sync
        synced t-0
          assigned t-0
        leave
          > Leave { reason: "the consumer leaves" }
        left
        tick 100000
        static one
        subscribe t
          > FindCoordinator
        coordinator 1
          > join range [t] owned [] of -1
        joined 1 range
          > sync
        synced t-0
          assigned t-0
        leave
    "#]]);
}

#[test]
fn who_is_closed_leaves_or_remains_as_it_is_told() {
    check(&expect![[r#"
        subscribe t
          > FindCoordinator
        coordinator 1
          > join range [t] owned [] of -1
        joined 1 range
          > sync
        synced t-0
          assigned t-0
        remain
        tick 100000
        static one
        subscribe t
          > FindCoordinator
        coordinator 1
          > join range [t] owned [] of -1
        joined 1 range
          > sync
        synced t-0
          assigned t-0
        leave for-good
          > Leave { reason: "the consumer leaves" }
        left
    "#]]);
}

#[test]
fn errors_that_last_end_the_membership_until_it_subscribes_again() {
    check(&expect![[r#"
        subscribe t
          > FindCoordinator
        coordinator 1
          > join range [t] owned [] of -1
        join-refused GROUP_AUTHORIZATION_FAILED
        tick 100000
        app
        subscribe t
          > join range [t] owned [] of -1 the member's generation ended
    "#]]);
}

#[test]
fn what_was_announced_and_never_taken_is_not_lost() {
    let mut member = Membership::new(settings(&[Assignor::Range], None), 0);
    member.subscribe(BTreeSet::from(["a".to_owned()]));
    let assigned = protocol::encode_assignment(&partitions("a-0 a-1").into());
    for answer in [
        Response::Coordinator(Ok(BrokerId(1))),
        Response::Join(Ok(joined(false, "3 range"))),
        Response::Sync(Ok(assigned)),
        Response::Heartbeat(ErrorCode::RebalanceInProgress),
        Response::Heartbeat(ErrorCode::UnknownMemberId),
    ] {
        member.handle_answer(answer, 0);
    }
    // The application has not polled: it never had them.
    assert_eq!(member.poll_event(), None);
}

#[test]
fn who_subscribes_while_it_leaves_joins_again() {
    check(&expect![[r#"
        subscribe a
          > FindCoordinator
        coordinator 1
          > join range [a] owned [] of -1
        id m
          > join range [a] owned [] of -1
        joined 3 range
          > sync
        synced a-0
          assigned a-0
        leave
          > Leave { reason: "the consumer leaves" }
        subscribe a
        left
          > join range [a] owned [] of -1
    "#]]);
}
