//! Replicas that commands move between brokers, and what is told of brokers that are gone.

use crate::lab::Lab;
use crate::process::{Process, address_of};
use expect_test::{Expect, expect};
use testkit::wait_until;

const SESSION: (&str, &str) = ("broker.session.timeout.ms", "2000");

/// A node that is broker 1 and controller, and a broker 2.
struct Pair {
    lab: Lab,
    second: Option<Process>,
}

impl Pair {
    /// Topics are made on the first broker, before the second one is there.
    fn with_topics(topics: &[&[&str]]) -> Self {
        let lab = Lab::with(&[SESSION]);
        for topic in topics {
            let created = lab.run(&[&["topic", "create"], *topic].concat(), "");
            assert!(created.status.success(), "{created:?}");
        }
        let mut pair = Self { lab, second: None };
        pair.start_second();
        pair
    }

    fn start_second(&mut self) {
        let quorum = address_of(&self.lab.process.log(), "CONTROLLER").unwrap();
        let quorum = quorum.to_string();
        let keys = [
            ("process.roles", "broker"),
            ("node.id", "2"),
            ("controller.quorum.bootstrap.servers", &*quorum),
            ("broker.heartbeat.interval.ms", "200"),
            SESSION,
        ];
        self.second = Some(Process::start(
            &self.lab.directory.path().join("second"),
            &keys,
        ));
        wait_until("the second broker is known", || {
            self.told(&["cluster", "info"]).contains("\n2 ")
        });
    }

    /// All that a command prints and tells.
    fn told(&self, arguments: &[&str]) -> String {
        let output = self.lab.run(arguments, "");
        let [told, printed] =
            [output.stderr, output.stdout].map(|one| String::from_utf8(one).unwrap());
        printed + &told
    }

    #[track_caller]
    fn check(&self, arguments: &[&str], expected: Expect) {
        expected.assert_eq(&self.told(arguments));
    }
}

#[test]
fn replicas_are_evened_out_and_a_broker_is_drained() {
    let mut pair = Pair::with_topics(&[&["t", "-p", "4"]]);
    pair.check(
        &["cluster", "reassign"],
        expect![[r#"
        TOPIC  PARTITION  REPLICAS  TO
        t      0          1         2
        t      1          1         2
        this is a plan: add `--execute` to do it
    "#]],
    );
    pair.check(
        &[
            "cluster",
            "reassign",
            "t",
            "--execute",
            "--throttle",
            "100000000",
        ],
        expect![[r#"
            TOPIC  PARTITION  REPLICAS  TO
            t      0          1         2
            t      1          1         2
            `riverrun cluster reassign --progress` waits for it, and removes the throttle
        "#]],
    );
    let throttled = pair.told(&["config", "get", "topic", "t"]);
    assert!(
        throttled.contains("follower.replication.throttled.replicas"),
        "{throttled}"
    );
    let done = pair.told(&["cluster", "reassign", "--progress"]);
    assert!(done.contains("partitions are done"), "{done}");
    let throttled = pair.told(&["config", "get", "topic", "t"]);
    assert!(!throttled.contains("throttled.replicas"), "{throttled}");
    pair.check(
        &["cluster", "reassign"],
        expect![[r#"
        no partition has to move
    "#]],
    );
    pair.check(
        &["cluster", "reassign", "--to", "1,7"],
        expect![[r#"
        error: broker 7 is not in the cluster, or is fenced; the others are 1, 2
    "#]],
    );
    pair.check(
        &["cluster", "drain", "7"],
        expect![[r#"
        error: broker 7 is not in the cluster and has no replicas; the brokers are 1, 2
    "#]],
    );
    pair.check(
        &["cluster", "drain", "2", "--dry-run"],
        expect![[r#"
        TOPIC  PARTITION  REPLICAS  TO
        t      0          2         1
        t      1          2         1
    "#]],
    );
    let drained = pair.told(&["cluster", "drain", "2"]);
    assert!(drained.contains("broker 2 has no replicas"), "{drained}");
    pair.second.take().expect("it runs").stop();
    pair.check(
        &["cluster", "unregister", "2"],
        expect![[r#"
        broker 2 is unregistered
    "#]],
    );
}

#[test]
fn partitions_that_lack_replicas_are_told_of() {
    let mut pair = Pair::with_topics(&[]);
    for (topic, min_isr) in [("one", "1"), ("two", "2")] {
        let config = format!("min.insync.replicas={min_isr}");
        let created = pair.told(&[
            "topic", "create", topic, "-p", "1", "-r", "2", "-c", &config,
        ]);
        assert!(!created.contains("error"), "{created}");
    }
    pair.check(
        &["cluster", "health"],
        expect![[r#"
        healthy: every broker, log directory and partition is in order
    "#]],
    );
    pair.second.take().expect("it runs").kill();
    wait_until("the second broker is fenced", || {
        pair.told(&["cluster", "health"]).contains("fenced")
    });
    pair.check(
        &["cluster", "health", "--by-topic"],
        expect![[r#"
        TOPIC  PARTITIONS  UNDER-REPLICATED  AT-MIN-ISR  UNDER-MIN-ISR  OFFLINE
        one    1           1                 1           0              0
        two    1           1                 0           1              0
        error: 2 things need attention
    "#]],
    );
    pair.check(&["cluster", "health"], expect![[r#"
        WHAT       NAME   PROBLEM
        broker     2      fenced: it sends no heartbeats
        partition  one-0  1 of 2 replicas are in sync, no more than min.insync.replicas
        partition  two-0  1 of 2 replicas are in sync, fewer than min.insync.replicas: writes with acks=all are refused
        error: 3 things need attention
    "#]]);
    assert!(!pair.lab.run(&["cluster", "health"], "").status.success());
    pair.check(
        &["cluster", "drain", "1", "--dry-run"],
        expect![[r#"
        error: one-0 has 2 replicas, and no broker is left: add brokers
    "#]],
    );
}
