//! A group whose members do what they are told: random applications, processes and states.

use super::{Group, InputTopics, Settings, assign};
use crate::formats::group::{
    AssignmentError, LATEST_OFFSET, LATEST_VERSION, MemberAssignment, MemberSubscription, TaskId,
};
use proptest::prelude::*;
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{Assignment, Member, Topics};
use std::collections::{BTreeMap, BTreeSet};

/// Records of each changelog.
const END: i64 = 1_000_000;

#[derive(Debug, Clone, Default)]
struct Thread {
    process: u8,
    owned: BTreeSet<TopicPartition>,
    active: BTreeSet<TaskId>,
    standby: BTreeSet<TaskId>,
    probes_at_ms: Option<i64>,
}

#[derive(Debug, Clone)]
struct World {
    inputs: InputTopics,
    topics: Topics,
    stateful: BTreeSet<i32>,
    settings: Settings,
    threads: Vec<Thread>,
    /// What each process has of each task's changelogs.
    kept: BTreeMap<(u8, TaskId), i64>,
    ends_are_known: bool,
}

fn settings() -> Settings {
    Settings {
        acceptable_recovery_lag: 10_000,
        max_warmup_replicas: 2,
        num_standby_replicas: 0,
        probing_rebalance_interval_ms: 600_000,
        rack_aware_assignment_tags: BTreeSet::new(),
    }
}

/// Sub-topologies with so many partitions each, of which the odd ones have stores; processes with so many threads.
fn world(partitions: &[usize], threads: &[usize]) -> World {
    let mut world = World {
        inputs: InputTopics::new(),
        topics: Topics::new(),
        stateful: (0..).step_by(2).map(|number| number + 1).take(9).collect(),
        settings: settings(),
        threads: Vec::new(),
        kept: BTreeMap::new(),
        ends_are_known: true,
    };
    for (number, count) in (0..).zip(partitions) {
        let topic = format!("t{number}");
        world.inputs.insert(number, BTreeSet::from([topic.clone()]));
        world.topics.insert(topic, vec![Vec::new(); *count]);
    }
    for (process, count) in (1..).zip(threads) {
        for _ in 0..*count {
            world.threads.push(Thread {
                process,
                ..Thread::default()
            });
        }
    }
    world
}

impl World {
    fn tasks(&self) -> BTreeSet<TaskId> {
        super::tasks(&self.inputs, &self.topics)
            .into_keys()
            .collect()
    }

    fn member(&self, index: usize) -> Member {
        let thread = &self.threads[index];
        let kept = self
            .kept
            .iter()
            .filter(|((process, _), _)| *process == thread.process)
            .map(|((_, task), sum)| (*task, *sum));
        let running = thread.active.iter().map(|task| (*task, LATEST_OFFSET));
        let told = MemberSubscription {
            version: LATEST_VERSION,
            latest_supported_version: LATEST_VERSION,
            process_id: [thread.process; 16],
            user_endpoint: String::new(),
            task_offset_sums: kept.chain(running).collect(),
            unique_field: 0,
            error_code: 0,
            client_tags: BTreeMap::from([("zone".to_owned(), (thread.process % 2).to_string())]),
        };
        let mut member = Member {
            member_id: format!("m{index:02}"),
            ..Member::default()
        };
        member.subscription.user_data = Some(told.to_bytes());
        member.subscription.owned_partitions = thread.owned.iter().cloned().collect();
        member
    }

    fn assigned(&self) -> Vec<Assignment> {
        let members: Vec<Member> = (0..self.threads.len())
            .map(|index| self.member(index))
            .collect();
        let ends = self
            .tasks()
            .into_iter()
            .filter(|task| self.stateful.contains(&task.subtopology))
            .map(|task| (task, END));
        let group = Group {
            inputs: &self.inputs,
            topics: &self.topics,
            members: &members,
            stateful: &self.stateful,
            end_offset_sums: self.ends_are_known.then(|| ends.collect()),
            own_process: [1; 16],
            now_ms: 5,
        };
        assign(&group, &self.settings)
    }

