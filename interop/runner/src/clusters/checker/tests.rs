//! Each anomaly is planted in a history that is right, and found.

use super::*;

/// What a test plants in the history.
type Change = fn(&mut History);

fn sent(value: &str, fate: Fate) -> Sent {
    Sent {
        producer: 0,
        value: value.to_owned(),
        transaction: None,
        fate,
    }
}

fn acknowledged(value: &str, partition: i32, offset: i64) -> Sent {
    sent(value, Fate::Acknowledged(Some((partition, offset))))
}

fn record(partition: i32, offset: i64, value: &str) -> (Place, String) {
    ((partition, offset), value.to_owned())
}

fn delivered(partition: i32, offset: i64, value: &str) -> Delivery {
    Delivery::Record((partition, offset), value.to_owned())
}

fn batch(base_offset: i64, last_offset: i64, checksum: u32) -> Batch {
    Batch {
        base_offset,
        last_offset,
        checksum,
    }
}

fn replica(node: i32, partition: i32, batches: &[Batch]) -> ReplicaLog {
    ReplicaLog {
        node,
        partition,
        is_in_sync: true,
        batches: batches.to_vec(),
        fault: None,
    }
}

/// Two partitions; `a` to `d` in the first, the transaction of `e` and `f` in the second, then the
/// aborted one of `g`. A consumer was given everything, with a new assignment in between.
fn right() -> History {
    let mut history = History {
        is_idempotent: true,
        sent: vec![
            acknowledged("a", 0, 0),
            acknowledged("b", 0, 1),
            sent("c", Fate::Unknown),
            acknowledged("d", 0, 3),
            acknowledged("e", 1, 0),
            sent("f", Fate::Acknowledged(None)),
            sent("g", Fate::Aborted),
            sent("h", Fate::Unknown),
        ],
        ..History::default()
    };
    for (index, transaction) in [(4, 1), (5, 1), (6, 2)] {
        history.sent[index].transaction = Some(transaction);
    }
    let mut records = vec![
        record(0, 0, "a"),
        record(0, 1, "b"),
        record(1, 0, "e"),
        record(1, 1, "f"),
        record(0, 2, "c"),
        record(0, 3, "d"),
    ];
    history.readings.push(Reading {
        isolation: Isolation::Committed,
        records: records.clone(),
    });
    records.push(record(1, 3, "g"));
    history.readings.push(Reading {
        isolation: Isolation::Uncommitted,
        records,
    });
    history.consumers.push(Deliveries {
        reader: "member".to_owned(),
        isolation: Isolation::Uncommitted,
        events: vec![
            Delivery::Assigned(0),
            delivered(0, 0, "a"),
            delivered(0, 1, "b"),
            Delivery::Committed((0, 1)),
            Delivery::Assigned(0),
            delivered(0, 1, "b"),
            delivered(0, 2, "c"),
            delivered(0, 3, "d"),
            Delivery::Assigned(1),
            delivered(1, 0, "e"),
            delivered(1, 1, "f"),
            delivered(1, 3, "g"),
        ],
    });
    for node in 1..=3 {
        let first = [batch(0, 1, 11), batch(2, 3, 12)];
        history.replicas.push(replica(node, 0, &first));
        let second = [
            batch(0, 1, 21),
            batch(2, 2, 22),
            batch(3, 3, 23),
            batch(4, 4, 24),
        ];
        history.replicas.push(replica(node, 1, &second));
    }
    history
}

/// The history with a change has these anomalies, and no others.
fn check_change(change: Change, expect: &[&str]) {
    let mut history = right();
    change(&mut history);
    let found = check(&history);
    let texts: Vec<String> = found.anomalies.iter().map(ToString::to_string).collect();
    assert_eq!(texts, expect);
}

#[test]
fn what_is_right_has_no_anomaly_and_is_counted() {
    let expect = Verdict {
        acknowledged: 5,
        ..Verdict::default()
    };
    assert_eq!(check(&right()), expect);
}

#[test]
fn each_planted_anomaly_is_found() {
    let cases: &[(Change, &[&str])] = &[
        (
            |history| history.sent.push(acknowledged("z", 0, 9)),
            &[
                "lost: `z`, acknowledged at Some((0, 9)), is nowhere",
                "missing on replica 1, which is in sync: (0, 9)",
                "missing on replica 2, which is in sync: (0, 9)",
                "missing on replica 3, which is in sync: (0, 9)",
            ],
        ),
        (
            |history| {
                for reading in &mut history.readings {
                    reading.records.retain(|(_, value)| value != "b");
                }
                history.consumers.clear();
            },
            &[
                "lost: `b`, acknowledged at Some((0, 1)), is not read, though [1, 2, 3] have the place",
            ],
        ),
        (
            |history| {
                for reading in &mut history.readings {
                    reading.records.push(record(0, 4, "d"));
                }
            },
            &["duplicated: `d` at [(0, 3), (0, 4)]"],
        ),
        (
            |history| history.sent[3].fate = Fate::Acknowledged(Some((1, 2))),
            &[
                "elsewhere: `d`, acknowledged at (1, 2), is at [(0, 3)]",
                "elsewhere: `d`, acknowledged at (1, 2), is at [(0, 3)]",
            ],
        ),
        (
            |history| history.consumers[0].events[1] = delivered(0, 0, "h"),
            &["two values: (0, 0) holds `a` and `h`"],
        ),
        (
            |history| history.readings[1].records.push(record(1, 4, "ghost")),
            &["never sent: `ghost` at (1, 4)"],
        ),
        (
            |history| history.sent.swap(0, 1),
            &[
                "reordered: `b` follows `a` in partition 0",
                "reordered: `b` follows `a` in partition 0",
            ],
        ),
        (
            |history| history.readings[0].records.push(record(1, 3, "g")),
            &["aborted read: `g` at (1, 3)"],
        ),
        (
            |history| {
                history.sent[5].fate = Fate::Unknown;
                history.readings[0]
                    .records
                    .retain(|(_, value)| value != "f");
            },
            &["torn: of transaction 1 of producer 0 1 of 2 are seen"],
        ),
    ];
    for (change, expect) in cases {
        check_change(*change, expect);
    }
}

