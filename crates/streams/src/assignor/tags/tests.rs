//! Where standbys go, beside what Apache Kafka 4.3.1's `ClientTagAwareStandbyTaskAssignor` gives for the same
//! processes.

use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;

fn settings(num_standby_replicas: usize, tags: &[&str]) -> Settings {
    Settings {
        acceptable_recovery_lag: 10_000,
        max_warmup_replicas: 2,
        num_standby_replicas,
        probing_rebalance_interval_ms: 600_000,
        rack_aware_assignment_tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    }
}

fn task(text: &str) -> TaskId {
    let (subtopology, partition) = text.split_once('_').expect("a task");
    TaskId {
        subtopology: subtopology.parse().expect("a number"),
        partition: partition.parse().expect("a number"),
    }
}

/// Of each line, the standbys: `STANDBYS TAGS | PROCESS THREADS TAG=VALUE ... TASK ... | ...`, where the tasks are
/// active.
fn check(script: &str, expected: Expect) {
    let mut out = String::new();
    for line in script.lines().map(str::trim) {
        let mut parts = line.split('|').map(str::trim);
        let head = parts.next().and_then(|head| head.split_once(' '));
        let (count, tags) = head.expect("how many, and tags");
        let tags: Vec<&str> = tags.split(',').collect();
        let settings = settings(count.parse().expect("a number"), &tags);
        let (mut processes, mut work) = (Processes::new(), Work::default());
        for part in parts {
            let words: Vec<&str> = part.split(' ').collect();
            let id: u8 = words[0].parse().expect("a number");
            let process = processes.entry(ProcessId([id; 16])).or_default();
            process.threads = words[1].parse().expect("a number");
            for word in &words[2..] {
                match word.split_once('=') {
                    Some((tag, value)) => {
                        process.tags.insert(tag.to_owned(), value.to_owned());
                    }
                    None => {
                        process.active.insert(task(word));
                        work.stateful.insert(task(word));
                    }
                }
            }
        }
        assign_standbys(&mut processes, &work, &settings);
        let of_processes = processes.iter().map(|(id, process)| {
            let tasks = process.standby.iter();
            let tasks = tasks.map(|task| format!(" {}_{}", task.subtopology, task.partition));
            format!("{}:{};", id.0[0], tasks.collect::<String>())
        });
        let of_processes: Vec<String> = of_processes.collect();
        out.push_str(&format!("{}\n", of_processes.join(" ")));
    }
    expected.assert_eq(&out);
}

#[test]
fn standbys_go_where_kafka_streams_has_them() {
    check(
        "1 zone | 1 1 zone=a 1_0 1_1 | 2 1 zone=a 1_2 1_3 | 3 1 zone=b 1_4 1_5
         2 zone | 1 1 zone=a 1_0 1_1 | 2 1 zone=b 1_2 1_3 | 3 1 zone=c 1_4 1_5 | 4 1 zone=a
         2 zone | 1 1 zone=a 1_0 | 2 1 zone=a 1_1 | 3 1 zone=b 1_2
         3 zone | 1 1 zone=a 1_0 | 2 1 zone=a 1_1 | 3 1 zone=b 1_2
         2 zone,cluster | 1 1 zone=a cluster=x 1_0 | 2 1 zone=b cluster=x 1_1 | 3 1 zone=c cluster=x 1_2 | 4 1 zone=a cluster=y 1_3 | 5 1 zone=b cluster=y 1_4 | 6 1 zone=c cluster=y 1_5
         2 zone,cluster | 1 2 zone=a cluster=x 1_0 1_1 | 2 1 zone=b cluster=x 1_2 | 3 1 zone=c cluster=y 1_3
         1 zone,cluster | 1 1 zone=a cluster=x 1_0 1_1 1_2 | 2 1 zone=a cluster=y | 3 1 zone=b cluster=x | 4 1 zone=b cluster=y
         1 zone | 1 1 zone=a other=q 1_0 1_1 | 2 1 zone=a other=r | 3 1 other=q
         1 zone | 1 1 1_0 | 2 1 1_1
         2 zone,cluster | 1 1 zone=a cluster=x 1_0 1_1 1_2 1_3 | 2 1 zone=b cluster=x | 3 1 zone=b cluster=y | 4 1 zone=c cluster=z | 5 3 zone=a cluster=z",
        expect![[r#"
            1: 1_4; 2: 1_5; 3: 1_0 1_1 1_2 1_3;
            1: 1_4; 2: 1_0 1_1 1_4 1_5; 3: 1_0 1_1 1_2 1_3; 4: 1_2 1_3 1_5;
            1: 1_1 1_2; 2: 1_0 1_2; 3: 1_0 1_1;
            1: 1_1 1_2; 2: 1_0 1_2; 3: 1_0 1_1;
            1: 1_4 1_5; 2: 1_2 1_3; 3: 1_0 1_3; 4: 1_1 1_2; 5: 1_0 1_5; 6: 1_1 1_4;
            1: 1_2 1_3; 2: 1_0 1_1 1_3; 3: 1_0 1_1 1_2;
            1:; 2:; 3:; 4: 1_0 1_1 1_2;
            1:; 2: 1_0; 3: 1_1;
            1: 1_1; 2: 1_0;
            1:; 2:; 3: 1_0 1_1 1_2 1_3; 4: 1_0 1_1 1_2 1_3; 5:;
        "#]],
    );
}

proptest! {
    #![proptest_config(trials::property(256))]

    /// The copies of a task are in as many zones as there can be.
    #[test]
    fn copies_are_in_as_many_zones_as_there_can_be(
        zones in proptest::collection::vec(0..4_u8, 1..9),
        threads in proptest::collection::vec(1..4_usize, 9),
        homes in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
        count in 0..4_usize,
    ) {
        let (mut processes, mut work) = (Processes::new(), Work::default());
        for (id, zone) in (1..).zip(&zones) {
            let process = processes.entry(ProcessId([id; 16])).or_default();
            process.threads = threads[usize::from(id) - 1];
            process.tags.insert("zone".to_owned(), zone.to_string());
        }
        for (partition, home) in (0..).zip(&homes) {
            let task = TaskId { subtopology: 0, partition };
            work.stateful.insert(task);
            let id = home.index(zones.len());
            let process = processes.values_mut().nth(id).expect("a process");
            process.active.insert(task);
        }
        assign_standbys(&mut processes, &work, &settings(count, &["zone"]));
        super::super::balance::STANDBY_IN_PLACE.settle(&mut processes);
        let zone_count = zones.iter().collect::<BTreeSet<_>>().len();
        for task in &work.stateful {
            let copies = processes.values().filter(|process| process.has(*task));
            let found: BTreeSet<&String> = copies.clone().map(|process| &process.tags["zone"]).collect();
            let copy_count = (count + 1).min(zones.len());
            prop_assert_eq!(copies.count(), copy_count);
            prop_assert_eq!(found.len(), copy_count.min(zone_count));
            let is_twice = |process: &Process| process.active.contains(task) && process.standby.contains(task);
            prop_assert!(!processes.values().any(is_twice));
        }
    }
}