    /// A rebalance. True when another one follows at once, for partitions were given up.
    fn rebalance(&mut self) -> bool {
        let assigned = self.assigned();
        let mut has_revoked = false;
        for (thread, assignment) in self.threads.iter_mut().zip(assigned) {
            let bytes = assignment.user_data.expect("there is always user data");
            let told = MemberAssignment::read(&bytes).expect("it is whole");
            let told = told.known().expect("its version is known");
            assert_eq!(told.error, AssignmentError::None);
            assert_eq!(told.active_tasks.len(), assignment.partitions.len());
            let partitions: BTreeSet<_> = assignment.partitions.into_iter().collect();
            has_revoked |= !thread.owned.is_subset(&partitions);
            thread.owned = partitions;
            let active: BTreeSet<TaskId> = told.active_tasks.into_iter().collect();
            for task in active.difference(&thread.active) {
                self.kept.remove(&(thread.process, *task));
            }
            for task in thread.active.difference(&active) {
                if self.stateful.contains(&task.subtopology) {
                    self.kept.insert((thread.process, *task), END);
                }
            }
            thread.active = active;
            thread.standby = told
                .standby_tasks
                .into_iter()
                .map(|standby| standby.task)
                .collect();
            thread.probes_at_ms = told.next_rebalance_ms;
        }
        has_revoked
    }

    /// Rebalances until nobody gives up partitions. True when a member is to look again later.
    fn settle(&mut self) -> bool {
        for _ in 0..4 {
            if !self.rebalance() {
                return self.threads.iter().any(|t| t.probes_at_ms.is_some());
            }
        }
        panic!("members give up partitions without end");
    }

    /// What is followed is read to its end.
    fn catch_up(&mut self) {
        for thread in &self.threads {
            for task in &thread.standby {
                self.kept.insert((thread.process, *task), END);
            }
        }
    }

    /// What must hold after every rebalance without partitions to be given up.
    fn check(&self) {
        let active: Vec<TaskId> = self
            .threads
            .iter()
            .flat_map(|thread| thread.active.iter().copied())
            .collect();
        let once: BTreeSet<TaskId> = active.iter().copied().collect();
        assert_eq!(active.len(), once.len(), "no task runs twice");
        assert_eq!(once, self.tasks(), "each task runs");
        let mut of_process = BTreeSet::new();
        for thread in &self.threads {
            for task in thread.active.iter().chain(&thread.standby) {
                assert!(
                    of_process.insert((thread.process, *task)),
                    "a process has {task:?} once"
                );
            }
            let stateless = |task: &TaskId| !self.stateful.contains(&task.subtopology);
            assert!(
                !thread.standby.iter().any(stateless),
                "who stands by has a store to follow"
            );
        }
    }

    /// Standbys of each stateful task.
    fn check_standby_counts(&self) {
        let processes: BTreeSet<u8> = self.threads.iter().map(|thread| thread.process).collect();
        let wanted = self.settings.num_standby_replicas.min(processes.len() - 1);
        for task in self.tasks() {
            let count = self
                .threads
                .iter()
                .filter(|thread| thread.standby.contains(&task))
                .count();
            let wanted = match self.stateful.contains(&task.subtopology) {
                true => wanted,
                false => 0,
            };
            assert_eq!(count, wanted, "standbys of {task:?}");
        }
    }
}

fn any_world() -> impl Strategy<Value = World> {
    let sum = prop_oneof![
        Just(-3),
        Just(END),
        0..END,
        (END - 9_000)..END,
        Just(END + 1)
    ];
    (
        prop::collection::vec(1..6_usize, 1..5),
        prop::collection::vec(1..4_usize, 1..5),
        prop::collection::vec((1..5_u8, 0..4_i32, 0..6_i32, sum), 0..20),
        (0..3_usize, 1..4_usize, any::<bool>()),
    )
        .prop_map(
            |(partitions, threads, kept, (standbys, warmups, by_zones))| {
                let mut world = world(&partitions, &threads);
                world.settings.num_standby_replicas = standbys;
                world.settings.max_warmup_replicas = warmups;
                if by_zones {
                    world.settings.rack_aware_assignment_tags = BTreeSet::from(["zone".to_owned()]);
                }
                let tasks = world.tasks();
                for (process, subtopology, partition, sum) in kept {
                    let task = TaskId {
                        subtopology,
                        partition,
                    };
                    if tasks.contains(&task) && world.stateful.contains(&subtopology) {
                        world.kept.insert((process, task), sum);
                    }
                }
                world
            },
        )
}