#[test]
fn each_planted_anomaly_of_a_consumer_is_found() {
    let cases: &[(Change, &[&str])] = &[
        (
            |history| drop(history.consumers[0].events.remove(6)),
            &["skipped: member was not given (0, 2)"],
        ),
        (
            // The next member begins after what the first was given and has not committed.
            |history| drop(history.consumers[0].events.drain(5..7)),
            &["skipped: member was not given (0, 2)"],
        ),
        (
            |history| history.consumers[0].events.insert(8, delivered(0, 2, "c")),
            &["went back: member from 4 to 2 in partition 0"],
        ),
        (
            |history| history.consumers[0].events[3] = Delivery::Committed((0, 2)),
            &["went back: member from 2 to 1 in partition 0"],
        ),
        (
            |history| history.consumers[0].events[5] = delivered(0, 0, "a"),
            &[
                "spurious zero: member was at 2 of partition 0",
                "skipped: member was not given (0, 1)",
            ],
        ),
        (
            |history| history.consumers[0].events.push(delivered(1, 4, "h")),
            &["vanished: (1, 4), which member was given, is not there"],
        ),
        (
            |history| {
                let records = &mut history.readings[1].records;
                let last = records.pop().expect("there are records");
                records.insert(0, last);
            },
            &[
                "went back: reader at the end from 3 to 0 in partition 1",
                "reordered: `e` follows `g` in partition 1",
            ],
        ),
    ];
    for (change, expect) in cases {
        check_change(*change, expect);
    }
}

#[test]
fn each_planted_anomaly_of_a_replica_is_found() {
    let cases: &[(Change, &[&str])] = &[
        (
            |history| history.replicas[2].batches[1].checksum = 99,
            &["diverged: [1, 2] at 2 of partition 0"],
        ),
        (
            |history| {
                history.replicas[2].batches = vec![batch(0, 0, 1), batch(1, 3, 2)];
            },
            &["diverged: [1, 2] at 0 of partition 0"],
        ),
        (
            |history| history.replicas[4].batches.truncate(1),
            &["missing on replica 3, which is in sync: (0, 3)"],
        ),
        (
            // It is behind, and nobody counts on it.
            |history| {
                history.replicas[4].batches.pop();
                history.replicas[4].is_in_sync = false;
            },
            &[],
        ),
        (
            // Its records up to 2 have been deleted.
            |history| {
                history.replicas[4].batches.remove(0);
            },
            &[],
        ),
        (
            |history| {
                for log in history.replicas.iter_mut().filter(|log| log.partition == 1) {
                    log.batches.remove(1);
                }
            },
            &[
                "broken log of partition 1 on node 1: 3 follows 1",
                "broken log of partition 1 on node 2: 3 follows 1",
                "broken log of partition 1 on node 3: 3 follows 1",
            ],
        ),
        (
            |history| history.replicas[0].fault = Some("no batch at 100".to_owned()),
            &["broken log of partition 0 on node 1: no batch at 100"],
        ),
    ];
    for (change, expect) in cases {
        check_change(*change, expect);
    }
}

#[test]
fn what_an_unclean_election_loses_is_counted_only() {
    let mut history = right();
    history.may_lose = true;
    for reading in &mut history.readings {
        reading.records.retain(|(_, value)| value != "d");
    }
    history.consumers.clear();
    for log in history.replicas.iter_mut().filter(|log| log.partition == 0) {
        log.batches.pop();
    }
    let found = check(&history);
    assert_eq!((found.lost, found.anomalies), (1, Vec::new()));
}

#[test]
fn what_was_deleted_on_purpose_is_not_lost() {
    let mut history = right();
    history.deleted_before.insert(0, 2);
    for reading in &mut history.readings {
        reading
            .records
            .retain(|((partition, offset), _)| *partition != 0 || *offset >= 2);
    }
    assert_eq!(check(&history).anomalies, []);
    // More is gone than was to be deleted.
    history.deleted_before.insert(0, 1);
    let texts: Vec<String> = check(&history)
        .anomalies
        .iter()
        .map(ToString::to_string)
        .collect();
    let expect =
        "lost: `b`, acknowledged at Some((0, 1)), is not read, though [1, 2, 3] have the place";
    assert_eq!(texts, [expect]);
}

#[test]
fn without_idempotence_what_is_there_twice_is_counted_only() {
    let mut history = right();
    history.is_idempotent = false;
    for reading in &mut history.readings {
        reading.records.push(record(0, 4, "c"));
    }
    let found = check(&history);
    assert_eq!((found.duplicated, found.anomalies), (1, Vec::new()));
}