proptest! {
    #![proptest_config(trials::property(256))]

    #[test]
    fn every_task_runs_once_and_moves_end(mut world in any_world(), joins in 0..3_u8) {
        for joined in 0..=joins {
            let most = world.tasks().len() + 2;
            let mut rounds = 0;
            while world.settle() {
                world.check();
                world.catch_up();
                rounds += 1;
                prop_assert!(rounds <= most, "{rounds} probing rebalances");
            }
            world.check();
            world.check_standby_counts();
            // Nothing changed: nothing moves.
            let before = world.threads.clone();
            prop_assert_eq!(world.assigned(), world.assigned());
            prop_assert!(!world.rebalance());
            for (thread, before) in world.threads.iter().zip(&before) {
                prop_assert_eq!(&thread.active, &before.active);
                prop_assert_eq!(&thread.standby, &before.standby);
            }
            world.threads.push(Thread { process: 100 + joined, ..Thread::default() });
        }
    }

    #[test]
    fn without_end_offsets_what_runs_stays(mut world in any_world()) {
        while world.settle() {
            world.catch_up();
        }
        let before = world.threads.clone();
        world.ends_are_known = false;
        world.threads.push(Thread { process: 100, ..Thread::default() });
        world.settle();
        world.check();
        let active = |threads: &[Thread], process| -> BTreeSet<TaskId> {
            threads.iter().filter(|t| t.process == process).flat_map(|t| t.active.clone()).collect()
        };
        for process in 1..5 {
            prop_assert_eq!(active(&world.threads, process), active(&before, process));
        }
    }

    #[test]
    fn loads_are_even_when_all_have_caught_up(mut world in any_world()) {
        while world.settle() {
            world.catch_up();
        }
        let mut counts: BTreeMap<u8, (usize, usize)> = BTreeMap::new();
        for thread in &world.threads {
            let (threads, tasks) = counts.entry(thread.process).or_default();
            *threads += 1;
            *tasks += thread.active.iter().filter(|t| world.stateful.contains(&t.subtopology)).count();
        }
        for (threads, tasks) in counts.values() {
            for (other_threads, other_tasks) in counts.values() {
                // A move makes it less even.
                let skew = |more: usize| {
                    (tasks.cast_signed() - more.cast_signed()) * other_threads.cast_signed()
                        - (other_tasks + more).cast_signed() * threads.cast_signed()
                };
                prop_assert!(skew(0) <= 0 || skew(1).abs() >= skew(0));
            }
        }
    }
}

/// Who has nothing warms up before it runs anything; no more tasks do so at a time than is allowed.
#[test]
fn a_new_process_warms_up_first() {
    let mut world = world(&[1, 6], &[1]);
    assert!(!world.settle());
    world.threads.push(Thread {
        process: 2,
        ..Thread::default()
    });
    let stateful = |tasks: &BTreeSet<TaskId>| tasks.iter().filter(|t| t.subtopology == 1).count();
    let mut seen = Vec::new();
    loop {
        let is_probing = world.settle();
        let newcomer = &world.threads[1];
        seen.push((stateful(&newcomer.active), newcomer.standby.len()));
        if !is_probing {
            break;
        }
        assert_eq!(world.threads[0].probes_at_ms, Some(600_005));
        world.catch_up();
    }
    assert_eq!(seen, [(0, 2), (2, 1), (3, 0)]);
}

/// Who stands by takes over at once when the other is gone.
#[test]
fn a_standby_is_in_another_zone() {
    let mut world = world(&[1, 4], &[1, 1, 1]);
    world.settings.num_standby_replicas = 1;
    world.settings.rack_aware_assignment_tags = BTreeSet::from(["zone".to_owned()]);
    while world.settle() {
        world.catch_up();
    }
    for thread in &world.threads {
        let stateful = thread.active.iter();
        for task in stateful.filter(|task| world.stateful.contains(&task.subtopology)) {
            let mut threads = world.threads.iter();
            let standby = threads.find(|other| other.standby.contains(task));
            let standby = standby.expect("a standby");
            assert_ne!(standby.process % 2, thread.process % 2, "{task:?}");
        }
    }
}

#[test]
fn a_standby_takes_over() {
    let mut world = world(&[1, 4], &[1, 1]);
    world.settings.num_standby_replicas = 1;
    while world.settle() {
        world.catch_up();
    }
    let standby = world.threads[1].standby.clone();
    assert_eq!(standby.len(), 2);
    world.catch_up();
    world.threads.remove(0);
    assert!(!world.settle());
    assert!(standby.is_subset(&world.threads[0].active));
}

#[test]
fn a_member_that_asks_for_the_end_is_obeyed_by_all() {
    let world = world(&[1], &[2]);
    let mut members = vec![world.member(0), world.member(1)];
    let bytes = members[1].subscription.user_data.take().expect("user data");
    let told = MemberSubscription::read(&bytes).expect("it is whole");
    let mut told = told.known().expect("its version is known");
    told.error_code = crate::formats::group::SHUTDOWN_REQUESTED;
    members[1].subscription.user_data = Some(told.to_bytes());
    let group = Group {
        inputs: &world.inputs,
        topics: &world.topics,
        members: &members,
        stateful: &world.stateful,
        end_offset_sums: Some(BTreeMap::new()),
        own_process: [1; 16],
        now_ms: 0,
    };
    for assignment in assign(&group, &world.settings) {
        let bytes = assignment.user_data.expect("user data");
        let told = MemberAssignment::read(&bytes).expect("it is whole");
        let told = told.known().expect("its version is known");
        assert_eq!(told.error, AssignmentError::ShutdownRequested);
        assert!(assignment.partitions.is_empty());
    }
}

/// Members of which each is told with its own user data.
fn assigned_to(subscriptions: &[MemberSubscription], world: &World) -> Vec<Assignment> {
    let members: Vec<Member> = subscriptions
        .iter()
        .enumerate()
        .map(|(index, told)| {
            let mut member = Member {
                member_id: format!("m{index:04}"),
                ..Member::default()
            };
            member.subscription.user_data = Some(told.to_bytes());
            member
        })
        .collect();
    let group = Group {
        inputs: &world.inputs,
        topics: &world.topics,
        members: &members,
        stateful: &world.stateful,
        end_offset_sums: Some(BTreeMap::new()),
        own_process: [1; 16],
        now_ms: 5,
    };
    assign(&group, &world.settings)
}

fn subscription(process: u8, endpoint: String) -> MemberSubscription {
    MemberSubscription {
        version: LATEST_VERSION,
        latest_supported_version: LATEST_VERSION,
        process_id: [process; 16],
        user_endpoint: endpoint,
        task_offset_sums: BTreeMap::new(),
        unique_field: 0,
        error_code: 0,
        client_tags: BTreeMap::new(),
    }
}

#[test]
fn a_host_that_no_assignment_can_hold_is_left_out() {
    let world = world(&[2], &[]);
    for (length, is_told) in [(253, true), (256, false), (70_000, false)] {
        let long = format!("{}:9092", "h".repeat(length));
        let members = [subscription(1, long), subscription(2, "two:1".to_owned())];
        for assignment in assigned_to(&members, &world) {
            let bytes = assignment.user_data.expect("there is always user data");
            let told = MemberAssignment::read(&bytes).expect("it is whole");
            let told = told.known().expect("its version is known");
            let expected = 1 + usize::from(is_told);
            assert_eq!(told.active_hosts.len(), expected, "{length}");
        }
    }
}

/// With as many tasks and processes as there ever are, a decision takes no longer than a leader may: it does not look
/// at each process for each task.
#[test]
fn a_large_group_is_assigned_with_few_looks() {
    let mut world = world(&[1, 20_000], &[1; 250]);
    world.settings.num_standby_replicas = 1;
    // The first process has everything, so that all others have tasks that they have not caught up in.
    for task in world.tasks() {
        world.kept.insert((1, task), END);
    }
    let before = super::process::look_count();
    let assigned = world.assigned();
    let looks = super::process::look_count() - before;
    assert!(looks < 20_000 * 250 / 10, "{looks} looks");
    assert!(looks > 20_000, "each task is looked at: {looks} looks");
    assert_eq!(assigned.len(), 250);
}
